"""All kernels as the text of one Cython module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np

from kernel_build import sources
from kernel_build.bodies import Body
from kernel_build.sources import NOTHING, Array, Kernel, Package, c_type, decorator, kernel_files

ELEMENTS = {
    "int16": "NPY_INT16", "int32": "NPY_INT32", "int64": "NPY_INT64", "uint8": "NPY_UINT8", "uint16": "NPY_UINT16",
    "uint32": "NPY_UINT32", "bool_": "NPY_BOOL", "float64": "NPY_FLOAT64",
}  # fmt: skip
"""The elements of arrays, and numpy's numbers for them."""

HEADER = '''# cython: language_level=3, binding=False
"""All kernels, made from the sources that are decorated with `kernel`: see `kernel_build`."""
cimport numpy as cnp
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
cnp.import_array()
ctypedef double float64_t
ctypedef uint8_t bool__t
DIGEST = "{digest}"

cdef extern from *:
    """
    typedef double float64_t;
    typedef uint8_t bool__t;
    #define ARRAY(element) \\\\
        typedef struct {{ element *data; int64_t rows, columns, layers; }} array_of_##element; \\\\
        static inline array_of_##element make_##element( \\\\
            element *data, int64_t rows, int64_t columns, int64_t layers) \\\\
        {{ array_of_##element made = {{data, rows, columns, layers}}; return made; }}
    ARRAY(int16_t) ARRAY(int32_t) ARRAY(int64_t) ARRAY(uint8_t) ARRAY(uint16_t) ARRAY(uint32_t) ARRAY(bool__t)
    ARRAY(float64_t)
{constants}
    """
'''
ARRAY = """
cdef extern from *:
    ctypedef struct array_of_{element}:
        {element} *data
        int64_t rows, columns, layers
    array_of_{element} make_{element}({element} *, int64_t, int64_t, int64_t) noexcept nogil

cdef array_of_{element} take_{element}(object array, int dimensions, str name) except *:
    if not (cnp.PyArray_Check(array) and cnp.PyArray_TYPE(array) == cnp.{number}
            and cnp.PyArray_NDIM(array) == dimensions and cnp.PyArray_IS_C_CONTIGUOUS(array)):
        raise TypeError(
            f"{{name}} must be a contiguous array of {numpy} with {{dimensions}} dimensions: {{array!r:.200}}")
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    return make_{element}(<{element} *>cnp.PyArray_DATA(array), shape[0], shape[1] if dimensions > 1 else 0,
                          shape[2] if dimensions > 2 else 0)
"""


class Translation:
    """All kernels of the package as one text of Cython."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.package = Package()
        self.constants: dict[str, str] = {}
        self.kernels: dict[tuple[str, str], Kernel] = {}
        for module in modules:
            source = self.package.source(module)
            for name, node in source.functions.items():
                arguments = {each.arg: self.package.type_of(module, each.annotation) for each in node.args.args}
                result = self.package.type_of(module, node.returns)
                self.kernels[module, name] = Kernel(source, node, arguments, result)

    def text(self) -> str:
        body = "".join(part for kernel in self.kernels.values() for part in self._parts(kernel))
        arrays = "".join(ARRAY.format(element=f"{name}_t", numpy=name, number=n) for name, n in ELEMENTS.items())
        constants = "\n".join(f"    {line}" for line in self.constants.values())
        names = "\n".join(self._declared())
        text = f"{arrays}\ncdef extern from *:\n    pass\n{names}\n{body}"
        digest = blake2b((constants + text).encode(), digest_size=8).hexdigest()
        return HEADER.format(digest=digest, constants=constants) + text

    def _declared(self) -> Iterator[str]:
        for name, line in self.constants.items():
            yield f"cdef extern from *:\n    {line.split()[1]} *{name}"

    def _parts(self, kernel: Kernel) -> Iterator[str]:
        arguments = ", ".join(f"{c_type(type_)} {name}" for name, type_ in kernel.arguments.items())
        inline = "inline " if decorator(kernel.node) == "inner_kernel" else ""
        yield f"\ncdef {inline}{kernel.result_c} c_{kernel.name}({arguments}) noexcept nogil:\n"
        yield Body(self, kernel).text()
        if not inline:
            yield self._wrapper(kernel)

    def _wrapper(self, kernel: Kernel) -> str:
        """The function that Python calls."""
        taken, given, lines = [], [], []
        for name, type_ in kernel.arguments.items():
            taken.append(f"object {name}" if isinstance(type_, Array) else f"{c_type(type_)} {name}")
            given.append(f"a_{name}" if isinstance(type_, Array) else name)
            if isinstance(type_, Array):
                lines.append(f"cdef {type_.c} a_{name} = take_{type_.element}({name}, {type_.dimensions}, {name!r})")
        called = f"c_{kernel.name}({', '.join(given)})"
        if kernel.result == NOTHING:
            lines += ["with nogil:", f"    {called}"]
        else:
            lines += [f"cdef {kernel.result_c} result", "with nogil:", f"    result = {called}", "return result"]
        head = f"\ndef {kernel.name}({', '.join(taken)}):\n"
        return head + "".join(f"    {line}\n" for line in lines)

    def constant(self, module: str, name: str) -> Array:
        """The type of an array that is a constant; it becomes part of the text."""
        home = self.package.home(module, name)
        assert home
        values = np.asarray(self.package.value(module, name))
        element = f"{values.dtype.name}_t"
        self.constants[self.constant_name(module, name)] = (
            f"static {element} {self.constant_name(module, name)}[] = "
            f"{{{', '.join(f'{number}LL' for number in values.ravel().tolist())}}};"
        )
        return Array(element, values.ndim, shape=values.shape)

    def constant_name(self, module: str, name: str) -> str:
        home = self.package.home(module, name)
        assert home
        return f"{home[0].name.replace('.', '_')}_{home[1]}"


def translated() -> str:
    """All kernels as the text of one Cython module."""
    names = [".".join(file.relative_to(sources.ROOT).with_suffix("").parts) for file in kernel_files()]
    return Translation(names).text()
