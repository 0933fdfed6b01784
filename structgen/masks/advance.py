"""The kernel that advances by one token: from a position and a token to the next position."""

from __future__ import annotations

from numba import types

from structgen.automaton.step import int64, registers_at, settle, step
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, R_NODE, R_TAKEN, R_WANT, TARGET, WANT_ANSWER,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel
from structgen.kernels.views import table
from structgen.masks.slices import V_DATA, V_OFFSETS

REJECTED, WANTS, ASKS = -1, -2, -3
"""Results of `advance` in place of a position."""

_data = table(types.uint8, 0, V_DATA)
_offsets = table(types.int32, 0, V_OFFSETS)


@inner_kernel
def _stopped(base: int, taken: int) -> int:
    """WANTS or ASKS: why the walk has stopped. Writes to R_NODE that `taken` bytes were read, or one more if the next
    byte led to a test."""
    r = registers_at(base)
    if r[R_WANT] != WANT_ANSWER:
        return WANTS
    r[R_NODE] = taken + r[R_TAKEN]
    return ASKS


@kernel
def advance(base: int, position: int, token: int, taken: int) -> int:
    """The position after a token.

    Args:
        base: the address of the registers.
        position: the position after the first `taken` bytes of the token.

    Returns:
        The position, or one of these:
        REJECTED: the token is not allowed, or has no bytes.
        WANTS: the registers say what the automaton must provide before the same call is made again.
        ASKS: a test must be answered first. The registers hold its state (R_ARGUMENT), its frame (R_FRAME), and the
        number of bytes of the token before the test (R_NODE).
    """
    data = _data(base)
    offsets = _offsets(base)
    if offsets[token] == offsets[token + 1]:
        return REJECTED
    s, f, c = settle(base, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT)
    if s < 0:
        registers_at(base)[R_TAKEN] = 0
        early: int = _stopped(base, taken)
        return early
    for i in range(offsets[token] + taken, offsets[token + 1]):
        s, f, c = step(base, s, f, c, int64(data[i]))
        if s <= 0:
            stopped: int = REJECTED if s == 0 else _stopped(base, i - offsets[token])
            return stopped
    after: int = s | f << FRAME_SHIFT | c << COUNT_SHIFT
    return after
