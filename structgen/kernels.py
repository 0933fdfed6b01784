"""Kernels: functions of numbers and arrays, which are compiled when the package is built.

A kernel is a function of Python, and runs as such: that is its *plain twin*. The build translates all of them to one
extension, `structgen._kernels` (see `kernel_build` in the repository). Where that is missing, the plain twins run,
with the same results and thousands of times slower.

What a kernel may contain:

- Numbers are integers, in the extension of 64 bits, which overflow in silence; floats; and bools. `and` and `or` give a
  bool there.
- Arrays are contiguous arrays of numpy, annotated with their number of dimensions: `Int32`, `Rows[Int32]` for two, and
  `Blocks[Int32]` for three. No index may be negative, except as a literal.
- Most kernels take one integer, the address of a `Record`, and find all arrays through it. `view` and `field` make
  functions that read arrays at an address, and parts of a number.
- The constants of a module are numbers, and arrays and tuples of them. A kernel calls kernels, `min`, `max`, `abs`,
  `len` and `bool`. It raises nothing, and runs without Python's lock.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, wraps
from importlib import import_module
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_type_hints, overload

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


def field(column: int, shift: int = 0, mask: int = -1) -> Callable[[Any, int], int]:
    """A function `f(table, row)` that gives `table[row, column] >> shift & mask`."""
    return lambda rows, row: rows[row, column] >> shift & mask


class Field:
    """A field of a `Record`. From the class it is its place among the record's numbers, from a record its value."""

    size = 1
    place: int

    @overload
    def __get__(self, record: None, owner: type) -> int: ...
    @overload
    def __get__(self, record: Record, owner: type) -> Any: ...
    def __get__(self, record: Record | None, owner: type) -> Any:
        return self.place if record is None else self.read(record)

    def read(self, record: Record) -> Any:
        return view_int64(record.address)[self.place]

    def __set__(self, record: Record, value: int) -> None:
        view_int64(record.address)[self.place] = value


class number(Field):  # noqa: N801 - read as words in a record
    """An integer."""


class array(Field):  # noqa: N801
    """The address of an array; it reads as the array, of `columns` columns, or of one dimension where that is 0."""

    def __init__(self, element: Any, columns: int = 0) -> None:
        self._element, self._columns = element, columns

    def read(self, record: Record) -> Any:
        return _array_at(self._element, self._columns, super().read(record))


class numbers(Field):  # noqa: N801
    """Some integers side by side; it reads as an array of them."""

    def __init__(self, size: int) -> None:
        self.size = size

    def read(self, record: Record) -> Any:
        return _array_at(np.int64, 0, record.address + 8 * self.place)


class records(Field):  # noqa: N801
    """Some records of a kind side by side."""

    def __init__(self, kind: type[Record], count: int) -> None:
        self._kind, self.size = kind, count * kind.SIZE

    def read(self, record: Record) -> Any:
        step = 8 * self._kind.SIZE
        return [self._kind(record.address + 8 * self.place + at) for at in range(0, 8 * self.size, step)]


class Record:
    """Numbers of eight bytes at an address, by name: what a struct is in C. Python holds them as an array of int64.

    A kernel that is called from Python gets the address. Its record must stay alive meanwhile, and so must all arrays
    whose addresses it holds.
    """

    SIZE: ClassVar[int] = 0
    """How many numbers of eight bytes it has."""

    def __init_subclass__(cls) -> None:
        for field_ in list(vars(cls).values()):
            if isinstance(field_, Field):
                field_.place, cls.SIZE = cls.SIZE, cls.SIZE + field_.size

    def __init__(self, address: int) -> None:
        self.address = address

    def point_at(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Writes the addresses of arrays, which are contiguous, to the fields of these names."""
        for name, each in arrays.items():
            assert each.flags.c_contiguous, f"{name} has gaps"
            setattr(self, name, each.ctypes.data)


view_int32, view_int64, view_uint8, view_uint16, view_uint32 = (
    view(np.int32), view(np.int64), view(np.uint8), view(np.uint16), view(np.uint32),
)  # fmt: skip


def _plain(function: _F) -> _F:
    """The function of numpy's arrays and of addresses, for a function of `_Array` and `Record`."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        kinds = _record_kinds(function)
        return function(
            *(
                _Array(each) if isinstance(each, np.ndarray) else kind(each) if kind and isinstance(each, int) else each
                for each, kind in zip(arguments, kinds, strict=True)
            )
        )

    return cast(_F, run)


@lru_cache(None)
def _record_kinds(function: Callable[..., Any]) -> list[type[Record] | None]:
    """For each argument, the kind of record that it is."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    return [hint if isinstance(hint, type) and issubclass(hint, Record) else None for hint in hints.values()]


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
