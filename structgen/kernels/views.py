"""Arrays by address, for kernels.

A kernel takes one integer, the address of the registers, and finds all arrays through it: passing arrays from kernel to
kernel costs more than the step itself (20 ns against 5), and passing one from Python 0.1 us. `numba.carray` makes the
compiler's front end slow; these views are one instruction to it.

A kernel reads the fields of a table's rows by name: `subtree_end = field(SKIP)`, then `subtree_end(nodes, node)`. That
costs nothing: it even saves numba's test for negative indexes, so no row may be negative.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

LENGTH = 1 << 40
"""A length for arrays whose real one only the tables know: no kernel reads it."""


def view(element: Any, columns: int = 0) -> Any:
    """An intrinsic `f(address)` that gives the array there, of `columns` columns; 0 columns: of one dimension."""
    return _viewer(element, columns, None)


def table(element: Any, columns: int, register: int) -> Any:
    """An intrinsic `f(base)` that gives the array whose address is in a register of the registers at `base`."""
    return _viewer(element, columns, register)


def field(column: int, shift: int = 0, mask: int = -1) -> Any:
    """An intrinsic `f(table, row)` that gives `table[row, column] >> shift & mask` as int64."""

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing_context: Any, rows: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            array = context.make_array(rows)(context, builder, arguments[0])
            shape, strides = (cgutils.unpack_tuple(builder, pair, 2) for pair in (array.shape, array.strides))
            place = [arguments[1], ir.Constant(ir.IntType(64), column)]
            cell = cgutils.get_item_pointer2(context, builder, array.data, shape, strides, "C", place)
            number = context.cast(builder, builder.load(cell), rows.dtype, types.int64)
            return builder.and_(builder.ashr(number, number.type(shift)), number.type(mask))

        return types.int64(rows, types.int64), generate

    return read


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
                slot = builder.add(where, number(8 * register))
                where = builder.load(builder.inttoptr(slot, ir.IntType(64).as_pointer()))
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
