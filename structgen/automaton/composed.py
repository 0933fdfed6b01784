"""Compositions: parts one after the other, as options, repeated, right also where it is open which part a byte is of.

Where a composition stands is a set of *threads*: each is a position in one part, and what comes after that part. A byte
moves them all; a part that may be over lets what comes after it begin beside it. Such sets are interned, and each is
one state of the tables, written when a walk meets it.

A set of one thread whose end is told by the bytes themselves needs no such state, nor does one of such a thread and
what may come after it: its part is called like any frame, and returns to what comes after it. So a composition costs
something only where it is ambiguous. JSON values that begin together are one thread: their automaton reads them in
lockstep itself.

Checks (see `late`) are asked in a part that is called; where several threads are alive nobody knows of whose text they
would speak, and they are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from structgen.automaton.bytewise import Bytewise
from structgen.automaton.late import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.part_reading import PartReading
from structgen.automaton.parts import Entered, Families, Part, Plan, parts_of
from structgen.automaton.threads import Continuation, Reach, Step, Thread, opened
from structgen.automaton.tables import (
    CALL, COUNT, COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, MISS, NOTHING, POP, TARGET, Edge,
)  # fmt: skip
from structgen.automaton.values import JsonAutomaton
from structgen.errors import LimitExceeded, UnsupportedSchema

MOST_THREADS = 64
"""Ways to read a text that are followed side by side."""


class Composed(Automaton):
    """The automaton of a plan.

    Args:
        plan: the composition.

    Attributes:
        boundaries: states in which a part has just ended.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.boundaries: set[int] = set()
        self._entered: dict[Part, Entered] = {}
        self._unions: dict[frozenset[Entered], Entered] = {}
        self._families: Families = {}
        self._states: dict[tuple[frozenset[Thread], bool], int] = {}
        self._afters: dict[Continuation, int] = {}
        self._firsts: dict[Continuation, frozenset[int]] = {}
        self.walk = Bytewise(self)
        for part in parts_of(plan):  # what a part refuses is refused now, not where a text comes to it
            self.enter(part)
        self.begin = self.reach((plan, None))
        self.start = self._state(self.begin)

    def reach(self, *begun: Step) -> Reach:
        """Where a text stands before these steps."""
        found, todo = Reach(), list(begun)
        seen = set(todo)
        while todo:
            plan, after = todo.pop()
            if isinstance(plan, Part):
                part = self.enter(plan)
                found.threads.add(Thread(part.start, part, after, part.extends))
                more: list[Step] = [(None, after)] if self.walk.over(part.start, refuse) else []
            elif plan is None and after is None:
                found.ends = True
                continue
            else:
                more = opened(plan, after)
            fresh = [step for step in more if step not in seen]
            seen.update(fresh)
            todo += fresh
        self._join(found.threads)
        return found

    def _join(self, threads: set[Thread]) -> None:
        """JSON values that begin together, before the same, are one thread: their automaton reads them in lockstep."""
        groups: dict[tuple[JsonAutomaton, Continuation], list[Thread]] = {}
        for thread in threads:
            if thread.part.family is not None:
                groups.setdefault((thread.part.family, thread.after), []).append(thread)
        for (family, after), group in groups.items():
            if len(group) > 1:
                part = self._joined(family, frozenset(thread.part for thread in group))
                threads.difference_update(group)
                threads.add(Thread(part.start, part, after, part.extends))

    def _joined(self, family: JsonAutomaton, parts: frozenset[Entered]) -> Entered:
        joined = self._unions.get(parts)
        if joined is None:
            known = [part for part in self._entered.values() if part in parts]
            start = family.value(family.choice(tuple(part.root for part in known)), 0)
            extends = frozenset[int]().union(*(part.extends for part in known))
            joined = self._unions[parts] = replace(known[0], start=start, extends=extends)
        return joined

    def reading(self) -> PartReading:
        return PartReading.start_of(self.walk, self.reach, self.begin)

    def json_text(self, text: bytes) -> bytes:
        start = self.reading().feed(text).json_start
        return text[start:]

    def enter(self, part: Part) -> Entered:
        """The part in these tables."""
        entered = self._entered.get(part)
        if entered is None:
            entered = self._entered[part] = part.enter(self, self._families)
        return entered

    def _after(self, after: Continuation) -> int:
        """The state in which what comes after a part begins."""
        state = self._afters.get(after)
        if state is None:
            state = self._afters[after] = self._state(self.reach((None, after)))
            self.boundaries.add(state)
        return state

    def _state(self, reach: Reach) -> int:
        """The state of a set of threads; 0 for none."""
        key = reach.state_of()
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._new_state(*key)
        return state

    def _new_state(self, threads: frozenset[Thread], ends: bool) -> int:
        if len(threads) > MOST_THREADS:
            raise LimitExceeded(
                f"a text can be read in more than {MOST_THREADS} ways at once: end its parts with something that "
                "cannot stand inside them"
            )
        if not threads:
            return self.pop(0) if ends else 0
        if len(threads) == 1:
            (alone,) = threads
            state = self._state_alone(alone, ends)
        else:
            state = next(filter(None, (self._state_implying(each, threads - {each}, ends) for each in threads)), 0)
        return state or self.later(partial(self._expand, tuple(threads), ends))

    def _state_alone(self, thread: Thread, ends: bool) -> int:
        """The state of one thread as a frame; 0 where it must be followed byte by byte."""
        own_end = thread.after is None and ends and self.walk.over(thread.position, refuse)
        if self._ambiguous(thread) or (ends and not own_end):
            return 0
        if thread.fresh and thread.after is not None:
            return self.later(partial(self._expand_call, thread))
        return self._called(thread)

    def _state_implying(self, thread: Thread, others: frozenset[Thread], ends: bool) -> int:
        """The state of one thread where the others are no more than what comes after it: the byte at which it does not
        go on begins them. 0 where it is not so."""
        if thread.after is None or self._ambiguous(thread) or not self.walk.over(thread.position, refuse):
            return 0
        return self._called(thread) if self.reach((None, thread.after)).state_of() == (others, ends) else 0

    def _expand_call(self, thread: Thread, state: int) -> None:
        """One part, which takes the next byte whatever that is."""
        self.tables.ranges(state, (), miss=(CALL, thread.part.start, self._after(thread.after)))

    def _ambiguous(self, thread: Thread) -> bool:
        """May a byte go on with the part where it is complete, and begin what comes after it as well?"""
        return bool(thread.extends) and not thread.extends.isdisjoint(self._first_bytes(thread.after))

    def _first_bytes(self, after: Continuation) -> frozenset[int]:
        found = self._firsts.get(after)
        if found is None:
            rows = [self.walk.successors(t.position, refuse) for t in self.reach((None, after)).threads]
            found = self._firsts[after] = frozenset(int(byte) for row in rows for byte in row.nonzero()[0])
        return found

    def _called(self, thread: Thread) -> int:
        """The state in which the thread goes on in frames of its own; 0 where counters cannot be carried there."""
        if thread.position >> COUNT_SHIFT:
            return 0
        frame, frames, returns = thread.position >> FRAME_SHIFT & FRAME_MASK, self.tables.frames, []
        while frame:
            ret, frame, count = (int(x) for x in frames[frame, :3])
            if count:
                return 0
            returns.append(ret)
        if thread.after is not None:
            returns.append(self._after(thread.after))
        state = thread.position & TARGET
        for ret in returns:
            state = self.tables.call(state, ret)
        return state

    def _expand(self, threads: tuple[Thread, ...], ends: bool, state: int) -> None:
        """A set of threads: every byte leads to another set."""
        rows = [self.walk.successors(thread.position, refuse).tolist() for thread in threads]
        opened = [thread.part.opens if thread.fresh else None for thread in threads]
        known: dict[tuple[tuple[int, bool], ...], int] = {}
        edges: list[Edge] = []
        for byte in range(256):
            moved = tuple((row[byte], opens is None or byte in opens) for row, opens in zip(rows, opened, strict=True))
            if moved not in known:
                known[moved] = self._moved(threads, moved)
            target = known[moved]
            if target and edges and edges[-1][1:] == (byte - 1, target):
                edges[-1] = (edges[-1][0], byte, target)
            elif target:
                edges.append((byte, byte, target))
        self.tables.ranges(state, edges, miss=(POP, 0, 0) if ends else (NOTHING, 0, 0))

    def _moved(self, threads: Iterable[Thread], moved: Iterable[tuple[int, bool]]) -> int:
        """The state after a byte that leads the threads to these positions (0: nowhere); may they still be extended?"""
        alive: list[Thread] = []
        begun: list[Step] = []
        for thread, (position, extended) in zip(threads, moved, strict=True):
            if position:
                extends = thread.extends if extended else frozenset[int]()
                alive.append(Thread(position, thread.part, thread.after, extends))
                if self.walk.over(position, refuse):
                    begun.append((None, thread.after))
        reach = self.reach(*begun)
        reach.threads.update(thread for thread in alive if self._goes_on(thread.position))
        return self._state(reach)

    def _goes_on(self, position: int) -> bool:
        """May another byte of the part follow? Only "no" is sure."""
        state = position & TARGET
        self.expand(state)
        row = self.tables.states[state]
        return bool(row[COUNT] or row[MISS] & 3 not in (NOTHING, POP) or position >> FRAME_SHIFT & FRAME_MASK)


def refuse(check: Check, taken: bool) -> bool:
    """There is no answer where several threads are alive."""
    raise UnsupportedSchema(
        f"{type(check).__name__}: what is checked only when a value is complete stands in a part whose beginning the "
        "text does not tell; end what comes before with something sure, as Text(until=...) does"
    )
