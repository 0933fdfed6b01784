"""Masks of free text up to a stop, plain or inside quotes. Only tokens that may leave the text are walked.

In free text most characters do not change the state. A token of such characters alone is allowed if there is room for
it; a row of the text slice has these tokens. Every other token has a character that leads to another state. The text
slice tells for each trie node which characters the tokens below it contain, so the walk skips the nodes without such a
character.

A mask may also start from the mask of another position. The register `V_LIKE` has its row. There are two cases:

- The length is bounded. The mask starts from that of the same state with no characters counted: a token for which there
  is room has the same bit.
- The state is in the middle of a stop. The mask starts from that of its *home*, the state to which most characters
  lead: a token whose first byte leads to the same state from both has the same bit.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import (
    aux_of, edge, int64, kept_step, mode_of, registers_at, states_at, unexpanded,
)  # fmt: skip
from structgen.automaton.table_format import (
    BLOCK_CLASSES, BLOCK_DEPTHS, BLOCK_EXITS, BLOCK_FIRST, BLOCK_SLACK, BLOCK_STATES, CHARS, COUNT_SHIFT, EAGER, HI,
    INC, MISS, R_BLOCKS, R_DEPTHS, R_EXITS, R_NODE, R_PHASE, R_SEGMENT, SPILL, TARGET, UNBOUNDED, ZERO, A,
)  # fmt: skip
from structgen.automaton.writing.outline_kernels import MAX_DEPTH
from structgen.automaton.writing.text_loops import BUCKETS
from structgen.kernels import inner_kernel, kernel
from structgen.kernels.views import table, view_int32, view_uint32
from structgen.masks.advance import WANTS
from structgen.masks.nodes import (
    above, allow, begin, byte_of, depth_of, first_at, forbid, nodes_at, put, subtree_end, token_of,
)  # fmt: skip
from structgen.masks.slices import (
    LENGTHS, V_BUCKET_COUNTS, V_COUNTS, V_ENDS, V_HELD, V_LIKE, V_LONGEST, V_MOST, V_N_ENDS, V_N_NODES, V_OFFSETS,
    V_TEXT_LEVELS, V_TEXT_ROWS, V_TOKENS, V_WORDS,
)  # fmt: skip

FEW_LEFT = 32
"""If a text class covers all tokens but one in 32, the mask starts from this class."""

NO_ROOM = -(1 << 40)
"""Less than any room."""

_blocks = table(types.int32, 6, R_BLOCKS)
_depths = table(types.uint8, 0, R_DEPTHS)
_counts = table(types.int32, LENGTHS + 1, V_COUNTS)
_exits = table(types.int64, 2, R_EXITS)
_ends = table(types.int32, 0, V_ENDS)
_offsets = table(types.int32, 0, V_OFFSETS)
_held = table(types.int64, 0, V_HELD)
_longest = table(types.uint8, 0, V_LONGEST)
_bucket_counts = table(types.int32, 0, V_BUCKET_COUNTS)


@inner_kernel
def exits_and_home(base: int, s: int) -> tuple[int, int]:
    """For a state of a lifted `CharDfa`: the buckets of the characters that lead to another state (0 if they are
    unknown), and the state to which most characters lead (0 if it is the state itself)."""
    blocks, block = _blocks(base), aux_of(base, s)
    where, first = int64(blocks[block, BLOCK_EXITS]), int64(blocks[block, BLOCK_FIRST])
    if where == 0:
        return where, where
    # home > 0: a state q of the DFA, which is the state `first + q - 1` of the automaton. home < 0 (in compositions): a
    # state of the automaton, negated. home = 0: none.
    exits, home = _exits(base)[where + s - first, 0], _exits(base)[where + s - first, 1]
    home = -home if home < 0 else home + first - 1 if home > 0 else home
    return exits, int64(0) if home == s else home


@inner_kernel
def best_class(base: int, s: int, c: int) -> tuple[int, int]:
    """The text class and the level that cover the most tokens, in state `s` of a lifted `CharDfa` with `c` characters
    counted. The level is the number of a row of the class (see `ClassSlice.rows`)."""
    blocks, depths, counts = _blocks(base), _depths(base), _counts(base)
    block = aux_of(base, s)
    first = blocks[block, BLOCK_DEPTHS] + s - blocks[block, BLOCK_FIRST]
    best, level, tokens, room = int64(0), int64(0), int64(-1), int64(LENGTHS)
    if states_at(base)[s, HI] != UNBOUNDED:
        # HI leaves room for the shortest end from this state. Later states may need `slack` more characters for an end.
        room = states_at(base)[s, HI] - c - blocks[block, BLOCK_SLACK]
        room = 0 if room < 0 else LENGTHS - 1 if room >= LENGTHS else room
    for k in range(blocks[block, BLOCK_CLASSES]):
        depth = int64(depths[first + k * blocks[block, BLOCK_STATES]])
        row = LENGTHS if depth == MAX_DEPTH else LENGTHS - 1 if depth >= LENGTHS else depth
        row = room if room < row else row
        if counts[k, row] > tokens:
            best, level, tokens = k, row, counts[k, row]
    return best, level


@inner_kernel
def untouched(base: int, exits: int) -> int:
    """A lower bound of the number of tokens that have no character of these buckets."""
    counts = _bucket_counts(base)
    left: int = registers_at(base)[V_TOKENS]
    for b in range(BUCKETS):
        if exits >> b & 1:
            left -= counts[b]
    return left


@inner_kernel
def _room(base: int, s: int, c: int) -> int:
    """The number of characters that may follow in state `s` after `c`, as an index of `TextSlice.levels`."""
    limit = states_at(base)[s, HI]
    if limit == UNBOUNDED:
        return 255
    room: int = limit - c
    return 0 if room < 0 else 254 if room > 254 else room


@inner_kernel
def _begin_text(base: int, out: int, room: int) -> None:
    """Start a mask with the tokens for which there is room in the text; with V_LIKE, only those that its row allows."""
    r = registers_at(base)
    levels = view_int32(r[V_TEXT_LEVELS])
    begin(base, out, r[V_TEXT_ROWS], int64(levels[room]), int64(0))
    if r[V_LIKE]:
        mask, like = view_uint32(out), view_uint32(r[V_LIKE])
        for w in range(r[V_WORDS]):
            mask[w] &= like[w]


@inner_kernel
def _correct(base: int, out: int, high: int, exits: int, spare: int) -> int:
    """Set or clear the tokens of the trie nodes from R_NODE to `high - 1`. Returns 0; -1 if something is wanted.

    Some subtrees are skipped, because their bits are right: those without a character of the buckets `exits`, and those
    without a token of more than `spare` characters.
    """
    nodes, states, r = nodes_at(base), states_at(base), registers_at(base)
    held, longest = _held(base), _longest(base)
    i = r[R_NODE]
    while i < high:
        if held[i] & exits == 0 or longest[i] <= spare:
            i = subtree_end(nodes, i)
            continue
        depth, byte = depth_of(nodes, i), byte_of(nodes, i)
        s, f, c = above(base, depth)
        t = edge(base, s, byte)
        if 0 < t and t < INC and states[t, MISS] & EAGER == 0:  # no flags: the edge is the next state
            s = int64(t)
        else:
            s, f, c = kept_step(base, s, f, c, byte)
            if s < 0:
                r[R_NODE] = i
                return -1
        if s == 0:
            forbid(base, out, i, subtree_end(nodes, i))
            i = subtree_end(nodes, i)
            continue
        put(base, depth, s, f, c)
        allow(base, out, token_of(nodes, i))
        i += 1
    return 0


@inner_kernel
def fill_text(base: int, out: int, s: int, f: int, c: int, exits: int) -> int:
    """Fill the mask in a state of free text, which the characters in the buckets `exits` leave.

    Returns 0; -1 if something is wanted.
    """
    r = registers_at(base)
    room, spare = _room(base, s, c), int64(-1)
    if r[V_LIKE]:
        spare = room - _blocks(base)[aux_of(base, s), BLOCK_SLACK]
    if r[R_PHASE] == 0:
        _begin_text(base, out, room)
        r[R_PHASE], r[R_NODE] = 1, 0
    put(base, int64(0), s, f, c)
    return _correct(base, out, r[V_N_NODES], exits, spare)


@inner_kernel
def fill_like(base: int, out: int, s: int, f: int, c: int, home: int) -> int:
    """Fill the mask in a state. It starts from the mask in the state `home` with the same counter.

    Returns 0; -1 if something is wanted.
    """
    states, r, first = states_at(base), registers_at(base), first_at(base)
    if r[R_PHASE] == 0:
        begin(base, out, r[V_LIKE], int64(0), int64(0))
        mask, ends = view_uint32(out), _ends(base)
        for e in range(r[V_N_ENDS]):
            mask[ends[e] >> 5] &= ~(1 << (ends[e] & 31))
        r[R_PHASE], r[R_SEGMENT], r[R_NODE] = 1, 0, 0
    put(base, int64(0), s, f, c)
    same_miss = states[s, MISS] == states[home, MISS] and states[s, A] == states[home, A]
    room = states[home, HI] - c - _blocks(base)[aux_of(base, s), BLOCK_SLACK]
    for byte in range(r[R_SEGMENT], 256):
        t, there = edge(base, s, int64(byte)), edge(base, home, int64(byte))
        misses = t == 0 or (t > 0 and t & SPILL != 0 and room < r[V_MOST])
        if t != there or (misses and not same_miss):
            if t > 0 and t ^ there == ZERO:
                continue  # nothing was counted here
            # If only a bound differs, the bits of tokens for which there is room are right already. (With SPILL, a
            # token that exceeds the bound takes another edge. An edge into a run counts one character less than the
            # run's own edge.)
            spare = room if t > 0 and (t == there or t ^ there == INC) else int64(-1)
            if r[R_NODE] < first[byte]:
                r[R_NODE] = first[byte]
            if _correct(base, out, int64(first[byte + 1]), int64(-1), spare) < 0:
                r[R_SEGMENT] = byte
                return -1
    return 0


@kernel
def spare_room(base: int, position: int) -> int:
    """The number of characters that a token may have without reaching a bound, wherever it leads.

    This is for a lifted `CharDfa` whose characters are bounded, with some counted; `NO_ROOM` elsewhere. The state must
    have been expanded.
    """
    count, s = position >> COUNT_SHIFT, position & TARGET
    states = states_at(base)
    if count == 0 or mode_of(base, s) != CHARS or states[s, HI] == UNBOUNDED:
        return NO_ROOM
    spare: int = states[s, HI] - count - _blocks(base)[aux_of(base, s), BLOCK_SLACK]
    return spare


@kernel
def longest_token(base: int, row: int) -> int:
    """The number of bytes of the longest token in the mask at the address `row`."""
    mask, offsets = view_uint32(row), _offsets(base)
    longest: int = int64(0)
    for w in range(registers_at(base)[V_WORDS]):
        bits, token = int64(mask[w]), int64(32 * w)
        while bits != 0:
            size = int64(offsets[token + 1]) - int64(offsets[token]) if bits & 1 else int64(0)
            longest = size if size > longest else longest
            bits, token = bits >> 1, token + 1
    return longest


@kernel
def home(base: int, position: int) -> int:
    """The position with the state to which most characters lead; 0 if it is the same state, or is unknown.

    WANTS if one of the two states must be expanded first; the registers say which.
    """
    s = position & TARGET
    if unexpanded(base, s):
        return WANTS
    other = exits_and_home(base, s)[1] if mode_of(base, s) == CHARS else int64(0)
    if other and unexpanded(base, other):
        return WANTS
    return position - s + other if other else 0


@kernel
def nearly_covered(base: int, position: int) -> bool:
    """In a lifted `CharDfa`: does a text class cover nearly all tokens, so that the mask should start from it?"""
    s = position & TARGET
    best, level = best_class(base, s, position >> COUNT_SHIFT)
    tokens = registers_at(base)[V_TOKENS]
    few: bool = tokens - int64(_counts(base)[best, level]) < tokens // FEW_LEFT
    return few
