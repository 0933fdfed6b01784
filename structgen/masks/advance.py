"""The kernel that advances by one token: from a position and a token to the next position."""

from __future__ import annotations

import numpy as np


from structgen.automaton.step import Position, registers_at, settle, step
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, R_NODE, R_TAKEN, R_WANT, TARGET, WANT_ANSWER,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel, table
from structgen.masks.slices import V_DATA, V_OFFSETS

REJECTED, WANTS, ASKS = -1, -2, -3
"""Results of `advance` in place of a position."""

_data = table(np.uint8, 0, V_DATA)
_offsets = table(np.int32, 0, V_OFFSETS)


@inner_kernel
def arrived(machine: int, position: int) -> Position:
    """State, frame and counter of a packed position, after the eager actions of its state."""
    return settle(machine, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT)


@inner_kernel
def _stopped(machine: int, taken: int) -> int:
    """WANTS or ASKS: why the walk has stopped. Writes to R_NODE that `taken` bytes were read, or one more if the next
    byte led to a test."""
    registers = registers_at(machine)
    if registers[R_WANT] != WANT_ANSWER:
        return WANTS
    registers[R_NODE] = taken + registers[R_TAKEN]
    return ASKS


@kernel
def advance(machine: int, position: int, token: int, taken: int) -> int:
    """The position after a token.

    Args:
        machine: the address of the registers.
        position: the position after the first `taken` bytes of the token.

    Returns:
        The position, or one of these:
        REJECTED: the token is not allowed, or has no bytes.
        WANTS: the registers say what the automaton must provide before the same call is made again.
        ASKS: a test must be answered first. The registers hold its state (R_ARGUMENT), its frame (R_FRAME), and the
        number of bytes of the token before the test (R_NODE).
    """
    data = _data(machine)
    offsets = _offsets(machine)
    if offsets[token] == offsets[token + 1]:
        return REJECTED
    state, frame, count = arrived(machine, position)
    if state < 0:
        registers_at(machine)[R_TAKEN] = 0
        early: int = _stopped(machine, taken)
        return early
    for i in range(offsets[token] + taken, offsets[token + 1]):
        state, frame, count = step(machine, state, frame, count, data[i])
        if state <= 0:
            stopped: int = REJECTED if state == 0 else _stopped(machine, i - offsets[token])
            return stopped
    after: int = state | frame << FRAME_SHIFT | count << COUNT_SHIFT
    return after
