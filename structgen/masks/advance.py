"""The kernel that advances by one token: from a position and a token to the next position."""

from __future__ import annotations


from structgen.automaton.step import Position, settle, step
from structgen.automaton.table_format import COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, TARGET, WANT_ANSWER, Machine
from structgen.kernels import inner_kernel, kernel
from structgen.masks.slices import tables_of

REJECTED, WANTS, ASKS = -1, -2, -3
"""Results of `advance` in place of a position."""


@inner_kernel
def arrived(machine: Machine, position: int) -> Position:
    """State, frame and counter of a packed position, after the eager actions of its state."""
    return settle(machine, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT)


@inner_kernel
def _stopped(machine: Machine, taken: int) -> int:
    """WANTS or ASKS: why the walk has stopped. Writes to `machine.node` that `taken` bytes were read, or one more
    if the next byte led to a test."""
    if machine.want != WANT_ANSWER:
        return WANTS
    machine.node = taken + machine.taken
    return ASKS


@kernel
def advance(machine: Machine, position: int, token: int, taken: int) -> int:
    """The position after a token.

    Args:
        machine: the automaton.
        position: the position after the first `taken` bytes of the token.

    Returns:
        The position, or one of these:
        REJECTED: the token is not allowed, or has no bytes.
        WANTS: the automaton must provide what `machine.want` says before the same call is made again.
        ASKS: a test must be answered first. The machine holds its state (`argument`), its frame
        (`tested_frame`), and the number of bytes of the token before the test (`node`).
    """
    data = tables_of(machine).data
    offsets = tables_of(machine).offsets
    if offsets[token] == offsets[token + 1]:
        return REJECTED
    state, frame, count = arrived(machine, position)
    if state < 0:
        machine.taken = 0
        early: int = _stopped(machine, taken)
        return early
    for i in range(offsets[token] + taken, offsets[token + 1]):
        state, frame, count = step(machine, state, frame, count, data[i])
        if state <= 0:
            stopped: int = REJECTED if state == 0 else _stopped(machine, i - offsets[token])
            return stopped
    after: int = state | frame << FRAME_SHIFT | count << COUNT_SHIFT
    return after
