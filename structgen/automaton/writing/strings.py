"""The free string: a block of states for the content of any JSON string, which is copied into an automaton.

The block takes only valid UTF-8, no control character as it is, the short escapes, `\\uXXXX` for the characters of
`ESCAPED`, and surrogates only in pairs. It counts code points. `NAME` is the block for the names of members. There,
each name has one spelling, that of `json.dumps(ensure_ascii=False)`: no other spelling can stand for a declared name.
"""

from __future__ import annotations

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    FREE, HI, INC, KIND, LEADS, LO, NEED, PLAIN, RANGES, ROOM, SPAN, START, UNBOUNDED, Edge, Int32, Machine,
)  # fmt: skip
from structgen.automaton.writing.char_kernels import COMPLETE, UTF8_LEADS, UTF8_STATES
from structgen.automaton.writing.text_classes import ESCAPED
from structgen.kernels import kernel, view

CLOSE = (1 << 24) - 1
"""Stands in a template for the state after the closing quote."""


def _utf8(inner: int, first: int) -> list[list[Edge]]:
    """The edges of the seven states in the middle of a character beyond ASCII (see `UTF8_STATES`).

    Args:
        inner: the state after the character.
        first: the number of the first of the seven.
    """
    rows = UTF8_STATES.tolist()
    return [[(low, high, inner | INC if follows == COMPLETE else first + follows)] for low, high, follows in rows]


def _inside(escape: int, utf8: int) -> list[Edge]:
    """The edges of state 0, in front of a character. The commonest range comes first: edges are searched in order.

    Args:
        escape: the state after a backslash.
        utf8: the first of the seven states in the middle of a character beyond ASCII.
    """
    text = INC | ROOM
    plain = [(0x5D, 0x7F, text), (0x23, 0x5B, text), (0x20, 0x21, text), (0x22, 0x22, CLOSE | NEED)]
    wide = [(low, high, utf8 + follows | ROOM) for low, high, follows in UTF8_LEADS.tolist()]
    return [*plain, (0x5C, 0x5C, escape | ROOM), *wide]


def _each(characters: str, target: int) -> list[Edge]:
    """Edges for these characters, all to `target`."""
    return [(ord(c), ord(c), target) for c in characters]


def _hex(target: int) -> list[Edge]:
    """Edges for the hexadecimal digits, all to `target`."""
    return [(0x30, 0x39, target), (0x61, 0x66, target), (0x41, 0x46, target)]


def _value_escapes(first: int) -> list[list[Edge]]:
    """The states after a backslash in a value, from number `first` on.

    Of `\\uXXXX`, `u1` to `u4` are in front of the digits 1 to 4. After `\\u0` and `\\u00`, `zero2` and `zero3` are in
    front of the digits 2 and 3: of ASCII, only some characters may be escaped. The last states are in front of the
    fourth digit of these, by their third, 2 to 7. A first digit `d` leads to `after_d`: the unit may be a high
    surrogate. `h3` and `h4` are in front of the last two digits of a high surrogate. The second escape follows:
    `back`, `u` and `d` are in front of `\\`, `u` and `d`; `low` is in front of the second digit of a low surrogate.
    """
    escape, u1, u2, u3, u4, after_d, h3, h4, back, u, d, low, zero2, zero3 = range(first, first + 14)
    del escape
    plain_hex = [(0x31, 0x39, u2), (0x61, 0x63, u2), (0x65, 0x66, u2), (0x41, 0x43, u2), (0x45, 0x46, u2)]
    signs = [code for a, b in ESCAPED for code in range(max(a, 0x20), min(b, 0x7F) + 1)]
    thirds = sorted({code >> 4 for code in signs})
    fourths = [
        sorted({f"{code & 15:{case}}" for code in signs if code >> 4 == third for case in "xX"}) for third in thirds
    ]
    behind_zeros = [(0x30 + third, 0x30 + third, first + 14 + i) for i, third in enumerate(thirds)]
    return [
        [*_each('"\\/bfnrt', INC), *_each("u", u1)],
        [*_each("0", zero2), *plain_hex, *_each("dD", after_d)],
        _hex(u3),
        _hex(u4),
        _hex(INC),
        [(0x30, 0x37, u3), *_each("89abAB", h3)],
        _hex(h4),
        _hex(back),
        _each("\\", u),
        _each("u", d),
        _each("dD", low),
        _each("cdefCDEF", u3),
        [*_each("0", zero3), (0x31, 0x39, u3), (0x61, 0x66, u3), (0x41, 0x46, u3)],
        [(0x30, 0x31, u4), *behind_zeros, (0x38, 0x39, u4), (0x61, 0x66, u4), (0x41, 0x46, u4)],
        *(_each("".join(fourth), INC) for fourth in fourths),
    ]


def _name_escapes(first: int) -> list[list[Edge]]:
    """The states after a backslash in a name, from number `first` on: each escaped character has one spelling.

    `zero1` and `zero2` are in front of the two zeros of `\\u00XX`, `high` is in front of its third digit, and `low0`
    and `low1` are in front of the fourth, after a third digit 0 or 1."""
    escape, zero1, zero2, high, low0, low1 = range(first, first + 6)
    del escape
    return [
        [*_each('"\\bfnrt', INC), *_each("u", zero1)],
        _each("0", zero2),
        _each("0", high),
        [*_each("0", low0), *_each("1", low1)],
        [(0x30, 0x37, INC), *_each("bef", INC)],
        [(0x30, 0x39, INC), (0x61, 0x66, INC)],
    ]


def _template(rows: list[list[Edge]], kind: int) -> tuple[Int32, Int32]:
    """The rows of a block, int32[., 8], and their edges, int32[., 2]. State 0 of the block is in front of a character.

    Args:
        rows: the edges of each state.
        kind: VALUE or NAME.
    """
    states: Int32 = np.zeros((len(rows), 8), np.int32)
    states[:, KIND] = RANGES | PLAIN << 4 | 1 + kind << 8
    states[0, KIND] = RANGES | FREE << 4 | kind << 8
    states[:, HI] = UNBOUNDED
    flat = [(low | high << 8, target) for row in rows for low, high, target in row]
    counts = [len(row) for row in rows]
    states[:, START] = np.cumsum([0, *counts[:-1]])
    states[:, START + 1] = counts
    return states, np.array(flat, np.int32)


VALUE, NAME = 0, 1
"""Kinds of free strings, and the numbers of their blocks of free slices in the masks."""
_ROWS = {
    VALUE: [_inside(8, 1), *_utf8(0, 1), *_value_escapes(8)],
    NAME: [_inside(8, 1), *_utf8(0, 1), *_name_escapes(8)],
}


def _uncounted(rows: list[list[Edge]]) -> list[list[Edge]]:
    """The same edges without the flags that count characters."""
    return [[(low, high, target & ~(INC | ROOM)) for low, high, target in row] for row in rows]


TEMPLATES = {(kind, True): _template(rows, kind) for kind, rows in _ROWS.items()} | {
    (kind, False): _template(_uncounted(rows), kind) for kind, rows in _ROWS.items()
}
"""The blocks, by kind, and by whether code points are counted: they are if the length has a bound."""
PLACES = {
    key: (states.ctypes.data, len(states), edges.ctypes.data, len(edges)) for key, (states, edges) in TEMPLATES.items()
}
"""For each block: the address of its rows, the number of rows, the address of its edges, the number of edges."""
_template_states, _template_edges = view(np.int32, 8), view(np.int32, 2)


def free_string(
    automaton: Automaton, kind: int, close: int, *, min_length: int = 0, max_length: int | None = None
) -> int:
    """Copies a block into an automaton. Returns the state after the opening quote.

    Args:
        kind: VALUE or NAME.
        close: the state after the closing quote.
        min_length, max_length: bounds of the length in code points.
    """
    states, count, edges, n_edges = PLACES[kind, min_length > 0 or max_length is not None]
    tables = automaton.tables
    tables.reserve(states=count, edges=n_edges)
    first, start = tables.n_states, tables.n_edges
    high = UNBOUNDED if max_length is None else max_length
    copy_block(tables.base, states, count, edges, n_edges, first, start, close, min_length, high)
    tables.n_states, tables.n_edges = first + count, start + n_edges
    return first


@kernel
def copy_block(
    machine: Machine, states: int, count: int, edges: int, n_edges: int, first: int, start: int, close: int,
    low: int, high: int,
) -> None:  # fmt: skip
    """Copy the block at the addresses `states` and `edges` to the states from `first` on and the edges from `start` on.

    `low` and `high` become the bounds of the counter. In the edges, `close` takes the place of CLOSE."""
    to_states, to_edges = machine.states, machine.edges
    from_states, from_edges = _template_states(states), _template_edges(edges)
    for i in range(count):  # the rows; their edges are further down here
        for column in range(8):
            to_states[first + i, column] = from_states[i, column]
        to_states[first + i, START] += start
        to_states[first + i, LO], to_states[first + i, HI] = low, high
    for i in range(n_edges):
        leads = from_edges[i, LEADS]
        to_edges[start + i, SPAN] = from_edges[i, SPAN]
        to_edges[start + i, LEADS] = close | NEED if leads == CLOSE | NEED else first + leads
