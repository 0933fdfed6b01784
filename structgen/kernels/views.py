"""Arrays by address, for kernels.

A kernel takes one integer, the address of the registers, and finds all arrays through it: passing arrays from kernel to
kernel costs more than the step itself (20 ns against 5), and passing one from Python 0.1 us. `numba.carray` makes the
compiler's front end slow; these views are one instruction to it.

A kernel reads a table's fields by name: `field` makes a function of a column, and `subtree_size(nodes, i)` says what
`nodes[i, 1]` hides. These functions cost nothing. They even save numba's test for a negative index, so rows must be 0
or more. A table that a loop reads is looked up before the loop (`nodes = nodes_at(base)`): in the loop the compiler
could not know that no write has changed its address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NewType

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

Base = NewType("Base", int)
"""The address of the registers: all that a kernel must know to find every table."""

LENGTH = 1 << 40
"""A length for arrays whose real one only the tables know: no kernel reads it."""


def view(element: Any, columns: int = 0) -> Any:
    """An intrinsic `f(address)` that gives the array there, of `columns` columns; 0 columns: of one dimension."""
    return _viewer(element, columns, None)


def table(element: Any, columns: int, register: int) -> Any:
    """An intrinsic `f(base)` that gives the array whose address is in a register of the registers at `base`."""
    return _viewer(element, columns, register)


def field(column: int, shift: int = 0, mask: int = -1) -> Callable[[Any, int], int]:
    """An intrinsic `f(table, row)` that gives `table[row, column] >> shift & mask` as int64.

    Example:
        `subtree_size, depth, byte = field(SKIP), field(HEAD, shift=8), field(HEAD, mask=255)`
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing_context: Any, table: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            cell = builder.load(_cell(context, builder, signature, arguments, column))
            number = context.cast(builder, cell, signature.args[0].dtype, types.int64)
            if shift:
                number = builder.ashr(number, ir.Constant(number.type, shift))
            return number if mask == -1 else builder.and_(number, ir.Constant(number.type, mask))

        return types.int64(table, types.int64), generate

    return read  # type: ignore[no-any-return]


def set_field(column: int) -> Callable[[Any, int, int], None]:
    """An intrinsic `f(table, row, value)` that does `table[row, column] = value`."""

    @intrinsic  # type: ignore[untyped-decorator]
    def write(typing_context: Any, table: Any, row: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            number = context.cast(builder, arguments[2], types.int64, signature.args[0].dtype)
            builder.store(number, _cell(context, builder, signature, arguments, column))
            return context.get_dummy_value()

        return types.void(table, types.int64, types.int64), generate

    return write  # type: ignore[no-any-return]


def _cell(context: Any, builder: Any, signature: Any, arguments: Any, column: int) -> ir.Value:
    """The address of a cell, from an intrinsic's arguments `(table, row, ...)`."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    shape, strides = (cgutils.unpack_tuple(builder, pair, 2) for pair in (array.shape, array.strides))
    place = [arguments[1], ir.Constant(ir.IntType(64), column)]
    return cgutils.get_item_pointer2(context, builder, array.data, shape, strides, "C", place)


def register(number: int) -> Callable[[Base], int]:
    """An intrinsic `f(base)` that gives the content of a register: a size, a counter, or an array's address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing_context: Any, base: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            return _register(builder, arguments[0], number)

        return types.int64(types.int64), generate

    return read  # type: ignore[no-any-return]


def _register(builder: Any, base: ir.Value, number: int) -> ir.Value:
    slot = builder.add(base, ir.Constant(base.type, 8 * number))
    return builder.load(builder.inttoptr(slot, base.type.as_pointer()))


def _viewer(element: Any, columns: int, register: int | None) -> Any:
    width = element.bitwidth // 8
    array_type = types.Array(element, 2 if columns else 1, "C")
    shape = [LENGTH, columns] if columns else [LENGTH]
    strides = [columns * width, width] if columns else [width]

    @intrinsic  # type: ignore[untyped-decorator]
    def viewer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            def number(value: int) -> ir.Constant:
                return ir.Constant(ir.IntType(64), value)

            where = arguments[0]
            if register is not None:
                where = _register(builder, where, register)
            array = context.make_array(array_type)(context, builder)
            data = builder.inttoptr(where, context.get_data_type(element).as_pointer())
            populate_array(
                array,
                data=data,
                shape=cgutils.pack_array(builder, [number(n) for n in shape]),
                strides=cgutils.pack_array(builder, [number(n) for n in strides]),
                itemsize=number(width),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(types.int64), generate

    return viewer


view_int32, view_int64, view_uint8, view_uint16, view_uint32 = (
    view(element) for element in (types.int32, types.int64, types.uint8, types.uint16, types.uint32)
)
