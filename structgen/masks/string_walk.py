"""Masks inside a free JSON string: only the tokens that end the string are walked.

The result equals the plain loop of `walk`. The mask is filled in three phases; `machine.phase` is the next one:

0. The mask starts as the row of tokens that stay inside the string and for which there is room.
1. The tokens that close the string are sorted by the bytes after their quote. The trie of these bytes is walked once.
   Each node that is reached allows its tokens, if the number of characters before their quote is allowed.
2. If the string must not begin with some literals, a walk along these literals corrects the bits (*overlay*).
"""

from __future__ import annotations


from structgen.automaton.step import aux_of, edge, mode_of, refuses_rest, settle, step
from structgen.automaton.table_format import COUNT, HI, LO, OVERLAY, START, TARGET, UNBOUNDED, A, Machine
from structgen.kernels import LENGTH, inner_kernel, view_uint32
from structgen.masks.nodes import (
    FLAG, above, allow, begin, byte_of, depth_of, entries_end, first_byte, first_entry, forbid, last_byte, put,
    subtree_end, token_of,
)  # fmt: skip
from structgen.masks.slices import FreeTables, tables_of

BEYOND, INSIDE = 0, 1
"""Flags of the stack in `_overlay`."""


@inner_kernel
def _free_row(machine: Machine, out: int, inner: int, count: int) -> None:
    """Phase 0: start the mask with the tokens that stay inside the string."""
    states = machine.states
    free = tables_of(machine).free[aux_of(machine, inner)]
    room = free.longest
    if states[inner, HI] != UNBOUNDED and states[inner, HI] - count < room:
        room = states[inner, HI] - count
        room = 0 if room < 0 else room
    begin(machine, out, free.rows, free.levels[room], 0)


@inner_kernel
def _allow_entries(free: FreeTables, out: int, low: int, high: int, least: int, limit: int) -> None:
    """Allow the tokens of the entries `low..high - 1` that have `least` to `limit` code points before their quote."""
    entries, mask = free.entries, view_uint32(out)
    for entry in range(low, high):
        token, points = entries[entry, 0], entries[entry, 1]
        if least <= points and points <= limit:
            mask[token >> 5] |= 1 << (token & 31)


@inner_kernel
def _free_ends(machine: Machine, out: int, inner: int, frame: int, count: int) -> int:
    """Phase 1: allow the tokens that close the free string."""
    states = machine.states
    free = tables_of(machine).free[aux_of(machine, inner)]
    nodes = free.nodes
    least = states[inner, LO] - count
    limit = LENGTH if states[inner, HI] == UNBOUNDED else states[inner, HI] - count  # LENGTH: more than any token has
    # The quote's edge asks for LO characters. Step as if they had come: `least` is checked for each entry instead.
    enough = states[inner, LO]
    state, frame, count = step(machine, inner, frame, enough if count < enough else count, 0x22)
    if state <= 0:
        return state
    put(machine, 0, state, frame, count)
    _allow_entries(free, out, 0, free.root_entries, least, limit)
    node, n = machine.node, free.n_nodes
    while node < n:
        depth, byte = depth_of(nodes, node), byte_of(nodes, node)
        state, frame, count = above(machine, depth)
        if edge(machine, state, byte) == 0 and refuses_rest(machine, state):
            node = subtree_end(nodes, node)
            continue
        state, frame, count = step(machine, state, frame, count, byte)
        if state < 0:
            machine.node = node
            return -1
        if state == 0:
            node = subtree_end(nodes, node)
            continue
        put(machine, depth, state, frame, count)
        _allow_entries(free, out, first_entry(nodes, node), entries_end(nodes, node), least, limit)
        node += 1
    return 0


@inner_kernel
def _next_byte(machine: Machine, state: int, byte: int) -> int:
    """The first byte from `byte` on that an edge of the state takes; 256 for none."""
    states, edges = machine.states, machine.edges
    least = 256
    for row in range(states[state, START], states[state, START] + states[state, COUNT]):
        low, high = first_byte(edges, row), last_byte(edges, row)
        if high >= byte:
            low = byte if low < byte else low
            least = low if low < least else least
    return least


@inner_kernel
def _overlay(machine: Machine, out: int, state: int, frame: int, count: int) -> int:
    """Phase 2: correct the mask along the literals that start at `state`. Returns 0; -1 if something is wanted.

    While the bytes so far begin a literal and the string is open, the stack's flag is `INSIDE`. There, a byte that
    leaves the literals leads to free text. Its bits are right already, so the subtree is skipped. After that, the flag
    is `BEYOND`, and every token is set or cleared.
    """
    tables = tables_of(machine)
    nodes, stack, first = tables.nodes, machine.stack, tables.first
    put(machine, 0, state, frame, count)
    stack[0, FLAG] = INSIDE
    node = machine.node
    while node < tables.n_nodes:
        depth, byte, flag = depth_of(nodes, node), byte_of(nodes, node), BEYOND
        state, frame, count = above(machine, depth)
        taken = _next_byte(machine, state, byte) if depth == 1 else byte
        if taken != byte:
            node = first[taken]
            continue
        if stack[depth - 1, FLAG] == INSIDE:
            leads = edge(machine, state, byte)
            if leads == 0:
                node = subtree_end(nodes, node)
                continue
            state = 0
            if leads > 0:
                flag = INSIDE if mode_of(machine, leads & TARGET) == OVERLAY else BEYOND
                state, frame, count = settle(machine, leads & TARGET, frame, count)
        else:
            state, frame, count = step(machine, state, frame, count, byte)
        if state < 0:
            machine.node = node
            return -1
        if state == 0:
            forbid(machine, out, node, subtree_end(nodes, node))
            node = subtree_end(nodes, node)
            continue
        put(machine, depth, state, frame, count)
        stack[depth, FLAG] = flag
        allow(machine, out, token_of(nodes, node))
        node += 1
    return 0


@inner_kernel
def fill_free(machine: Machine, out: int, state: int, frame: int, count: int) -> int:
    """Fill the mask in a free string, with or without literals that it must not begin with.

    Returns 0; -1 if something is wanted.
    """
    states = machine.states
    overlay = mode_of(machine, state) == OVERLAY
    inner = states[state, A] if overlay else state
    if machine.phase == 0:
        _free_row(machine, out, inner, count)
        machine.phase, machine.node = 1, 0
    if machine.phase == 1:
        if _free_ends(machine, out, inner, frame, count) < 0:
            return -1
        machine.phase, machine.node = 2, 0
    return _overlay(machine, out, state, frame, count) if overlay else 0
