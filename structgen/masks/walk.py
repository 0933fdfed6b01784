"""The joint walk of trie and automaton: kernels from a position to a packed mask, and from a token to a position.

The plain loop that all of it equals: for each token, `step` through its bytes from the position; set the token's bit
when no byte was refused. Kernels stop (-1) when the automaton wants something and go on where they were.
"""

from __future__ import annotations

from typing import Any

from numba import carray, njit

from structgen.automaton.step import (
    Registers,
    edge,
    leave,
    machine,
    may_end,
    pointer_int32,
    pointer_uint8,
    pointer_uint32,
    push,
    settle,
    step,
)
from structgen.automaton.tables import (
    CALL, CHARS, COUNT, FREE, GOTO, HI, KIND, LO, MISS, NEED, NOTHING, OVERLAY, PLAIN, R_ARGUMENT, R_BLOCKS,
    R_DEPTHS, R_NODE, R_PHASE, R_SEGMENT, R_WANT, START, STUB, TARGET, UNBOUNDED, WANT_STATE, A, B, Int32,
)  # fmt: skip
from structgen.masks.slices import (
    _FREE_REGISTERS, ANY_LENGTH, F_ENTRIES, F_LEVELS, F_N_NODES, F_NODES, F_ROOT_ENTRIES, F_ROWS, LENGTHS, V_COUNTS,
    V_COVER, V_DATA, V_ENDS, V_FIRST, V_FREE, V_N_ENDS, V_N_NODES, V_NODES, V_OFFSETS, V_ROWS, V_STACK, V_TWIN,
    V_WORDS, Uint32,
)  # fmt: skip

_ANY = 1 << 40
_FRAME_SHIFT, _COUNT_SHIFT, _FRAME_MASK = 24, 44, (1 << 20) - 1

REJECTED, WANTS = -1, -2


@njit(inline="always")  # type: ignore[untyped-decorator]
def _allow(out: Uint32, twin: Int32, token: int) -> None:
    while token >= 0:
        out[token >> 5] |= 1 << (token & 31)
        token = twin[token]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _forbid(out: Uint32, twin: Int32, nodes: Int32, low: int, high: int) -> None:
    """Clear the tokens of the trie nodes `low..high - 1`."""
    for i in range(low, high):
        token = nodes[i, 2]
        while token >= 0:
            out[token >> 5] &= ~(1 << (token & 31))
            token = twin[token]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _walk(
    r: Registers, states: Int32, edges: Int32, frames: Int32, buckets: Int32, returns: Int32, nodes: Int32, twin: Int32,
    stack: Int32, out: Uint32, low: int, high: int, covers: Any, within: int, block: int,
) -> int:  # fmt: skip
    """Allow the living tokens of the trie nodes `low..high - 1`, from the position at `stack[0]`.

    Subtrees whose tokens all have `covers <= within` are left out: their bits are set already (`block >= 0`).
    Returns `high`, or the node at which the automaton wants something, less 1 << 40.
    """
    i = low
    while i < high:
        if block >= 0 and covers[i] <= within:
            i = nodes[i, 1]
            continue
        packed = nodes[i, 0]
        depth = packed >> 8
        s, f, c = step(
            r, states, edges, frames, buckets, returns,
            stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2], packed & 255,
        )  # fmt: skip
        if s <= 0:
            if s < 0:
                return i - _ANY
            i = nodes[i, 1]
            continue
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = s, f, c
        if nodes[i, 2] >= 0:
            _allow(out, twin, nodes[i, 2])
        i += 1
    return high


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _walk_from(
    r: Registers, out: Uint32, nodes: Int32, stack: Int32, s: int, f: int, c: int, covers: Any, within: int, block: int
) -> int:
    """`_walk` below the first bytes that the position can take at all: 0, or -1 when something is wanted.

    They are the edges of the state and of those that its misses lead to, in turn; a *segment* is one such edge.
    """
    states, edges, frames, buckets, returns = machine(r)
    first = carray(pointer_int32(r[V_FIRST]), (257,))
    twin = carray(pointer_int32(r[V_TWIN]), (_ANY,))
    stack[0, 0], stack[0, 1], stack[0, 2] = s, f, c
    segment = 0
    while True:
        if states[s, KIND] & 15 == STUB:
            r[R_WANT], r[R_ARGUMENT] = WANT_STATE, s
            return -1
        start = states[s, START]
        for e in range(start, start + states[s, COUNT]):
            if segment >= r[R_SEGMENT]:
                low, high = first[edges[e, 0] & 255], first[(edges[e, 0] >> 8) + 1]
                if segment == r[R_SEGMENT] and r[R_NODE] > low:
                    low = r[R_NODE]
                stopped = _walk(
                    r, states, edges, frames, buckets, returns, nodes, twin, stack, out, low, high, covers, within, block
                )
                if stopped < 0:
                    r[R_SEGMENT], r[R_NODE] = segment, stopped + _ANY
                    return -1
                r[R_SEGMENT], r[R_NODE] = segment + 1, 0
            segment += 1
        action = states[s, MISS] & 3
        if action == NOTHING:
            return 0
        if action == GOTO:
            s, c = states[s, A], 0
        elif action == CALL:
            inner = push(r, frames, buckets, states[s, B], f, c)
            if inner < 0:
                return -1
            s, f, c = states[s, A], inner, 0
        else:
            s, f, c = leave(r, frames, returns, f, states[s, A])
            if s < 0:
                return -1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _free_row(r: Registers, out: Uint32, states: Int32, inner: int, c: int) -> None:
    """Start the mask inside a free string: the tokens that stay inside."""
    base = V_FREE + (states[inner, KIND] >> 8) * _FREE_REGISTERS
    words = r[V_WORDS]
    rows = carray(pointer_uint32(r[base + F_ROWS]), (1 << 20, words))
    levels = carray(pointer_int32(r[base + F_LEVELS]), (256,))
    most = states[inner, HI]
    room = 255 if most == UNBOUNDED else max(0, min(most - c, 254))
    row = rows[levels[room]]
    for w in range(words):
        out[w] = row[w]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _free_ends(r: Registers, out: Uint32, stack: Int32, inner: int, f: int, c: int) -> int:
    """Allow the tokens that close the free string: only what follows their quote is walked."""
    states, edges, frames, buckets, returns = machine(r)
    base = V_FREE + (states[inner, KIND] >> 8) * _FREE_REGISTERS
    nodes = carray(pointer_int32(r[base + F_NODES]), (_ANY, 4))
    entries = carray(pointer_int32(r[base + F_ENTRIES]), (_ANY, 2))
    least = states[inner, LO] - c
    most = _ANY if states[inner, HI] == UNBOUNDED else states[inner, HI] - c
    s, g, k = step(r, states, edges, frames, buckets, returns, inner, f, max(c, states[inner, LO]), 0x22)
    if s < 0:
        return -1
    stack[0, 0], stack[0, 1], stack[0, 2] = s, g, k
    for e in range(r[base + F_ROOT_ENTRIES]):
        if least <= entries[e, 1] and entries[e, 1] <= most:
            out[entries[e, 0] >> 5] |= 1 << (entries[e, 0] & 31)
    i = r[R_NODE]
    while i < r[base + F_N_NODES]:
        packed = nodes[i, 0]
        depth = packed >> 8
        s, g, k = step(
            r, states, edges, frames, buckets, returns,
            stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2], packed & 255,
        )  # fmt: skip
        if s <= 0:
            if s < 0:
                r[R_NODE] = i
                return -1
            i = nodes[i, 1]
            continue
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = s, g, k
        for e in range(nodes[i, 2], nodes[i, 3]):
            if least <= entries[e, 1] and entries[e, 1] <= most:
                out[entries[e, 0] >> 5] |= 1 << (entries[e, 0] & 31)
        i += 1
    return 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _overlay(r: Registers, out: Uint32, nodes: Int32, stack: Int32, s: int, f: int, c: int) -> int:
    """Correct the mask of the free text `out` along the literals that start at `s`: 0, or -1 when something is wanted.

    `stack[d, 3]` is 1 while the bytes up to depth `d` are the beginning of a literal still inside the text: there a
    byte that leaves the literals leads to the text, whose bits are right already. Beyond, every token is set or cleared.
    """
    states, edges, frames, buckets, returns = machine(r)
    twin = carray(pointer_int32(r[V_TWIN]), (_ANY,))
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = s, f, c, 1
    i = r[R_NODE]
    while i < r[V_N_NODES]:
        packed = nodes[i, 0]
        depth = packed >> 8
        up, byte = depth - 1, packed & 255
        s, f, c = stack[up, 0], stack[up, 1], stack[up, 2]
        inside = 0
        if stack[up, 3]:
            t = edge(states, edges, s, byte)
            if t == 0:
                i = nodes[i, 1]
                continue
            s = 0
            if t > 0:
                inside = (states[t & TARGET, KIND] >> 4) & 15 == OVERLAY
                s, f, c = settle(r, states, frames, buckets, returns, t & TARGET, f, c)
        else:
            s, f, c = step(r, states, edges, frames, buckets, returns, s, f, c, byte)
        if s < 0:
            r[R_NODE] = i
            return -1
        if s == 0:
            _forbid(out, twin, nodes, i, nodes[i, 1])
            i = nodes[i, 1]
            continue
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = s, f, c, inside
        if nodes[i, 2] >= 0:
            _allow(out, twin, nodes[i, 2])
        i += 1
    return 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _best_class(r: Registers, s: int, block: int) -> tuple[int, int]:
    """The text class and length row that cover most tokens at state `s` of a lifted `CharDfa`; (-1, 0): none."""
    blocks = carray(pointer_int32(r[R_BLOCKS]), (_ANY, 4))
    depths = carray(pointer_uint8(r[R_DEPTHS]), (_ANY,))
    counts = carray(pointer_int32(r[V_COUNTS]), (64, LENGTHS + 1))
    first, width, offset, classes = blocks[block, 0], blocks[block, 1], blocks[block, 2], blocks[block, 3]
    best, level, most = -1, 0, 0
    for k in range(classes):
        depth = depths[offset + k * width + s - first]
        row = LENGTHS if depth == 255 else min(depth, LENGTHS - 1)
        if counts[k, row] > most:
            best, level, most = k, row, counts[k, row]
    return best, level


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill(r: Registers, position: int, out: Uint32) -> int:
    """Write the mask of `position` into `out`: 1 when the text may end there, 0 when not, -1 when the registers say
    what is wanted (provide it and call again; R_PHASE must be 0 at the first call)."""
    states, edges, frames, buckets, returns = machine(r)
    s, f, c = position & TARGET, (position >> _FRAME_SHIFT) & _FRAME_MASK, position >> _COUNT_SHIFT
    s, f, c = settle(r, states, frames, buckets, returns, s, f, c)
    if s < 0:
        return -1
    if states[s, KIND] & 15 == STUB:
        r[R_WANT], r[R_ARGUMENT] = WANT_STATE, s
        return -1
    nodes = carray(pointer_int32(r[V_NODES]), (_ANY, 3))
    stack = carray(pointer_int32(r[V_STACK]), (_ANY, 4))
    words, mode, aux = r[V_WORDS], (states[s, KIND] >> 4) & 15, states[s, KIND] >> 8
    if mode == OVERLAY and aux:
        mode = PLAIN
    inner = states[s, A] if mode == OVERLAY else s
    if mode == CHARS:
        best, level = _best_class(r, s, aux)
    else:
        best, level = -1, 0
    if r[R_PHASE] == 0:
        if mode == FREE or mode == OVERLAY:
            _free_row(r, out, states, inner, c)
        elif best >= 0:
            rows = carray(pointer_uint32(r[V_ROWS]), (64, LENGTHS + 1, words))
            for w in range(words):
                out[w] = rows[best, level, w]
        else:
            for w in range(words):
                out[w] = 0
        r[R_PHASE], r[R_SEGMENT], r[R_NODE] = 1, 0, 0
    if mode == FREE or mode == OVERLAY:
        if r[R_PHASE] == 1:
            if _free_ends(r, out, stack, inner, f, c) < 0:
                return -1
            r[R_PHASE], r[R_NODE] = 2, 0
        if mode == OVERLAY and _overlay(r, out, nodes, stack, s, f, c) < 0:
            return -1
    else:
        covers = carray(pointer_uint8(r[V_COVER] + max(best, 0) * r[V_N_NODES]), (_ANY,))
        within = ANY_LENGTH if level == LENGTHS else level
        if _walk_from(r, out, nodes, stack, s, f, c, covers, within, best) < 0:
            return -1
    return _end_bits(r, out, s, f)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _end_bits(r: Registers, out: Uint32, s: int, f: int) -> int:
    """Allow the end tokens where the text may end."""
    states, _, frames, _, returns = machine(r)
    ends = may_end(r, states, frames, returns, s, f)
    if ends == 1:
        ids = carray(pointer_int32(r[V_ENDS]), (_ANY,))
        for i in range(r[V_N_ENDS]):
            out[ids[i] >> 5] |= 1 << (ids[i] & 31)
    return ends


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def advance(r: Registers, position: int, token: int) -> int:
    """The position after a token's bytes; REJECTED, or WANTS when the registers say what."""
    states, edges, frames, buckets, returns = machine(r)
    data = carray(pointer_uint8(r[V_DATA]), (_ANY,))
    offsets = carray(pointer_int32(r[V_OFFSETS]), (_ANY,))
    s, f, c = position & TARGET, (position >> _FRAME_SHIFT) & _FRAME_MASK, position >> _COUNT_SHIFT
    if offsets[token] == offsets[token + 1]:
        return REJECTED
    for i in range(offsets[token], offsets[token + 1]):
        s, f, c = step(r, states, edges, frames, buckets, returns, s, f, c, data[i])
        if s <= 0:
            return REJECTED if s == 0 else WANTS
    return s | f << _FRAME_SHIFT | c << _COUNT_SHIFT


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def ends_at(r: Registers, position: int) -> int:
    """1 when the text may end at `position`, 0 when not, -1 when the registers say what is wanted."""
    states, _, frames, _, returns = machine(r)
    return may_end(r, states, frames, returns, position & TARGET, (position >> _FRAME_SHIFT) & _FRAME_MASK)


