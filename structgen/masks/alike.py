"""Arrays whose items are counted: positions with different counters that have the same mask.

A token with k commas begins at most k more items, whatever arrays they are in. Let k be the largest number of commas in
a token. Suppose that a counter has room for k more items, and either has reached its lower bound or is more than k
items below it. Then no token reaches a bound, so all such counters of a state have the same mask. The smallest of them
stands for all. For example, with k = 2 and 5 to 100 items, the counters 0 to 2 have one mask, and 5 to 98 another.

The counters of the open arrays are in the frames. The column ALIKE of a frame names the frame in which this counter,
and the counters of all frames below it, are replaced by the smallest such ones.
"""

from __future__ import annotations

from structgen.automaton.step import mode_of, push
from structgen.automaton.table_format import (
    ALIKE, COUNTER, COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, HI, ITEMS, LO, PARENT, RETURN, TARGET, UNBOUNDED,
    Machine,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel
from structgen.masks.advance import WANTS
from structgen.masks.slices import tables_of


@inner_kernel
def _count_alike(machine: Machine, state: int, count: int) -> int:
    """The smallest counter with which a state between items has the same mask as with `c`."""
    states, commas = machine.states, tables_of(machine).separators
    if count == 0 or state <= 0 or mode_of(machine, state) != ITEMS:
        return count
    if states[state, LO] - count > commas:
        return 0
    roomy = states[state, HI] == UNBOUNDED or states[state, HI] - count >= commas
    return states[state, LO] if count >= states[state, LO] and roomy else count


@inner_kernel
def _frame_alike(machine: Machine, frame: int) -> int:
    """The frame with the smallest counters that has the same masks; -1 if there is no room for a new frame."""
    frames = machine.frames
    while frame != 0 and frames[frame, ALIKE] == 0:
        # Fill ALIKE of the outermost frame that lacks it; the frames inside follow in the next rounds.
        here, last = frame, frame
        while here != 0 and frames[here, ALIKE] == 0:
            last, here = here, frames[here, PARENT]
        ret, parent, count = frames[last, RETURN], frames[last, PARENT], frames[last, COUNTER]
        below: int = frames[parent, ALIKE] if parent != 0 else 0
        least: int = _count_alike(machine, ret, count)
        alike: int = last
        if below != parent or least != count:
            alike = push(machine, ret, below, least)
            if alike < 0:
                return -1
            frames[alike, ALIKE] = alike
        frames[last, ALIKE] = alike
    known: int = frames[frame, ALIKE] if frame != 0 else 0
    return known


@kernel
def alike(machine: Machine, position: int) -> int:
    """The position with the smallest counters of items that has the same mask; WANTS if room for frames must be made
    first."""
    state, count = position & TARGET, position >> COUNT_SHIFT
    frame = _frame_alike(machine, (position >> FRAME_SHIFT) & FRAME_MASK)
    if frame < 0:
        return WANTS
    other: int = state | frame << FRAME_SHIFT | _count_alike(machine, state, count) << COUNT_SHIFT
    return other
