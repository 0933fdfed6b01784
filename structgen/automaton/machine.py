"""The lazy automaton: tables, and for every stub the function that expands it."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from structgen.automaton.checks import Check
from structgen.automaton.reading import JsonReading
from structgen.automaton.table_format import (
    ACTION, CALL, GOTO, MAX_STATES, MISS, R_ARGUMENT, R_OUTCOME, R_WANT, TARGET, TEST, WANT_FRAMES, WANT_NOTHING,
    WANT_RETURN, WANT_STATE, B, WrittenRows,
)  # fmt: skip
from structgen.automaton.tables import Tables

MOST_AHEAD = 300
"""The states behind a long list that are written when the schema is compiled."""


class _Block(NamedTuple):
    """States with one expander: from `first` up to the next block."""

    first: int
    expand: Callable[[int], None]
    way_out: Callable[[int], int] | None


class Blame(NamedTuple):
    """What refuses a byte, see `RefusedToken`."""

    pointer: str = ""
    keyword: str = ""
    rule: str = ""
    argument: Any = None


def _no_expander(state: int) -> None:
    raise AssertionError(f"state {state} has no expander")


class Beginning(NamedTuple):
    """What automata of one kind begin with: rows of their tables, and what is known of them.

    Attributes:
        checks, ways_out: see `Automaton.checks` and `Automaton.way_out`.
        pops: the states that leave their frame, by outcome.
    """

    rows: WrittenRows
    checks: dict[int, Check]
    ways_out: dict[int, int]
    pops: dict[int, int]


_NO_BLOCK = _Block(0, _no_expander, None)


class Automaton:
    """Tables that grow where a walk meets a stub.

    An expander may be stopped by an exception at any point, and is called again when the stub is met again. So it must
    leave no trace that a walk can see: it writes the row of its state last, in one step (see `tables`). What it
    remembers on the way must be complete when it is remembered: a stub with its expander, or a written state.

    Args:
        within: an automaton in whose tables this one lives; by default they are its own.

    Attributes:
        start: the first state of the text; position `(start, frame 0, counter 0)`.
        checks: of each test state, what it asks.
        lock: held by whoever walks the tables or has them grow.
    """

    def __init__(self, within: Automaton | None = None) -> None:
        self.start = 0
        if within is not None:
            self._share(within)
            return
        self.tables = Tables()
        self.lock = Lock()
        self.checks: dict[int, Check] = {}
        self._expanders: dict[int, Callable[[int], None]] = {}
        self._blocks = [_NO_BLOCK]
        self._shortened: dict[int, Callable[[], int]] = {}
        self._ways_out: dict[int, int] = {}
        self._returns: list[tuple[Callable[[int], int], Callable[[int], int] | None]] = []
        self._pops: dict[int, int] = {}
        self._many_pops = [0, 0]
        self._tests: dict[tuple[Check, int, int], int] = {}
        self._first_own = 0

    def _share(self, other: Automaton) -> None:
        """Live in another automaton's tables: its states may be called from there."""
        self.tables, self.lock = other.tables, other.lock
        self.checks, self._expanders = other.checks, other._expanders
        self._blocks, self._returns = other._blocks, other._returns
        self._pops, self._many_pops, self._tests = other._pops, other._many_pops, other._tests
        self._shortened, self._ways_out, self._first_own = other._shortened, other._ways_out, other._first_own

    def begin_with(self, beginning: Beginning) -> None:
        """Begin with what another automaton has written. Nothing has been written yet."""
        self.tables.begin_with(beginning.rows)
        self._first_own = self.tables.n_states
        self.checks.update(beginning.checks)
        self._ways_out.update(beginning.ways_out)
        self._pops.update(beginning.pops)

    def written(self, states: Sequence[int]) -> Beginning:
        """Write `states` and all that follows them, with their ways out, for other automata to begin with."""
        self.expand_on(states, MAX_STATES, ways_out=True)
        assert not self._returns, "what others begin with must not come back to what only this one knows"
        ways_out = {state: cheapest for state, cheapest in self._ways_out.items() if cheapest != state}
        return Beginning(self.tables.rows(), dict(self.checks), ways_out, dict(self._pops))

    def reading(self) -> JsonReading:
        """What checks are asked about, before the first byte."""
        return JsonReading.start()

    def json_text(self, text: bytes) -> bytes:
        """The part of a text that checks are asked about: the JSON text that is being read at its end."""
        return text

    def blame(self, taken: bytes, positions: Sequence[int], refused: bytes, *, ends: bool) -> Blame:
        """The rule that refuses the byte behind a text, or its end. Plain automata have no rules to name.

        Args:
            taken: the text, as far as it is taken.
            positions: the position in front of each of its bytes, and the one behind them.
            refused: the byte behind it; empty where that is the end.
            ends: is the text to end there?
        """
        return Blame()

    def later(self, expand: Callable[[int], None]) -> int:
        """A new state; `expand(state)` writes it when a walk first meets it."""
        state = self.tables.stub()
        self._expanders[state] = expand
        return state

    def later_block(
        self, count: int, expand: Callable[[int], None], way_out: Callable[[int], int] | None = None
    ) -> int:
        """The first of `count` new states with one expander, and one `way_out` (see `shorten`), if given."""
        first = self.tables.stub(count)
        self._blocks.append(_Block(first, expand, way_out))
        return first

    def _block(self, state: int) -> _Block:
        """The last block that begins before a state or with it."""
        return self._blocks[bisect_left(self._blocks, (state + 1,)) - 1]

    def expand_on(self, states: Sequence[int], limit: int = MOST_AHEAD, *, ways_out: bool = False) -> None:
        """Expand states, the states that follow them, and if asked their ways out, until `limit` states were met.

        What the automaton began with is written already, and leads to nothing that is not.
        """
        seen, todo = set(states), deque(states)
        while todo and len(seen) < limit:
            state = todo.popleft()
            self.expand(state)
            following = self._following(state) + ([self.way_out(state)] if ways_out else [])
            todo.extend(each for each in following if each >= self._first_own and each not in seen)
            seen.update(following)

    def _following(self, state: int) -> list[int]:
        """The states to which the row of a state leads."""
        action, a, b = self.tables.row(state)[MISS : B + 1]
        following = [edge & TARGET for _, _, edge in self.tables.edges_of(state) if edge > 0]
        following += [a] if action & ACTION in (CALL, GOTO) else []
        following += [b] if (action & ACTION == CALL or action == TEST) and b > 0 else []
        return following

    def own(self, first: int, way_out: Callable[[int], int], expand: Callable[[int], None] = _no_expander) -> None:
        """A block of the states from `first` on, which exist or come from a kernel: `way_out` is asked for them (see
        `shorten`), and `expand` writes the stubs among them."""
        self._blocks.append(_Block(first, expand, way_out))

    def pop(self, outcome: int = 0) -> int:
        """The state that leaves its frame on arrival with that outcome."""
        state = self._pops.get(outcome)
        if state is None:
            state = self._pops[outcome] = self.tables.pop(outcome)
        return state

    def pops(self, count: int) -> int:
        """The first of states that leave their frame on arrival with the outcomes from 0 to `count` - 1."""
        first, known = self._many_pops
        if known < count:
            first = self.tables.pops(count)
            self._many_pops[:] = first, count
        return first

    def test(self, check: Check, yes: int, no: int = 0) -> int:
        """The state that asks on arrival whether `check` holds, and goes on at `yes` or at `no` (0: nowhere)."""
        if yes == no:
            return yes
        key = (check, yes, no)
        state = self._tests.get(key)
        if state is None:
            state = self.tables.test(yes, no)
            self.checks[state] = check
            self._tests[key] = state
        return state

    def returns(self, resolve: Callable[[int], int], least: Callable[[int], int] | None = None) -> int:
        """A return (to be used as `ret`) whose state is `resolve(outcome of the callee)`.

        Args:
            least: from an outcome to a lower bound of the bytes from there to the end of the caller's frame.
        """
        self._returns.append((resolve, least))
        return -len(self._returns)

    def least_behind(self, ret: int, outcome: int) -> int:
        """A lower bound of the bytes from a return to the end of the caller's frame."""
        least = self._returns[-ret - 1][1] if ret < 0 else None
        return 0 if least is None else least(outcome)

    def resolved(self, ret: int, outcome: int) -> int:
        """The state to which return `-ret` goes with that outcome; 0: nowhere."""
        known = self.tables.returned(ret, outcome)
        return self._resolve(ret, outcome) if known is None else known

    def _resolve(self, ret: int, outcome: int) -> int:
        """`resolved`, where that is not known yet."""
        state = self._returns[ret - 1][0](outcome)
        self.tables.set_return(ret, outcome, state)
        return state

    def shorten(self, state: int, way_out: Callable[[], int]) -> int:
        """Notes that `way_out()` gives the state that `way_out` returns for `state`. Returns `state`."""
        self._shortened[state] = way_out
        return state

    def way_out(self, state: int) -> int:
        """A state with fewer edges than `state`, but with the same cheapest way out of the frame.

        A search for the cheapest way looks at it in place of `state`, which may have very many edges: one for each
        member of an object, where members may come in any order.
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
        """Provide what a kernel stopped for, as its registers say."""
        registers = self.tables.registers
        want, argument = registers[R_WANT], registers[R_ARGUMENT]
        registers[R_WANT] = WANT_NOTHING
        if want == WANT_FRAMES:
            self.tables.grow_frames()
        elif want == WANT_RETURN:
            self._resolve(argument, registers[R_OUTCOME])
        elif want == WANT_STATE:
            self.expand(argument)
        else:
            raise AssertionError(f"a kernel stopped, but wants nothing: {want}")

    def expand(self, state: int) -> None:
        """Write a stub's row. Does nothing to a state that has one."""
        if not self.tables.is_stub(state):
            return
        expander = self._expanders.get(state)
        if expander is None:
            expander = self._block(state).expand
        expander(state)
        self._expanders.pop(state, None)  # only now: what a limit has stopped is asked for again, and stopped again
        if self.tables.is_stub(state):
            raise AssertionError(f"state {state} was expanded and is still a stub")
