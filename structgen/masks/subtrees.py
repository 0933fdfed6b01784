"""Parts of a walk through the trie that need no step of the automaton.

In a state with few edges, only the children of a node that an edge takes are visited. In a state that most bytes leave
unchanged, the subtrees below these bytes are visited without a step.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import edges_at, int64, refuses_rest, registers_at, states_at
from structgen.automaton.table_format import (
    ACTION, COUNT, HI, INC, KIND, MISS, NOTHING, POP, R_COVERED, R_LOOP, R_STAYS, START, STUB, TEST, A,
)  # fmt: skip
from structgen.kernels import inner_kernel
from structgen.kernels.views import LENGTH, table, view_uint8, view_uint16
from structgen.masks.bits import allow, nodes_at, put
from structgen.masks.slices import ANY_LENGTH
from structgen.masks.slices import V_COVER, V_KID_STARTS, V_KIDS, V_N_NODES, V_RUNS
from structgen.masks.string_slices import HEAD, SKIP, TOKEN

NARROW = 2
"""The number of children that are tried in the time of looking up one edge."""
LARGE = 16
"""In a subtree with fewer nodes than this, all nodes are tried."""
NO_NODE, NO_LOOP = -1, -1
"""In place of a node, and of an edge from a state to itself: there is none."""

_kids = table(types.int32, 0, V_KIDS)
_kid_starts = table(types.int32, 0, V_KID_STARTS)


@inner_kernel
def is_narrow(base: int, s: int, node: int) -> bool:
    """Is it faster to look up the few edges of state `s` than to try all children of a node?"""
    nodes, states, starts = nodes_at(base), states_at(base), _kid_starts(base)
    if nodes[node, SKIP] - node < LARGE:
        return False
    left = (int64(starts[node + 1]) - int64(starts[node])) // NARROW
    while left > 0 and s > 0 and states[s, KIND] != STUB:
        left -= int64(states[s, COUNT])
        action = states[s, MISS] & ACTION
        if action in (NOTHING, POP) or states[s, MISS] == TEST:
            return left >= 0 and action == NOTHING
        s = int64(states[s, A])
    return False


@inner_kernel
def next_byte(base: int, s: int, byte: int) -> int:
    """The first byte from `byte` on that an edge of state `s` takes; 256 for none."""
    states, edges = states_at(base), edges_at(base)
    least = int64(256)
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        low, high = int64(edges[e, 0] & 255), int64(edges[e, 0] >> 8)
        if high >= byte:
            low = byte if low < byte else low
            least = low if low < least else least
    return least


@inner_kernel
def next_child(base: int, s: int, parent: int, byte: int) -> int:
    """The first child of `parent`, from `byte` on, that an edge takes; if there is none, the node after the subtree.

    The edge may be one of the narrow state `s`, or of a state that `s` calls or goes to on a miss.
    """
    nodes, states, kids, starts = nodes_at(base), states_at(base), _kids(base), _kid_starts(base)
    wanted = next_byte(base, s, byte)
    while states[s, MISS] & ACTION != NOTHING:
        s = int64(states[s, A])
        taken = next_byte(base, s, byte)
        wanted = taken if taken < wanted else wanted
    low, high = int64(starts[parent]), int64(starts[parent + 1])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if nodes[kids[middle], HEAD] & 255 < wanted:
            low = middle + 1
        else:
            high = middle
    return int64(kids[low]) if low < end else int64(nodes[parent, SKIP])


@inner_kernel
def _note_loop(base: int, s: int, loop: int) -> None:
    """Write the registers of `loop`, an edge from state `s` to itself: the edge (R_LOOP), its bytes (R_STAYS), and the
    bytes of all edges of `s` (R_COVERED)."""
    states, edges, r = states_at(base), edges_at(base), registers_at(base)
    for word in range(4):
        r[R_STAYS + word] = r[R_COVERED + word] = 0
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        for byte in range(edges[e, 0] & 255, (edges[e, 0] >> 8) + 1):
            word, bit = int64(byte >> 6), int64(1) << (byte & 63)
            if edges[e, 1] == loop and r[R_COVERED + word] & bit == 0:  # the first edge that has a byte takes it
                r[R_STAYS + word] |= bit
            r[R_COVERED + word] |= bit
    r[R_LOOP] = loop


@inner_kernel
def stay(base: int, out: int, node: int, s: int, f: int, c: int, loop: int, row: int, within: int) -> int:
    """Walk below `node` as long as `loop` takes each byte, or the byte is refused.

    Args:
        s, f, c: the position after `node`.
        loop: the edge (target and flags) from state `s` to itself. It may count.
        row, within: as in `walk._walk`.

    Returns:
        The first node that needs a step of the automaton; the stack is written for the nodes above it. Without such a
        node: the node after the subtree.
    """
    nodes, states, r = nodes_at(base), states_at(base), registers_at(base)
    cover = view_uint8(r[V_COVER] + row * r[V_N_NODES])
    runs = view_uint16(r[V_RUNS] + 2 * row * r[V_N_NODES])
    counted = int64(loop >= INC)
    i, end, depth = node + 1, int64(nodes[node, SKIP]), nodes[node, HEAD] >> 8
    deepest = depth + states[s, HI] - c if counted else LENGTH
    refuses_others = refuses_rest(base, s)
    if r[R_LOOP] != loop:
        _note_loop(base, s, loop)
    while i < end:
        covered = runs[i] if within == ANY_LENGTH else nodes[i, SKIP] - i if within > 0 and cover[i] <= within else 0
        if covered != 0:
            i += int64(covered)
            continue
        below, byte = nodes[i, HEAD] >> 8, int64(nodes[i, HEAD] & 255)
        word, shift = byte >> 6, byte & 63
        if r[R_STAYS + word] >> shift & 1 and below <= deepest:
            allow(base, out, int64(nodes[i, TOKEN]))
            i += 1
        elif r[R_STAYS + word] >> shift & 1 or (refuses_others and not r[R_COVERED + word] >> shift & 1):
            i = int64(nodes[i, SKIP])
        else:
            for d in range(depth, below):
                put(base, int64(d), s, f, c + (d - depth) * counted, int64(NO_NODE))
            return i
    return end
