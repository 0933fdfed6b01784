"""The body of one kernel, as Cython."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_build.sources import BOOL, FLOAT, INT, Array, Field, Kernel, Record, Type, c_type

if TYPE_CHECKING:
    from kernel_build.translation import Translation

SIDES = "rows", "columns", "layers"


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
        if isinstance(node, ast.Attribute):
            return self._field(node)
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
            case ast.Subscript(ast.Attribute() as value, place) if isinstance(self._type(node), Record):
                _, field = self._found(value)
                size = self._all.package.size(field.given)
                return f"({self._field(value)} + {8 * size}LL * {self._expression(place)})"
            case ast.Subscript():
                return self._subscript(node, cast=True)
            case ast.Attribute(value, "size") if not isinstance(self._type(value), Record):
                return self._side(value, 0)
            case ast.Attribute():
                return self._field(node)
            case ast.Call(ast.Name(name), arguments):
                return self._call(node, name, arguments)
        raise self._fail(node, "no kernel may contain this")

    def _found(self, node: ast.Attribute) -> tuple[str, Field]:
        """The address of a record, and a field of it."""
        record = self._type(node.value)
        if not isinstance(record, Record):
            raise self._fail(node, "no kernel may contain this")
        fields = self._all.package.fields(record)
        if node.attr not in fields:
            raise self._fail(node, f"{record.name} has no such field")
        return self._expression(node.value), fields[node.attr]

    def _field(self, node: ast.Attribute) -> str:
        """A field of a record: its number, its array, or the address of numbers and records that are in it."""
        address, field = self._found(node)
        if field.kind == "numbers":
            return f"((<int64_t *>{address}) + {field.place})"
        if field.kind == "records":
            return f"({address} + {8 * field.place}LL)"
        number = f"(<int64_t *>{address})[{field.place}]"
        return f"(<{field.given.element} *>{number})" if isinstance(field.given, Array) else number

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
        if self._all.package.record(self._module, name):
            return texts[0]
        view = self._view(name)
        if view:
            kind, values = view
            if kind == "field":
                array, (column, shift, mask) = self._array(arguments[0]), values
                element = self._element(arguments[0], array, [texts[1], f"{column}LL"])
                shifted = f"({element} >> {shift})" if shift else element
                return f"({shifted} & {mask}LL)" if mask != -1 else shifted
            return f"(<{values[0]} *>{texts[0]})"
        kernel = self._kernel_named(name)
        if kernel is None:
            raise self._fail(node, "a kernel calls only kernels")
        given = []
        for argument, text, wanted in zip(arguments, texts, kernel.arguments.values(), strict=True):
            if isinstance(wanted, Record) and not self._is(self._type(argument), wanted):
                raise self._fail(argument, f"{name} wants a {wanted.name}")
            given.append(self._passed(argument, text) if isinstance(wanted, Array) else text)
        return f"c_{kernel.name}({', '.join(given)})"

    def _is(self, given: Type | None, wanted: Record) -> bool:
        """Is a type this kind of record, or made from it?"""
        while isinstance(given, Record) and given != wanted:
            given = self._all.package.base(given)
        return given == wanted

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
        """What a name does that stands for `view` or `field` with its arguments."""
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
            if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("view", "field")):
                return None
            kind, module = ast.unparse(value.func), home[0].name
            numbers = [self._all.package.number(module, each) for each in value.args]
            named = {str(each.arg): self._all.package.number(module, each.value) for each in value.keywords}
            if kind == "field":
                return kind, (numbers[0], named.get("shift", 0), named.get("mask", -1))
            return kind, (f"{np.dtype(numbers[0]).name}_t", *numbers[1:], *[0] * (2 - len(numbers)))
        return None

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
            case ast.Attribute(value) if isinstance(self._type(value), Record):
                return self._found(node)[1].given or INT
            case ast.Subscript(ast.Attribute(_, "shape")):
                return INT
            case ast.Subscript(value, place):
                array = self._type(value)
                if isinstance(array, Record):
                    return array
                if not isinstance(array, Array):
                    return INT
                places = place.elts if isinstance(place, ast.Tuple) else [place]
                if isinstance(places[0], ast.Slice):
                    return Array(array.element, array.dimensions)
                if len(places) < array.dimensions:
                    return Array(array.element, array.dimensions - len(places))
                return FLOAT if array.element == "float64_t" else INT
            case ast.Call(ast.Name(name), arguments):
                record = self._all.package.record(self._module, name)
                if record:
                    return record
                view = self._view(name)
                if view and view[0] != "field":
                    element, columns = view[1]
                    return Array(element, 2 if columns else 1, columns)
                kernel = self._kernel_named(name)
                if kernel:
                    return kernel.result
                if name in ("min", "max"):
                    return FLOAT if FLOAT in map(self._type, arguments) else INT
        return INT
