"""The lazy automaton: tables, and for each stub the function that expands it."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Sequence
from threading import RLock
from typing import Any, NamedTuple

from structgen.automaton.checks import Check
from structgen.json_text.reading import JsonReading
from structgen.automaton.table_format import (
    ACTION, CALL, GOTO, MAX_STATES, MISS, TARGET, TEST, WANT_FRAMES, WANT_NOTHING, WANT_RETURN, WANT_STATE, B, Machine,
    WrittenRows,
)  # fmt: skip
from structgen.automaton.tables import Tables
from structgen.memory import BYTES_OF_STATE, counted, current_memory
from structgen.patience import check_patience
from structgen.regular.quotes import Quotation

_WANT, _ARGUMENT = Machine.want, Machine.argument
MAX_AHEAD = 300
"""The number of states after a long list that are written when the schema is compiled."""


class _Block(NamedTuple):
    """States with one expander: from `first` up to the next block.

    Attributes:
        way_out: see `Automaton.way_out`.
        after: for states that read one text, from a state to the states that may follow the whole text; None for a
            state that is not among them.
    """

    first: int
    expand: Callable[[int], None]
    way_out: Callable[[int], int] | None = None
    after: Callable[[int], Collection[int] | None] | None = None


class Blame(NamedTuple):
    """What refuses a byte, see `RefusedToken`."""

    pointer: str = ""
    keyword: str = ""
    rule: str = ""
    argument: Any = None


def _no_expander(state: int) -> None:
    raise AssertionError(f"state {state} has no expander")


class Prelude(NamedTuple):
    """The states with which automata of one kind begin: rows of their tables, and what is known about these states.

    Attributes:
        checks: state -> check, as in `Automaton.checks`.
        ways_out: state -> the state that `Automaton.way_out` gives.
        pops: outcome -> the state that leaves its frame with this outcome.
    """

    rows: WrittenRows
    checks: dict[int, Check]
    ways_out: dict[int, int]
    pops: dict[int, int]


_NO_BLOCK = _Block(0, _no_expander, None)


class Automaton:
    """Tables that grow when a walk reaches a stub.

    An exception may stop an expander at any point; the expander is called again when a walk next reaches the stub. So
    it must leave no trace that a walk can see: it writes the row of its state last, in one step (see `tables`). States
    that it remembers on the way must be complete: either stubs with an expander, or written states.

    Args:
        within: an automaton whose tables this one shares; by default it has tables of its own.

    Attributes:
        start: the first state of the text, at the position `(start, frame 0, counter 0)`.
        checks: test state -> the check that it asks.
        quotations: the first state of a quote -> the set of quotes.
        lock: must be held while walking the tables or letting them grow.
        memory: counts the bytes of the tables, and of what is kept to write and to walk them.
    """

    def __init__(self, within: Automaton | None = None) -> None:
        self.start = 0
        if within is not None:
            self._share(within)
            return
        self.memory = current_memory()
        self.tables = Tables(self.memory)
        self.lock = RLock()  # a check within a walk may walk itself: see `PartReading`
        self.checks: dict[int, Check] = {}
        self._expanders: dict[int, Callable[[int], None]] = {}
        self._blocks = [_NO_BLOCK]
        self._shortened: dict[int, Callable[[], int]] = {}
        # Dictionaries, not cached methods: automata share them, and begin with what another one has written.
        self._ways_out: dict[int, int] = {}
        self._returns: list[tuple[Callable[[int], int], Callable[[int], int] | None]] = []
        self.least_out: dict[int, int] = {}
        self._pops: dict[int, int] = {}
        self._many_pops = [0, 0]
        self._tests: dict[tuple[Check, int, int], int] = {}
        self.quotations: dict[int, Quotation] = {}
        self._first_own = 0

    def _share(self, other: Automaton) -> None:
        """Shares another automaton's tables, so that each may call states of the other."""
        self.tables, self.lock, self.memory = other.tables, other.lock, other.memory
        self.checks, self._expanders, self.quotations = other.checks, other._expanders, other.quotations
        self._blocks, self._returns, self.least_out = other._blocks, other._returns, other.least_out
        self._pops, self._many_pops, self._tests = other._pops, other._many_pops, other._tests
        self._shortened, self._ways_out, self._first_own = other._shortened, other._ways_out, other._first_own

    def begin_with(self, prelude: Prelude) -> None:
        """Begins with the states that another automaton has written. This one must not have written any yet."""
        self.tables.begin_with(prelude.rows)
        self._first_own = self.tables.n_states
        self.checks.update(prelude.checks)
        self._ways_out.update(prelude.ways_out)
        self._pops.update(prelude.pops)

    def written(self, states: Sequence[int]) -> Prelude:
        """Writes `states` and all states that follow them, and returns them for other automata to begin with."""
        self._expand_all(states)
        assert not self._returns, "what others begin with must not come back to what only this one knows"
        ways_out = {state: cheapest for state, cheapest in self._ways_out.items() if cheapest != state}
        return Prelude(self.tables.rows(), dict(self.checks), ways_out, dict(self._pops))

    def reading(self) -> JsonReading:
        """The text that checks are asked about, before the first byte."""
        return JsonReading.start()

    def blame(self, taken: bytes, positions: Sequence[int], refused: bytes, *, ends: bool) -> Blame:
        """The rule that refuses the byte after a text, or its end. Plain automata have no rules to name.

        Args:
            taken: the accepted bytes of the text.
            positions: the position before each of these bytes, and the position after the last one.
            refused: the byte after them, and more of the text where that is known; empty if the end of the text is
                refused.
            ends: is the end of the text refused?
        """
        return Blame()

    def later(self, expand: Callable[[int], None]) -> int:
        """A new state. `expand(state)` writes it when a walk first reaches it."""
        self.memory.spend(BYTES_OF_STATE)
        state = self.tables.stub()
        self._expanders[state] = expand
        return state

    def later_block(
        self,
        count: int,
        expand: Callable[[int], None],
        way_out: Callable[[int], int] | None = None,
        after: Callable[[int], Collection[int] | None] | None = None,
    ) -> int:
        """The first of `count` new states that share an expander and, if given, a `way_out` (see `shorten`).

        Args:
            after: for states that read one text, from a state to the states that may follow the whole text; None for
                a state that is not among them.
        """
        self.memory.spend(BYTES_OF_STATE)
        first = self.tables.stub(count)
        self._blocks.append(_Block(first, expand, way_out, after))
        return first

    def _block(self, state: int) -> _Block:
        """The last block that begins at or before a state."""
        return self._blocks[bisect_left(self._blocks, (state + 1,)) - 1]

    def expand_on(self, states: Sequence[int], seen: set[int] | None = None) -> None:
        """Expands states and the states that follow them, until `MAX_AHEAD` further states were reached.

        States inside a text (see `later_block`) are skipped, and the search continues after the text.

        Args:
            seen: the states that earlier calls have reached, which are not followed again. This call adds its own.
        """
        reached = set[int]() if seen is None else seen

        def following(state: int) -> Collection[int]:
            after = self._after_text(state)
            return self._following(state) if after is None else after

        self._search(states, reached, following, len(reached) + MAX_AHEAD)

    def _expand_all(self, states: Sequence[int]) -> None:
        """Expands states, all states that follow them, and the states that `way_out` gives for them."""
        self._search(states, set(), lambda state: [*self._following(state), self.way_out(state)], MAX_STATES)

    def _search(
        self, states: Sequence[int], seen: set[int], following: Callable[[int], Collection[int]], limit: int
    ) -> None:
        """Visits states and those that `following` gives for them, until `limit` states are in `seen`.

        States with which the automaton began are skipped: they lead only to written states.
        """
        seen.update(states)
        todo = deque(states)
        while todo and len(seen) < limit:
            new = [state for state in following(todo.popleft()) if state >= self._first_own and state not in seen]
            todo.extend(new)
            seen.update(new)
        seen.difference_update(todo)  # which nobody has followed yet

    def _after_text(self, state: int) -> Collection[int] | None:
        """The states that may follow the text in which a state is; None where it is in no text."""
        after = self._block(state).after
        return None if after is None else after(state)

    def _following(self, state: int) -> list[int]:
        """Expands a state, and returns the states to which its row leads."""
        self.expand(state)
        action, a, b = self.tables.row(state)[MISS : B + 1]
        following = [edge & TARGET for _, _, edge in self.tables.edges_of(state) if edge > 0]
        following += [a] if action & ACTION in (CALL, GOTO) else []
        following += [b] if (action & ACTION == CALL or action == TEST) and b > 0 else []
        return following

    def own(self, first: int, way_out: Callable[[int], int], expand: Callable[[int], None] = _no_expander) -> None:
        """Registers the states from `first` on as a block. They exist already, or a kernel is about to make them.

        `way_out` is asked for them (see `shorten`), and `expand` writes the stubs among them.
        """
        self._blocks.append(_Block(first, expand, way_out))

    def pop(self, outcome: int = 0) -> int:
        """The state that leaves its frame on arrival with this outcome."""
        state = self._pops.get(outcome)
        if state is None:
            state = self._pops[outcome] = self.tables.pop(outcome)
        return state

    def pops(self, count: int) -> int:
        """The first of `count` states that leave their frame on arrival, with the outcomes 0 to `count` - 1."""
        first, known = self._many_pops
        if known < count:
            first = self.tables.pops(count)
            self._many_pops[:] = first, count
        return first

    def test(self, check: Check, yes: int, no: int = 0) -> int:
        """The state that asks on arrival whether `check` holds, and continues at `yes` or at `no` (0: refused)."""
        if yes == no:
            return yes
        key = (check, yes, no)
        state = self._tests.get(key)
        if state is None:
            self.memory.spend(BYTES_OF_STATE)
            state = self.tables.test(yes, no)
            self.checks[state] = check
            self._tests[key] = state
        return state

    def returns(self, resolve: Callable[[int], int], least: Callable[[int], int] | None = None) -> int:
        """A return (to be used as `ret`) whose state is `resolve(outcome of the callee)`.

        Args:
            least: from an outcome to a lower bound of the bytes from there to the end of the caller's frame.
        """
        self.memory.spend(BYTES_OF_STATE)
        self._returns.append((resolve, least))
        return -len(self._returns)

    def least_behind(self, ret: int, outcome: int) -> int:
        """A lower bound of the bytes from a return to the end of the caller's frame."""
        least = self._returns[-ret - 1][1] if ret < 0 else None
        return 0 if least is None else least(outcome)

    def resolved(self, ret: int, outcome: int) -> int:
        """The state to which return `-ret` leads for this outcome; 0 if it is refused."""
        known = self.tables.returned(ret, outcome)
        return self._resolve(ret, outcome) if known is None else known

    def _resolve(self, ret: int, outcome: int) -> int:
        """`resolved`, where that is not known yet."""
        with counted(self.memory):
            state = self._returns[ret - 1][0](outcome)
        self.tables.set_return(ret, outcome, state)
        return state

    def shorten(self, state: int, way_out: Callable[[], int]) -> int:
        """Registers `way_out()` as the function that gives `self.way_out(state)`. Returns `state`."""
        self._shortened[state] = way_out
        return state

    def way_out(self, state: int) -> int:
        """A state with fewer edges than `state`, but with the same cheapest exit from the frame.

        The search for the cheapest exit uses it in place of `state`, which may have very many edges: for example one
        for each member of an object whose members may come in any order.
        """
        cheapest = self._ways_out.get(state)
        if cheapest is None:
            cheapest = self._ways_out[state] = self._way_out(state)
        return cheapest

    def _way_out(self, state: int) -> int:
        shortened = self._shortened.get(state)
        if shortened is not None:
            return shortened()
        of_block = self._block(state).way_out
        return state if of_block is None else of_block(state)

    def provide(self) -> None:
        """Provides what a kernel wants that has stopped."""
        machine = self.tables.machine
        want, argument = machine[_WANT], machine[_ARGUMENT]
        machine[_WANT] = WANT_NOTHING
        if want == WANT_FRAMES:
            self.tables.grow_frames()
        elif want == WANT_RETURN:
            self._resolve(argument, machine[Machine.outcome])
        elif want == WANT_STATE:
            self.expand(argument)
        else:
            raise AssertionError(f"a kernel stopped, but wants nothing: {want}")

    def expand(self, state: int) -> None:
        """Writes a stub's row. Does nothing if the state has a row."""
        if not self.tables.is_stub(state):
            return
        check_patience()
        expander = self._expanders.get(state)
        if expander is None:
            expander = self._block(state).expand
        with counted(self.memory):
            expander(state)
        self._expanders.pop(state, None)  # only now: if a limit stops the expander, the next walk meets it again
        if self.tables.is_stub(state):
            raise AssertionError(f"state {state} was expanded and is still a stub")
