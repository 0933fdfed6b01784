"""A `CharDfa` lifted to bytes: its characters as UTF-8, plain or as they are inside a JSON string.

State `q` of the DFA becomes state `first + q - 1`. A kernel call expands a chunk of states. If all characters beyond
ASCII lead to the same state (the usual case), they share seven states for their bytes; else they get states of their
own. Inside JSON strings a character may be escaped as JSON writers do (see `ESCAPED`), in names it has one spelling.

A longest length needs no product of automata. Characters are counted, and a state may be entered only while its
shortest way to an end still fits into the length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    CHARS, COUNT, HI, INC, MAX_COUNT, ROOM, START, UNBOUNDED, Edge, Int32, Int64,
)  # fmt: skip
from structgen.automaton.writing.char_escapes import (
    CONTROLS, MAX_EDGES, MAX_STATES, PAIR, astral, beginning, write_digits, write_escape,
)  # fmt: skip
from structgen.automaton.writing.char_kernels import ALSO, ENDS, LIMITS, NAMED, ROWS, lift_rows, write_wide
from structgen.automaton.writing.outline import outline_of
from structgen.automaton.writing.text_classes import ESCAPED
from structgen.memo import cached_method
from structgen.regular.chardfa import CharDfa
from structgen.regular.chardfa_kernels import FAR, fewest_steps

PREFERRED = b"a0 "
"""Bytes that a shortest end takes if one of them will do."""
CHUNK = 64
"""The number of states that one kernel call expands."""


class Lifted:
    """One `CharDfa` in the tables of an automaton.

    Args:
        ends: gives, for a final mask of the DFA (not 0), what follows the text. Quoted: the state after the closing
            quote. Plain: the outcome with which the state leaves its frame; -1 if it does not leave.
        quoted: inside a JSON string, or plain UTF-8?
        name: is the string the name of a member? Its one spelling is `json.dumps(name, ensure_ascii=False)`.
        maximum: the longest length in characters.
        also: gives, for a final mask, further edges of a state, for bytes that are in no character.

    Attributes:
        start: the automaton's state for the DFA's start.
    """

    def __init__(
        self,
        automaton: Automaton,
        dfa: CharDfa,
        ends: Callable[[int], int],
        *,
        quoted: bool,
        name: bool = False,
        maximum: int | None = None,
        also: Callable[[int], list[Edge]] | None = None,
    ) -> None:
        self._automaton, self._dfa, self._quoted, self._also = automaton, dfa, quoted, also
        self._outline = outline_of(dfa, quoted=quoted, name=name)
        n = len(dfa.next)
        finals, kinds = dfa.kinds
        by_kind = [ends(int(final)) + (0 if quoted else 1) if final else 0 for final in finals]
        self._per_state: Int32 = np.zeros((ROWS, n), np.int32)
        self._ends, self._limits = self._per_state[ENDS], self._per_state[LIMITS]
        self._ends[:] = np.array(by_kind, np.int32)[kinds]
        self._between: set[int] = set()
        """The states that calls of `_write` have made, most of them between the digits of an escape."""
        self._counted = maximum is not None
        self._limits[:] = UNBOUNDED
        slack = 0  # see `Tables.block`
        if maximum is not None:
            accepts = np.array(list(map(bool, finals)))[kinds]  # also where only a special token may come next
            distances = np.minimum(fewest_steps(dfa.next, accepts), MAX_COUNT)
            distances[0] = 0
            slack = int(distances.max())
            self._limits[:] = np.maximum(maximum - distances, 0)
        after = self._after_text if also is None else None
        self._shortest_from: dict[int, int] = {}
        """State of the DFA -> the first state of its shortest end (see `_shortest_end`)."""
        closes = set(self._ends.tolist()) - {0}
        one_end = quoted and also is None and len(closes) == 1
        way_out = self._shortest_end if one_end else None
        self.start = self._first = automaton.later_block(n - 1, self._expand_chunk, way_out, after)
        automaton.tables.states[self._first : self._first + n - 1, HI] = self._limits[1:]
        self._escapes = (
            automaton.later_block(n - 1, partial(self._write, write_escape), self._short_escapes) if quoted else 0
        )
        if quoted and self._counted:  # HI of the states after a backslash: the greatest limit of those that follow
            spelled = dfa.next[1:, self._outline.escaped]
            after = np.where(spelled > 0, self._limits[spelled], 0).max(axis=1, initial=0)
            automaton.tables.states[self._escapes : self._escapes + n - 1, HI] = after
        self._block = automaton.tables.block(self._first, self._outline.depths, slack, self._outline.exits)
        inc, room = (INC, ROOM) if self._counted else (0, 0)
        numbers = self._first, self._escapes, self._block, inc, room, quoted, name
        self._settings: Int64 = np.array(numbers, np.int64)

    def _expand_chunk(self, state: int) -> None:
        """Expand a state, and the stubs of its chunk from which all characters beyond ASCII lead to the same state."""
        tables, dfa, asked = self._automaton.tables, self._dfa, state - self._first + 1
        if any(tables.row(state)[START : COUNT + 1]):  # `lift_rows` has been here, and has left its last edges out
            self._complete(asked)
            return
        low = (state - self._first) // CHUNK * CHUNK + 1
        high = min(low + CHUNK, len(dfa.next))
        beyond_ascii = bool(self._outline.wides.any())
        # Edges: the spans, a quote, a backslash; beyond ASCII 8 for lead bytes, and 7 in the middle of characters.
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

    def _after_text(self, state: int) -> Collection[int] | None:
        """For a state of the text, the states after the closing quote; none for plain text, which leaves its frame."""
        if not self._first <= state < self._first + len(self._dfa.next) - 1:
            return None
        return {*self._ends.tolist()} - {0} if self._quoted else ()

    @cached_property
    def _plain_ways(self) -> tuple[Int32, list[tuple[int, int]], Int32]:
        """The ends by characters of one byte.

        Returns:
            int32[states]: the fewest characters to an end; bytes with their classes, in the order in which they are
            tried; and int32[states]: the fewest of these bytes to an end.
        """
        table, accepts = self._dfa.next, self._ends > 0
        plain = sorted((_one_of(first, last), each) for first, last, each in self._outline.spans.tolist())
        by_bytes = fewest_steps(table[:, [each for _, each in plain]], accepts)
        return fewest_steps(table[:, 1:], accepts), plain, by_bytes

    def _shortest_end(self, state: int) -> int:
        """The way out of a text whose ends are all the same: a literal of one of its shortest ends, if characters of
        one byte spell one. States on one way share it."""
        q = state - self._first + 1
        if not 0 < q < len(self._dfa.next):
            return state
        by_characters, plain, by_bytes = self._plain_ways
        if by_bytes[q] >= FAR or by_bytes[q] > by_characters[q]:
            return state
        way, text = [q], bytearray()
        while way[-1] not in self._shortest_from and by_bytes[way[-1]]:
            row, left = self._dfa.next[way[-1]].tolist(), by_bytes[way[-1]] - 1
            byte, each = next((byte, each) for byte, each in plain if by_bytes[row[each]] == left)
            way.append(row[each])
            text.append(byte)
        after = self._shortest_from.get(way[-1])
        if after is None:
            after = self._shortest_from[way[-1]] = self._automaton.tables.chain(b'"', int(self._ends[way[-1]]))
        first = self._automaton.tables.chain(bytes(text), after)
        self._shortest_from.update(zip(way[:-1], range(first, first + len(text)), strict=True))
        return self._shortest_from[q]

    def _complete(self, q: int) -> None:
        """Write what `lift_rows` has left out of the row of `q`: its last edges and its kind."""
        tables, outline, state = self._automaton.tables, self._outline, self._first + q - 1
        if len(set(self._dfa.next[q, outline.wides].tolist())) > 1:
            spelling, ends = outline.spelling
            seven = 7 * len(outline.wides)
            taken = tables.take(len(ends) + seven, len(spelling) + tables.row(state)[COUNT] + seven)
            tables.n_states, tables.n_edges = write_wide(
                tables.base, self._settings, self._dfa.next, self._per_state, spelling, ends, np.empty_like(ends), q,
                self._also is not None, *taken,
            )  # fmt: skip
        if self._also is not None:
            edges = tables.edges_of(state) + self._also(self._dfa.final[q])
            _, _, _, *miss, _, high = tables.row(state)
            tables.ranges(state, edges, miss=(miss[0], miss[1], miss[2]), mode=CHARS, aux=self._block, hi=high)

    def _write(self, write: Callable[..., tuple[int, int]], state: int) -> None:
        """Write a state by the kernel `write`. Later, `write_digits` writes the stubs that it leaves."""
        tables, dfa = self._automaton.tables, self._dfa
        taken = tables.take(MAX_STATES, MAX_EDGES)
        self._automaton.own(taken[0], self._few_digits, partial(self._write, write_digits))
        tables.n_states, tables.n_edges = write(
            tables.base, self._settings, dfa.next, self._per_state, dfa.bounds, dfa.classes, state, *taken
        )
        self._between.update(range(taken[0], tables.n_states))

    def _short_escapes(self, state: int) -> int:
        """The way out after a backslash: the short escapes; the state itself, if only `\\u` may follow."""
        tables = self._automaton.tables
        if not self._escapes <= state < self._escapes + len(self._dfa.next) - 1:
            return state
        self._automaton.expand(state)
        edges, limit = [e for e in tables.edges_of(state) if e[0] != ord("u")], tables.row(state)[HI]
        return tables.ranges(tables.stub(), edges, hi=limit) if edges else state

    def _few_digits(self, state: int) -> int:
        """The way out between digits: those digits that lead to a state of the DFA to which no earlier digit leads.

        The first digit `d`, which begins surrogates, is tried last: a pair takes six bytes more."""
        tables = self._automaton.tables
        if state not in self._between:
            return state
        _, _, _, _, q, mark, _, _ = tables.row(state)
        low, left, high_surrogate = beginning(mark)
        if not mark or left == PAIR:  # between two escapes: there is one way only
            return state
        self._automaton.expand(state)
        targets = {byte: target for first, last, target in tables.edges_of(state) for byte in range(first, last + 1)}
        step, edges = 16 ** (left - 1), list[Edge]()
        missing = self._spelled(q, low, low + 16**left - 1, high_surrogate)
        for value in sorted(range(16), key=lambda value: left == 4 and value == 0xD):
            first = low + value * step
            spelled = self._spelled(q, first, first + step - 1, high_surrogate)
            if not missing.isdisjoint(spelled):
                missing = missing - spelled
                digit = ord(f"{value:x}")
                edges.append((digit, digit, targets[digit]))
        return tables.ranges(tables.stub(), edges)

    def _spelled(self, q: int, low: int, high: int, high_surrogate: int) -> set[int]:
        """The DFA's living states after the characters of `_unit_classes`, read in state `q`."""
        row = self._dfa.next[q].tolist()
        return {row[c] for c in self._unit_classes(low, high, high_surrogate)} - {0}

    @cached_method
    def _unit_classes(self, low: int, high: int, high_surrogate: int) -> set[int]:
        """The classes of the characters that begin with a UTF-16 unit in `low..high`, or end with it after a high
        surrogate: see `char_escapes._span`, its twin for kernels."""
        if self._settings[NAMED]:
            spans = [(max(low, first), min(high, last)) for first, last in CONTROLS.tolist()]
        elif high_surrogate:
            spans = [(astral(high_surrogate, max(low, 0xDC00)), astral(high_surrogate, min(high, 0xDFFF)))]
        else:
            pairs = astral(max(low, 0xD800), 0xDC00), astral(min(high, 0xDBFF), 0xDFFF)
            spans = [pairs, *((max(low, first), min(high, last)) for first, last in ESCAPED)]
        return {c for first, last in spans if first <= last for c in self._outline.classes_in(first, last)}


def _one_of(first: int, last: int) -> int:
    """One of the bytes of a span."""
    return next((byte for byte in PREFERRED if first <= byte <= last), first)
