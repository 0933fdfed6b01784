"""Steps that take long, each taken once.

In a parser's tables a byte may leave a token, reduce a few rules and shift: a chain of frames, for each of the many
tokens that hold it behind the same beginning. A step is a function of state, frame and byte where nothing is counted
and no test is met, so the last ones are kept, in a table that is shared by all masks of an automaton (R_KEPT).
"""

from __future__ import annotations

from numba import types

from structgen.automaton.step import Position, int64, registers_at, step
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, R_KEPT, R_PURE, STEPS_KEPT, TARGET, hash_frame,
)  # fmt: skip
from structgen.kernels.views import table
from structgen.kernels import inner_kernel

_kept = table(types.int64, 2, R_KEPT)
_hash = inner_kernel(hash_frame)


@inner_kernel
def kept_step(base: int, s: int, f: int, c: int, byte: int) -> Position:
    """`step`, from what was kept if it can be."""
    r = registers_at(base)
    if r[R_KEPT] == 0 or c != 0:
        return step(base, s, f, c, byte)
    kept, key = _kept(base), s | f << FRAME_SHIFT | byte << COUNT_SHIFT
    slot = _hash(s, f, byte) & (STEPS_KEPT - 1)
    if kept[slot, 0] == key:
        after = kept[slot, 1]
        return int64(after & TARGET), int64(after >> FRAME_SHIFT & FRAME_MASK), int64(after >> COUNT_SHIFT)
    r[R_PURE] = 1
    s, f, c = step(base, s, f, c, byte)
    if s >= 0 and r[R_PURE]:
        kept[slot, 0], kept[slot, 1] = key, s | f << FRAME_SHIFT | c << COUNT_SHIFT
    return s, f, c
