"""Arrays by address: a kernel sees through a view what numpy sees, and what it writes stands in numpy's array."""

from __future__ import annotations

import numpy as np
from numba import types

from structgen.kernels import kernel
from structgen.kernels.views import field, table, view, view_int32, view_int64, view_uint8, view_uint16, view_uint32

VIEWS = {"int32": view_int32, "int64": view_int64, "uint8": view_uint8, "uint16": view_uint16, "uint32": view_uint32}
_rows = view(types.int32, 3)
_third = table(types.int64, 2, 2)


@kernel
def sums(i32: int, i64: int, u8: int, u16: int, u32: int, count: int) -> int:
    """The sum of all elements of five arrays, which are doubled on the way."""
    total = 0
    a, b, c, d, e = view_int32(i32), view_int64(i64), view_uint8(u8), view_uint16(u16), view_uint32(u32)
    for i in range(count):
        total += np.int64(a[i]) + b[i] + np.int64(c[i]) + np.int64(d[i]) + np.int64(e[i])
        a[i] *= 2
        b[i] *= 2
        c[i] *= 2
        d[i] *= 2
        e[i] *= 2
    return total


@kernel
def cell(address: int, row: int, column: int) -> int:
    """One element of int32[., 3]."""
    return np.int64(_rows(address)[row, column])


@kernel
def put(base: int, row: int, value: int) -> None:
    """Writes into int64[., 2], whose address is the third register."""
    _third(base)[row, 1] = value


def test_views_of_one_dimension_read_and_write_every_kind_of_number() -> None:
    arrays = [np.arange(1, 101).astype(name) for name in VIEWS]
    assert sums(*(int(array.ctypes.data) for array in arrays), 100) == 5 * 5050
    for name, array in zip(VIEWS, arrays, strict=True):
        assert array.tolist() == list(range(2, 201, 2)), name


def test_a_view_of_rows_has_their_strides() -> None:
    array = np.arange(30, dtype=np.int32).reshape(10, 3)
    assert all(cell(int(array.ctypes.data), i, j) == array[i, j] for i in range(10) for j in range(3))


def test_a_table_is_found_through_its_register() -> None:
    first, second = np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)
    registers = np.zeros(5, np.int64)
    for array in (first, second):
        registers[2] = array.ctypes.data
        put(int(registers.ctypes.data), 3, 7)
        assert array.tolist() == [[0, 0], [0, 0], [0, 0], [0, 7]]
        array[3, 1] = 0
    assert not first.any(), "the register leads to the second array by now"


_low, _high = field(1, mask=255), field(1, shift=8)


@kernel
def halves(address: int, row: int) -> tuple[int, int]:
    """The low byte of a cell, and the number above it."""
    rows = _rows(address)
    return _low(rows, row), _high(rows, row)


def test_a_field_is_read_by_name_from_its_bits() -> None:
    array = np.array([[1, 7 << 8 | 200, 3], [1, -1, 3]], np.int32)
    assert halves(int(array.ctypes.data), 0) == (200, 7)
    assert halves(int(array.ctypes.data), 1) == (255, -1)
