"""A `CharDfa` lifted to bytes: its characters as UTF-8, plain or as they stand inside a JSON string.

State `q` of the DFA becomes state `first + q - 1`, expanded in chunks by one kernel call. Characters beyond ASCII
share seven states per target where all of them lead to the same one (the usual case) and get states of their own,
one byte at a time, where they do not. Inside JSON strings every spelling of a character is accepted, in names one.

A longest length needs no product: characters are counted, and a state may be entered as long as its shortest way to an
end still fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from structgen.automaton.char_kernels import ALSO, CONTINUED, ENDS, LIMITS, lift_rows, write_utf8
from structgen.memo import cached_method
from structgen.regular.chardfa import CharDfa
from structgen.automaton.machine import Automaton
from structgen.automaton.outline import outline_of
from structgen.automaton.counted_runs import counted_runs
from structgen.automaton.cheapest_chars import PlainWays, shortest_ends
from structgen.automaton.table_format import (
    CHARS,
    COUNT,
    HI,
    INC,
    ROOM,
    START,
    TARGET,
    UNBOUNDED,
    ZERO,
    Edge,
    Int32,
    Int64,
)

Span = tuple[int, int, int, int]

CHUNK = 64
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SHORT = frozenset(_SHORT_ESCAPES.values())
_HEX = tuple((digit, int(digit, 16)) for digit in "0123456789abcdefABCDEF")


class Lifted:
    """One `CharDfa` in the tables of an automaton.

    Args:
        ends: by the DFA's final mask: in quotes, the state after the closing one; else the outcome with which a
            final state leaves its frame, -1 where it does not.
        quoted: inside a JSON string, or plain UTF-8?
        name: of strings, is it the name of a member? Each has one spelling, `json.dumps(name, ensure_ascii=False)`.
        most: the longest length in characters.
        also: by the DFA's final mask: further edges of a state, with bytes that stand in no character.
        runs: where no length is counted: are runs of states (see `counted_runs`)? Then states are no longer the DFA's
            own. Not for names, which are read beside others.
    """

    def __init__(
        self,
        automaton: Automaton,
        dfa: CharDfa,
        *,
        ends: Callable[[int], int],
        quoted: bool,
        name: bool = False,
        most: int | None = None,
        also: Callable[[int], list[Edge]] | None = None,
        runs: bool = False,
    ) -> None:
        folded = counted_runs(dfa) if runs and most is None else None
        dfa = dfa if folded is None else folded.dfa
        self._automaton, self._dfa, self._quoted, self._name, self._also = automaton, dfa, quoted, name, also
        self._outline = outline_of(dfa, quoted=quoted, name=name) if folded is None else folded.outline(quoted)
        n = len(dfa.next)
        finals, kinds = dfa.kinds
        by_kind = [ends(int(final)) + (0 if quoted else 1) if final else 0 for final in finals]
        self._per_state: Int32 = np.zeros((3, n), np.int32)
        self._ends, self._limits, self._continued = (self._per_state[row] for row in (ENDS, LIMITS, CONTINUED))
        self._ends[:] = np.array(by_kind, np.int32)[kinds]
        self._counted = most is not None
        self._limits[:] = UNBOUNDED if folded is None else folded.limits
        slack = 0
        if most is not None:
            distances = shortest_ends(dfa)
            slack = int(distances.max())
            self._limits[:] = np.maximum(most - distances, 0)
        self._row = 0, list[int]()
        self._hex: dict[tuple[int, int], int] = {}
        self._room = ROOM if self._counted else 0
        plain_ways = self._plain_ways if quoted and not self._counted else None
        self._first = automaton.later_block(n - 1, self._expand_chunk, plain_ways)
        automaton.tables.states[self._first : self._first + n - 1, HI] = self._limits[1:]
        self._escapes = automaton.later_block(n - 1, self._expand_escape, self._short_escapes) if quoted else 0
        if quoted and self._counted:
            after = np.where(dfa.next[1:] > 0, self._limits[dfa.next[1:]], 0)
            automaton.tables.states[self._escapes : self._escapes + n - 1, HI] = after.max(axis=1)
        elif quoted and folded is not None:
            for q in np.flatnonzero(folded.limits != UNBOUNDED).tolist():
                automaton.tables.states[self._escapes + q - 1, HI] = self._room_behind(q, {*dfa.next[q].tolist()} - {0})
        self._block = automaton.tables.block(self._first, self._outline.depths, slack, self._outline.exits)
        numbers = self._first, self._escapes, self._block, INC if self._counted else 0, self._room, quoted
        self._settings: Int64 = np.array(numbers, np.int64)

    @property
    def start(self) -> int:
        """The table's state for the DFA's start."""
        return self._first

    def _expand_chunk(self, state: int) -> None:
        """Expand a state, and of those around it the stubs from which characters beyond ASCII lead to one state."""
        tables, dfa, asked = self._automaton.tables, self._dfa, state - self._first + 1
        if any(tables.row(state)[START : COUNT + 1]):  # the kernel has written all but its characters beyond ASCII
            self._complete(asked)
            return
        low = (state - self._first) // CHUNK * CHUNK + 1
        high = min(low + CHUNK, len(dfa.next))
        beyond_ascii = bool(self._outline.wides.any())  # then 8 lead bytes, and 7 states with an edge each behind them
        per_state = len(self._outline.spans) + 2 + 15 * beyond_ascii
        owed = np.zeros(high - low, np.uint8)
        if self._also is not None:
            owed[[q - low for q in range(low, high) if self._also(dfa.final[q])]] = ALSO
        taken = tables.take(7 * beyond_ascii * (high - low), per_state * (high - low))
        tables.n_states, tables.n_edges = lift_rows(
            tables.base, self._settings, dfa.next, self._per_state, self._outline.spans, self._outline.wides,
            self._outline.escaped, low, owed, *taken,
        )  # fmt: skip
        for i in np.flatnonzero(owed).tolist():
            if low + i == asked or owed[i] & ALSO:
                self._complete(low + i)

    def _complete(self, q: int) -> None:
        """Write the row of `q`, of which the kernel has written all but some edges and the kind."""
        tables, dfa, state = self._automaton.tables, self._dfa, self._first + q - 1
        _, _, _, *miss, _, high = tables.row(state)
        edges = tables.edges_of(state)
        if len(set(dfa.next[q, self._outline.wides].tolist())) > 1:
            edges += self._wide(q)
        if self._also is not None:
            edges += self._also(dfa.final[q])
        tables.ranges(state, edges, miss=(miss[0], miss[1], miss[2]), mode=CHARS, aux=self._block, hi=high)

    def _wide(self, q: int) -> list[Edge]:
        """The edges of `q` for characters beyond ASCII, whose targets differ."""
        tables = self._automaton.tables
        nodes: list[int] = []
        row: list[Edge] = []
        for spans in self._spelling:
            row = self._instantiate(q, spans, nodes)
            limit = max((int(tables.states[target & TARGET, HI]) for _, _, target in row), default=0)
            state = tables.ranges(tables.stub(), row, hi=limit) if row else 0
            nodes.append(state and state | self._room)
        return row

    def _instantiate(self, q: int, spans: list[Span], nodes: list[int]) -> list[Edge]:
        """The edges of one node of the spelling for state `q`, given those of the nodes below it."""
        edges = []
        for low, high, left, below in spans:
            target = nodes[below] if left < 0 else self._uniform(int(self._dfa.next[q, below]), left)
            if target:
                edges.append((low, high, target))
        return edges

    def _uniform(self, target: int, left: int) -> int:
        """The edge to where `left` more bytes, whichever they are, lead to the DFA state `target`; 0 when dead."""
        if not target or not left:
            return self._table(target) if target else 0
        tables = self._automaton.tables
        if not self._continued[target]:
            first, edge = tables.take(7, 7)
            write_utf8(tables.base, first, self._table(target), int(self._limits[target]), edge)
            self._continued[target] = first
        return (int(self._continued[target]) + left - 1) | self._room

    @cached_property
    def _spelling(self) -> list[list[Span]]:
        """How the characters beyond ASCII are spelled, by class: nodes of spans, the lead bytes last.

        A span is `(first byte, last byte, left, below)`: with `left` >= 0, that many more bytes follow, whichever
        they are, to class `below`; else the next byte is read at node `below`.
        """
        nodes: list[list[Span]] = []
        leads: list[Span] = []
        for lead in range(0xC2, 0xF5):
            left = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
            self._spell(nodes, leads, lead, (lead & (0x3F >> left)) << 6 * left, left, (0, 0x80, 0x800, 0x10000)[left])
        nodes.append(leads)
        return nodes

    def _spell(self, nodes: list[list[Span]], spans: list[Span], byte: int, low: int, left: int, least: int) -> None:
        """Append the span of a byte after which `left` more spell the characters from `low` on."""
        high = low + (1 << 6 * left) - 1
        classes = self._outline.classes_in(max(low, least), high) if high >= least else {0}
        if classes == {0}:
            return
        if len(classes) == 1 and low >= least:
            span = (byte, byte, left, classes.pop())
        else:
            below: list[Span] = []
            for i in range(64):
                self._spell(nodes, below, 0x80 + i, low + (i << 6 * (left - 1)), left - 1, least)
            nodes.append(below)
            span = (byte, byte, -1, len(nodes) - 1)
        if spans and spans[-1][1] == byte - 1 and spans[-1][2:] == span[2:]:
            spans[-1] = (spans[-1][0], *span[1:])
        else:
            spans.append(span)

    def _targets(self, q: int, low: int, high: int) -> set[int]:
        """The DFA states that characters `low..high` lead to from `q`; 0 for surrogates and dead ones."""
        return self._leads_to(q, self._outline.classes_in(low, high))

    def _leads_to(self, q: int, classes: set[int]) -> set[int]:
        row_of, row = self._row
        if q != row_of:
            row = self._dfa.next[q].tolist()
            self._row = q, row
        return {row[c] for c in classes}

    def _target(self, q: int, character: int) -> int:
        (target,) = self._targets(q, character, character)
        return target

    def _table(self, target: int, q: int = 0) -> int:
        """The edge to state `target` behind the last byte of a character, which comes behind `q` (0: no run)."""
        edge = self._first + target - 1
        if self._in_run(q):
            return edge | (INC if target == q else ZERO)
        return edge | (INC if self._counted else 0)

    def _in_run(self, q: int) -> bool:
        """Is a state a run, the only ones that count?"""
        return not self._counted and bool(self._limits[q] != UNBOUNDED)

    def _room_behind(self, q: int, targets: set[int]) -> int:
        """HI of a state in the middle of a character behind `q` that leads to one of `targets`."""
        if self._counted:
            return max(int(self._limits[t]) for t in targets)
        return int(self._limits[q]) if targets == {q} else UNBOUNDED

    def _inner(self, expand: Callable[[int], None], q: int, targets: set[int]) -> int:
        """The edge to a new state between the bytes of a character behind `q` that leads to one of `targets`."""
        state = self._automaton.later(expand)
        self._automaton.tables.states[state, HI] = self._room_behind(q, targets)
        return state | (ROOM if self._in_run(q) else self._room)

    def _expand_escape(self, state: int) -> None:
        """After a backslash."""
        q, tables = state - self._escapes + 1, self._automaton.tables
        limit = int(tables.states[state, HI])
        edges: list[Edge] = []
        for letter, character in _SHORT_ESCAPES.items():
            target = 0 if self._name and letter == "/" else self._target(q, ord(character))
            if target:
                edges.append((ord(letter), ord(letter), self._table(target, q)))
        digits = self._control_digits(q) if self._name else self._digits(q, 0, 4, 0)
        if digits:
            edges.append((ord("u"), ord("u"), digits))
        tables.ranges(state, edges, hi=limit if self._counted or self._in_run(q) else UNBOUNDED)

    def _control_digits(self, q: int) -> int:
        """The edge to the state before the digits of control characters that have no short escape; 0 for none."""
        tables, edges = self._automaton.tables, list[Edge]()
        for high in (0, 1):
            codes = [(digit, 16 * high + low) for low, digit in enumerate(b"0123456789abcdef")]
            codes = [(digit, code) for digit, code in codes if chr(code) not in _SHORT and self._target(q, code)]
            row = [(digit, digit, self._table(self._target(q, code))) for digit, code in codes]
            if row:
                edges.append((0x30 + high, 0x30 + high, tables.ranges(tables.stub(), row)))
        for _ in range(2 if edges else 0):
            edges = [(0x30, 0x30, tables.ranges(tables.stub(), edges))]
        return tables.ranges(tables.stub(), edges) if edges else 0

    def _plain_ways(self, state: int) -> int:
        """With one byte to each next state, where all others are no shorter."""
        q = state - self._first + 1
        led = self._plain.of(q) if 0 < q < len(self._dfa.next) else None
        if led is None:
            return state
        edges = [(byte, byte, self._table(target, q)) for target, byte in led.items()]
        if self._ends[q]:
            edges.append((0x22, 0x22, int(self._ends[q]) | (ZERO if self._in_run(q) else 0)))
        return self._automaton.tables.ranges(self._automaton.tables.stub(), edges)

    @cached_property
    def _plain(self) -> PlainWays:
        return PlainWays(self._dfa, one_end=len(set(self._ends.tolist()) - {0}) == 1)

    def _short_escapes(self, state: int) -> int:
        """Behind a backslash, without `\\u`, which hardly any cheapest way takes; the same where there is no other."""
        tables = self._automaton.tables
        if not self._escapes <= state < self._escapes + len(self._dfa.next) - 1:
            return state
        self._automaton.expand(state)
        edges, limit = [e for e in tables.edges_of(state) if e[0] != ord("u")], tables.row(state)[HI]
        return tables.ranges(tables.stub(), edges, hi=limit) if edges else state

    def _digits(self, q: int, low: int, left: int, high_surrogate: int) -> int:
        """The edge to the state before the last `left` digits of `\\u`; 0 when no character there is alive."""
        targets = self._spelled(q, low, low + 16**left - 1, high_surrogate)
        if not targets:
            return 0
        if left:
            return self._shared_digits(q, low, left, high_surrogate, targets)
        if not high_surrogate and 0xD800 <= low <= 0xDBFF:
            return self._inner(partial(self._expand_pair, q, low), q, targets)
        return self._table(targets.pop(), q)

    def _shared_digits(self, q: int, low: int, left: int, high_surrogate: int, targets: set[int]) -> int:
        """The edge to the state before `left` digits: one per target where whatever they are leads to it."""
        expand = partial(self._expand_digits, q, low, left, high_surrogate)
        high = low + 16**left - 1
        if high_surrogate or len(targets) > 1 or (low <= 0xDFFF and high >= 0xD800) or 0 in self._targets(q, low, high):
            edge = self._inner(expand, q, targets)
            self._automaton.shorten(edge & TARGET, partial(self._few_digits, q, low, left, high_surrogate))
            return edge
        key = (self._table(min(targets), q), left)
        if key not in self._hex:
            self._hex[key] = self._inner(expand, q, targets)
        return self._hex[key]

    def _few_digits(self, q: int, low: int, left: int, high_surrogate: int) -> int:
        """The state before `left` digits with as few next ones as lead to all targets; pairs only where nothing else
        does."""
        step, edges = 16 ** (left - 1), list[Edge]()
        missing = self._spelled(q, low, low + 16**left - 1, high_surrogate)
        for value in sorted(range(16), key=lambda value: left == 4 and value == 0xD):
            first = low + value * step
            spelled = self._spelled(q, first, first + step - 1, high_surrogate)
            if not missing.isdisjoint(spelled):
                missing = missing - spelled
                digit = ord(f"{value:x}")
                edges.append((digit, digit, self._digits(q, first, left - 1, high_surrogate)))
        return self._automaton.tables.ranges(self._automaton.tables.stub(), edges)

    def _spelled(self, q: int, low: int, high: int, high_surrogate: int) -> set[int]:
        """Where the characters lead that a UTF-16 unit in `low..high` begins (ends, after a high surrogate)."""
        return self._leads_to(q, self._unit_classes(low, high, high_surrogate)) - {0}

    @cached_method
    def _unit_classes(self, low: int, high: int, high_surrogate: int) -> set[int]:
        """The classes of the characters that a UTF-16 unit in `low..high` begins (ends, after a high surrogate)."""
        if high_surrogate:
            spans = [(_astral(high_surrogate, max(low, 0xDC00)), _astral(high_surrogate, min(high, 0xDFFF)))]
        else:
            pairs = _astral(max(low, 0xD800), 0xDC00), _astral(min(high, 0xDBFF), 0xDFFF)
            spans = [pairs, (low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
        return {c for first, last in spans if first <= last for c in self._outline.classes_in(first, last)}

    def _expand_digits(self, q: int, low: int, left: int, high_surrogate: int, state: int) -> None:
        step = 16 ** (left - 1)
        targets = [self._digits(q, low + value * step, left - 1, high_surrogate) for value in range(16)]
        edges = [(ord(digit), ord(digit), targets[value]) for digit, value in _HEX if targets[value]]
        tables = self._automaton.tables
        tables.ranges(state, edges, hi=tables.row(state)[HI])

    def _expand_pair(self, q: int, high_surrogate: int, state: int) -> None:
        tables = self._automaton.tables
        digits = self._digits(q, 0, 4, high_surrogate)
        before_u = tables.ranges(tables.stub(), [(ord("u"), ord("u"), digits)])
        tables.ranges(state, [(ord("\\"), ord("\\"), before_u)], hi=tables.row(state)[HI])


def _astral(high: int, low: int) -> int:
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)


def lift(
    automaton: Automaton,
    dfa: CharDfa,
    ends: Callable[[int], int],
    *,
    quoted: bool,
    name: bool = False,
    most: int | None = None,
    also: Callable[[int], list[Edge]] | None = None,
    runs: bool = False,
) -> int:
    """The start state of `dfa` lifted; see `Lifted`."""
    return Lifted(automaton, dfa, ends=ends, quoted=quoted, name=name, most=most, also=also, runs=runs).start
