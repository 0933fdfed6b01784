"""Masks inside a free JSON string: only the tokens that end the string are walked.

The result equals the plain loop of `walk`. The mask is filled in three phases; R_PHASE is the next one:

0. The mask starts as the row of tokens that stay inside the string and for which there is room.
1. The tokens that close the string are sorted by the bytes after their quote. The trie of these bytes is walked once.
   Each node that is reached allows its tokens, if the number of characters before their quote is allowed.
2. If the string must not begin with some literals, a walk along these literals corrects the bits (*overlay*).
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import (
    aux_of, edge, edges_at, int64, mode_of, refuses_rest, registers_at, settle, states_at, step,
)  # fmt: skip
from structgen.automaton.table_format import COUNT, HI, LO, OVERLAY, R_NODE, R_PHASE, START, TARGET, UNBOUNDED, A
from structgen.kernels.views import LENGTH, view, view_int32, view_uint32
from structgen.kernels import inner_kernel
from structgen.masks.nodes import (
    FLAG, above, allow, begin, byte_of, depth_of, entries_end, first_at, first_entry, forbid, nodes_at, put, stack_at,
    subtree_end, suffix_nodes, token_of,
)  # fmt: skip
from structgen.masks.slices import (
    F_ENTRIES, F_LEVELS, F_LONGEST, F_N_NODES, F_NODES, F_ROOT_ENTRIES, F_ROWS, FREE_REGISTERS, V_FREE, V_N_NODES,
)  # fmt: skip

BEYOND, INSIDE = 0, 1
"""Flags of the stack in `_overlay`."""

_suffix_entries = view(types.int32, 2)


@inner_kernel
def _free_row(base: int, out: int, inner: int, c: int) -> None:
    """Phase 0: start the mask with the tokens that stay inside the string."""
    states = states_at(base)
    free = V_FREE + aux_of(base, inner) * FREE_REGISTERS
    r = registers_at(base)
    levels = view_int32(r[free + F_LEVELS])
    room = r[free + F_LONGEST]
    if states[inner, HI] != UNBOUNDED and states[inner, HI] - c < room:
        room = states[inner, HI] - c
        room = 0 if room < 0 else room
    begin(base, out, r[free + F_ROWS], int64(levels[room]), int64(0))


@inner_kernel
def _allow_entries(out: int, where: int, low: int, high: int, least: int, limit: int) -> None:
    """Allow the tokens of the entries `low..high - 1` that have `least` to `limit` code points before their quote."""
    entries, mask = _suffix_entries(where), view_uint32(out)
    for e in range(low, high):
        token, points = entries[e, 0], entries[e, 1]
        if least <= points and points <= limit:
            mask[token >> 5] |= 1 << (token & 31)


@inner_kernel
def _free_ends(base: int, out: int, inner: int, f: int, c: int) -> int:
    """Phase 1: allow the tokens that close the free string."""
    states, r = states_at(base), registers_at(base)
    free = V_FREE + aux_of(base, inner) * FREE_REGISTERS
    nodes = suffix_nodes(r[free + F_NODES])
    entries = r[free + F_ENTRIES]
    least = states[inner, LO] - c
    limit = LENGTH if states[inner, HI] == UNBOUNDED else states[inner, HI] - c  # LENGTH: more than any token has
    # The quote's edge asks for LO characters. Step as if they had come: `least` is checked for each entry instead.
    enough = int64(states[inner, LO])
    s, g, k = step(base, inner, f, enough if c < enough else c, int64(0x22))
    if s <= 0:
        return s
    put(base, int64(0), s, g, k)
    _allow_entries(out, entries, int64(0), r[free + F_ROOT_ENTRIES], least, limit)
    i, n = r[R_NODE], r[free + F_N_NODES]
    while i < n:
        depth, byte = depth_of(nodes, i), byte_of(nodes, i)
        s, g, k = above(base, depth)
        if edge(base, s, byte) == 0 and refuses_rest(base, s):
            i = subtree_end(nodes, i)
            continue
        s, g, k = step(base, s, g, k, byte)
        if s < 0:
            r[R_NODE] = i
            return -1
        if s == 0:
            i = subtree_end(nodes, i)
            continue
        put(base, depth, s, g, k)
        _allow_entries(out, entries, first_entry(nodes, i), entries_end(nodes, i), least, limit)
        i += 1
    return 0


@inner_kernel
def _next_byte(base: int, s: int, byte: int) -> int:
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
def _overlay(base: int, out: int, s: int, f: int, c: int) -> int:
    """Phase 2: correct the mask along the literals that start at `s`. Returns 0; -1 if something is wanted.

    While the bytes so far begin a literal and the string is open, the stack's flag is `INSIDE`. There, a byte that
    leaves the literals leads to free text. Its bits are right already, so the subtree is skipped. After that, the flag
    is `BEYOND`, and every token is set or cleared.
    """
    nodes, stack, r, first = nodes_at(base), stack_at(base), registers_at(base), first_at(base)
    put(base, int64(0), s, f, c)
    stack[0, FLAG] = INSIDE
    i = r[R_NODE]
    while i < r[V_N_NODES]:
        depth, byte, flag = depth_of(nodes, i), byte_of(nodes, i), int64(BEYOND)
        s, f, c = above(base, depth)
        taken = _next_byte(base, s, byte) if depth == 1 else byte
        if taken != byte:
            i = int64(first[taken])
            continue
        if stack[depth - 1, FLAG] == INSIDE:
            t = edge(base, s, byte)
            if t == 0:
                i = subtree_end(nodes, i)
                continue
            s = 0
            if t > 0:
                flag = int64(INSIDE if mode_of(base, int64(t & TARGET)) == OVERLAY else BEYOND)
                s, f, c = settle(base, int64(t & TARGET), f, c)
        else:
            s, f, c = step(base, s, f, c, byte)
        if s < 0:
            r[R_NODE] = i
            return -1
        if s == 0:
            forbid(base, out, i, subtree_end(nodes, i))
            i = subtree_end(nodes, i)
            continue
        put(base, depth, s, f, c)
        stack[depth, FLAG] = flag
        allow(base, out, token_of(nodes, i))
        i += 1
    return 0


@inner_kernel
def fill_free(base: int, out: int, s: int, f: int, c: int) -> int:
    """Fill the mask in a free string, with or without literals that it must not begin with.

    Returns 0; -1 if something is wanted.
    """
    states, r = states_at(base), registers_at(base)
    overlay = mode_of(base, s) == OVERLAY
    inner = int64(states[s, A]) if overlay else s
    if r[R_PHASE] == 0:
        _free_row(base, out, inner, c)
        r[R_PHASE], r[R_NODE] = 1, 0
    if r[R_PHASE] == 1:
        if _free_ends(base, out, inner, f, c) < 0:
            return -1
        r[R_PHASE], r[R_NODE] = 2, 0
    return _overlay(base, out, s, f, c) if overlay else 0
