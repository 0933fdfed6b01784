"""Interning of integer rows inside compiled kernels: equal rows get equal indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    """numba's compiler with the settings of every kernel; `.py_func` is the plain twin."""
    return cast(_F, numba.njit(cache=True, nogil=True)(function))


@kernel
def find_row(rows: NDArray[np.int64], table: NDArray[np.int64], row: NDArray[np.int64]) -> int:
    """The index of `row` among the interned rows, or `-1 - slot` with the free slot of `table` for a new one.

    Args:
        rows: `[capacity, width]`, the interned rows.
        table: open addressing, a power of two long and never full: an index into `rows`, or -1.
        row: `[width]`.
    """
    mixed = np.uint64(14695981039346656037)
    for value in row:
        mixed = (mixed ^ np.uint64(value)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    size = np.uint64(table.size - 1)
    slot = mixed & size
    while True:
        index = table[slot]
        if index < 0:
            return int(-1 - np.int64(slot))
        same = True
        for at in range(row.size):
            if rows[index, at] != row[at]:
                same = False
                break
        if same:
            return int(index)
        slot = (slot + np.uint64(1)) & size


@kernel
def grown_rows(rows: NDArray[np.int64], needed: int) -> NDArray[np.int64]:
    """`rows` with room for at least `needed` rows, doubled until it has."""
    capacity = rows.shape[0]
    while capacity < needed:
        capacity *= 2
    grown = np.zeros((capacity, rows.shape[1]), np.int64)
    grown[: rows.shape[0]] = rows
    return grown


@kernel
def grown_table(rows: NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """A fresh table for `rows[first:count]`, at most a quarter full when `rows` is."""
    size = 64
    while size < 4 * rows.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int64)
    for index in range(first, count):
        slot = -1 - find_row(rows, table, rows[index])
        table[slot] = index
    return table
