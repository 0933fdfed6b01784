"""What names mean in the modules of the package, from their sources: none is imported, so only numpy is needed."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
DECORATORS = ("kernel", "inner_kernel")
DIMENSIONS = {"Rows": 2, "Blocks": 3}


class Array(NamedTuple):
    """An array: its elements, and its number of dimensions.

    Attributes:
        columns: if it is not None, nothing else of the shape is known: the array is a pointer. 0: it has one dimension.
        shape: of a constant.
    """

    element: str
    dimensions: int
    columns: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def c(self) -> str:
        pointer = self.columns is not None or self.shape
        return f"{self.element} *" if pointer else f"array_of_{self.element}"


class Record(NamedTuple):
    """A kind of record (see `structgen.kernels.Record`): its module, and its name there."""

    module: str
    name: str


class Field(NamedTuple):
    """A field of a record: its place among the record's numbers, and what it is.

    Attributes:
        kind: "number", "array", "numbers" or "records".
        given: the record of "records"; for "array" and "numbers", the array.
    """

    kind: str
    place: int
    size: int
    given: Array | Record | None


INT, FLOAT, BOOL, NOTHING = "int64_t", "double", "bint", "void"
Type = Array | Record | str | tuple[str, ...]


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
            if isinstance(node, ast.FunctionDef) and decorator(node):
                self.functions[node.name] = node
        elif isinstance(node, ast.Import):
            self.imports |= {each.asname or each.name.partition(".")[0]: (each.name, "") for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            self.imports |= {each.asname or each.name: (str(node.module), each.name) for each in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            self.definitions |= dict.fromkeys(names, node)


def decorator(function: ast.FunctionDef) -> str:
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

    def record(self, module: str, name: str) -> Record | None:
        """The kind of record for which a name stands; None if it stands for something else."""
        home = self.home(module, name)
        if home is None or not isinstance(home[0].definitions[home[1]], ast.ClassDef):
            return None
        return Record(home[0].name, home[1])

    def fields(self, record: Record) -> dict[str, Field]:
        """The fields of a record, those of its base first."""
        base = self.base(record)
        found = dict(self.fields(base)) if base else {}
        place = self.size(base) if base else 0
        for name, value in self._fields_of(self._class(record)):
            size, given = self._sized(record.module, ast.unparse(value.func), value.args)
            found[name] = Field(ast.unparse(value.func), place, size, given)
            place += size
        return found

    def base(self, record: Record) -> Record | None:
        """The kind of record from which one is made; None for none but `structgen.kernels.Record`."""
        base = self.record(record.module, ast.unparse(self._class(record).bases[0]))
        return base if base and base.name != "Record" else None

    def _class(self, record: Record) -> ast.ClassDef:
        node = self.source(record.module).definitions[record.name]
        assert isinstance(node, ast.ClassDef), f"{record.name} is no record"
        assert node.bases, f"{record.name} is no record"
        return node

    @staticmethod
    def _fields_of(node: ast.ClassDef) -> Iterator[tuple[str, ast.Call]]:
        """The fields that a class declares, alone or several in a line."""
        for each in node.body:
            if isinstance(each, ast.Assign) and len(each.targets) == 1:
                targets, values = each.targets[0], each.value
                names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
                for name, value in zip(names, values.elts if isinstance(values, ast.Tuple) else [values], strict=True):
                    if isinstance(value, ast.Call):
                        yield ast.unparse(name), value

    def size(self, record: Record) -> int:
        """How many numbers of eight bytes a record has."""
        return sum(field.size for field in self.fields(record).values())

    def _sized(self, module: str, kind: str, arguments: list[ast.expr]) -> tuple[int, Array | Record | None]:
        """How many numbers a field has, and what it reads as."""
        if kind == "records":
            record = self.record(module, ast.unparse(arguments[0]))
            assert record
            return self.number(module, arguments[1]) * self.size(record), record
        if kind == "numbers":
            return self.number(module, arguments[0]), Array("int64_t", 1, 0)
        if kind == "array":
            columns = self.number(module, arguments[1]) if len(arguments) > 1 else 0
            return 1, Array(f"{ast.unparse(arguments[0]).rpartition('.')[2]}_t", 2 if columns else 1, columns)
        return 1, None

    def number(self, module: str, node: ast.expr) -> Any:
        """The value of an expression of a module's constants."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return eval(ast.unparse(node), {name: self.value(module, name) for name in names})

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
            record = self.record(module, annotation.id)
            if record:
                return record
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
        return f"({', '.join(self.result)})" if type(self.result) is tuple else c_type(self.result)


def c_type(type_: Type) -> str:
    """How a type is spelled in C; a record is its address."""
    return type_.c if isinstance(type_, Array) else INT if isinstance(type_, Record) else str(type_)


def kernel_files() -> list[Path]:
    """The sources with kernels."""
    files = sorted(ROOT.joinpath("structgen").rglob("*.py"))
    return [file for file in files if re.search("^@(inner_)?kernel$", file.read_text(encoding="utf-8"), re.MULTILINE)]
