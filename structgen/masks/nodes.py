"""What all walks over the trie share: its nodes by name, the stack, the bits of a mask, and subtrees without steps.

A *node* is a row of the trie in preorder, so the subtree of `node` is the rows from `node` to `subtree_end`. The
*stack* has the position of the automaton at each depth on the path to the current node; depth 0 is where a walk begins.
"""

from __future__ import annotations


from structgen.automaton.step import Position, refuses_rest
from structgen.automaton.table_format import COUNT, HI, INC, START, Machine
from structgen.kernels import LENGTH, field, inner_kernel, view_uint16, view_uint32, view_uint8
from structgen.masks.slices import ANY_LENGTH, tables_of
from structgen.masks.string_slices import HAS_TWIN, HEAD, SKIP, TOKEN

SEVERAL = 3
"""The fewest nodes of a subtree where it is worth looking up which bytes leave a state as it is."""
NO_LOOP = -1
"""In place of an edge from a state to itself: there is none."""

depth_of, byte_of = field(HEAD, shift=8), field(HEAD, mask=255)
subtree_end, token_of = field(SKIP), field(TOKEN)

first_entry, entries_end = field(2), field(3)
"""Of a node of `FreeTables`: the entries that end there."""

first_byte, last_byte = field(0, mask=255), field(0, shift=8)
"""The bytes of an edge of the automaton."""

FLAG = 3
"""Column of the stack after state, frame and counter: a flag of the walk."""


@inner_kernel
def put(machine: Machine, depth: int, state: int, frame: int, count: int) -> None:
    """Write the position at a depth of the walk."""
    stack = machine.stack
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = state, frame, count


@inner_kernel
def above(machine: Machine, depth: int) -> Position:
    """The position before the byte of a node at this depth."""
    stack = machine.stack
    return stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2]


@inner_kernel
def begin(machine: Machine, out: int, rows: int, index: int, empty: int) -> None:
    """Start the mask at `out` as a copy of row `index` of the masks at the address `rows`; with no token if `empty`."""
    words = tables_of(machine).words
    mask, row = view_uint32(out), view_uint32(rows + index * 4 * words)
    for w in range(words):
        mask[w] = 0 if empty else row[w]


@inner_kernel
def next_twin(machine: Machine, token: int) -> int:
    """The next higher id with the same bytes as a token; -1 if there is none."""
    return tables_of(machine).twin[token]


@inner_kernel
def _twins(machine: Machine, out: int, token: int, allowed: int) -> None:
    """Set or clear the bits of a node's token and of all ids with the same bytes."""
    mask = view_uint32(out)
    token &= HAS_TWIN - 1
    while token >= 0:
        if allowed:
            mask[token >> 5] |= 1 << (token & 31)
        else:
            mask[token >> 5] &= ~(1 << (token & 31))
        token = next_twin(machine, token)


@inner_kernel
def allow(machine: Machine, out: int, token: int) -> None:
    """Set the bits of a node's token (-1: it has none) and of all ids with the same bytes."""
    if token >= HAS_TWIN:
        _twins(machine, out, token, 1)
    elif token >= 0:
        view_uint32(out)[token >> 5] |= 1 << (token & 31)


@inner_kernel
def forbid(machine: Machine, out: int, low: int, high: int) -> None:
    """Clear the tokens of the trie nodes `low..high - 1`."""
    nodes = tables_of(machine).nodes
    for node in range(low, high):
        token = token_of(nodes, node)
        if token >= 0:
            _twins(machine, out, token, 0)


@inner_kernel
def _note_loop(machine: Machine, state: int, loop: int) -> None:
    """Write down `loop`, an edge from a state to itself, with its bytes, and the bytes of all edges of the state."""
    states, edges = machine.states, machine.edges
    for word in range(4):
        machine.stays[word] = machine.covered[word] = 0
    for row in range(states[state, START], states[state, START] + states[state, COUNT]):
        for byte in range(first_byte(edges, row), last_byte(edges, row) + 1):
            word, bit = byte >> 6, 1 << (byte & 63)
            if edges[row, 1] == loop and machine.covered[word] & bit == 0:  # the first edge that has a byte takes it
                machine.stays[word] |= bit
            machine.covered[word] |= bit
    machine.loop = loop


@inner_kernel
def stay(
    machine: Machine, out: int, node: int, state: int, frame: int, count: int, loop: int, row: int, within: int
) -> int:
    """Walk below `node` as long as `loop` takes each byte, or the byte is refused.

    Args:
        state, frame, count: the position after `node`.
        loop: the edge (target and flags) from the state to itself. It may count.
        row, within: as in `walk._walk`.

    Returns:
        The first node that needs a step of the automaton; the stack is written for the nodes above it. Without such a
        node: the node after the subtree.
    """
    tables = tables_of(machine)
    nodes, states = tables.nodes, machine.states
    cover = view_uint8(tables.cover + row * tables.n_nodes)
    runs = view_uint16(tables.runs + 2 * row * tables.n_nodes)
    counted = loop >= INC
    depth, end = depth_of(nodes, node), subtree_end(nodes, node)
    deepest = depth + states[state, HI] - count if counted else LENGTH
    refuses_others = refuses_rest(machine, state)
    if machine.loop != loop:
        _note_loop(machine, state, loop)
    i = node + 1
    while i < end:
        # The tokens of some subtrees are allowed already.
        if within == ANY_LENGTH:
            covered = runs[i]
        else:
            covered = subtree_end(nodes, i) - i if within > 0 and cover[i] <= within else 0
        if covered != 0:
            i += covered
            continue
        below, byte = depth_of(nodes, i), byte_of(nodes, i)
        stays = machine.stays[byte >> 6] >> (byte & 63) & 1
        if stays and below <= deepest:
            allow(machine, out, token_of(nodes, i))
            i += 1
        elif stays or (refuses_others and not machine.covered[byte >> 6] >> (byte & 63) & 1):
            i = subtree_end(nodes, i)
        else:
            # Here the walk leaves the state: up to this node the loop took each byte.
            for d in range(depth, below):
                put(machine, d, state, frame, count + (d - depth) * counted)
            return i
    return end
