"""Kernels: functions of numbers and arrays, which are compiled when the package is built.

A kernel is a function of Python, and runs as such: that is its *plain twin*. The build translates all of them to one
extension, `structgen._kernels` (see `kernel_build` in the repository). Where that is missing, the plain twins run,
with the same results and thousands of times slower.

What a kernel may contain:

- Numbers are integers, in the extension of 64 bits, which overflow in silence; floats; and bools. `and` and `or` give a
  bool there.
- Arrays are contiguous arrays of numpy, annotated with their number of dimensions: `Int32`, `Rows[Int32]` for two, and
  `Blocks[Int32]` for three. No index may be negative, except as a literal.
- Most kernels take one integer, the address of *registers*, and find all arrays through it: `view`, `table` and `field`
  make the functions for that.
- The constants of a module are numbers, and arrays and tuples of them. A kernel calls kernels, `min`, `max`, `abs`,
  `len` and `bool`. It raises nothing, and runs without Python's lock.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from importlib import import_module
from typing import Annotated, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from structgen.errors import PerformanceWarning

try:
    _kernels: Any = import_module("structgen._kernels")
except ImportError:
    _kernels = None

_F = TypeVar("_F", bound=Callable[..., Any])
_A = TypeVar("_A")
Rows = Annotated[_A, "two dimensions"]
Blocks = Annotated[_A, "three dimensions"]

COMPILED = _kernels is not None
"""Is the extension there?"""
DIGEST: str = _kernels.DIGEST if COMPILED else ""
"""Stands for the sources of the extension, see `kernel_build`."""
LENGTH = 1 << 36
"""A length for arrays whose real one only the tables know."""
_twins: dict[Any, Callable[..., Any]] = {}

HOW_TO_COMPILE = (
    "not compiled: masks take a thousand times as long. Install a wheel for this Python and machine; in a working "
    "tree, run `python setup.py build_ext --inplace`, which needs Cython and a C compiler"
)
if not COMPILED:
    warnings.warn(f"the kernels of structgen are {HOW_TO_COMPILE}", PerformanceWarning, stacklevel=2)


def kernel(function: _F) -> _F:
    """A function that Python and other kernels call: the compiled one, or its plain twin."""
    name = f"{function.__module__.removeprefix('structgen.').replace('.', '_')}_{function.__name__}"
    plain = _plain(function)
    compiled = getattr(_kernels, name) if COMPILED else plain
    _twins[compiled] = plain
    return cast(_F, compiled)


def inner_kernel(function: _F) -> _F:
    """A function that only kernels call."""
    return function


def twin(compiled: _F) -> _F:
    """The plain twin of a kernel."""
    return cast(_F, _twins[compiled])


def view(element: Any, columns: int = 0) -> Callable[[int], Any]:
    """A function `f(address)` that gives the array there, of `columns` columns; 0 columns: of one dimension."""
    return lambda address: _array_at(element, columns, address)


def table(element: Any, columns: int, register: int) -> Callable[[int], Any]:
    """A function `f(base)` that gives the array whose address is in a register of the registers at `base`."""
    return lambda base: _array_at(element, columns, view_int64(base)[register])


def field(column: int, shift: int = 0, mask: int = -1) -> Callable[[Any, int], int]:
    """A function `f(table, row)` that gives `table[row, column] >> shift & mask`."""
    return lambda rows, row: rows[row, column] >> shift & mask


view_int32, view_int64, view_uint8, view_uint16, view_uint32 = (
    view(np.int32), view(np.int64), view(np.uint8), view(np.uint16), view(np.uint32),
)  # fmt: skip


def _plain(function: _F) -> _F:
    """The function of numpy's arrays, for a function of `_Array`."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        return function(*(_Array(each) if isinstance(each, np.ndarray) else each for each in arguments))

    return cast(_F, run)


@lru_cache(1 << 12)
def _array_at(element: Any, columns: int, address: int) -> _Array:
    c_type = np.ctypeslib.as_ctypes_type(element)
    values = np.ctypeslib.as_array((c_type * (LENGTH * (columns or 1))).from_address(address))
    return _Array(values.reshape(-1, columns) if columns else values)


class _Array:
    """An array for plain twins: its elements are numbers of Python, which do not overflow until they are stored."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values, self.shape, self.size = values, values.shape, values.size
        self._low, self._bits = 0, 0
        if values.dtype.kind in "iu":
            self._low, self._bits = int(np.iinfo(values.dtype).min), 8 * values.dtype.itemsize

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: Any) -> Any:
        value = self._values[place]
        return _Array(value) if isinstance(value, np.ndarray) else value.item()

    def __setitem__(self, place: Any, value: Any) -> None:
        self._values[place] = (int(value) - self._low) % (1 << self._bits) + self._low if self._bits else value
