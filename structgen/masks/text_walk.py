"""Masks of free text up to a stop, plain or inside quotes. Only tokens that may leave the text are walked.

In free text most characters do not change the state. A token of such characters alone is allowed if there is room for
it; a row of the text slice has these tokens. Every other token has a character that leads to another state. The text
slice tells for each trie node which characters the tokens below it contain, so the walk skips the nodes without such a
character.

A mask may also start from the mask of another position. `machine.like` is the address of its row. There are two cases:

- The length is bounded. The mask starts from that of the same state with no characters counted: a token for which there
  is room has the same bit.
- The state is in the middle of a stop. The mask starts from that of its *home*, the state to which most characters
  lead: a token whose first byte leads to the same state from both has the same bit.
"""

from __future__ import annotations


from structgen.automaton.step import aux_of, edge, mode_of, step, unexpanded
from structgen.automaton.table_format import (
    BLOCK_CLASSES, BLOCK_DEPTHS, BLOCK_EXITS, BLOCK_FIRST, BLOCK_SLACK, BLOCK_STATES, CHARS, COUNT_SHIFT, EAGER, HI,
    INC, MISS, SPILL, TARGET, UNBOUNDED, ZERO, A, Machine,
)  # fmt: skip
from structgen.automaton.writing.outline_kernels import MAX_DEPTH
from structgen.automaton.writing.text_loops import BUCKETS
from structgen.kernels import inner_kernel, kernel, view_uint32
from structgen.masks.advance import WANTS
from structgen.masks.nodes import above, allow, begin, byte_of, depth_of, forbid, put, subtree_end, token_of
from structgen.masks.slices import LENGTHS, tables_of

FEW_LEFT = 32
"""If a text class covers all tokens but one in 32, the mask starts from this class."""

NO_ROOM = -(1 << 40)
"""Less than any room."""


@inner_kernel
def exits_and_home(machine: Machine, state: int) -> tuple[int, int]:
    """For a state of a lifted `CharDfa`: the buckets of the characters that lead to another state (0 if they are
    unknown), and the state to which most characters lead (0 if it is the state itself)."""
    blocks, block = machine.blocks, aux_of(machine, state)
    where, first = blocks[block, BLOCK_EXITS], blocks[block, BLOCK_FIRST]
    if where == 0:
        return where, where
    # home > 0: a state q of the DFA, which is the state `first + q - 1` of the automaton. home < 0 (in compositions): a
    # state of the automaton, negated. home = 0: none.
    exits, home = machine.exits[where + state - first, 0], machine.exits[where + state - first, 1]
    home = -home if home < 0 else home + first - 1 if home > 0 else home
    return exits, 0 if home == state else home


@inner_kernel
def best_class(machine: Machine, state: int, count: int) -> tuple[int, int]:
    """The text class and the level that cover the most tokens, in a state of a lifted `CharDfa` with `count`
    characters counted. The level is the number of a row of the class (see `ClassSlice.rows`)."""
    blocks, depths, counts = machine.blocks, machine.depths, tables_of(machine).counts
    block = aux_of(machine, state)
    first = blocks[block, BLOCK_DEPTHS] + state - blocks[block, BLOCK_FIRST]
    best, level, tokens, room = 0, 0, -1, LENGTHS
    if machine.states[state, HI] != UNBOUNDED:
        # HI leaves room for the shortest end from this state. Later states may need `slack` more characters for an end.
        room = machine.states[state, HI] - count - blocks[block, BLOCK_SLACK]
        room = 0 if room < 0 else LENGTHS - 1 if room >= LENGTHS else room
    for k in range(blocks[block, BLOCK_CLASSES]):
        depth = depths[first + k * blocks[block, BLOCK_STATES]]
        row = LENGTHS if depth == MAX_DEPTH else LENGTHS - 1 if depth >= LENGTHS else depth
        row = room if room < row else row
        if counts[k, row] > tokens:
            best, level, tokens = k, row, counts[k, row]
    return best, level


@inner_kernel
def untouched(machine: Machine, exits: int) -> int:
    """A lower bound of the number of tokens that have no character of these buckets."""
    counts = tables_of(machine).bucket_counts
    left: int = tables_of(machine).tokens
    for b in range(BUCKETS):
        if exits >> b & 1:
            left -= counts[b]
    return left


@inner_kernel
def _room(machine: Machine, state: int, count: int) -> int:
    """The number of characters that may follow in state `state` after `c`, as an index of `TextSlice.levels`."""
    limit = machine.states[state, HI]
    if limit == UNBOUNDED:
        return 255
    room: int = limit - count
    return 0 if room < 0 else 254 if room > 254 else room


@inner_kernel
def _begin_text(machine: Machine, out: int, room: int) -> None:
    """Start a mask with the tokens for which there is room in the text, as far as `machine.like` allows them."""
    tables = tables_of(machine)
    begin(machine, out, tables.text_rows, tables.text_levels[room], 0)
    if machine.like:
        mask, like = view_uint32(out), view_uint32(machine.like)
        for w in range(tables.words):
            mask[w] &= like[w]


@inner_kernel
def _correct(machine: Machine, out: int, high: int, exits: int, spare: int) -> int:
    """Set or clear the tokens of the trie nodes from `machine.node` to `high - 1`.

    Returns 0; -1 if something is wanted.

    Some subtrees are skipped, because their bits are right: those without a character of the buckets `exits`, and those
    without a token of more than `spare` characters.
    """
    tables = tables_of(machine)
    nodes, states = tables.nodes, machine.states
    held, longest = tables.held, tables.longest
    node = machine.node
    while node < high:
        if held[node] & exits == 0 or longest[node] <= spare:
            node = subtree_end(nodes, node)
            continue
        depth, byte = depth_of(nodes, node), byte_of(nodes, node)
        state, frame, count = above(machine, depth)
        leads = edge(machine, state, byte)
        if 0 < leads and leads < INC and states[leads, MISS] & EAGER == 0:  # no flags: the edge is the next state
            state = leads
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
        allow(machine, out, token_of(nodes, node))
        node += 1
    return 0


@inner_kernel
def fill_text(machine: Machine, out: int, state: int, frame: int, count: int, exits: int) -> int:
    """Fill the mask in a state of free text, which the characters in the buckets `exits` leave.

    Returns 0; -1 if something is wanted.
    """
    room, spare = _room(machine, state, count), -1
    if machine.like:
        spare = room - machine.blocks[aux_of(machine, state), BLOCK_SLACK]
    if machine.phase == 0:
        _begin_text(machine, out, room)
        machine.phase, machine.node = 1, 0
    put(machine, 0, state, frame, count)
    return _correct(machine, out, tables_of(machine).n_nodes, exits, spare)


@inner_kernel
def fill_like(machine: Machine, out: int, state: int, frame: int, count: int, home: int) -> int:
    """Fill the mask in a state. It starts from the mask in the state `home` with the same counter.

    Returns 0; -1 if something is wanted.
    """
    tables = tables_of(machine)
    states, first = machine.states, tables.first
    if machine.phase == 0:
        begin(machine, out, machine.like, 0, 0)
        mask, ends = view_uint32(out), tables.ends
        for number in range(tables.n_ends):
            mask[ends[number] >> 5] &= ~(1 << (ends[number] & 31))
        machine.phase, machine.segment, machine.node = 1, 0, 0
    put(machine, 0, state, frame, count)
    same_miss = states[state, MISS] == states[home, MISS] and states[state, A] == states[home, A]
    room = states[home, HI] - count - machine.blocks[aux_of(machine, state), BLOCK_SLACK]
    for byte in range(machine.segment, 256):
        leads, there = edge(machine, state, byte), edge(machine, home, byte)
        misses = leads == 0 or (leads > 0 and leads & SPILL != 0 and room < tables.max_depth)
        if leads != there or (misses and not same_miss):
            if leads > 0 and leads ^ there == ZERO:
                continue  # nothing was counted here
            # If only a bound differs, the bits of tokens for which there is room are right already. (With SPILL, a
            # token that exceeds the bound takes another edge. An edge into a run counts one character less than the
            # run's own edge.)
            spare = room if leads > 0 and (leads == there or leads ^ there == INC) else -1
            if machine.node < first[byte]:
                machine.node = first[byte]
            if _correct(machine, out, first[byte + 1], -1, spare) < 0:
                machine.segment = byte
                return -1
    return 0


@kernel
def spare_room(machine: Machine, position: int) -> int:
    """The number of characters that a token may have without reaching a bound, wherever it leads.

    This is for a lifted `CharDfa` whose characters are bounded, with some counted; `NO_ROOM` elsewhere. The state must
    have been expanded.
    """
    count, state = position >> COUNT_SHIFT, position & TARGET
    states = machine.states
    if count == 0 or mode_of(machine, state) != CHARS or states[state, HI] == UNBOUNDED:
        return NO_ROOM
    spare: int = states[state, HI] - count - machine.blocks[aux_of(machine, state), BLOCK_SLACK]
    return spare


@kernel
def longest_token(machine: Machine, row: int) -> int:
    """The number of bytes of the longest token in the mask at the address `row`."""
    mask, offsets = view_uint32(row), tables_of(machine).offsets
    longest: int = 0
    for w in range(tables_of(machine).words):
        bits, token = mask[w], 32 * w
        while bits != 0:
            size = offsets[token + 1] - offsets[token] if bits & 1 else 0
            longest = size if size > longest else longest
            bits, token = bits >> 1, token + 1
    return longest


@kernel
def home(machine: Machine, position: int) -> int:
    """The position with the state to which most characters lead; 0 if it is the same state, or is unknown.

    WANTS if one of the two states must be expanded first.
    """
    state = position & TARGET
    if unexpanded(machine, state):
        return WANTS
    other = exits_and_home(machine, state)[1] if mode_of(machine, state) == CHARS else 0
    if other and unexpanded(machine, other):
        return WANTS
    return position - state + other if other else 0


@kernel
def nearly_covered(machine: Machine, position: int) -> bool:
    """In a lifted `CharDfa`: does a text class cover nearly all tokens, so that the mask should start from it?"""
    state = position & TARGET
    best, level = best_class(machine, state, position >> COUNT_SHIFT)
    tokens = tables_of(machine).tokens
    few: bool = tokens - tables_of(machine).counts[best, level] < tokens // FEW_LEFT
    return few
