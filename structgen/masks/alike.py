"""Positions in arrays whose items are counted: far from a bound, it does not matter for a mask how many came.

A token with k commas begins k more items at most, whatever arrays they are in. So where a counter has room for as many
items as any token has commas, and has reached its lower bound or is further from it than that, the mask is that of a
position with another counter: the least one of which the same is true. The counters of the open arrays stand in the
frames; each frame's `alike` is the one with such counters all the way down.
"""

from __future__ import annotations

from structgen.automaton.step import frames_at, int64, push, registers_at, states_at
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, HI, ITEMS, KIND, LO, TARGET, UNBOUNDED,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel
from structgen.masks.slices import V_SEPARATORS

RETURN, PARENT, COUNTER, ALIKE = range(4)


@inner_kernel
def _count_alike(base: int, s: int, c: int) -> int:
    """The least counter with which a state between items has the same mask as with `c`."""
    states, commas = states_at(base), registers_at(base)[V_SEPARATORS]
    if c == 0 or s <= 0 or (states[s, KIND] >> 4) & 15 != ITEMS:
        return c
    if states[s, LO] - c > commas:
        return 0
    roomy = states[s, HI] == UNBOUNDED or states[s, HI] - c >= commas
    return int64(states[s, LO]) if c >= states[s, LO] and roomy else c


@inner_kernel
def _frame_alike(base: int, frame: int) -> int:
    """The frame with the least counters that has the same masks; -1 when there is no room for it."""
    frames = frames_at(base)
    while frame != 0 and frames[frame, ALIKE] == 0:
        # The outermost frame of which it is not known comes first. Each one is looked for once.
        here, last = frame, frame
        while here != 0 and frames[here, ALIKE] == 0:
            last, here = here, frames[here, PARENT]
        ret, parent, count = frames[last, RETURN], frames[last, PARENT], frames[last, COUNTER]
        below: int = frames[parent, ALIKE] if parent != 0 else int64(0)
        least: int = _count_alike(base, ret, count)
        alike: int = last
        if below != parent or least != count:
            alike = push(base, ret, below, least)
            if alike < 0:
                return -1
            frames[alike, ALIKE] = alike
        frames[last, ALIKE] = alike
    known: int = frames[frame, ALIKE] if frame != 0 else int64(0)
    return known


@kernel
def alike(base: int, position: int) -> int:
    """The position with the least counters of items that has the same mask; -1 where the registers want more frames."""
    s, c = position & TARGET, position >> COUNT_SHIFT
    frame = _frame_alike(base, (position >> FRAME_SHIFT) & FRAME_MASK)
    if frame < 0:
        return -1
    other: int = s | frame << FRAME_SHIFT | _count_alike(base, s, c) << COUNT_SHIFT
    return other
