"""The joint walk of trie and automaton: kernels from a position to a packed mask.

The plain loop that all of it equals (`masks.reference` has it): for each token, `step` through its bytes from the
position; set the token's bit when no byte was refused. Kernels take the address of the registers; they stop (-1) when
the automaton wants something, and go on where they were when they are called again.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.text_classes import NAMING, class_bounds, class_ends
from structgen.automaton.kept_steps import kept_step
from structgen.automaton.step import (
    Position, edge, edges_at, forget_tests, int64, may_end, miss, registers_at, settle, states_at, step, unexpanded,
)  # fmt: skip
from structgen.automaton.tables import (
    ASK, CALL, CHARS, COUNT, COUNT_SHIFT, EAGER, FRAME_MASK, FRAME_SHIFT, FREE, GOTO, HI, INC, KIND, LO, MISS, NOTHING,
    OVERLAY, PLAIN, R_ANSWER, R_BLOCKS, R_DEPTHS, R_MET, R_NODE, R_PHASE, R_SEGMENT, START, TARGET, UNBOUNDED, A,
)  # fmt: skip
from structgen.automaton.views import LENGTH, table, view, view_int32, view_uint8, view_uint16, view_uint32
from structgen.kernels import inner_kernel, kernel
from structgen.masks.bits import allow, begin, forbid, nodes_at, put, stack_at
from structgen.masks.class_slices import ANY_LENGTH, LENGTHS
from structgen.masks.slices import (
    F_ENTRIES, F_LEVELS, F_LONGEST, F_N_NODES, F_NODES, F_ROOT_ENTRIES, F_ROWS, FREE_REGISTERS, V_COUNTS, V_COVER,
    V_ENDS, V_FIRST, V_FREE, V_KID_STARTS, V_KIDS, V_LIKE, V_N_ENDS, V_N_NODES, V_REST_IDS, V_REST_ROW_OF,
    V_REST_ROWS, V_REST_STARTS, V_ROWS, V_RUNS, V_WORDS,
)  # fmt: skip
from structgen.masks.text_walk import exits_of, fill_like, fill_text, home_of, untouched

TESTED = 4
NARROW = 4
MANY = 200
"""Trie nodes below a first byte from which on it is looked for a class."""

_first = table(types.int32, 0, V_FIRST)
_kids = table(types.int32, 0, V_KIDS)
_kid_starts = table(types.int32, 0, V_KID_STARTS)
_ends = table(types.int32, 0, V_ENDS)
_counts = table(types.int32, LENGTHS + 1, V_COUNTS)
_rest_starts = table(types.int32, 257, V_REST_STARTS)
_rest_row_of = table(types.int32, 256, V_REST_ROW_OF)
_blocks = table(types.int32, 6, R_BLOCKS)
_depths = table(types.uint8, 0, R_DEPTHS)
_NAMES = class_bounds[class_ends[NAMING - 2] : class_ends[NAMING - 1]]
_suffix_nodes = view(types.int32, 4)
_suffix_entries = view(types.int32, 2)


@inner_kernel
def _narrow(base: int, s: int) -> bool:
    """True for a state with so few edges that looking their bytes up beats trying all children of a node."""
    states = states_at(base)
    return 0 < states[s, COUNT] and states[s, COUNT] <= NARROW and states[s, MISS] == NOTHING


@inner_kernel
def _next_child(base: int, s: int, parent: int, byte: int) -> int:
    """The first child of `parent` from `byte` on that an edge of the narrow state `s` takes, or the node behind the
    subtree of `parent`."""
    nodes, states, edges = nodes_at(base), states_at(base), edges_at(base)
    kids, starts = _kids(base), _kid_starts(base)
    wanted = int64(256)
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        if edges[e, 0] >> 8 >= byte:
            taken = int64(edges[e, 0] & 255)
            taken = byte if taken < byte else taken
            wanted = taken if taken < wanted else wanted
    low, high = int64(starts[parent]), int64(starts[parent + 1])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if nodes[kids[middle], 0] & 255 < wanted:
            low = middle + 1
        else:
            high = middle
    return int64(kids[low]) if low < end else int64(nodes[parent, 1])


@inner_kernel
def _walk(base: int, out: int, low: int, high: int, k: int, within: int) -> int:
    """Allow the living tokens of the trie nodes `low..high - 1`, from the position at depth 0 of the stack.

    Subtrees with at most `within` characters, all of slice `k`, are left out: their bits are set already. Slices are
    the text classes, and then those of what stands behind a first byte, for which `within` is `ANY_LENGTH`. The stack's
    flag is the node of a narrow state, plus 1: of its children, only those that an edge takes are looked at.
    Returns the node to go on with, or, below 0, the node at which the automaton wants something, less LENGTH. The
    commonest step, an edge without flags, is taken here.
    """
    nodes, stack, states, r = nodes_at(base), stack_at(base), states_at(base), registers_at(base)
    cover = view_uint8(r[V_COVER] + k * r[V_N_NODES])
    runs = view_uint16(r[V_RUNS] + 2 * k * r[V_N_NODES])
    i = low
    while i < high:
        if within == ANY_LENGTH:
            if runs[i] != 0:
                i += int64(runs[i])
                continue
        elif within > 0 and cover[i] <= within:
            i = int64(nodes[i, 1])
            continue
        depth, byte = nodes[i, 0] >> 8, int64(nodes[i, 0] & 255)
        s, f, c, parent = stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2], stack[depth - 1, 3] - 1
        t = edge(base, s, byte)
        if 0 < t and t < INC and states[t, MISS] & EAGER == 0:
            s = int64(t)
        elif t == 0 and parent >= 0:
            i = _next_child(base, s, parent, byte)
            continue
        else:
            s, f, c = kept_step(base, s, f, c, byte)
            if s < 0:
                return i - LENGTH
        if s == 0:
            i = int64(nodes[i, 1])
            continue
        allow(base, out, int64(nodes[i, 2]))
        if _narrow(base, s):
            put(base, depth, s, f, c, i + 1)
            i = _next_child(base, s, i, int64(0))
        else:
            put(base, depth, s, f, c, int64(0))
            i += 1
    return i


@inner_kernel
def _takes_names(base: int, s: int) -> bool:
    """Has the state an edge for a character of the largest class of `RestSlice`?"""
    states, edges = states_at(base), edges_at(base)
    for e in range(states[s, START], states[s, START] + states[s, COUNT]):
        for i in range(_NAMES.shape[0]):
            if edges[e, 0] & 255 <= _NAMES[i, 1] and edges[e, 0] >> 8 >= _NAMES[i, 0]:
                return True
    return False


@inner_kernel
def _class_behind(base: int, s: int, f: int, c: int, byte: int) -> int:
    """The largest class of which any characters may follow behind a byte, or -1; -2 when the registers say what is
    wanted. What the byte leads to is left, if it takes no such characters, as any of them would leave it."""
    states, blocks, depths = states_at(base), _blocks(base), _depths(base)
    s, f, c = step(base, s, f, c, byte)
    while s > 0:
        if unexpanded(base, s):
            return -2
        if _takes_names(base, s):
            mode, block = (states[s, KIND] >> 4) & 15, states[s, KIND] >> 8
            if states[s, HI] != UNBOUNDED:
                return -1
            if mode == FREE:
                return NAMING - 1
            if mode == CHARS:
                at = blocks[block, 2] + s - blocks[block, 0]
                for k in range(NAMING - 1, -1, -1):
                    if depths[at + k * blocks[block, 1]] == 255:
                        return int64(k)
            return -1
        s, f, c = miss(base, s, f, c)
    return -2 if s < 0 else -1


@inner_kernel
def _in_class(k: int, byte: int) -> bool:
    """Is a byte a character of the text class `k`?"""
    for i in range(class_ends[k - 1] if k > 0 else 0, class_ends[k]):
        if class_bounds[i, 0] <= byte and byte <= class_bounds[i, 1]:
            return True
    return False


@inner_kernel
def _allow_behind(base: int, out: int, k: int, byte: int) -> None:
    """Allow the tokens that go on with characters of class `k` behind their first byte."""
    r, starts = registers_at(base), _rest_starts(base)
    ids, mask, at = view_int32(r[V_REST_IDS]), view_uint32(out), int64(_rest_row_of(base)[k, byte])
    if at >= 0:
        row = view_uint32(r[V_REST_ROWS] + at * 4 * r[V_WORDS])
        for w in range(r[V_WORDS]):
            mask[w] |= row[w]
    else:
        for i in range(starts[k, byte], starts[k, byte + 1]):
            mask[ids[i] >> 5] |= 1 << (ids[i] & 31)


@inner_kernel
def _walk_byte(base: int, out: int, low: int, byte: int, best: int, within: int) -> int:
    """`_walk` below a first byte, from node `low` on. Where it has many nodes, any characters of a class may follow the
    byte, and no class that it is in covers the whole place, its tokens that go on with them are allowed at once."""
    stack, first = stack_at(base), _first(base)
    high = int64(first[byte + 1])
    if high - first[byte] < MANY or (within > 0 and _in_class(best, byte)):
        return _walk(base, out, low, high, best, within)
    k = _class_behind(base, stack[0, 0], stack[0, 1], stack[0, 2], byte)
    if k == -2:
        return low - LENGTH
    if k == -1:
        return _walk(base, out, low, high, best, within)
    _allow_behind(base, out, k, byte)
    return _walk(base, out, low, high, class_ends.size + k, int64(ANY_LENGTH))


@inner_kernel
def _walk_from(base: int, out: int, s: int, f: int, c: int, best: int, within: int) -> int:
    """`_walk_byte` for the first bytes that the position can take at all: 0, or -1 when something is wanted.

    They are the edges of the state and of those that its misses lead to, in turn; a *segment* is one byte of an edge.
    """
    states, edges, r = states_at(base), edges_at(base), registers_at(base)
    first = _first(base)
    put(base, int64(0), s, f, c, int64(0))
    segment = int64(0)
    while s > 0:
        if unexpanded(base, s):
            return -1
        start = states[s, START]
        for e in range(start, start + states[s, COUNT]):
            for byte in range(edges[e, 0] & 255, (edges[e, 0] >> 8) + 1):
                if segment >= r[R_SEGMENT] and first[byte] < first[byte + 1]:
                    low = r[R_NODE] if segment == r[R_SEGMENT] and first[byte] < r[R_NODE] else int64(first[byte])
                    stopped = _walk_byte(base, out, low, int64(byte), best, within)
                    if stopped < 0:
                        r[R_SEGMENT], r[R_NODE] = segment, stopped + LENGTH
                        return -1
                    r[R_SEGMENT], r[R_NODE] = segment + 1, 0
                segment += 1
        s, f, c = miss(base, s, f, c)
    return s


@inner_kernel
def _free_row(base: int, out: int, inner: int, c: int) -> None:
    """Start the mask inside a free string: the tokens that stay inside."""
    states = states_at(base)
    free = V_FREE + (states[inner, KIND] >> 8) * FREE_REGISTERS
    r = registers_at(base)
    levels = view_int32(r[free + F_LEVELS])
    room = r[free + F_LONGEST]
    if states[inner, HI] != UNBOUNDED and states[inner, HI] - c < room:
        room = states[inner, HI] - c
        room = 0 if room < 0 else room
    begin(base, out, r[free + F_ROWS], int64(levels[room]), int64(0))


@inner_kernel
def _allow_entries(out: int, where: int, low: int, high: int, least: int, most: int) -> None:
    """Allow the tokens of the entries `low..high - 1` with as many code points as are owed and have room."""
    entries, mask = _suffix_entries(where), view_uint32(out)
    for e in range(low, high):
        token, points = entries[e, 0], entries[e, 1]
        if least <= points and points <= most:
            mask[token >> 5] |= 1 << (token & 31)


@inner_kernel
def _free_ends(base: int, out: int, inner: int, f: int, c: int) -> int:
    """Allow the tokens that close the free string: only what follows their quote is walked."""
    states, stack, r = states_at(base), stack_at(base), registers_at(base)
    free = V_FREE + (states[inner, KIND] >> 8) * FREE_REGISTERS
    nodes = _suffix_nodes(r[free + F_NODES])
    entries = r[free + F_ENTRIES]
    least = states[inner, LO] - c
    most = LENGTH if states[inner, HI] == UNBOUNDED else states[inner, HI] - c
    # The quote asks for LO: whether it is reached, the characters of each entry decide.
    owed = int64(states[inner, LO])
    s, g, k = step(base, inner, f, owed if c < owed else c, int64(0x22))
    if s <= 0:
        return s
    put(base, int64(0), s, g, k, int64(0))
    _allow_entries(out, entries, int64(0), r[free + F_ROOT_ENTRIES], least, most)
    i, n = r[R_NODE], r[free + F_N_NODES]
    while i < n:
        depth = nodes[i, 0] >> 8
        s, g, k = step(base, stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2], int64(nodes[i, 0] & 255))
        if s < 0:
            r[R_NODE] = i
            return -1
        if s == 0:
            i = int64(nodes[i, 1])
            continue
        put(base, depth, s, g, k, int64(0))
        _allow_entries(out, entries, int64(nodes[i, 2]), int64(nodes[i, 3]), least, most)
        i += 1
    return 0


@inner_kernel
def _overlay(base: int, out: int, s: int, f: int, c: int) -> int:
    """Correct the mask of the free text in `out` along the literals that start at `s`: 0, or -1 when it is stopped.

    The stack's flag is 1 while the bytes so far are the beginning of a literal still inside the text: there a byte
    that leaves the literals leads to the text, whose bits are right already. Beyond, every token is set or cleared.
    """
    nodes, stack, states, r = nodes_at(base), stack_at(base), states_at(base), registers_at(base)
    put(base, int64(0), s, f, c, int64(1))
    i = r[R_NODE]
    while i < r[V_N_NODES]:
        depth, byte, inside = nodes[i, 0] >> 8, int64(nodes[i, 0] & 255), 0
        s, f, c = stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2]
        if stack[depth - 1, 3]:
            t = edge(base, s, byte)
            if t == 0:
                i = int64(nodes[i, 1])
                continue
            s = 0
            if t > 0:
                inside = 1 if (states[t & TARGET, KIND] >> 4) & 15 == OVERLAY else 0
                s, f, c = settle(base, int64(t & TARGET), f, c)
        else:
            s, f, c = step(base, s, f, c, byte)
        if s < 0:
            r[R_NODE] = i
            return -1
        if s == 0:
            forbid(base, out, i, int64(nodes[i, 1]))
            i = int64(nodes[i, 1])
            continue
        put(base, depth, s, f, c, int64(inside))
        allow(base, out, int64(nodes[i, 2]))
        i += 1
    return 0


@inner_kernel
def _best_class(base: int, s: int, c: int) -> tuple[int, int]:
    """The text class and length row that cover most tokens at state `s` of a lifted `CharDfa`, `c` characters on."""
    blocks, depths, counts = _blocks(base), _depths(base), _counts(base)
    block = states_at(base)[s, KIND] >> 8
    first, width, offset = blocks[block, 0], blocks[block, 1], blocks[block, 2]
    best, level, most, room = int64(0), int64(0), int64(-1), int64(LENGTHS)
    if states_at(base)[s, HI] != UNBOUNDED:
        # HI leaves room for the shortest end from here; after more characters it may be as far as `slack`.
        room = states_at(base)[s, HI] - c - blocks[block, 4]
        room = 0 if room < 0 else LENGTHS - 1 if room >= LENGTHS else room
    for k in range(blocks[block, 3]):
        depth = int64(depths[offset + k * width + s - first])
        row = LENGTHS if depth == 255 else LENGTHS - 1 if depth >= LENGTHS else depth
        row = room if room < row else row
        if counts[k, row] > most:
            best, level, most = k, row, counts[k, row]
    return best, level


@inner_kernel
def _fill_free(base: int, out: int, s: int, f: int, c: int) -> int:
    """The mask in a free string, or in one but for some literals: 0, or -1 when it is stopped."""
    states, r = states_at(base), registers_at(base)
    overlay = (states[s, KIND] >> 4) & 15 == OVERLAY
    inner = int64(states[s, A]) if overlay else s
    if r[R_PHASE] == 0:
        _free_row(base, out, inner, c)
        r[R_PHASE], r[R_NODE] = 1, 0
    if r[R_PHASE] == 1:
        if _free_ends(base, out, inner, f, c) < 0:
            return -1
        r[R_PHASE], r[R_NODE] = 2, 0
    return _overlay(base, out, s, f, c) if overlay else 0


@inner_kernel
def _fill_walk(base: int, out: int, s: int, f: int, c: int) -> int:
    """The mask by a walk of the trie, less what text classes cover: 0, or -1 when it is stopped."""
    r = registers_at(base)
    best, level = 0, 0
    if (states_at(base)[s, KIND] >> 4) & 15 == CHARS:
        best, level = _best_class(base, s, c)
        exits, home = exits_of(base, s), home_of(base, s)
        if home != 0 and r[V_LIKE] != 0:
            return fill_like(base, out, s, f, c, home)
        if exits != 0 and (r[V_LIKE] != 0 or untouched(base, exits) > _counts(base)[best, level]):
            return fill_text(base, out, s, f, c, exits)
    if r[R_PHASE] == 0:
        begin(base, out, r[V_ROWS], int64(best * (LENGTHS + 1) + level), int64(level == 0))
        r[R_PHASE], r[R_SEGMENT], r[R_NODE] = 1, 0, 0
    return _walk_from(base, out, s, f, c, int64(best), ANY_LENGTH if level == LENGTHS else level)


@inner_kernel
def _empty(base: int, out: int) -> bool:
    """True for a mask without a bit. No early way out: a loop without one takes eight words at a time."""
    mask, bits = view_uint32(out), 0
    for w in range(registers_at(base)[V_WORDS]):
        bits |= mask[w]
    return bits == 0


@kernel
def fill(base: int, position: int, out: int, answer: int) -> int:
    """Write the mask of `position` to address `out`, uint32[words]: 1 when the text may end there, 0 when not, 2 when
    nothing at all is allowed, -1 when the registers say what is wanted (provide it and call again; R_PHASE must be 0
    at the first call). Tests are answered as `answer` says; where one was met, the result has TESTED added."""
    r = registers_at(base)
    if r[R_PHASE] == 0:  # also where something was wanted before the first phase: its tests will be met again
        forget_tests(base)
    r[R_ANSWER] = answer
    ends = _fill(base, position, out)
    r[R_ANSWER] = ASK
    return ends + TESTED if r[R_MET] != 0 and ends >= 0 else ends


@inner_kernel
def _entered(base: int, s: int, f: int, c: int) -> Position:
    """The position in what a state without edges calls or goes to with any byte; s is -1 where that is not written."""
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
    s, f, c = settle(base, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT)
    ending, below = s, f
    if s >= 0:
        s, f, c = _entered(base, s, f, c)
    if s < 0:
        return -1
    kind = states_at(base)[s, KIND]
    mode = PLAIN if kind >> 8 and (kind >> 4) & 15 == OVERLAY else (kind >> 4) & 15
    if mode in (FREE, OVERLAY):
        stopped = _fill_free(base, out, s, f, c)
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
