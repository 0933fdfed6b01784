"""Parts of a walk through the trie that need no step of the automaton.

The bytes that a position takes are noted for the last positions, and only the children of a node with such a byte are
visited. In a state that most bytes leave unchanged, the subtrees below these bytes are visited without a step.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import edges_at, int64, miss, refuses_rest, registers_at, states_at
from structgen.automaton.table_format import (
    COUNT, FRAME_SHIFT, HI, INC, KIND, MISS, NOTES, R_COVERED, R_LOOP, R_NOTES, R_STAYS, START, STUB, TEST,
)  # fmt: skip
from structgen.kernels import inner_kernel
from structgen.kernels.views import LENGTH, table, view_uint8, view_uint16
from structgen.masks.bits import allow, nodes_at, put
from structgen.masks.slices import ANY_LENGTH
from structgen.masks.slices import V_COVER, V_KID_STARTS, V_KIDS, V_N_NODES, V_RUNS
from structgen.masks.string_slices import HEAD, SKIP, TOKEN

LARGE, SEVERAL = 16, 3
"""The fewest nodes of a subtree where it is worth looking up which bytes are taken, and which ones lead to the same
state."""
NO_NODE, NO_LOOP, NOT_KNOWN = -1, -1, -1
"""In place of a node, of an edge from a state to itself, and of the place of a note: there is none."""
PRIME = 40503

_kids = table(types.int32, 0, V_KIDS)
_kid_starts = table(types.int32, 0, V_KID_STARTS)
_notes = table(types.int64, 5, R_NOTES)


@inner_kernel
def _note_taken(base: int, s: int, f: int) -> int:
    """Note the bytes that a position takes; the place of the note, or `NOT_KNOWN`.

    A byte that no edge of the state takes is looked up where its miss leads, and so on: a callee, a state below.
    """
    notes, states, edges = _notes(base), states_at(base), edges_at(base)
    place, key, c = (s * PRIME ^ f) & (NOTES - 1), s | f << FRAME_SHIFT, int64(0)
    if notes[place, 0] == key:
        return place
    for word in range(4):
        notes[place, 1 + word] = 0
    notes[place, 0] = 0
    while s > 0:
        if states[s, KIND] == STUB or states[s, MISS] == TEST:
            return NOT_KNOWN
        for e in range(states[s, START], states[s, START] + states[s, COUNT]):
            for byte in range(edges[e, 0] & 255, (edges[e, 0] >> 8) + 1):
                notes[place, 1 + (byte >> 6)] |= int64(1) << (byte & 63)
        s, f, c = miss(base, s, f, c)
    if s < 0:
        return NOT_KNOWN
    notes[place, 0] = key
    return place


@inner_kernel
def tells_bytes(base: int, s: int, f: int, node: int) -> bool:
    """Is it known which bytes the position after a node takes, and are there so many nodes below that it matters?"""
    return nodes_at(base)[node, SKIP] - node >= LARGE and _note_taken(base, s, f) != NOT_KNOWN


@inner_kernel
def next_taken(base: int, s: int, f: int, byte: int) -> int:
    """The first byte from `byte` on that a position may take, if that is known (see `tells_bytes`); 256 for none."""
    notes, place = _notes(base), _note_taken(base, s, f)
    while place != NOT_KNOWN and byte < 256:
        left = notes[place, 1 + (byte >> 6)] >> (byte & 63)
        if left & 1:
            break
        byte = byte + 1 if left != 0 else (byte | 63) + 1
    return byte


@inner_kernel
def child_from(base: int, parent: int, byte: int) -> int:
    """The first child of `parent` from `byte` on; if there is none, the node after the subtree."""
    nodes, kids, starts = nodes_at(base), _kids(base), _kid_starts(base)
    low, high = int64(starts[parent]), int64(starts[parent + 1])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if nodes[kids[middle], HEAD] & 255 < byte:
            low = middle + 1
        else:
            high = middle
    return int64(kids[low]) if low < end else int64(nodes[parent, SKIP])


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
