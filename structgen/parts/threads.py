"""Ways to read a text that is composed of parts: what comes after each part, and where a text may stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from structgen.parts.parts import Either, Entered, Loop, Plan, Series, Switch


class Then(NamedTuple):
    """These plans come next."""

    items: tuple[Plan, ...]
    after: Continuation


class Again(NamedTuple):
    """`done` items of a loop were read."""

    loop: Loop
    done: int
    after: Continuation


class Chosen(NamedTuple):
    """One of these plans comes next: that of the part's outcome."""

    plans: tuple[Plan, ...]
    after: Continuation


Continuation = Then | Again | Chosen | None
"""What comes after a part; None: the end."""

Step = tuple[Plan | None, Continuation]
"""A plan that begins, and what comes after it; no plan: what comes after a part begins."""


class Thread(NamedTuple):
    """One way to read the text.

    Attributes:
        position: in the part, from frame 0.
        after: what comes after it.
        extends: bytes with which the part may go on where it is complete.
        counted: its characters are counted by the state that the thread is in, and not in its position.
    """

    position: int
    part: Entered
    after: Continuation
    extends: frozenset[int]
    counted: bool = False

    @property
    def fresh(self) -> bool:
        """No byte of the part was read."""
        return self.position == self.part.start and not self.counted


class Reach:
    """Where a text may stand without another byte: its threads, and whether it may end."""

    def __init__(self, threads: Iterable[Thread] = (), ends: bool = False) -> None:
        self.threads = set(threads)
        self.ends = ends

    def state_of(self) -> tuple[frozenset[Thread], bool]:
        """What tells it from others."""
        return frozenset(self.threads), self.ends


def opened(plan: Plan | None, after: Continuation) -> list[Step]:
    """What a plan, or what comes after a part, begins with."""
    if isinstance(plan, Series):
        return [(None, Then(plan.items, after))]
    if isinstance(plan, Either):
        return [(item, after) for item in plan.items]
    if isinstance(plan, Loop):
        return _looped(plan, 0, after)
    if isinstance(plan, Switch):
        return [(plan.texts, Chosen(plan.plans, after))]
    if isinstance(after, Then):
        rest = Then(after.items[1:], after.after) if len(after.items) > 1 else after.after
        return [(after.items[0], rest)] if after.items else [(None, after.after)]
    assert isinstance(after, Again)
    return _looped(after.loop, after.done, after.after)


def behind(after: Continuation, outcome: int) -> Step:
    """What begins behind a part that is over.

    Args:
        outcome: of the part; only `Chosen` asks for it.
    """
    return (after.plans[outcome], after.after) if isinstance(after, Chosen) else (None, after)


def _looped(loop: Loop, count: int, after: Continuation) -> list[Step]:
    """What may come after `count` items of a loop."""
    steps: list[Step] = []
    if count >= loop.least:
        steps.append((None, after))
    if loop.most is None or count < loop.most:
        counted = count + 1 if loop.most is not None else min(count + 1, loop.least)
        again = Again(loop, max(counted, 1), after)
        steps.append((loop.next if count else loop.item, again))
    return steps
