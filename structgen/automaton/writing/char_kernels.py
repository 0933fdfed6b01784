"""Kernels that lift a `CharDfa` to bytes: see `chars`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import edges_at, int64, states_at, write_edge, write_plain_row, write_row
from structgen.automaton.table_format import (
    CHARS, COUNT, HI, INC, KIND, NOTHING, POP, RANGES, ROOM, START, STUB, TARGET, UNBOUNDED,
    ZERO, Int32, Int64,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel

ALSO, UNEVEN = 1, 2
"""Why `lift_rows` leaves a row unfinished: its caller has more edges for it, or characters beyond ASCII lead to several
states."""
SEVERAL = -1
"""In place of the state to which characters beyond ASCII lead: they lead to several."""
COMPLETE = -1
"""In place of the state that follows: the character is complete."""
UTF8_STATES: Int32 = np.array(
    [(0x80, 0xBF, COMPLETE), (0x80, 0xBF, 0), (0x80, 0xBF, 1), (0xA0, 0xBF, 0), (0x80, 0x9F, 0), (0x90, 0xBF, 1),
     (0x80, 0x8F, 1)],
    np.int32,
)  # fmt: skip
"""The seven states between the lead byte of a character beyond ASCII and its end: the first and the last byte that each
takes, and the state that follows."""
UTF8_LEADS: Int32 = np.array(
    [(0xC2, 0xDF, 0), (0xE1, 0xEC, 1), (0xEE, 0xEF, 1), (0xE0, 0xE0, 3), (0xED, 0xED, 4), (0xF1, 0xF3, 2),
     (0xF0, 0xF0, 5), (0xF4, 0xF4, 6)],
    np.int32,
)  # fmt: skip
"""The lead bytes, and which of the seven states each leads to; the commonest first."""


def wide_classes(bounds: Int32, classes: Int32) -> Int32:
    """The classes of the intervals that reach beyond ASCII and are not made of surrogates alone."""
    first = int(bounds.searchsorted(0x80, side="right")) - 1
    firsts, kinds = bounds[first:].tolist(), classes[first:].tolist()
    wide = {c for a, b, c in zip(firsts, [*firsts[1:], 0x110000], kinds, strict=True) if a < 0xD800 or b > 0xE000}
    return np.array(sorted(wide), np.int32)


@inner_kernel
def write_utf8(base: int, first: int, target: int, limit: int, n: int) -> int:
    """Write the seven states between the bytes of any character beyond ASCII, which leads to `target`.

    Returns:
        The new count of edges.
    """
    edges = edges_at(base)
    for i in range(UTF8_STATES.shape[0]):
        follows = int64(UTF8_STATES[i, 2])
        to = target if follows == COMPLETE else first + follows
        edges[n, 0], edges[n, 1] = UTF8_STATES[i, 0] | UTF8_STATES[i, 1] << 8, to
        write_plain_row(base, first + i, n, int64(1), limit)
        n += 1
    return n


ROWS = 4
ENDS, LIMITS, CONTINUED, COUNTING = range(ROWS)
"""Rows of `per_state`, int32[7, states], of a DFA on its way to bytes; for the others see `char_escapes`.

ENDS: where an accepting state leads: inside quotes the state behind the closing quote, else the outcome to pop with,
plus 1; 0 for states that do not accept. LIMITS: HI of each state: where characters are counted, how many there may be
before it; else, of a run (see `counted_runs`), how often it leads to itself. CONTINUED: the first of the seven states
(`write_utf8`) in the middle of characters that lead to a state; 0 where they are not written yet. COUNTING: the same of
characters that lead from a run to itself.
"""
FIRST, ESCAPES, BLOCK, INC_FLAG, ROOM_FLAG, QUOTED, NAMED = range(7)
"""Places in `settings`, int64[7], of a DFA on its way to bytes.

FIRST: the automaton's state for state 1 of the DFA. ESCAPES: inside quotes, the automaton's state behind a backslash in
state 1. BLOCK: the number of the DFA's block. INC_FLAG, ROOM_FLAG: the flags of edges that end and that begin a
character: INC and ROOM where characters are counted, else 0. QUOTED: 1 where the text stands inside quotes. NAMED: 1
where it is a name there.
"""


@inner_kernel
def in_run(settings: Int64, limits: Int32, q: int) -> bool:
    """Is a state a run, where only runs count?"""
    runs: bool = settings[INC_FLAG] == 0 and limits[q] != UNBOUNDED
    return runs


@inner_kernel
def edge_between(settings: Int64, limits: Int32, q: int, target: int) -> int:
    """The edge to `target` behind the last byte of a character that stands behind `q`."""
    flag = settings[INC_FLAG]
    if in_run(settings, limits, q):
        flag = int64(INC) if target == q else int64(ZERO)
    edge: int = settings[FIRST] + target - 1 | flag
    return edge


@inner_kernel
def _write_middle(
    base: int, settings: Int64, per_state: Int32, q: int, target: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Have the seven states in the middle of the characters that lead from `q` to `target`; the new counts."""
    limits = per_state[LIMITS]
    counting = target == q and in_run(settings, limits, q)
    middle = per_state[COUNTING if counting else CONTINUED]
    if middle[target] == 0:
        middle[target] = n_states
        last = settings[FIRST] + target - 1 | (int64(INC) if counting else settings[INC_FLAG])
        n_edges = write_utf8(base, n_states, last, int64(limits[target]), n_edges)
        n_states += 7
    return n_states, n_edges


@inner_kernel
def _middle_edge(settings: Int64, per_state: Int32, q: int, target: int) -> int:
    """The edge to the first of those seven states. A run that is left counts no more from there on."""
    edge: int = per_state[CONTINUED, target] | settings[ROOM_FLAG]
    if in_run(settings, per_state[LIMITS], q):
        edge = per_state[COUNTING, target] | ROOM if target == q else per_state[CONTINUED, target] | ZERO
    return edge


@inner_kernel
def _shared_wide(nexts: Int32, wides: Int32, q: int) -> int:
    """The DFA state to which all characters beyond ASCII lead from `q`; `SEVERAL` where they lead to different ones."""
    target: int = int64(nexts[q, wides[0]])
    for i in range(1, wides.size):
        if nexts[q, wides[i]] != target:
            return SEVERAL
    return target


@inner_kernel
def _ascii_edges(base: int, settings: Int64, nexts: Int32, limits: Int32, spans: Int32, q: int, n: int) -> int:
    """Write the edges of `q` for ASCII characters, neighbours with the same target as one; the new count of edges.

    Where not all characters are counted, only a state with a limit counts those that lead to itself."""
    edges, start = edges_at(base), n
    for i in range(spans.shape[0] - 1, -1, -1):  # edges are searched in order: lower case before all else
        t = nexts[q, spans[i, 2]]
        if t > 0:
            target = edge_between(settings, limits, q, int64(t))
            low, high = spans[i, 0], spans[i, 1]
            # Spans come from high to low: this one may end right before the edge that was written last.
            if n > start and edges[n - 1, 1] == target and edges[n - 1, 0] & 255 == high + 1:
                n -= 1
                high = edges[n, 0] >> 8
            edges[n, 0], edges[n, 1] = low | high << 8, target
            n += 1
    return n


@inner_kernel
def _quote_edges(
    base: int, settings: Int64, nexts: Int32, limits: Int32, escaped: Int32, end: int, q: int, n: int
) -> int:
    """Write the edges of `q` for the closing quote, to `end` (0: none), and for the backslash of an escape; the new
    count of edges."""
    room = settings[ROOM_FLAG]
    if in_run(settings, limits, q):
        room, end = int64(ROOM), (end | ZERO if end else 0)
    if end:
        write_edge(base, n, int64(0x22), end)
        n += 1
    alive = 0
    for i in range(escaped.size):
        alive |= nexts[q, escaped[i]]
    if alive:
        write_edge(base, n, int64(0x5C), settings[ESCAPES] + q - 1 | room)
        n += 1
    return n


@inner_kernel
def _lead_edges(base: int, continued: int, n: int) -> int:
    """Write the edges for the lead bytes of characters beyond ASCII to the seven states from `continued` on (which may
    carry a flag); the new count of edges."""
    edges = edges_at(base)
    for i in range(UTF8_LEADS.shape[0]):
        edges[n, 0], edges[n, 1] = UTF8_LEADS[i, 0] | UTF8_LEADS[i, 1] << 8, continued + UTF8_LEADS[i, 2]
        n += 1
    return n


@kernel
def lift_rows(
    base: int, settings: Int64, nexts: Int32, per_state: Int32, spans: Int32, wides: Int32, escaped: Int32,
    low: int, owed: npt.NDArray[np.uint8], n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of the DFA states from `low` on that are stubs, as many as `owed` has.

    The plain loop: for each state, one edge for each character alive there (its UTF-8, of which the last bytes are
    shared), and inside quotes one for the closing quote and one for the backslash.

    Args:
        settings, per_state: see their places and rows.
        nexts: int32[states, classes], the DFA's table; state 0 is dead.
        spans, wides: `ascii_spans` and `wide_classes`.
        escaped: the classes of which a character may stand behind a backslash.
        owed: In: `ALSO` for states of which the caller has more edges. Out: `UNEVEN` added for those whose characters
            beyond ASCII lead to several states; 0 for those that were written before. States that are owed something
            stay stubs until the caller has written their last edges.
        n_states, n_edges: the first free rows.

    Returns:
        The new counts of states and edges.
    """
    states, ends, limits = states_at(base), per_state[ENDS], per_state[LIMITS]
    for i in range(owed.size):
        q = low + i
        s = settings[FIRST] + q - 1
        if states[s, KIND] != STUB:  # an exception has stopped this chunk before
            owed[i] = 0
            continue
        wide = _shared_wide(nexts, wides, q)
        if wide == SEVERAL:
            owed[i] |= UNEVEN
        # The seven states come before the first edge of q, so that the edges of q stand together.
        if wide > 0:
            n_states, n_edges = _write_middle(base, settings, per_state, int64(q), wide, n_states, n_edges)
        start = n_edges
        n_edges = _ascii_edges(base, settings, nexts, limits, spans, q, n_edges)
        if settings[QUOTED]:
            n_edges = _quote_edges(base, settings, nexts, limits, escaped, int64(ends[q]), q, n_edges)
        if wide > 0:
            n_edges = _lead_edges(base, _middle_edge(settings, per_state, int64(q), wide), n_edges)
        leaves = settings[QUOTED] == 0 and ends[q] > 0
        kind = int64(STUB) if owed[i] else RANGES | CHARS << 4 | settings[BLOCK] << 8
        action, outcome = (int64(POP), int64(ends[q]) - 1) if leaves else (int64(NOTHING), int64(0))
        write_row(base, s, kind, start, n_edges - start, action, outcome, int64(0), int64(limits[q]))
    return n_states, n_edges


@inner_kernel
def _wide_edges(
    base: int, settings: Int64, nexts: Int32, per_state: Int32, spelling: Int32, nodes: Int32, low: int, high: int,
    q: int, n: int,
) -> int:  # fmt: skip
    """Write the edges of the spans `low..high - 1` of a spelling for `q`, given the edges to the nodes below; the new
    count of edges."""
    edges, limits = edges_at(base), per_state[LIMITS]
    for i in range(low, high):
        left, below = int64(spelling[i, 2]), int64(spelling[i, 3])
        if left < 0:
            target = int64(nodes[below])
        else:
            t = int64(nexts[q, below])
            target = edge_between(settings, limits, q, t) if t else int64(0)
            if t and left:
                target = _middle_edge(settings, per_state, q, t) + left - 1
        if target:
            edges[n, 0], edges[n, 1] = spelling[i, 0] | spelling[i, 1] << 8, target
            n += 1
    return n


@kernel
def write_wide(
    base: int, settings: Int64, nexts: Int32, per_state: Int32, spelling: Int32, ends: Int32, nodes: Int32, q: int,
    also: int, n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Complete the row of `q`, of which `lift_rows` has written the other edges, with those for characters beyond
    ASCII, which lead to several states; the new counts.

    Args:
        spelling, ends: see `DfaOutline.spelling`.
        nodes: scratch, as long as `ends`.
        also: 1 where the caller has more edges: the state stays a stub.
    """
    states, edges, s = states_at(base), edges_at(base), settings[FIRST] + q - 1
    room = int64(ROOM) if in_run(settings, per_state[LIMITS], q) else settings[ROOM_FLAG]
    for i in range(spelling.shape[0]):
        t = int64(nexts[q, spelling[i, 3]]) if spelling[i, 2] > 0 else int64(0)
        if t:
            n_states, n_edges = _write_middle(base, settings, per_state, q, t, n_states, n_edges)
    start = int64(0)
    for node in range(ends.size - 1):
        first = n_edges
        n_edges = _wide_edges(base, settings, nexts, per_state, spelling, nodes, start, int64(ends[node]), q, n_edges)
        start, nodes[node] = int64(ends[node]), 0
        if n_edges > first:
            limit = int64(0)
            for e in range(first, n_edges):
                behind = int64(states[edges[e, 1] & TARGET, HI])
                limit = max(limit, int64(UNBOUNDED) if edges[e, 1] & ZERO else behind)
            write_plain_row(base, n_states, first, n_edges - first, limit)
            nodes[node] = n_states | room
            n_states += 1
    first = n_edges
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        edges[n_edges, 0], edges[n_edges, 1] = edges[e, 0], edges[e, 1]
        n_edges += 1
    n_edges = _wide_edges(base, settings, nexts, per_state, spelling, nodes, start, int64(ends[-1]), q, n_edges)
    states[s, START], states[s, COUNT] = first, n_edges - first
    states[s, KIND] = STUB if also else RANGES | CHARS << 4 | settings[BLOCK] << 8
    return n_states, n_edges
