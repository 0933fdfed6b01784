"""A digest of all that a kernel is made of: equal digests mean equal machine code.

A kernel's machine code follows from its bytecode, from the values of its global names (they are compiled in as
constants), and from the same of every kernel and intrinsic that it calls. These are read from the functions and not
from their files: a changed comment or file time changes nothing, a changed constant of another module does. Objects of
numba, llvmlite and numpy are digested by name, since numba keeps compiled code by its own version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types import Type

from structgen.memo import Numbering

_LIBRARIES = frozenset({"builtins", "llvmlite", "numba", "numpy"})
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype, Type)


def contents(function: Any) -> str:
    """The digest of a kernel, and of all that it calls.

    Raises:
        TypeError: a name holds an object whose changes cannot be told.
    """
    parts = _Parts()
    parts.name_of(function)
    digest = hashlib.blake2b(digest_size=16)
    for name in ("__init__.py", "short_way.py"):  # how they are compiled
        digest.update(Path(__file__).with_name(name).read_bytes())
    for part in parts.read():
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


class _Parts:
    """The kernel and all functions that it leads to, numbered in the order in which they were met."""

    def __init__(self) -> None:
        self._functions = Numbering[Any]()

    def name_of(self, function: Any) -> str:
        """The text that stands for a function where it is used."""
        return f"part {self._functions[function]}"

    def read(self) -> Iterator[str]:
        """The parts of each function; reading one may number further ones, which are read then."""
        for function in self._functions.things:
            if isinstance(function, Dispatcher):
                yield repr(sorted((name, str(value)) for name, value in function.targetoptions.items()))
                function = function.py_func
            elif isinstance(function, _Intrinsic):
                function = function._defn
            yield from self._code(function.__code__, function.__globals__)
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            yield self._value((function.__defaults__, function.__kwdefaults__, *cells), function.__qualname__)

    def _code(self, code: CodeType, names: dict[str, Any]) -> Iterator[str]:
        """The bytecode, its constants, and the values of its global names."""
        yield code.co_code.hex() + getattr(code, "co_exceptiontable", b"").hex()
        yield repr((code.co_argcount, code.co_flags, code.co_names, code.co_varnames))
        yield repr((code.co_freevars, code.co_cellvars))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code(constant, names)
            else:
                yield self._value(constant, code.co_name)
        for name in code.co_names:
            if name in names:
                yield self._value(names[name], f"{code.co_name}: {name}")

    def _value(self, value: Any, where: str) -> str:
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.ndarray):
            return f"array {value.dtype.str} {value.shape} {value.strides} {value.tobytes().hex()}"
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__} {[self._value(item, where) for item in value]}"
        if isinstance(value, (frozenset, set, dict)):
            entries = value.items() if isinstance(value, dict) else value
            return f"{type(value).__name__} {sorted(self._value(entry, where) for entry in entries)}"
        return self._named(value, where)

    def _named(self, value: Any, where: str) -> str:
        """A kernel or function of ours by its number, a library's object by its name."""
        if isinstance(value, (Dispatcher, _Intrinsic)):
            return self.name_of(value)
        home = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        if home.partition(".")[0] in _LIBRARIES:
            return f"{home} {getattr(value, '__qualname__', value)}"
        if isinstance(value, FunctionType):
            return self.name_of(value)
        raise TypeError(f"{where} is {value!r:.80}: a kernel is made of numbers, arrays, tuples and other kernels")
