"""Kernels that lift a `CharDfa` to bytes: see `chars`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import write_edge, write_plain_row, write_row, write_span
from structgen.automaton.table_format import (
    CHARS, COUNT, HI, KIND, LEADS, NOTHING, POP, RANGES, SPAN, START, STUB, TARGET, Int32, Int64, Machine,
)  # fmt: skip
from structgen.kernels import Rows, inner_kernel, kernel

ALSO, UNEVEN = 1, 2
"""Why `lift_rows` leaves a row unfinished, as bits. ALSO: its caller has more edges for it. UNEVEN: characters beyond
ASCII lead to different states."""
SEVERAL = -1
"""Stands in place of a state: different characters lead to different states."""
COMPLETE = -1
"""Stands in place of the following state in `UTF8_STATES`: the character is complete."""
UTF8_STATES: Int32 = np.array(
    [(0x80, 0xBF, COMPLETE), (0x80, 0xBF, 0), (0x80, 0xBF, 1), (0xA0, 0xBF, 0), (0x80, 0x9F, 0), (0x90, 0xBF, 1),
     (0x80, 0x8F, 1)],
    np.int32,
)  # fmt: skip
"""The seven states in the middle of a character beyond ASCII, each as `(first byte, last byte, following state)`. State
0 takes the last byte, state 1 the last but one, state 2 the second of four; states 3 to 6 take a second byte that has
narrower bounds, so that no character is spelled too long, none is a surrogate, and none is above U+10FFFF."""
UTF8_LEADS: Int32 = np.array(
    [(0xC2, 0xDF, 0), (0xE1, 0xEC, 1), (0xEE, 0xEF, 1), (0xE0, 0xE0, 3), (0xED, 0xED, 4), (0xF1, 0xF3, 2),
     (0xF0, 0xF0, 5), (0xF4, 0xF4, 6)],
    np.int32,
)  # fmt: skip
"""The lead bytes of such a character, the commonest first: `(first byte, last byte, state of the seven)`."""


def wide_classes(bounds: Int32, classes: Int32) -> Int32:
    """The classes of the intervals that reach beyond ASCII and are not made of surrogates alone."""
    first = int(bounds.searchsorted(0x80, side="right")) - 1
    firsts, kinds = bounds[first:].tolist(), classes[first:].tolist()
    wide = {c for a, b, c in zip(firsts, [*firsts[1:], 0x110000], kinds, strict=True) if a < 0xD800 or b > 0xE000}
    return np.array(sorted(wide), np.int32)


ROWS = 3
ENDS, LIMITS, CONTINUED = range(ROWS)
"""Rows of `per_state`, int32[3, states]: what is known of each state of a DFA that is being lifted.

ENDS: what follows the end of the text. Inside quotes: the state after the closing quote. Else: the outcome to pop
with, plus 1. 0 for states that do not accept. LIMITS: HI of the state. Where characters are counted: the largest number
of characters in front of the state; else UNBOUNDED. CONTINUED: the first of the seven states (`_write_middle`) in the
middle of characters that lead to this state; 0 while they are not written.
"""
FIRST, ESCAPES, BLOCK, INC_FLAG, ROOM_FLAG, QUOTED, NAMED = range(7)
"""Places in `settings`, int64[7]: what is known of a DFA that is being lifted.

FIRST: the automaton's state for state 1 of the DFA; state `q` becomes FIRST + q - 1. ESCAPES: inside quotes, the
automaton's state after a backslash in state 1. BLOCK: the number of the DFA's block. INC_FLAG: the flag of the last
byte of a character: INC where characters are counted, else 0. ROOM_FLAG: the flag of an edge into the middle of a
character: ROOM where characters are counted, else 0. QUOTED: 1 inside quotes. NAMED: 1 if the quoted text is a name.
"""


@inner_kernel
def edge_to(settings: Int64, target: int) -> int:
    """The edge for the last byte of a character that leads to state `target` of the DFA."""
    leads: int = settings[FIRST] + target - 1 | settings[INC_FLAG]
    return leads


@inner_kernel
def _write_middle(
    machine: Machine, settings: Int64, per_state: Rows[Int32], target: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Write the seven states in the middle of the characters that lead to `target`, if they are not written yet. Return
    the new counts of states and edges."""
    if per_state[CONTINUED, target] != 0:
        return n_states, n_edges
    first, limit, behind = n_states, per_state[LIMITS, target], edge_to(settings, target)
    per_state[CONTINUED, target] = first
    for i in range(UTF8_STATES.shape[0]):
        follows = UTF8_STATES[i, 2]
        leads = behind if follows == COMPLETE else first + follows
        write_span(machine, n_edges, UTF8_STATES[i, 0], UTF8_STATES[i, 1], leads)
        write_plain_row(machine, first + i, n_edges, 1, limit)
        n_edges += 1
    return first + 7, n_edges


@inner_kernel
def _middle_edge(settings: Int64, per_state: Rows[Int32], target: int) -> int:
    """The edge for the lead byte of a character that leads to `target`, to the first of the seven states that
    `_write_middle` has written. Adding `k` to it gives the edge to state `k` of the seven."""
    leads: int = per_state[CONTINUED, target] | settings[ROOM_FLAG]
    return leads


@inner_kernel
def _shared_wide(nexts: Rows[Int32], wides: Int32, q: int) -> int:
    """The DFA state to which all characters beyond ASCII lead from `q` (0: dead); `SEVERAL` if they lead to different
    states."""
    target: int = nexts[q, wides[0]]
    for i in range(1, wides.size):
        if nexts[q, wides[i]] != target:
            return SEVERAL
    return target


@inner_kernel
def _ascii_edges(
    machine: Machine, settings: Int64, nexts: Rows[Int32], spans: Rows[Int32], q: int, n_edges: int
) -> int:
    """Write the edges of `q` for ASCII characters; return the new count of edges.

    Spans that touch and have the same target get one edge."""
    edges, start = machine.edges, n_edges
    for i in range(spans.shape[0] - 1, -1, -1):  # edges are searched in order: lower case before everything else
        target = nexts[q, spans[i, 2]]
        if target > 0:
            leads, first, last = edge_to(settings, target), spans[i, 0], spans[i, 1]
            # Spans come from high to low: this one may end right before the edge that was written last.
            before = n_edges - 1
            if n_edges > start and edges[before, LEADS] == leads and edges[before, SPAN] & 255 == last + 1:
                n_edges, last = before, edges[before, SPAN] >> 8
            write_span(machine, n_edges, first, last, leads)
            n_edges += 1
    return n_edges


@inner_kernel
def _quote_edges(
    machine: Machine, settings: Int64, nexts: Rows[Int32], escaped: Int32, end: int, q: int, n_edges: int
) -> int:
    """Write the edges of `q` for the closing quote, which leads to `end`, and for the backslash; return the new count
    of edges.

    There is no edge for the quote if `end` is 0, and none for the backslash if no escape spells an alive character."""
    if end:
        write_edge(machine, n_edges, 0x22, end)
        n_edges += 1
    alive = 0
    for i in range(escaped.size):
        alive |= nexts[q, escaped[i]]
    if alive:
        write_edge(machine, n_edges, 0x5C, settings[ESCAPES] + q - 1 | settings[ROOM_FLAG])
        n_edges += 1
    return n_edges


@inner_kernel
def _lead_edges(machine: Machine, continued: int, n_edges: int) -> int:
    """Write the edges for the lead bytes of characters beyond ASCII; return the new count of edges.

    Args:
        continued: the edge to the first of the seven states, with its flags (see `_middle_edge`).
    """
    for i in range(UTF8_LEADS.shape[0]):
        first, last, follows = UTF8_LEADS[i, 0], UTF8_LEADS[i, 1], UTF8_LEADS[i, 2]
        write_span(machine, n_edges, first, last, continued + follows)
        n_edges += 1
    return n_edges


@kernel
def lift_rows(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], spans: Rows[Int32], wides: Int32,
    escaped: Int32, low: int, owed: npt.NDArray[np.uint8], n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of the DFA states `low` to `low + owed.size - 1`. Rows that are written already are skipped.

    The plain loop: for each state, one edge for each character alive there (its UTF-8 bytes, of which all but the first
    lead through shared states), and inside quotes one for the closing quote and one for the backslash.

    Args:
        settings, per_state: see `FIRST` and `ENDS`.
        nexts: int32[states, classes], the DFA's table; state 0 is dead.
        spans, wides, escaped: see `DfaOutline`.
        owed: uint8, for each of these states. In: `ALSO` if the caller has more edges for it. Out: `UNEVEN` is added if
            its characters beyond ASCII lead to different states; 0 if its row was written before. A state with bits
            left stays a stub until the caller has written its last edges.
        n_states, n_edges: the first free rows.

    Returns:
        The new counts of states and edges.
    """
    states, ends, limits = machine.states, per_state[ENDS], per_state[LIMITS]
    for i in range(owed.size):
        q = low + i
        state = settings[FIRST] + q - 1
        if states[state, KIND] != STUB:  # written by an earlier call for this chunk
            owed[i] = 0
            continue
        wide = _shared_wide(nexts, wides, q)
        if wide == SEVERAL:
            owed[i] |= UNEVEN
        # The seven states come before the first edge of q, so that the edges of q are together.
        if wide > 0:
            n_states, n_edges = _write_middle(machine, settings, per_state, wide, n_states, n_edges)
        # The edges of q: those of ASCII come first, since they are searched in order.
        start = n_edges
        n_edges = _ascii_edges(machine, settings, nexts, spans, q, n_edges)
        if settings[QUOTED]:
            n_edges = _quote_edges(machine, settings, nexts, escaped, ends[q], q, n_edges)
        if wide > 0:
            n_edges = _lead_edges(machine, _middle_edge(settings, per_state, wide), n_edges)
        # The row itself. Plain text has no closing quote: a state that accepts leaves the frame with any other byte.
        leaves = settings[QUOTED] == 0 and ends[q] > 0
        kind = STUB if owed[i] else RANGES | CHARS << 4 | settings[BLOCK] << 8
        action, outcome = POP if leaves else NOTHING, ends[q] - 1 if leaves else 0
        write_row(machine, state, kind, start, n_edges - start, action, outcome, 0, limits[q])
    return n_states, n_edges


@inner_kernel
def _wide_edges(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], spelling: Rows[Int32],
    nodes: Int32, low: int, high: int, q: int, n_edges: int,
) -> int:  # fmt: skip
    """Write the edges of `q` for the spans `low..high - 1` of a spelling; return the new count of edges.

    Args:
        spelling: see `DfaOutline.spelling`.
        nodes: for each node, the edge to its state; 0 if nothing is alive below it.
    """
    for i in range(low, high):
        left, below = spelling[i, 2], spelling[i, 3]
        if left < 0:  # the next byte is read at a node
            leads = nodes[below]
        else:  # `left` more bytes of any value follow, to a character of class `below`
            target = nexts[q, below]
            leads = edge_to(settings, target) if target else 0
            if target and left:  # states 0, 1 and 2 of the seven take 1, 2 and 3 more bytes
                leads = _middle_edge(settings, per_state, target) + left - 1
        if leads:
            write_span(machine, n_edges, spelling[i, 0], spelling[i, 1], leads)
            n_edges += 1
    return n_edges


@kernel
def write_wide(
    machine: Machine, settings: Int64, nexts: Rows[Int32], per_state: Rows[Int32], spelling: Rows[Int32],
    ends: Int32, nodes: Int32, q: int, also: int, n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Complete the row of `q` where characters beyond ASCII lead to different states. `lift_rows` has written its other
    edges.

    The plain loop: for each node of the spelling with an alive character, a state with an edge for each of its spans;
    for the last node, the lead bytes, edges of `q` itself.

    Args:
        spelling, ends: see `DfaOutline.spelling`.
        nodes: scratch, as long as `ends`: for each node, the edge to its state; 0 if nothing is alive there.
        also: 1 if the caller has more edges: the state stays a stub.

    Returns:
        The new counts of states and edges.
    """
    states, edges, state = machine.states, machine.edges, settings[FIRST] + q - 1
    # Spans after which more bytes of any value follow lead through the seven states of their target.
    for i in range(spelling.shape[0]):
        target = nexts[q, spelling[i, 3]] if spelling[i, 2] > 0 else 0
        if target:
            n_states, n_edges = _write_middle(machine, settings, per_state, target, n_states, n_edges)
    # A state for each node but the root. Nodes come before those that lead to them.
    low = 0
    for node in range(ends.size - 1):
        start, high = n_edges, ends[node]
        n_edges = _wide_edges(machine, settings, nexts, per_state, spelling, nodes, low, high, q, n_edges)
        low, nodes[node] = high, 0
        if n_edges > start:
            limit = 0  # HI of the node: the greatest limit after it
            for row in range(start, n_edges):
                limit = max(limit, states[edges[row, LEADS] & TARGET, HI])
            write_plain_row(machine, n_states, start, n_edges - start, limit)
            nodes[node] = n_states | settings[ROOM_FLAG]
            n_states += 1
    # The edges of a state are together: those of q that are written already move here, and those of the root follow.
    start = n_edges
    for row in range(states[state, START], states[state, START] + states[state, COUNT]):
        edges[n_edges, SPAN], edges[n_edges, LEADS] = edges[row, SPAN], edges[row, LEADS]
        n_edges += 1
    n_edges = _wide_edges(machine, settings, nexts, per_state, spelling, nodes, low, ends[-1], q, n_edges)
    states[state, START], states[state, COUNT] = start, n_edges - start
    states[state, KIND] = STUB if also else RANGES | CHARS << 4 | settings[BLOCK] << 8
    return n_states, n_edges
