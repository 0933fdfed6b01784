"""Kernels that write the states after a backslash in a lifted `CharDfa`, one state at a time: see `chars`.

The digits of `\\uXXXX` spell a UTF-16 code unit. Each beginning of the digits has a state, if a character that it can
spell is alive in the DFA: `\\u00` has one if any of U+0000 to U+00FF is alive. A state is a stub until it is walked.
Column A of its row holds the DFA's state `q` in front of the character, and column B what was read of the escape (see
`beginning`). Both columns stay when the row is written.
"""

from __future__ import annotations

import numpy as np

from structgen.automaton.step import write_edge, write_plain_row, write_row
from structgen.automaton.table_format import (
    HI, LEADS, NOTHING, RANGES, SPAN, STUB, UNBOUNDED, A, B, Int32, Int64, Machine,
)  # fmt: skip
from structgen.automaton.writing.char_kernels import INC_FLAG, LIMITS, NAMED, ROOM_FLAG, SEVERAL, edge_to
from structgen.automaton.writing.char_kernels import ESCAPES as ESCAPES_FROM
from structgen.automaton.writing.text_classes import ESCAPED
from structgen.kernels import Rows, inner_kernel, kernel

DIGITS = 4
"""The number of digits of an escape."""
PAIR = 7
"""Stands in place of the number of missing digits after a high surrogate: the whole second escape is missing."""
_SHORT: Int32 = np.array(
    [(0x22, 0x22), (0x5C, 0x5C), (0x2F, 0x2F), (0x62, 8), (0x66, 12), (0x6E, 10), (0x72, 13), (0x74, 9)], np.int32
)
"""Short escapes, as `(letter, character)`: `n` spells U+000A."""
_SLASH = 0x2F
"""JSON allows `\\/`, but in a name the slash is spelled without a backslash."""
CONTROLS: Int32 = np.array([(0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F)], np.int32)
"""The characters that names spell by digits, as `(first, last)`: the control characters without a short escape."""
_VALUES: Int32 = np.array(ESCAPED, np.int32)
MAX_STATES, MAX_EDGES = 17, 48
"""The most new states and edges that one call of a kernel below writes."""


def beginning(mark: int) -> tuple[int, int, int]:
    """Unpacks column B of a state between digits. `_marked` packs it.

    Returns:
        The code unit with zeros for its missing digits; the number of missing digits, or `PAIR` (the unit is then a
        high surrogate); the high surrogate of the escape before this one, 0 for none.
    """
    high = mark >> 19
    return mark & 0xFFFF, mark >> 16 & 7, high and high - 1 + 0xD800


@inner_kernel
def _marked(low: int, left: int, high_surrogate: int) -> int:
    """Packs the numbers that `beginning` unpacks. In a row the result is never 0, since `left` is not."""
    return low | left << 16 | (high_surrogate - 0xD800 + 1 << 19 if high_surrogate else 0)


@inner_kernel
def _interval(bounds: Int32, code: int) -> int:
    """The index of the interval that holds a character. The plain loop: the last index with `bounds[index] <= code`."""
    interval: int = 0
    high: int = bounds.size
    while high - interval > 1:
        middle = (interval + high) >> 1
        if bounds[middle] <= code:
            interval = middle
        else:
            high = middle
    return interval


@inner_kernel
def astral(high: int, low: int) -> int:
    """The character of a surrogate pair."""
    return 0x10000 + (high - 0xD800 << 10) + (low - 0xDC00)


@inner_kernel
def _span(settings: Int64, part: int, low: int, high: int, high_surrogate: int) -> tuple[int, int]:
    """One part of the characters that begin with a code unit in `low..high`, or end with it after a high surrogate.

    In a value, without a high surrogate, part 0 is the pairs whose high surrogate is in `low..high`; the others are the
    spans of `ESCAPED`. After a high surrogate, part 0 is the pairs whose low surrogate is in `low..high`, and the
    others are empty. In a name, the parts are the three spans of `CONTROLS`.

    Returns:
        The first and the last character of the part. An empty part has a first greater than its last.
    """
    if settings[NAMED]:
        return max(low, CONTROLS[part, 0]), min(high, CONTROLS[part, 1])
    if high_surrogate:
        if part:
            return 1, 0
        return astral(high_surrogate, max(low, 0xDC00)), astral(high_surrogate, min(high, 0xDFFF))
    if part == 0:
        return astral(max(low, 0xD800), 0xDC00), astral(min(high, 0xDBFF), 0xDFFF)
    return max(low, _VALUES[part - 1, 0]), min(high, _VALUES[part - 1, 1])


@inner_kernel
def _led(
    settings: Int64, nexts: Rows[Int32], limits: Int32, bounds: Int32, classes: Int32, q: int, low: int, high: int,
    high_surrogate: int,
) -> tuple[int, int]:  # fmt: skip
    """The state of the DFA to which the characters of the code units `low..high` lead from `q` (see `_span`).

    The plain loop: for each of these characters, look up its state in row `q` of `nexts`, and drop the dead ones.

    Returns:
        The state, 0 if no character is alive, or `SEVERAL` if they lead to different states; and the greatest limit of
        these states.
    """
    target, room = 0, 0
    for part in range(CONTROLS.shape[0] if settings[NAMED] else 1 + _VALUES.shape[0]):
        first, last = _span(settings, part, low, high, high_surrogate)
        i = _interval(bounds, first) if first <= last else bounds.size
        while i < bounds.size and bounds[i] <= last:
            reached = nexts[q, classes[i]]
            if reached > 0:
                room = max(room, limits[reached])
                target = reached if target == 0 or target == reached else SEVERAL
            i += 1
    return target, room


@inner_kernel
def _row(machine: Machine, state: int, start: int, count: int, high: int) -> None:
    """Write the row of a stub, whose edges are `count` from `start` on. Columns A and B keep what was read."""
    states = machine.states
    q, mark = states[state, A], states[state, B]
    write_row(machine, state, RANGES, start, count, NOTHING, q, mark, high)


@inner_kernel
def _stub(machine: Machine, settings: Int64, q: int, room: int, mark: int, state: int) -> int:
    """Write a stub in the middle of an escape that is read in state `q` of the DFA; return the edge to it.

    Args:
        room: the greatest limit of the states to which its characters lead.
    """
    high = room if settings[INC_FLAG] else UNBOUNDED
    write_row(machine, state, STUB, 0, 0, NOTHING, q, mark, high)
    leads: int = state | settings[ROOM_FLAG]
    return leads


@inner_kernel
def _digits(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], bounds: Int32, classes: Int32,
    q: int, low: int, left: int, high_surrogate: int, n_states: int,
) -> tuple[int, int]:  # fmt: skip
    """The edge to the state in which the last `left` digits of an escape are missing, and the new count of states.

    The digits read so far, with zeros for the others, spell the unit `low`. The edge is 0 if no character that begins
    with such a unit is alive. After the last digit, the edge leads to the state after the character; after a high
    surrogate, it leads to the state in front of the second escape.
    """
    limits, high = per_state[LIMITS], low + (1 << 4 * left) - 1
    target, room = _led(settings, nexts, limits, bounds, classes, q, low, high, high_surrogate)
    if target == 0:
        return 0, n_states
    mark = _marked(low, left, high_surrogate)
    if left == 0:
        if high_surrogate or low < 0xD800 or low > 0xDBFF:  # the character is complete
            return edge_to(settings, target), n_states
        mark = _marked(low, PAIR, 0)
    return _stub(machine, settings, q, room, mark, n_states), n_states + 1


@inner_kernel
def _append(machine: Machine, start: int, n_edges: int, byte: int, leads: int) -> int:
    """Write the edge of a byte, after the edges `start..n_edges - 1` of the same state; return the new count of edges.

    If the last of these edges ends right before the byte and has the same target, it is extended instead.
    """
    edges, last = machine.edges, n_edges - 1
    if n_edges > start and edges[last, LEADS] == leads and edges[last, SPAN] >> 8 == byte - 1:
        edges[last, SPAN] = edges[last, SPAN] & 255 | byte << 8
        return n_edges
    write_edge(machine, n_edges, byte, leads)
    return n_edges + 1


@kernel
def write_digits(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], bounds: Int32, classes: Int32,
    state: int, n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write a state between the digits of an escape, or between the two escapes of a pair.

    The plain loop: for each of the 16 digits, an edge to the state after it (see `_digits`), and the same edge for the
    capital letter, if it is not in a name. Between two escapes: an edge for the backslash, to a state that takes the
    `u`, which leads to the state with four digits missing.

    Args:
        settings, per_state: see `char_kernels.FIRST` and `char_kernels.ENDS`.
        state: a stub that `_digits` has made.
        n_states, n_edges: the first free rows.

    Returns:
        The new counts of states and edges.
    """
    states, edges = machine.states, machine.edges
    q, mark, high = states[state, A], states[state, B], states[state, HI]
    low, left, before = mark & 0xFFFF, mark >> 16 & 7, mark >> 19
    if left == PAIR:  # between the two escapes of a pair: `low` is the high surrogate
        target, n_states = _digits(machine, settings, nexts, per_state, bounds, classes, q, 0, DIGITS, low, n_states)
        write_edge(machine, n_edges, 0x75, target)
        write_plain_row(machine, n_states, n_edges, 1, UNBOUNDED)
        write_edge(machine, n_edges + 1, 0x5C, n_states)
        _row(machine, state, n_edges + 1, 1, high)
        return n_states + 1, n_edges + 2
    high_surrogate = before - 1 + 0xD800 if before else 0
    # `start` and `letters` are the first edges for the digits 0 to 9 and for the letters. `step` is the number of code
    # units with the same next digit.
    start, letters, step = n_edges, n_edges, 1 << 4 * (left - 1)
    for value in range(16):
        if value == 10:
            letters = n_edges
        target, n_states = _digits(
            machine,
            settings,
            nexts,
            per_state,
            bounds,
            classes,
            q,
            low + value * step,
            left - 1,
            high_surrogate,
            n_states,
        )
        if target:
            byte = 0x30 + value if value < 10 else 0x61 + value - 10
            n_edges = _append(machine, letters if value >= 10 else start, n_edges, byte, target)
    for row in range(letters, letters if settings[NAMED] else n_edges):  # capitals: 0x20 less for both ends of a span
        edges[n_edges, SPAN], edges[n_edges, LEADS] = edges[row, SPAN] - 0x2020, edges[row, LEADS]
        n_edges += 1
    _row(machine, state, start, n_edges - start, high)
    return n_states, n_edges


@kernel
def write_escape(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], bounds: Int32, classes: Int32,
    state: int, n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the state after a backslash. Arguments and result are those of `write_digits`.

    The plain loop: an edge for the letter of each short escape whose character is alive, and one for the `u` if four
    digits can spell an alive character. In a name, each character has one spelling, so `u` is for `CONTROLS` only.
    """
    q = state - settings[ESCAPES_FROM] + 1
    digits, n_states = _digits(machine, settings, nexts, per_state, bounds, classes, q, 0, DIGITS, 0, n_states)
    start = n_edges
    for i in range(_SHORT.shape[0]):
        target = nexts[q, classes[_interval(bounds, _SHORT[i, 1])]]
        if target > 0 and not (settings[NAMED] and _SHORT[i, 0] == _SLASH):
            n_edges = _append(machine, start, n_edges, _SHORT[i, 0], edge_to(settings, target))
    if digits:
        n_edges = _append(machine, start, n_edges, 0x75, digits)
    high = machine.states[state, HI] if settings[INC_FLAG] else UNBOUNDED
    _row(machine, state, start, n_edges - start, high)
    return n_states, n_edges
