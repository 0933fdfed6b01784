"""Interning of integer rows inside kernels: equal rows get equal indices.

A kernel that interns works on arrays of its caller, and returns for larger ones when they are full.
"""

from __future__ import annotations

import math
import mmap
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Rows, inner_kernel


_Number = TypeVar("_Number", bound=np.generic)

FIRST_ROWS = 64
LARGE = 1 << 20
"""From this size on, in bytes, scratch space has pages of its own."""
POSITIVE = (1 << 63) - 1
"""The bits of an int64 that is not negative."""


def zeros(shape: tuple[int, ...], dtype: type[_Number]) -> NDArray[_Number]:
    """Zeros, for scratch space. Large arrays have pages of their own, which go back to the system at once when freed:
    memory of the heap stays with the process while anything newer comes after it."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype).reshape(shape)


def empty_table(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A table for `intern`, at most half full when `rows` is."""
    return zeros((4 * len(rows),), np.int64)


def grown_rows(rows: NDArray[_Number], needed: int) -> NDArray[_Number]:
    """`rows` with room for at least `needed` rows, a power of two; the new ones are zero."""
    grown = zeros((1 << (needed - 1).bit_length(), *rows.shape[1:]), rows.dtype.type)
    grown[: len(rows)] = rows
    return grown


@inner_kernel
def intern(rows: Rows[NDArray[np.int64]], table: NDArray[np.int64], new: int) -> int:
    """The index of the interned row that equals `rows[new]`; if there is none, `rows[new]` is interned, as `new`.

    Args:
        rows: `[capacity, width]`; the interned rows are before `new`.
        table: open addressing, a power of two long and never full: an index into `rows`, or 0 (row 0 is never
            interned).
    """
    width, mixed = rows.shape[1], 0x4BF29CE484222325
    for column in range(width):
        mixed = (mixed ^ rows[new, column]) * 1099511628211 & POSITIVE
        mixed ^= mixed >> 29
    size = table.size - 1
    slot = mixed & size
    while table[slot] > 0:
        index: int = table[slot]
        column = 0
        while column < width and rows[index, column] == rows[new, column]:
            column += 1
        if column == width:
            return index
        slot = (slot + 1) & size
    table[slot] = new
    return new
