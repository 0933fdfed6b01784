"""The joint walk of trie and automaton: kernels that compute the packed mask of a position.

The result equals a plain loop (see `tests/support/reference_masks.py`): for each token, `step` through its bytes from
the position, and set the token's bit if no byte is refused. Kernels take the address of the registers (`base`). A
kernel returns -1 when something is *wanted*: the automaton must expand a state or make room, and the registers say
which. After the caller has done so, the same call continues the walk.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import (
    Position, aux_of, edge, edges_at, forget_tests, int64, kept_step, may_end, miss, mode_of, refuses_rest,
    registers_at, settle, states_at, step, unexpanded,
)  # fmt: skip
from structgen.automaton.table_format import (
    ASK, BLOCK_DEPTHS, BLOCK_FIRST, BLOCK_STATES, CALL, CHARS, COUNT, COUNT_SHIFT, EAGER, FRAME_MASK,
    FRAME_SHIFT, FREE, GAP, GOTO, HI, INC, MISS, OVERLAY, R_ANSWER, R_BLOCKS, R_DEPTHS, R_LOOP, R_MET,
    R_NODE, R_PHASE, R_SEGMENT, ROOM, START, TARGET, UNBOUNDED,
)  # fmt: skip
from structgen.automaton.writing.outline_kernels import MAX_DEPTH
from structgen.automaton.writing.text_classes import BLANKS, NAMING, TEXT_CLASSES, class_bounds, class_ends
from structgen.kernels import inner_kernel, kernel
from structgen.kernels.views import table, view_int32, view_uint8, view_uint16, view_uint32
from structgen.masks.slices import (
    ANY_LENGTH, LENGTHS, V_COUNTS, V_COVER, V_ENDS, V_LIKE, V_N_ENDS, V_N_NODES, V_REST_IDS, V_REST_ROW_OF,
    V_REST_ROWS, V_REST_STARTS, V_ROWS, V_RUNS, V_TOKENS, V_WORDS,
)  # fmt: skip
from structgen.masks.nodes import (
    NO_LOOP, SEVERAL, above, allow, begin, byte_of, depth_of, first_at, nodes_at, put, stay, subtree_end, token_of,
)  # fmt: skip
from structgen.masks.string_walk import fill_free
from structgen.masks.text_walk import best_class, exits_and_home, fill_like, fill_text, untouched

TESTED = 4
"""`fill` adds this to its result if it met a test."""
EMPTY_WORDS = 64
"""The number of words of a mask that are tested together."""
MANY = 200
"""From this number of trie nodes below a first byte on, the walk looks for a class of characters that may follow it."""
MAX_FIT = 12
"""Most tokens have no more characters than this."""
AWAY = 2
"""Walking this many tokens that no text class covers takes as long as walking one token that may leave a text."""
NO_CLASS, STOPPED = -1, -2
"""Results of `_class_behind` in place of a class."""
FIRST_REST = len(TEXT_CLASSES)
"""The first row of `Slices.runs` for a `RestSlice`; the rows before it are those of the text classes."""

_ends = table(types.int32, 0, V_ENDS)
_counts = table(types.int32, LENGTHS + 1, V_COUNTS)
_rest_starts = table(types.int32, 257, V_REST_STARTS)
_rest_row_of = table(types.int32, 256, V_REST_ROW_OF)
_blocks = table(types.int32, 6, R_BLOCKS)
_depths = table(types.uint8, 0, R_DEPTHS)
_NAMES = class_bounds[class_ends[NAMING - 2] : class_ends[NAMING - 1]]


@inner_kernel
def _walk(base: int, out: int, low: int, high: int, row: int, within: int) -> int:
    """Allow the tokens of the trie nodes `low..high - 1` that may come at the position at depth 0 of the stack.

    The most common steps are inlined in this loop: an edge without flags, an edge that counts, and no edge.

    Args:
        row: the row of the covers and runs. It tells which bits are set already: those of a text class, or, from
            `FIRST_REST` on, those of a class of `RestSlice`.
        within: subtrees whose tokens have at most this many characters of the class are skipped. 0: none are skipped.
            `ANY_LENGTH`: all that the row covers are skipped, a run at a time.

    Returns:
        0; -1 if something is wanted. Then the walk continues at node R_NODE.
    """
    nodes, states, r = nodes_at(base), states_at(base), registers_at(base)
    cover = view_uint8(r[V_COVER] + row * r[V_N_NODES])
    runs = view_uint16(r[V_RUNS] + 2 * row * r[V_N_NODES])
    i = low
    while i < high:
        # The tokens of some subtrees are allowed already.
        if within == ANY_LENGTH:
            if runs[i] != 0:
                i += int64(runs[i])
                continue
        elif within > 0 and cover[i] <= within:
            i = subtree_end(nodes, i)
            continue
        depth, byte = depth_of(nodes, i), byte_of(nodes, i)
        s, f, c = above(base, depth)
        # `loop` is the edge that would lead from the state to itself in the same way: the state, or INC and the state.
        t, loop = edge(base, s, byte), int64(NO_LOOP)
        if 0 < t and t < INC and states[t, MISS] & EAGER == 0:  # no flags: the edge is the next state
            loop, s = s, int64(t)
        elif INC < t and t < ROOM and c >= int64(states[t - INC, HI]):  # it counts, but the counter is full
            s = 0
        elif INC < t and t < ROOM and states[t - INC, MISS] & EAGER == 0 and int64(states[t - INC, HI]) < UNBOUNDED:
            loop, s, c = INC + s, int64(t - INC), c + 1
        elif t == 0 and refuses_rest(base, s):
            s = 0
        else:
            s, f, c = kept_step(base, s, f, c, byte)
            if s < 0:
                r[R_NODE] = i
                return -1
        end = subtree_end(nodes, i)
        if s == 0:
            i = end
            continue
        allow(base, out, token_of(nodes, i))
        if end == i + 1:  # a leaf
            i += 1
        elif t == loop and end - i >= SEVERAL:
            i = stay(base, out, i, s, f, c, loop, row, within)
        else:
            put(base, depth, s, f, c)
            i += 1
    return 0


@inner_kernel
def _takes_names(base: int, s: int) -> bool:
    """Does an edge of the state take a character of the largest class of `RestSlice`?"""
    states, edges = states_at(base), edges_at(base)
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        for i in range(_NAMES.shape[0]):
            if edges[e, 0] & 255 <= _NAMES[i, 1] and edges[e, 0] >> 8 >= _NAMES[i, 0]:
                return True
    return False


@inner_kernel
def _class_behind(base: int, s: int, f: int, c: int, byte: int) -> int:
    """The largest class of `RestSlice` of which any number of characters may follow a byte.

    `NO_CLASS` if there is none, `STOPPED` if something is wanted. The state after the byte may take no such character
    itself; it may take optional white space, for example. Then the state to which its miss leads decides.
    """
    states, blocks, depths = states_at(base), _blocks(base), _depths(base)
    s, f, c = step(base, s, f, c, byte)
    while s > 0:
        if unexpanded(base, s):
            return STOPPED
        if _takes_names(base, s):
            mode, block = mode_of(base, s), aux_of(base, s)
            if states[s, HI] != UNBOUNDED:
                return NO_CLASS
            if mode == FREE:
                return NAMING - 1
            if mode == CHARS:
                first = blocks[block, BLOCK_DEPTHS] + s - blocks[block, BLOCK_FIRST]
                for k in range(NAMING - 1, -1, -1):
                    if depths[first + k * blocks[block, BLOCK_STATES]] == MAX_DEPTH:
                        return int64(k)
            return NO_CLASS
        s, f, c = miss(base, s, f, c)
    return STOPPED if s < 0 else NO_CLASS


@inner_kernel
def _in_class(k: int, byte: int) -> bool:
    """Is a byte a character of the text class `k`?"""
    for i in range(class_ends[k - 1] if k > 0 else 0, class_ends[k]):
        if class_bounds[i, 0] <= byte and byte <= class_bounds[i, 1]:
            return True
    return False


@inner_kernel
def _allow_behind(base: int, out: int, k: int, byte: int) -> None:
    """Allow the tokens that have this first byte, and after it only characters of class `k`."""
    r, starts = registers_at(base), _rest_starts(base)
    ids, mask, index = view_int32(r[V_REST_IDS]), view_uint32(out), int64(_rest_row_of(base)[k, byte])
    if index >= 0:  # there are `MANY_IDS` or more, and a row of a mask has them
        row = view_uint32(r[V_REST_ROWS] + index * 4 * r[V_WORDS])
        for w in range(r[V_WORDS]):
            mask[w] |= row[w]
    else:
        for i in range(starts[k, byte], starts[k, byte + 1]):
            mask[ids[i] >> 5] |= 1 << (ids[i] & 31)


@inner_kernel
def _walk_byte(base: int, out: int, low: int, byte: int, best: int, within: int) -> int:
    """`_walk` below a first byte, from node `low` on. For `best` and `within` see `_walk_from`.

    Tokens of the byte and characters of a class of `RestSlice` are allowed at once, without a walk, if any number of
    such characters may follow the byte. This is tried if many nodes are below the byte and the byte is not in `best`.
    """
    first = first_at(base)
    high = int64(first[byte + 1])
    if high - first[byte] < MANY or (within > 0 and _in_class(best, byte)):
        return _walk(base, out, low, high, best, within)
    s, f, c = above(base, int64(1))
    k = _class_behind(base, s, f, c, byte)
    if k == STOPPED:
        registers_at(base)[R_NODE] = low
        return -1
    if k == NO_CLASS:
        return _walk(base, out, low, high, best, within)
    _allow_behind(base, out, k, byte)
    return _walk(base, out, low, high, FIRST_REST + k, int64(ANY_LENGTH))


@inner_kernel
def _walk_from(base: int, out: int, s: int, f: int, c: int, best: int, within: int) -> int:
    """`_walk_byte` for each first byte that the position accepts. Returns 0; -1 if something is wanted.

    These are the bytes of the state's edges, then of the edges of the state to which its miss leads, and so on. Each
    byte of an edge is a *segment*; segments are numbered in this order. R_SEGMENT is the first that is not done, and
    R_NODE the node in it at which the walk continues. The tokens of the text class `best` with at most `within`
    characters are allowed already (see `_walk`).
    """
    states, edges, r = states_at(base), edges_at(base), registers_at(base)
    first = first_at(base)
    put(base, int64(0), s, f, c)
    segment = int64(0)
    while s > 0:
        if unexpanded(base, s):
            return -1
        start = states[s, START]
        for e in range(start, start + states[s, COUNT]):
            for byte in range(edges[e, 0] & 255, (edges[e, 0] >> 8) + 1):
                if segment >= r[R_SEGMENT] and first[byte] < first[byte + 1]:
                    low = r[R_NODE] if segment == r[R_SEGMENT] and first[byte] < r[R_NODE] else int64(first[byte])
                    if _walk_byte(base, out, low, int64(byte), best, within) < 0:
                        r[R_SEGMENT] = segment
                        return -1
                    r[R_SEGMENT], r[R_NODE] = segment + 1, 0
                segment += 1
        s, f, c = miss(base, s, f, c)
    return s


@inner_kernel
def _looks_away(base: int, exits: int, best: int, level: int) -> bool:
    """Is it faster to walk the tokens that may leave a text than the tokens that its best text class does not cover?

    Many of the latter take little time, because `_walk_byte` allows them at once.
    """
    tokens = registers_at(base)[V_TOKENS]
    return AWAY * (tokens - untouched(base, exits)) < tokens - int64(_counts(base)[best, level])


@inner_kernel
def _fill_walk(base: int, out: int, s: int, f: int, c: int) -> int:
    """Fill the mask where no free string is open. Returns 0; -1 if something is wanted."""
    r = registers_at(base)
    best, level = 0, 0
    if mode_of(base, s) == CHARS:
        exits, home = exits_and_home(base, s)
        if home != 0 and r[V_LIKE] != 0:
            return fill_like(base, out, s, f, c, home)
        best, level = best_class(base, s, c)
        has_room = states_at(base)[s, HI] - c >= MAX_FIT
        if exits != 0 and (r[V_LIKE] != 0 or (has_room and _looks_away(base, exits, best, level))):
            return fill_text(base, out, s, f, c, exits)
    elif mode_of(base, s) == GAP:
        room = int64(states_at(base)[s, HI]) - c
        best, level = BLANKS, 0 if room < 0 else LENGTHS - 1 if room >= LENGTHS else room
    if r[R_PHASE] == 0:
        begin(base, out, r[V_ROWS], int64(best * (LENGTHS + 1) + level), int64(level == 0))
        r[R_PHASE], r[R_SEGMENT], r[R_NODE] = 1, 0, 0
    return _walk_from(base, out, s, f, c, int64(best), ANY_LENGTH if level == LENGTHS else level)


@inner_kernel
def _empty(base: int, out: int) -> bool:
    """Does a mask allow nothing? The inner loop has no early exit, so the compiler takes eight words at a time."""
    mask, words, low = view_uint32(out), registers_at(base)[V_WORDS], 0
    while low < words:
        high, bits = min(low + EMPTY_WORDS, words), 0
        for w in range(low, high):
            bits |= mask[w]
        if bits != 0:
            return False
        low = high
    return True


@kernel
def fill(base: int, position: int, out: int, answer: int) -> int:
    """Write the mask of `position` to the address `out`, uint32[words]. R_PHASE must be 0 at the first call.

    Args:
        answer: how tests are answered: ASK, YES, REFUSE or OPEN.

    Returns:
        -1 if something is wanted: provide what the registers say, and call again. Else 1 if the text may end there, 0
        if not, 2 if nothing is allowed; plus `TESTED` if a test was met.
    """
    r = registers_at(base)
    if r[R_PHASE] == 0:  # also if something was wanted before the first phase: its tests will be met again
        forget_tests(base)
    r[R_ANSWER], r[R_LOOP] = answer, NO_LOOP
    ends = _fill(base, position, out)
    r[R_ANSWER] = ASK
    return ends + TESTED if r[R_MET] != 0 and ends >= 0 else ends


@inner_kernel
def _entered(base: int, s: int, f: int, c: int) -> Position:
    """The position after the calls and gotos of states without edges; its state is -1 if something is wanted."""
    states = states_at(base)
    while True:
        if unexpanded(base, s):
            return -1, f, c
        if states[s, COUNT] > 0 or states[s, MISS] not in (CALL, GOTO):
            return s, f, c
        s, f, c = miss(base, s, f, c)
        if s < 0:
            return s, f, c


@inner_kernel
def _fill(base: int, position: int, out: int) -> int:
    """`fill` without `TESTED`, after R_ANSWER was set."""
    s, f, c = settle(base, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT)
    ending, below = s, f  # `may_end` asks here: the text may end before the callee takes a byte
    if s >= 0:
        s, f, c = _entered(base, s, f, c)
    if s < 0:
        return -1
    mode = mode_of(base, s)
    between_bytes = mode == OVERLAY and aux_of(base, s) != 0  # of a character: the string's row does not fit there
    if mode in (FREE, OVERLAY) and not between_bytes:
        stopped = fill_free(base, out, s, f, c)
    else:
        stopped = _fill_walk(base, out, s, f, c)
    if stopped < 0:
        return -1
    ends = may_end(base, ending, below)
    if ends == 1:
        ids = _ends(base)
        for i in range(registers_at(base)[V_N_ENDS]):
            allow(base, out, int64(ids[i]))
    elif ends == 0 and _empty(base, out):
        return 2
    return ends
