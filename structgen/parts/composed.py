"""Compositions: parts in sequence, as alternatives and repeated. They are exact even if a byte may belong to more than
one part.

The state of a composition is a set of *threads*. A thread is a position in one part, together with what comes after
this part. A byte moves all threads. When a part may be complete, the part after it begins as a further thread. The sets
are interned: each is one state of the tables, written when a walk reaches it.

If a thread is in a text with a maximum length, the state counts its characters, as a state of the text itself would. So
the same set of threads is the same state, as long as the bound is far. A byte that no longer fits moves the other
threads only (SPILL). If several threads are in such texts, the state counts for the first of them, and the
positions of the others hold their counts.

If the bytes themselves tell where a part ends, there is only one thread. Then the part is called like any frame, and
returns to what comes after it. So a composition costs more than its parts only where it is ambiguous. JSON values that
begin together are one thread, because their automaton reads them in lockstep.

Checks (see `automaton.checks`) are asked in a part that is called. If several threads are alive, a check would not know
which text to look at, and raises an error that names it.

A grammar is a part as well, with a parser of its own (see `earley`).

Where a thread is in free text, most characters lead from a state to itself: the text continues, and the part after it
has not started. Once that part has started, most characters lead back to the state before it. So such states get blocks
(see `text_loops`), and `masks.text_walk` computes their masks as it does for states of a `CharDfa`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.expected import Walk
from structgen.automaton.machine import Automaton, Blame
from structgen.automaton.table_format import (
    ACTION, CALL, CHARS, COUNT, COUNT_SHIFT, DONE, FRAME_MASK, FRAME_SHIFT, GOTO, HI, INC, MISS, NOTHING, PLAIN, POP,
    ROOM, SPILL, TARGET, UNBOUNDED, ZERO, A, merged_edges, position as packed,
)  # fmt: skip
from structgen.errors import LimitExceeded, UnsupportedSchema
from structgen.memo import cached_method
from structgen.parts.part_reading import PartReading
from structgen.parts.parts import (
    ANY_BYTE, Entered, Families, JsonValue, Part, Plan, Switch, RegularPart, first_bytes, parts_of,
)  # fmt: skip
from structgen.parts.text_states import is_text, leaving, text_block
from structgen.parts.threads import Chosen, Continuation, Lexing, Reach, Step, Thread, opened, returned
from structgen.values.json_automaton import JsonAutomaton

Int64 = npt.NDArray[np.int64]
MAX_THREADS = 128
"""The largest number of threads that are followed in parallel."""
MAX_NESTED = 16
"""States that are made while another one is made, before further ones wait for a text that reaches them."""


class Composed(Automaton):
    """The automaton of a plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._entered: dict[Part, Entered] = {}  # in the order of entering, in which `_joined` takes them
        self._families: Families = {}
        self._threads: dict[int, tuple[Thread, ...]] = {}
        self._reaches: dict[frozenset[Step], Reach] = {}
        self.lexers: dict[int, Callable[[Iterable[Thread]], int]] = {}
        """By the states in `_threads` that lexers of grammars have, what gives the state of other threads."""
        self.values: dict[int, Entered] = {}
        """By the state after a JSON value in a grammar, its part."""
        self.sample: bytes | None = None  # what may be a whole text
        self._nested = 0
        self.plan = plan
        self._ends: dict[int, bool] = {}  # of states of threads, written or not: may the frame end?
        self.walk = Bytewise(self)
        self.has_values = False  # has the plan JSON, or other parts that are values?
        self.limited: list[Part] = []  # the parts with limits
        for part in parts_of(plan):
            self.limited += [part] * (part.limits is not None)
            self.has_values |= isinstance(part, JsonValue) or (isinstance(part, RegularPart) and part.value)
            if not part.late:  # a part that may raise should raise now, not in the middle of a text
                self.enter(part)
        self.begin = self.reach((plan, None))
        self.start = self._state(self.begin)

    def reach(self, step: Step) -> Reach:
        """The threads with which a step begins."""
        return self._reached([step])

    def lexing(self, state: int, threads: tuple[Thread, ...], other: Callable[[Iterable[Thread]], int]) -> int:
        """Keeps the threads of a state in which a lexer reads; `other` gives the state of others. Returns the state."""
        self._threads[state], self.lexers[state] = threads, other
        return state

    def reach_after(self, over: Iterable[Thread]) -> Reach:
        """The threads that begin after threads whose parts are over."""
        over = list(over)
        if any(isinstance(thread.after, Lexing) for thread in over):
            return Reach(thread._replace(position=DONE) for thread in over)
        return self._reached(returned(thread.after, self.tables.row(thread.position & TARGET)[A]) for thread in over)

    def _reached(self, steps: Iterable[Step]) -> Reach:
        """The threads with which steps begin."""
        todo = list(steps)
        begun = frozenset(todo)
        if begun in self._reaches:  # the same parts end after most bytes
            return Reach(self._reaches[begun].threads, self._reaches[begun].ends)
        reach, seen = Reach(), set(begun)
        while todo:
            plan, after = todo.pop()
            if isinstance(plan, Part):
                entered = self.enter(plan)
                reach.threads.add(Thread(entered.start, entered, after, entered.extends))
                more: list[Step] = [(None, after)] if self._may_be_empty(plan) else []
            elif plan is None and after is None:
                reach.ends, more = True, []
            else:
                more = opened(plan, after)
            fresh = [each for each in more if each not in seen]
            seen.update(fresh)
            todo += fresh
        self._join(reach.threads)
        self._reaches[begun] = Reach(reach.threads, reach.ends)
        return reach

    def _may_be_empty(self, part: Part) -> bool:
        entered = self.enter(part)
        return not entered.nonempty and self.walk.over(entered.start, refuse)

    def _join(self, threads: set[Thread]) -> None:
        """Joins threads of JSON values that begin together and continue alike: one thread reads them in lockstep."""
        groups: dict[tuple[JsonAutomaton, Continuation], list[Thread]] = {}
        for thread in threads:
            if thread.part.family is not None:
                groups.setdefault((thread.part.family, thread.after), []).append(thread)
        for (family, after), group in groups.items():
            if len(group) > 1:
                part = self._joined(family, frozenset(thread.part for thread in group))
                threads.difference_update(group)
                threads.add(Thread(part.start, part, after, part.extends))

    @cached_method
    def _joined(self, family: JsonAutomaton, parts: frozenset[Entered]) -> Entered:
        ordered = [part for part in self._entered.values() if part in parts]
        start = family.start_of_any(tuple(part.root for part in ordered))
        return replace(ordered[0], start=start, extends=frozenset[int]().union(*(part.extends for part in ordered)))

    def threads_at(self, position: int) -> tuple[Thread, ...]:
        """The threads at a position, or those with which its next byte begins; none in frames of other parts."""
        state, frame = position & TARGET, position >> FRAME_SHIFT & FRAME_MASK
        while state not in self._threads:
            self.expand(state)
            _, _, edges, action, target, *_ = self.tables.row(state)
            if edges or action & ACTION not in (GOTO, CALL, POP) or (action & ACTION == POP and not frame):
                return ()
            if action & ACTION == POP:
                ret, frame, _ = (int(x) for x in self.tables.frames[frame, :3])
                target = ret if ret > 0 else self.resolved(-ret, target)
            state = target
        return self._threads[state]

    def position_of(self, position: int, threads: Iterable[Thread]) -> int:
        """A position with other threads in place of those that it has; 0 if it is a dead end."""
        left, counted = list(threads), position >> COUNT_SHIFT
        frame, lexer = position >> FRAME_SHIFT & FRAME_MASK, self.lexers.get(position & TARGET)
        state = lexer(left) if lexer else self._state(Reach(left, self._ends[position & TARGET]))
        position = self.walk.settled(packed(state, frame), refuse)
        return position | counted << COUNT_SHIFT if any(thread.counted for thread in left) else position

    def value_at(self, position: int) -> Entered | None:
        """The JSON value of a grammar in which a position is."""
        frame = position >> FRAME_SHIFT & FRAME_MASK if self.values else 0
        while frame:
            ret, frame = (int(x) for x in self.tables.frames[frame, :2])
            if ret in self.values:
                return self.values[ret]
        return None

    def reading(self) -> PartReading:
        return PartReading.start_of(self)

    def blame(self, taken: bytes, positions: Sequence[int], refused: bytes, *, ends: bool) -> Blame:
        reading = self.reading().feed(taken)
        part, text = reading.part, taken[reading.json_start :]
        family = None if part is None else part.family
        if part is None or family is None:
            return Blame()
        with self.lock:
            own_positions = Walk(family, text + refused, part.start).positions
        return family.blame(text, own_positions, refused, ends=ends)

    def enter(self, part: Part) -> Entered:
        """The part in these tables. It is entered once."""
        entered = self._entered.get(part)
        if entered is None:
            entered = self._entered[part] = part.enter(self, self._families)
        return entered

    @cached_method
    def _after(self, after: Continuation) -> int:
        """The state in which the continuation of a part begins, or a return that chooses it by the part's outcome."""
        if isinstance(after, Chosen):
            return self.returns(lambda outcome: self._state(self.reach(returned(after, outcome))))
        if self._nested >= MAX_NESTED:  # an ambiguous grammar may have endless states one after another
            return self.later(partial(self._expand_after, after))
        self._nested += 1
        try:
            return self._state(self.reach((None, after)))
        finally:
            self._nested -= 1

    def _expand_after(self, after: Continuation, state: int) -> None:
        self._lead(state, self._state(self.reach((None, after))))

    def _lead(self, state: int, target: int) -> None:
        """Writes a state that is equal to another."""
        self.tables.ranges(state, (), miss=(GOTO, target, 0) if target else (NOTHING, 0, 0))

    def _state(self, reach: Reach) -> int:
        """The state of a set of threads; 0 for none."""
        return self._state_of(*reach.state_of())

    @cached_method
    def _state_of(self, threads: frozenset[Thread], ends: bool) -> int:
        if len(threads) > MAX_THREADS:
            raise LimitExceeded(
                f"a text can be read in more than {MAX_THREADS} ways at once: end each part with a text that "
                "cannot occur inside it"
            )
        if not threads:
            return self.pop(0) if ends else 0
        if len(threads) == 1:
            (alone,) = threads
            state = self._state_alone(alone, ends)
        else:
            going = [thread for thread in threads if not thread.fresh]  # what only continues another one is fresh
            calling = (going or threads) if len(going) < 2 else ()
            state = next(filter(None, (self._state_implying(each, threads - {each}, ends) for each in calling)), 0)
        # The thread that is counted comes first, then the others in the order in which their parts were entered.
        ordered = sorted(threads, key=lambda thread: (not thread.counted, thread.part.start, thread.position))
        return state or self._later_set(tuple(ordered), ends)

    def _later_set(self, threads: tuple[Thread, ...], ends: bool) -> int:
        """The state of threads that are followed byte by byte."""
        state = self.later(partial(self._expand, threads, ends))
        self._threads[state], self._ends[state] = threads, ends
        self.tables.states[state, HI] = self._limit(threads)
        return state

    def _state_alone(self, thread: Thread, ends: bool) -> int:
        """The state that calls the part of a single thread; 0 if the thread must be followed byte by byte."""
        own_end = thread.after is None and ends and self._over(thread.position)
        if thread.part.limits or self._ambiguous(thread) or (ends and not own_end):
            return 0
        if thread.fresh and thread.after is not None:
            return self.later(partial(self._expand_call, thread))
        return self._called(thread)

    def _state_implying(self, thread: Thread, others: frozenset[Thread], ends: bool) -> int:
        """The state that calls the part of one thread, if the other threads are just its continuation, and begin with
        bytes that the part does not take; else 0."""
        if thread.after is None or thread.part.limits or self._ambiguous(thread):
            return 0
        if not self._over(thread.position):
            return 0
        return self._called(thread) if self.reach_after([thread]).state_of() == (others, ends) else 0

    def _expand_call(self, thread: Thread, state: int) -> None:
        """Writes a state that calls a part for the next byte, whichever it is."""
        self.tables.ranges(state, (), miss=(CALL, thread.part.start, self._after(thread.after)))

    def _ambiguous(self, thread: Thread) -> bool:
        """May one byte both extend the complete part and begin what comes after it?"""
        return bool(thread.extends) and not thread.extends.isdisjoint(self._first_after(thread.after))

    @cached_method
    def _first_after(self, after: Continuation) -> frozenset[int]:
        """The bytes with which a continuation may begin."""
        first, seen, todo = set[int](), set[Step](), list[Step]()
        todo += [(plan, after.after) for plan in after.plans] if isinstance(after, Chosen) else [(None, after)]
        while todo:
            plan, behind_it = step = todo.pop()
            if step in seen or step == (None, None):
                continue
            seen.add(step)
            if isinstance(plan, Part):
                first |= self._first_of(plan)
                if self._may_be_empty(plan):
                    todo.append((None, behind_it))
            elif isinstance(plan, Switch):
                first |= self._first_of(plan.texts)
            else:
                todo += opened(plan, behind_it)
        return frozenset(first)

    @cached_method
    def _first_of(self, part: Part) -> set[int]:
        """The bytes with which the texts of a part begin."""
        if isinstance(part, RegularPart):
            language = part.language
            return set(first_bytes(language, language.next[1] != 0)) if len(language.final) > 1 else set()
        return set(self.walk.successors(self.enter(part).start, refuse).nonzero()[0].tolist())

    def _called(self, thread: Thread) -> int:
        """The state in which the thread continues in frames of its own; 0 if it has counted something."""
        after = () if thread.after is None else (partial(self._after, thread.after),)
        return 0 if thread.counted else self.calls(thread.position, *after)

    def calls(self, position: int, *after: Callable[[], int]) -> int:
        """The state that continues at a position in frames of its own, and then returns to what `after` gives; 0 if
        something has been counted there."""
        frame, returns = position >> FRAME_SHIFT & FRAME_MASK, list[int]()
        if position >> COUNT_SHIFT:
            return 0
        while frame:
            ret, frame, count = (int(x) for x in self.tables.frames[frame, :3])
            if count:
                return 0
            returns.append(ret)
        state = position & TARGET
        for ret in (*returns, *(each() for each in after)):
            state = self.tables.call(state, ret)
        return state

    def _expand(self, threads: tuple[Thread, ...], ends: bool, state: int) -> None:
        """Writes the state of a set of threads: each byte leads to another set."""
        columns, base = self._columns(threads), self._base(threads)
        others = [thread for thread in threads if thread is not base and not thread.counted]
        rest = self._state(Reach(others, ends)) if base and others else 0
        opened = [t.part.opens for t in threads if t.fresh and t.part.opens is not ANY_BYTE]
        known: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}
        row = [0] * 256
        taken = np.flatnonzero(columns.any(axis=0))
        for byte, column in zip(taken.tolist(), map(tuple, columns[:, taken].T.tolist()), strict=True):
            key = column, tuple(byte in opens for opens in opened)
            if key not in known:
                known[key] = self._moved(threads, base, column, byte)
            row[byte] = known[key]
        spilled = [
            (byte, row[byte] | SPILL if row[byte] & (INC | ROOM) and rest else row[byte]) for byte in taken.tolist()
        ]
        self.tables.spills = self.tables.spills or rest != 0
        edges = merged_edges(spilled)
        miss = (GOTO, rest, 0) if rest else (POP, 0, 0) if ends else (NOTHING, 0, 0)
        mode, aux = self._shortcut(state, threads, columns, row)
        self.tables.ranges(state, edges, miss=miss, mode=mode, aux=aux, hi=self._limit(threads))

    def _columns(self, threads: tuple[Thread, ...]) -> Int64:
        """int64[threads, 256]: the position to which each byte leads each thread (0: the byte is refused)."""
        columns: Int64 = np.stack([self.walk.successors(thread.position, refuse) for thread in threads])
        return columns

    def _shortcut(self, state: int, threads: tuple[Thread, ...], columns: Int64, row: list[int]) -> tuple[int, int]:
        """The mode of a state and its block; those of free text if a thread is in it (see `masks.text_walk`)."""
        texts = [n for n, thread in enumerate(threads) if is_text(self.tables, thread.position)]
        for index in texts:
            alone = [not taken for taken in np.atleast_1d(np.delete(columns, index, axis=0).any(axis=0)).tolist()]
            shortcut = leaving(self.tables, threads[index].position, state, row, alone)
            if shortcut:
                return CHARS, text_block(self.tables, threads[index].position, state, shortcut, 0)
        home = self._home(state, row) if texts else 0
        return (CHARS, text_block(self.tables, threads[texts[0]].position, state, 0, home)) if home else (PLAIN, 0)

    def _home(self, state: int, row: list[int]) -> int:
        """The state to which most bytes lead, if they lead from that state to itself; else 0."""
        targets = [target & TARGET for target in row[:128] if target]
        home = max(set(targets), key=targets.count, default=0)
        threads = self._threads.get(home)
        if threads is None or home == state:
            return 0
        byte = next(byte for byte, target in enumerate(row) if target & TARGET == home)
        column = tuple(int(self.walk.successors(thread.position, refuse)[byte]) for thread in threads)
        return home if self._moved(threads, self._base(threads), column, byte) & TARGET == home else 0

    def _limit(self, threads: tuple[Thread, ...]) -> int:
        """The bound of the characters that the state counts for one of these threads."""
        limits = (self.tables.row(thread.position & TARGET)[HI] for thread in threads if thread.counted)
        return next(limits, UNBOUNDED)

    def _base(self, threads: tuple[Thread, ...]) -> Thread | None:
        """The thread whose characters the next states count: the one counted now, or else one that may be counted."""
        going = [thread for thread in threads if thread.counted and self._goes_on(thread.position)]
        return next(iter(going or [thread for thread in threads if thread.fresh and thread.part.bounded]), None)

    def _moved(self, threads: tuple[Thread, ...], base: Thread | None, moved: tuple[int, ...], byte: int) -> int:
        """The edge for a byte that leads the threads to the positions `moved` (0: the thread refuses the byte)."""
        alive: list[Thread] = []
        over: list[Thread] = []
        flags = ZERO if base and base.counted else 0
        for thread, position in zip(threads, moved, strict=True):
            if position:
                extends = thread.extends if not thread.fresh or byte in thread.part.opens else frozenset[int]()
                counted = thread is base
                if counted:
                    flags = INC if position >> COUNT_SHIFT else ROOM
                    position &= (1 << COUNT_SHIFT) - 1
                    flags |= 0 if self._goes_on(position) else ZERO
                alive.append(Thread(position, thread.part, thread.after, extends, counted))
                if self._over(position):
                    over.append(alive[-1])
        reach = self.reach_after(over)
        # A complete thread stays only if it is counted: the byte that completed it must have respected the bound.
        reach.threads.update(thread for thread in alive if thread.counted or self._goes_on(thread.position))
        state = self._state(reach)
        return state and state | flags

    def _over(self, position: int) -> bool:
        """May the text of a part end at a position? To know it, no set of threads must be written."""
        state, frame = position & TARGET, position >> FRAME_SHIFT & FRAME_MASK
        while True:
            if state not in self._ends:
                self.expand(state)
                action, outcome = self.tables.row(state)[MISS : A + 1]
                if action & ACTION != POP:
                    return self.walk.over(packed(state, frame), refuse)
            elif not self._ends[state]:
                return False
            else:
                outcome = 0
            if not frame:
                return True
            ret, frame, _ = (int(x) for x in self.tables.frames[frame, :3])
            state = ret if ret > 0 else self.resolved(-ret, outcome)

    def _goes_on(self, position: int) -> bool:
        """May another byte of the part follow? True may be wrong; False is certain."""
        state = position & TARGET
        self.expand(state)
        row = self.tables.states[state]
        return bool(row[COUNT] or row[MISS] & 3 not in (NOTHING, POP) or position >> FRAME_SHIFT & FRAME_MASK)


def refuse(check: Check, taken: bool) -> bool:
    """Refuses a check while several threads are alive, because there is no single text to ask about.

    Raises:
        UnsupportedSchema: always; the message names the check.
    """
    raise UnsupportedSchema(
        f"{type(check).__name__}: such a check needs to know where its JSON value begins, and the text before it may "
        "have no clear end, or the value has a temperature of its own; end the part before it with a fixed text, as "
        "Text(until=...) does"
    )
