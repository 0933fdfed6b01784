"""Kernels that lift a `CharDfa` to bytes: see `chars`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import edges_at, int64, states_at
from structgen.automaton.tables import (
    CHARS, COUNT, HI, INC, KIND, LO, MISS, NOTHING, POP, RANGES, ROOM, START, STUB, A, B, Int32,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel

MAX_DEPTH = 255
ALSO, UNEVEN = 1, 2
"""Why a row is not whole when the kernel has written it: its caller has more edges for it, or characters beyond ASCII
lead to several states."""
MANY = 64
"""Depths below this are told exactly: more than the masks tell apart."""

# The bytes between the lead of a character beyond ASCII and its end: seven states, by first byte, last byte, and the
# state that follows (-1: the character is complete); and which of them each lead byte goes to.
_CONTINUED: Int32 = np.array(
    [(0x80, 0xBF, -1), (0x80, 0xBF, 0), (0x80, 0xBF, 1), (0xA0, 0xBF, 0), (0x80, 0x9F, 0), (0x90, 0xBF, 1),
     (0x80, 0x8F, 1)],
    np.int32,
)  # fmt: skip
_LEADS: Int32 = np.array(
    [(0xC2, 0xDF, 0), (0xE0, 0xE0, 3), (0xE1, 0xEC, 1), (0xED, 0xED, 4), (0xEE, 0xEF, 1), (0xF0, 0xF0, 5),
     (0xF1, 0xF3, 2), (0xF4, 0xF4, 6)],
    np.int32,
)  # fmt: skip


def alive_depths(bounds: Int32, classes: Int32, nexts: Int32, spans: Int32, ends: Int32) -> npt.NDArray[np.uint8]:
    """uint8[text classes, states]: how many characters of a text class may follow state `q + 1`, whichever
    they are, with the DFA still alive. `MAX_DEPTH` means any number, `MANY` at least so many."""
    depths = np.full((len(ends), len(nexts) - 1), MAX_DEPTH, np.uint8)
    lasts = np.append(bounds[1:] - 1, np.int32(0x10FFFF))
    _alive_depths(bounds, lasts, classes, nexts, spans, ends, np.zeros(nexts.shape[1], np.uint8), depths)
    return depths


@kernel
def _alive_depths(
    bounds: Int32, lasts: Int32, classes: Int32, nexts: Int32, spans: Int32, ends: Int32,
    used: npt.NDArray[np.uint8], depths: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    n, width = nexts.shape
    j = 0
    for k in range(ends.size):
        for c in range(width):
            used[c] = 0
        while j < ends[k]:
            for i in range(bounds.size):
                if bounds[i] <= spans[j, 1] and lasts[i] >= spans[j, 0]:
                    used[classes[i]] = 1
            j += 1
        level = 0
        changed = True
        while changed and level < MANY:
            changed = False
            for q in range(1, n):
                if depths[k, q - 1] != MAX_DEPTH:
                    continue
                for c in range(width):
                    t = nexts[q, c]
                    if used[c] and (t == 0 or depths[k, t - 1] < level):
                        depths[k, q - 1] = level
                        changed = True
                        break
            level += 1
        _mark_finite(nexts, used, depths[k], changed=changed)


@inner_kernel
def _mark_finite(nexts: Int32, used: npt.NDArray[np.uint8], depths: npt.NDArray[np.uint8], changed: bool) -> None:
    """Give `MANY` to the states left from which the DFA dies later. Most are found in one pass, since states are
    numbered from the start on; where passes do not come to an end, all that are left get it."""
    for _ in range(MANY):
        if not changed:
            return
        changed = False
        for q in range(nexts.shape[0] - 1, 0, -1):
            for c in range(nexts.shape[1]):
                t = nexts[q, c]
                if depths[q - 1] == MAX_DEPTH and used[c] and (t == 0 or depths[t - 1] != MAX_DEPTH):
                    depths[q - 1] = MANY
                    changed = True
    for q in range(depths.size):
        if changed and depths[q] == MAX_DEPTH:
            depths[q] = MANY


def ascii_spans(bounds: Int32, classes: Int32, *, quoted: bool) -> Int32:
    """int32[n, 3]: first character, last character, class: the intervals up to 0x7F; inside quotes without the
    characters that do not stand there as they are. Class 0, in which nothing lives, is left out."""
    allowed = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)) if quoted else ((0, 0x7F),)
    lasts = [*(bounds[1:] - 1).tolist(), 0x10FFFF]
    spans = [
        (max(a, low), min(b, high), c)
        for a, b, c in zip(bounds.tolist(), lasts, classes.tolist(), strict=True)
        if c and a < 0x80
        for low, high in allowed
        if max(a, low) <= min(b, high)
    ]
    return np.array(spans, np.int32).reshape(-1, 3)


def wide_classes(bounds: Int32, classes: Int32) -> Int32:
    """The classes of the intervals that reach beyond ASCII and are not made of surrogates alone."""
    lasts = np.append(bounds[1:] - 1, 0x10FFFF)
    wide = (lasts >= 0x80) & ~((bounds >= 0xD800) & (lasts <= 0xDFFF))
    return np.flatnonzero(np.bincount(classes[wide])).astype(np.int32)


@kernel
def write_utf8(base: int, first: int, target: int, limit: int, n: int) -> int:
    """Write the seven states between the bytes of any character beyond ASCII, which leads to `target`.

    Returns:
        The new count of edges.
    """
    states, edges = states_at(base), edges_at(base)
    for i in range(_CONTINUED.shape[0]):
        follows = _CONTINUED[i, 2]
        edges[n, 0] = _CONTINUED[i, 0] | _CONTINUED[i, 1] << 8
        edges[n, 1] = target if follows < 0 else first + follows
        states[first + i, KIND], states[first + i, START], states[first + i, COUNT] = RANGES, n, 1
        states[first + i, MISS], states[first + i, A], states[first + i, B] = NOTHING, 0, 0
        states[first + i, LO], states[first + i, HI] = 0, limit
        n += 1
    return n


@kernel
def lift_rows(
    base: int, spans: Int32, wides: Int32, nexts: Int32, low: int, high: int, first: int, escapes: int,
    ends: Int32, quoted: bool, block: int, continued: Int32, owed: npt.NDArray[np.uint8],
    limits: Int32, counted: bool, escaped: Int32, n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of DFA states `low..high - 1` that are stubs; the new counts of states and edges.

    Args:
        spans, wides: `ascii_spans` and `wide_classes`.
        owed: of each row, is it ALSO? Where it is UNEVEN, that is added. Those rows stay stubs until their last edges
            are there. 0 for a row that is no stub.
        escaped: the classes of which a character may stand behind a backslash.
    """
    states, edges = states_at(base), edges_at(base)
    inc, room = (INC, ROOM) if counted else (0, 0)
    for q in range(low, high):
        s = first + q - 1
        if states[s, KIND] != STUB:  # an exception has stopped this chunk before
            owed[q - low] = 0
            continue
        # The states that are shared come first, so that the edges of q stand together.
        wide, even = int64(nexts[q, wides[0]]), True
        for i in range(1, wides.size):
            even = even and nexts[q, wides[i]] == wide
        if not even:
            owed[q - low] |= UNEVEN
            wide = 0
        if wide > 0 and continued[wide] == 0:
            continued[wide] = n_states
            n_edges = write_utf8(base, n_states, first + wide - 1 | inc, int64(limits[wide]), n_edges)
            n_states += 7
        start = n_edges
        for i in range(spans.shape[0] - 1, -1, -1):  # edges are searched in order: lower case before all else
            t = nexts[q, spans[i, 2]]
            if t > 0:
                target = first + t - 1 | inc
                a, b = spans[i, 0], spans[i, 1]
                if n_edges > start and edges[n_edges - 1, 1] == target and edges[n_edges - 1, 0] & 255 == b + 1:
                    n_edges -= 1
                    b = edges[n_edges, 0] >> 8
                edges[n_edges, 0], edges[n_edges, 1] = a | b << 8, target
                n_edges += 1
        if quoted:
            if ends[q]:
                edges[n_edges, 0], edges[n_edges, 1] = 0x22 | 0x22 << 8, ends[q]
                n_edges += 1
            alive = 0
            for i in range(escaped.size):
                alive |= nexts[q, escaped[i]]
            if alive:
                edges[n_edges, 0], edges[n_edges, 1] = 0x5C | 0x5C << 8, escapes + q - 1 | room
                n_edges += 1
        if wide > 0:
            for i in range(_LEADS.shape[0]):
                edges[n_edges, 0] = _LEADS[i, 0] | _LEADS[i, 1] << 8
                edges[n_edges, 1] = (continued[wide] | room) + _LEADS[i, 2]
                n_edges += 1
        leaves = not quoted and ends[q] > 0
        states[s, KIND] = STUB if owed[q - low] else RANGES | CHARS << 4 | block << 8
        states[s, START], states[s, COUNT] = start, n_edges - start
        states[s, MISS] = POP if leaves else NOTHING
        states[s, A], states[s, B] = ends[q] - 1 if leaves else 0, 0
        states[s, LO], states[s, HI] = 0, limits[q]
    return n_states, n_edges
