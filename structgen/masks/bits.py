"""Kernels that set the bits of a mask, and that write the stack of a walk through the trie."""

from __future__ import annotations

from numba import types

from structgen.automaton.step import int64, registers_at
from structgen.kernels.views import table, view, view_uint32
from structgen.kernels import inner_kernel
from structgen.masks.slices import V_FIRST, V_NODES, V_STACK, V_TWIN, V_WORDS
from structgen.masks.string_slices import HAS_TWIN, TOKEN

nodes_at = table(types.int32, 3, V_NODES)
stack_at = table(types.int64, 4, V_STACK)
first_at = table(types.int32, 0, V_FIRST)
twin_at = table(types.int32, 0, V_TWIN)

suffix_nodes = view(types.int32, 4)
"""The nodes of what tokens hold from some place on, see `string_slices.FreeSlice`."""
ENTRIES, PAST_ENTRIES = 2, 3
"""Their further columns: the first of a node's entries, and the end of them."""


@inner_kernel
def put(base: int, depth: int, s: int, f: int, c: int, flag: int) -> None:
    """Write a row of the stack, int64[depth, 4]: the position at a depth of the walk, and a flag of the walk."""
    stack = stack_at(base)
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = s, f, c, flag


@inner_kernel
def begin(base: int, out: int, rows: int, index: int, empty: int) -> None:
    """Start the mask at `out` as a copy of row `index` of the masks at the address `rows`; with no token if `empty`."""
    words = registers_at(base)[V_WORDS]
    mask, row = view_uint32(out), view_uint32(rows + index * 4 * words)
    for w in range(words):
        mask[w] = 0 if empty else row[w]


@inner_kernel
def _twins(base: int, out: int, token: int, allowed: int) -> None:
    """Set or clear the bits of a node's token and of all ids with the same bytes."""
    twin, mask = twin_at(base), view_uint32(out)
    token &= HAS_TWIN - 1
    while token >= 0:
        if allowed:
            mask[token >> 5] |= 1 << (token & 31)
        else:
            mask[token >> 5] &= ~(1 << (token & 31))
        token = int64(twin[token])


@inner_kernel
def allow(base: int, out: int, token: int) -> None:
    """Set the bits of a node's token (-1: it has none) and of all ids with the same bytes."""
    if token >= HAS_TWIN:
        _twins(base, out, token, int64(1))
    elif token >= 0:
        view_uint32(out)[token >> 5] |= 1 << (token & 31)


@inner_kernel
def forbid(base: int, out: int, low: int, high: int) -> None:
    """Clear the tokens of the trie nodes `low..high - 1`."""
    nodes = nodes_at(base)
    for i in range(low, high):
        token = int64(nodes[i, TOKEN])
        if token >= 0:
            _twins(base, out, token, int64(0))
