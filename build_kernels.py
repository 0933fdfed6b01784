"""Translates the kernels to one Cython module, from which the build of a wheel makes an extension (see `setup.py`).

A kernel is a function of Python that is decorated with `kernel` or `inner_kernel` (see `structgen.kernels`, which says
what it may contain). Its numbers become int64_t, its arrays a pointer with the array's shape, and the constants of its
module literals. All kernels are in one module, so that the C compiler can inline those of other files. Nothing of the
package is imported: constants are evaluated from the source, with nothing but numpy.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parent
DECORATORS = ("kernel", "inner_kernel")
ELEMENTS = {
    "int16": "NPY_INT16", "int32": "NPY_INT32", "int64": "NPY_INT64", "uint8": "NPY_UINT8", "uint16": "NPY_UINT16",
    "uint32": "NPY_UINT32", "bool_": "NPY_BOOL", "float64": "NPY_FLOAT64",
}  # fmt: skip
"""The elements of arrays, and numpy's numbers for them."""
DIMENSIONS = {"Rows": 2, "Blocks": 3}
SIDES = "rows", "columns", "layers"

HEADER = '''# cython: language_level=3, cdivision=True, binding=False
"""All kernels, made from the sources that are decorated with `kernel`: see `build_kernels.py`."""
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


class Array(NamedTuple):
    """An array: its elements, and its number of dimensions. With `columns`, nothing else of its shape is known: it is a
    pointer; 0 columns: of one dimension. With `name`, it is a constant of this shape."""

    element: str
    dimensions: int
    columns: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def c(self) -> str:
        pointer = self.columns is not None or self.shape
        return f"{self.element} *" if pointer else f"array_of_{self.element}"


INT, FLOAT, BOOL, NOTHING = "int64_t", "double", "bint", "void"
Type = Array | str | tuple[str, ...]


class Source:
    """A module of the package: what its names stand for."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = ROOT.joinpath(*name.split("."))
        self.path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        self.functions: dict[str, ast.FunctionDef] = {}
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        for node in ast.parse(self.path.read_text(encoding="utf-8")).body:
            self._read(node)

    def _read(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self.definitions[node.name] = node
            if isinstance(node, ast.FunctionDef) and _decorator(node):
                self.functions[node.name] = node
        elif isinstance(node, ast.Import):
            self.imports |= {each.asname or each.name.partition(".")[0]: (each.name, "") for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            self.imports |= {each.asname or each.name: (str(node.module), each.name) for each in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            self.definitions |= dict.fromkeys(names, node)


def _decorator(function: ast.FunctionDef) -> str:
    names = [each.id for each in function.decorator_list if isinstance(each, ast.Name)]
    return next((name for name in names if name in DECORATORS), "")


class Package:
    """The sources of the package, read when they are asked for."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._values: dict[tuple[str, str], Any] = {}

    def source(self, name: str) -> Source:
        if name not in self._sources:
            self._sources[name] = Source(name)
        return self._sources[name]

    def home(self, module: str, name: str) -> tuple[Source, str] | None:
        """The source in which a name of a module is defined, and its name there; None outside of the package."""
        source = self.source(module)
        if name in source.definitions:
            return source, name
        there, original = source.imports.get(name, ("", ""))
        return self.home(there, original) if there.startswith("structgen") and original else None

    def value(self, module: str, name: str) -> Any:
        """The value of a name of a module, from its source.

        Raises:
            NameError: the module does not have the name.
        """
        if (module, name) not in self._values:
            self._values[module, name] = self._evaluated(module, name)
        return self._values[module, name]

    def _evaluated(self, module: str, name: str) -> Any:
        home = self.home(module, name)
        if home is None:
            if name not in self.source(module).imports:
                raise NameError(f"{module} has no {name}")
            there, original = self.source(module).imports[name]
            loaded = importlib.import_module(there)
            return getattr(loaded, original) if original else loaded
        source, name = home
        node, names = source.definitions[name], {}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in names:
                try:
                    names[each.id] = self.value(source.name, each.id)
                except (NameError, ImportError):  # a builtin, or a local name
                    continue
        stripped: Any = ast.parse(ast.unparse(node)).body[0]
        if isinstance(stripped, ast.AnnAssign):
            stripped = ast.Assign([stripped.target], stripped.value)
        if isinstance(stripped, ast.FunctionDef):
            stripped.decorator_list, stripped.returns = [], None
            for argument in stripped.args.args:
                argument.annotation = None
        exec(compile(ast.fix_missing_locations(ast.Module([stripped], [])), source.name, "exec"), names)
        return names[name]

    def type_of(self, module: str, annotation: ast.expr | None) -> Type:
        """What an annotation means in a kernel.

        Raises:
            TypeError: it means nothing there.
        """
        if annotation is None or (isinstance(annotation, ast.Constant) and annotation.value is None):
            return NOTHING
        if isinstance(annotation, ast.Subscript):
            name = ast.unparse(annotation.value)
            if name == "tuple" and isinstance(annotation.slice, ast.Tuple):
                return tuple(str(self.type_of(module, part)) for part in annotation.slice.elts)
            if name in DIMENSIONS:
                array = self.type_of(module, annotation.slice)
                assert isinstance(array, Array)
                return array._replace(dimensions=DIMENSIONS[name])
            if name.rpartition(".")[2] == "NDArray":
                return Array(f"{ast.unparse(annotation.slice).rpartition('.')[2]}_t", 1)
        if isinstance(annotation, ast.Name):
            if annotation.id in ("int", "float", "bool"):
                return {"int": INT, "float": FLOAT, "bool": BOOL}[annotation.id]
            home = self.home(module, annotation.id)
            if home:
                node = home[0].definitions[home[1]]
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    return self.type_of(home[0].name, node.value)
        raise TypeError(f"{module}: no kernel takes or gives {ast.unparse(annotation)}")


@dataclass
class Kernel:
    """A kernel: where it is, and what it takes and gives."""

    source: Source
    node: ast.FunctionDef
    arguments: dict[str, Type]
    result: Type

    @property
    def name(self) -> str:
        return f"{self.source.name.removeprefix('structgen.').replace('.', '_')}_{self.node.name}"

    @property
    def result_c(self) -> str:
        return f"({', '.join(self.result)})" if type(self.result) is tuple else str(self.result)


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
        inline = "inline " if _decorator(kernel.node) == "inner_kernel" else ""
        yield f"\ncdef {inline}{kernel.result_c} c_{kernel.name}({arguments}) noexcept nogil:\n"
        yield Body(self, kernel).text()
        if not inline:
            yield self._wrapper(kernel)

    def _wrapper(self, kernel: Kernel) -> str:
        """The function that Python calls."""
        taken, given, lines = [], [], []
        for name, type_ in kernel.arguments.items():
            taken.append(f"object {name}" if isinstance(type_, Array) else f"{type_} {name}")
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


def c_type(type_: Type) -> str:
    return type_.c if isinstance(type_, Array) else str(type_)


class Body:
    """The body of one kernel."""

    def __init__(self, translation: Translation, kernel: Kernel) -> None:
        self._all, self._kernel, self._module = translation, kernel, kernel.source.name
        self._types: dict[str, Type] = dict(kernel.arguments)
        self._loops = 0

    def text(self) -> str:
        lines = [line for node in self._kernel.node.body for line in self._statement(node)]
        own = {name: type_ for name, type_ in self._types.items() if name not in self._kernel.arguments}
        declared = [f"    cdef {c_type(type_)} {name}\n" for name, type_ in own.items()]
        return "".join(declared) + "".join(f"    {line}\n" for line in lines or ["pass"])

    def _fail(self, node: ast.AST, what: str) -> TypeError:
        where = f"{self._kernel.source.path}:{getattr(node, 'lineno', 0)}"
        return TypeError(f"{where}: {what}: {ast.unparse(node)}")

    # Statements

    def _statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.Expr(ast.Constant()):
                return []
            case ast.Expr(value):
                return [self._expression(value)]
            case ast.Assign(targets, value):
                return self._assignment(targets, value)
            case ast.AnnAssign(target, _, value) if value:
                return self._assignment([target], value)
            case ast.AugAssign(target, operator, value):
                sign = ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b"))).split()[1]
                return [f"{self._target(target)} {sign}= {self._expression(value)}"]
            case ast.Return(value):
                return [f"return {self._expression(value)}" if value else "return"]
            case ast.While(test, body):
                return [f"while {self._expression(test)}:", *self._block(body)]
            case ast.If(test, body, orelse):
                lines = [f"if {self._expression(test)}:", *self._block(body)]
                return [*lines, "else:", *self._block(orelse)] if orelse else lines
            case ast.For(ast.Name(name), iterated, body):
                return self._loop(name, iterated, body)
            case ast.Break() | ast.Continue() | ast.Pass():
                return [ast.unparse(node)]
        raise self._fail(node, "no kernel may contain this")

    def _block(self, body: list[ast.stmt]) -> list[str]:
        return [f"    {line}" for node in body for line in self._statement(node)]

    def _loop(self, name: str, iterated: ast.expr, body: list[ast.stmt]) -> list[str]:
        self._types.setdefault(name, INT)
        if isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range":
            bounds = ", ".join(self._expression(each) for each in iterated.args)
            return [f"for {name} in range({bounds.replace(', (-1LL)', ', -1')}):", *self._block(body)]
        array, self._loops = self._array(iterated), self._loops + 1
        counter = f"i_{self._loops}"
        self._types[counter] = INT
        element = self._element(iterated, array, [counter])
        size = self._side(iterated, 0)
        return [f"for {counter} in range({size}):", f"    {name} = {element}", *self._block(body)]

    def _assignment(self, targets: list[ast.expr], value: ast.expr) -> list[str]:
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            (target,) = targets
            assert isinstance(target, ast.Tuple)
            sides = [(each, self._side(value.value, side)) for side, each in enumerate(target.elts)]
            return [f"{self._target(each, INT)} = {side}" for each, side in sides]
        text, type_ = self._expression(value), self._type(value)
        if isinstance(value, ast.Tuple):
            kinds: tuple[Type, ...] = tuple(self._type(each) for each in value.elts)
        else:
            kinds = type_ if type(type_) is tuple else (type_,)
        if any(isinstance(each, ast.Tuple) and len(each.elts) != len(kinds) for each in targets):
            raise self._fail(value, "no tuple of as many numbers")
        written = [
            ", ".join(self._target(each, kind) for each, kind in zip(target.elts, kinds, strict=True))
            if isinstance(target, ast.Tuple)
            else self._target(target, type_)
            for target in targets
        ]
        return [f"{' = '.join(written)} = {text}"]

    def _target(self, node: ast.expr, type_: Type = INT) -> str:
        if isinstance(node, ast.Name):
            kind = INT if type_ == BOOL else type_
            if isinstance(kind, Array) and kind.shape:
                raise self._fail(node, "a constant array has its name already")
            if self._types.setdefault(node.id, kind) != kind and self._types[node.id] != BOOL:
                raise self._fail(node, f"{self._types[node.id]} before, {kind} here")
            return node.id
        assert isinstance(node, ast.Subscript)
        return self._subscript(node, cast=False)

    # Expressions

    def _expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(bool() as value):
                return str(value)
            case ast.Constant(int() as value):
                return f"{value}LL"
            case ast.Constant(float() as value):
                return repr(value)
            case ast.Name(name):
                return self._name(node, name)
            case ast.Tuple(parts):
                return f"({', '.join(map(self._expression, parts))})"
            case ast.BinOp(left, operator, right):
                sign = ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b"))).split()[1]
                return f"({self._expression(left)} {sign} {self._expression(right)})"
            case ast.UnaryOp(operator, operand):
                sign = {ast.USub: "-", ast.Invert: "~", ast.Not: "not "}[type(operator)]
                return f"({sign}{self._expression(operand)})"
            case ast.BoolOp(operator, parts):
                word = " and " if isinstance(operator, ast.And) else " or "
                return f"({word.join(f'({self._expression(part)} != 0)' for part in parts)})"
            case ast.Compare(left, [ast.In() | ast.NotIn() as operator], [ast.Tuple(parts)]):
                equal = " or ".join(f"{self._expression(left)} == {self._expression(part)}" for part in parts)
                return f"(not ({equal}))" if isinstance(operator, ast.NotIn) else f"({equal})"
            case ast.Compare(left, operators, parts):
                texts = [self._expression(each) for each in (left, *parts)]
                signs = [
                    ast.unparse(ast.Compare(ast.Name("a"), [each], [ast.Name("b")])).split()[1] for each in operators
                ]
                pairs = [f"{a} {sign} {b}" for a, sign, b in zip(texts, signs, texts[1:], strict=False)]
                return f"({' and '.join(pairs)})"
            case ast.IfExp(test, body, orelse):
                return f"({self._expression(body)} if {self._expression(test)} else {self._expression(orelse)})"
            case ast.Subscript(ast.Attribute(value, "shape"), ast.Constant(int() as side)):
                return self._side(value, side)
            case ast.Subscript(ast.Call() as called, ast.Constant(int() as place)) if type(self._type(called)) is tuple:
                return f"{self._expression(called)}[{place}]"
            case ast.Subscript():
                return self._subscript(node, cast=True)
            case ast.Attribute(value, "size"):
                return self._side(value, 0)
            case ast.Call(ast.Name(name), arguments):
                return self._call(node, name, arguments)
        raise self._fail(node, "no kernel may contain this")

    def _name(self, node: ast.expr, name: str) -> str:
        if name in self._types:
            return name
        value = self._all.package.value(self._module, name)
        if isinstance(value, (int, np.integer)) and value == -(1 << 63):
            return "INT64_MIN"
        if isinstance(value, (int, np.integer)):
            return f"{value}LL" if value >= 0 else f"({value}LL)"
        if isinstance(value, (float, np.floating)):
            return repr(float(value))
        if isinstance(value, (np.ndarray, tuple)):
            self._all.constant(self._module, name)
            return self._all.constant_name(self._module, name)
        raise self._fail(node, f"found {value!r}; a kernel's constants are numbers and arrays of them")

    def _call(self, node: ast.expr, name: str, arguments: list[ast.expr]) -> str:
        texts = [self._expression(each) for each in arguments]
        if name == "len":
            return self._side(arguments[0], 0)
        if name in ("int", "bool"):
            return f"({texts[0]} != 0)" if name == "bool" else texts[0]
        if name in ("min", "max"):
            return f"{name}({', '.join(texts)})"
        if name == "abs":
            return f"({texts[0]} if {texts[0]} >= 0 else -{texts[0]})"
        view = self._view(name)
        if view:
            kind, values = view
            if kind == "field":
                array, (column, shift, mask) = self._array(arguments[0]), values
                element = self._element(arguments[0], array, [texts[1], f"{column}LL"])
                shifted = f"({element} >> {shift})" if shift else element
                return f"({shifted} & {mask}LL)" if mask != -1 else shifted
            element, _, register = values
            address = f"(<int64_t *>{texts[0]})[{register}]" if kind == "table" else texts[0]
            return f"(<{element} *>{address})"
        kernel = self._kernel_named(name)
        if kernel is None:
            raise self._fail(node, "a kernel calls only kernels")
        given = []
        for argument, text, wanted in zip(arguments, texts, kernel.arguments.values(), strict=True):
            given.append(self._passed(argument, text) if isinstance(wanted, Array) else text)
        return f"c_{kernel.name}({', '.join(given)})"

    def _passed(self, node: ast.expr, text: str) -> str:
        """An array as an argument of a kernel."""
        array = self._array(node)
        if array.shape:
            sides = [f"{side}" for side in (*array.shape, 0, 0)[:3]]
        elif array.columns is not None:
            sides = ["1LL << 40", f"{array.columns}", "0"]
        else:
            return text
        return f"make_{array.element}({text}, {', '.join(sides)})"

    def _kernel_named(self, name: str) -> Kernel | None:
        home = self._all.package.home(self._module, name)
        return self._all.kernels.get((home[0].name, home[1])) if home else None

    def _view(self, name: str) -> tuple[str, Any] | None:
        """What a name does that stands for `view`, `table` or `field` with its arguments."""
        home = self._all.package.home(self._module, name)
        while home:
            node = home[0].definitions[home[1]]
            if not isinstance(node, ast.Assign):
                return None
            value: ast.expr = node.value
            if isinstance(value, ast.Tuple):
                (target,) = node.targets
                assert isinstance(target, ast.Tuple)
                value = next(
                    each for part, each in zip(target.elts, value.elts, strict=True) if ast.unparse(part) == home[1]
                )
            if isinstance(value, ast.Name):
                home = self._all.package.home(home[0].name, value.id)
                continue
            if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("view", "table", "field")):
                return None
            kind, module = ast.unparse(value.func), home[0].name
            numbers = [self._evaluated(module, each) for each in value.args]
            named = {str(each.arg): self._evaluated(module, each.value) for each in value.keywords}
            if kind == "field":
                return kind, (numbers[0], named.get("shift", 0), named.get("mask", -1))
            return kind, (f"{np.dtype(numbers[0]).name}_t", *numbers[1:], *[0] * (3 - len(numbers)))
        return None

    def _evaluated(self, module: str, node: ast.expr) -> Any:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return eval(ast.unparse(node), {name: self._all.package.value(module, name) for name in names})

    # Arrays

    def _array(self, node: ast.expr) -> Array:
        type_ = self._type(node)
        if not isinstance(type_, Array):
            raise self._fail(node, "an array is needed")
        return type_

    def _side(self, node: ast.expr, side: int) -> str:
        array, text = self._array(node), self._expression(node)
        if array.shape:
            return f"{array.shape[side]}LL"
        if array.columns is not None:
            raise self._fail(node, "the size of this array is not known")
        return f"{text}.{SIDES[side]}"

    def _subscript(self, node: ast.Subscript, *, cast: bool) -> str:
        array, base = self._array(node.value), self._expression(node.value)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(places) == array.dimensions and not isinstance(places[0], ast.Slice):
            return self._element(node.value, array, [self._place(node.value, each) for each in places], cast=cast)
        data = base if array.columns is not None or array.shape else f"{base}.data"
        sides = [self._side(node.value, side) for side in range(1, array.dimensions)]
        if isinstance(places[0], ast.Slice):  # rows of it
            low = self._expression(places[0].lower) if places[0].lower else "0LL"
            high = self._expression(places[0].upper) if places[0].upper else self._side(node.value, 0)
            stride = " * ".join([f"({low})", *sides])
            return f"make_{array.element}({data} + {stride}, {high} - {low}, {', '.join([*sides, '0', '0'][:2])})"
        rest, offset = sides[len(places) - 1 :], self._flat(places, sides, node.value)
        return f"make_{array.element}({data} + {' * '.join([offset, *rest])}, {', '.join([*rest, '0', '0'][:3])})"

    def _flat(self, places: list[ast.expr], sides: list[str], value: ast.expr) -> str:
        text = f"({self._place(value, places[0])})"
        for place, side in zip(places[1:], sides, strict=False):
            text = f"({text} * {side} + {self._place(value, place)})"
        return text

    def _place(self, value: ast.expr, node: ast.expr) -> str:
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return f"({self._side(value, 0)} - {ast.unparse(node.operand)})"
        return self._expression(node)

    def _element(self, node: ast.expr, array: Array, places: list[str], *, cast: bool = True) -> str:
        base, offset = self._expression(node), places[0]
        for side, place in enumerate(places[1:], 1):
            width = f"{array.columns}" if array.columns else self._side(node, side)
            offset = f"({offset}) * {width} + {place}"
        data = base if array.columns is not None or array.shape else f"{base}.data"
        text = f"{data}[{offset}]"
        return f"(<int64_t>{text})" if cast and array.element not in ("int64_t", "float64_t") else text

    def _type(self, node: ast.expr) -> Type:
        match node:
            case ast.Name(name):
                if name in self._types:
                    return self._types[name]
                value = self._all.package.value(self._module, name)
                if isinstance(value, (np.ndarray, tuple)):
                    return self._all.constant(self._module, name)
                return FLOAT if isinstance(value, float) else INT
            case ast.Constant(value):
                return FLOAT if isinstance(value, float) else INT
            case ast.BinOp(left, _, right):
                return FLOAT if FLOAT in (self._type(left), self._type(right)) else INT
            case ast.UnaryOp(_, operand):
                return self._type(operand)
            case ast.IfExp(_, body, orelse):
                return FLOAT if FLOAT in (self._type(body), self._type(orelse)) else self._type(body)
            case ast.Subscript(ast.Attribute(_, "shape")):
                return INT
            case ast.Subscript(value, place):
                array = self._type(value)
                if not isinstance(array, Array):
                    return INT
                places = place.elts if isinstance(place, ast.Tuple) else [place]
                if isinstance(places[0], ast.Slice):
                    return Array(array.element, array.dimensions)
                if len(places) < array.dimensions:
                    return Array(array.element, array.dimensions - len(places))
                return FLOAT if array.element == "float64_t" else INT
            case ast.Call(ast.Name(name), arguments):
                view = self._view(name)
                if view and view[0] != "field":
                    element, columns, _ = view[1]
                    return Array(element, 2 if columns else 1, columns)
                kernel = self._kernel_named(name)
                if kernel:
                    return kernel.result
                if name in ("min", "max"):
                    return FLOAT if FLOAT in map(self._type, arguments) else INT
        return INT


def kernel_files() -> list[Path]:
    """The sources with kernels."""
    files = sorted(ROOT.joinpath("structgen").rglob("*.py"))
    return [file for file in files if re.search("^@(inner_)?kernel$", file.read_text(encoding="utf-8"), re.MULTILINE)]


def translated() -> str:
    """All kernels as the text of one Cython module."""
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in kernel_files()]
    return Translation(names).text()


if __name__ == "__main__":
    print(translated())
