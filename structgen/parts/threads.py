"""Threads: a thread is one way to read a text made of parts, with what comes after its current part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from structgen.parts.parts import Either, Entered, Loop, Plan, RulePlan, Series, Switch, Unordered


class Then(NamedTuple):
    """These plans come next."""

    items: tuple[Plan, ...]
    after: Continuation


class Again(NamedTuple):
    """A loop continues; `done` items have been read."""

    loop: Loop
    done: int
    after: Continuation


class Chosen(NamedTuple):
    """One of these plans comes next. The outcome of the part is its index."""

    plans: tuple[Plan, ...]
    after: Continuation


class Lexing(NamedTuple):
    """What comes after a lexeme of a grammar is known to the lexers that read it."""

    slot: int
    terminal: int


Continuation = Then | Again | Chosen | Lexing | None
"""What comes after a part; None: the end of the text."""

Step = tuple[Plan | None, Continuation]
"""A plan that begins, and what comes after it. Without a plan, the continuation begins at once."""


class Thread(NamedTuple):
    """One way to read the text.

    Attributes:
        part: the part that is being read.
        position: the packed position in the part; the part starts in frame 0.
        after: what comes after the part.
        extends: the bytes with which the part may continue when it is complete.
        counted: does the state of the composition count the characters of the part? Otherwise `position` does.
    """

    position: int
    part: Entered
    after: Continuation
    extends: frozenset[int]
    counted: bool = False

    @property
    def fresh(self) -> bool:
        """Has no byte of the part been read?"""
        return self.position == self.part.start and not self.counted


class Reach:
    """The state of a text between two bytes: its threads, and whether the text may end."""

    def __init__(self, threads: Iterable[Thread] = (), ends: bool = False) -> None:
        self.threads = set(threads)
        self.ends = ends

    def state_of(self) -> tuple[frozenset[Thread], bool]:
        """Its key: equal keys have equal futures."""
        return frozenset(self.threads), self.ends


def opened(plan: Plan | None, after: Continuation) -> list[Step]:
    """The first steps of a plan; without a plan, those of the continuation `after`."""
    if isinstance(plan, Series):
        return [(None, Then(plan.items, after))]
    if isinstance(plan, Either):
        return [(item, after) for item in plan.items]
    if isinstance(plan, Loop):
        return _looped(plan, 0, after)
    if isinstance(plan, RulePlan):
        return [(plan.body, after)]
    if isinstance(plan, Switch):
        return [(plan.texts, Chosen(plan.plans, after))]
    if isinstance(plan, Unordered):
        steps: list[Step] = [(None, after)] if plan.complete else []
        return steps if plan.next is None else [*steps, (plan.next, after)]
    if isinstance(after, Then):
        rest = Then(after.items[1:], after.after) if len(after.items) > 1 else after.after
        return [(after.items[0], rest)] if after.items else [(None, after.after)]
    assert isinstance(after, Again)
    return _looped(after.loop, after.done, after.after)


def returned(after: Continuation, outcome: int) -> Step:
    """The step after a part that ended with this outcome. Only `Chosen` uses the outcome."""
    return (after.plans[outcome], after.after) if isinstance(after, Chosen) else (None, after)


def _looped(loop: Loop, count: int, after: Continuation) -> list[Step]:
    """The steps that may come after `count` items of a loop."""
    steps: list[Step] = []
    if count >= loop.minimum:
        steps.append((None, after))
    if loop.maximum is None or count < loop.maximum:
        counted = count + 1 if loop.maximum is not None else min(count + 1, loop.minimum)
        again = Again(loop, max(counted, 1), after)
        steps.append((loop.next if count else loop.item, again))
    return steps
