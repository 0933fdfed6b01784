"""One token: kernels from a position and a token to the next position.

They take the address of the registers, and stop when the automaton wants something.
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import int64, registers_at, settle, step
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, R_NODE, R_TAKEN, R_WANT, TARGET, WANT_ANSWER,
)  # fmt: skip
from structgen.kernels.views import table
from structgen.kernels import inner_kernel, kernel
from structgen.masks.slices import V_DATA, V_OFFSETS

REJECTED, WANTS, ASKS = -1, -2, -3

_data = table(types.uint8, 0, V_DATA)
_offsets = table(types.int32, 0, V_OFFSETS)


@inner_kernel
def _stopped(base: int, taken: int) -> int:
    """Why a token's walk has stopped behind `taken` bytes, or behind one more when that one led to a test."""
    r = registers_at(base)
    if r[R_WANT] != WANT_ANSWER:
        return WANTS
    r[R_NODE] = taken + r[R_TAKEN]
    return ASKS


@kernel
def advance(base: int, position: int, token: int) -> int:
    """The position after a token's bytes; REJECTED; WANTS or ASKS, see `resume`, when the registers say what."""
    data = _data(base)
    offsets = _offsets(base)
    s, f, c = position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT
    if offsets[token] == offsets[token + 1]:
        return REJECTED
    for i in range(offsets[token], offsets[token + 1]):
        s, f, c = step(base, s, f, c, int64(data[i]))
        if s <= 0:
            stopped: int = REJECTED if s == 0 else _stopped(base, i - offsets[token])
            return stopped
    after: int = s | f << FRAME_SHIFT | c << COUNT_SHIFT
    return after


@kernel
def resume(base: int, position: int, token: int, taken: int) -> int:
    """The position after the rest of a token, its first `taken` bytes having led to `position`.

    REJECTED; WANTS; or ASKS: a test must be answered, it is the state in R_ARGUMENT, met in the frame R_FRAME with
    R_NODE bytes of the token taken. Then the walk resumes from there, where the answer leads."""
    data = _data(base)
    offsets = _offsets(base)
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
