"""Compiled kernels on disk: a file each, which is valid as long as the kernel's contents are those it was made of.

Numba takes a kernel from disk until its own file changes, but constants and kernels of other files may be compiled into
it. It gives up where no folder can be written to, or where a file is damaged. A `Store` compares contents, takes a
damaged file for none, and where nothing can be written the kernel is compiled at each start.

A file is a stamp and a pickle. The stamp is a digest of both the kernel's contents and the pickle, so a file of an
older kernel is as invalid as a damaged one. What else a kernel depends on is in the file's name.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from structgen.kernels.announcing import tell_not_kept
from structgen.kernels.contents import contents
from structgen.kernels.folders import PORTABLE, kept_folders, runs_here, shipped_folder

_STAMP = 16
"""Bytes of a stamp."""


class Store(NullCache):  # type: ignore[misc]
    """The files of one kernel. Numba asks `load_overload` before it compiles, and calls `save_overload` after."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        function, abi = kernel.py_func, getattr(sys, "abiflags", "")
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._name = f"{name}.{sys.implementation.cache_tag}{abi}"
        self._module_file = function.__code__.co_filename

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled kernel from the first valid file; None where it must be compiled."""
        target.refresh()  # numba asks for this before a kernel is loaded
        shipped = [self._shipped(signature)] if runs_here() else []
        for file in [*shipped, *self._kept(signature, target.codegen())]:
            stored = self._read(file)
            if stored is not None:
                with suppress(ImportError):  # a kernel that it calls was in a module that is gone
                    return CompileResult._rebuild(target, *pickle.loads(stored))
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Writes the compiled kernel to the first folder that takes it; where none does, a log record says why."""
        reasons = []
        for file in self._kept(signature, result.target_context.codegen()):
            try:
                return self._write(file, result)
            except OSError as error:
                reasons.append(str(error))
        return tell_not_kept("; ".join(reasons))

    def ship(self) -> Iterator[Path]:
        """Writes the compiled kernel into the package, unless it is there, and gives its files."""
        for signature, result in self._kernel.overloads.items():
            file = self._shipped(signature)
            if self._read(file) is None:
                self._write(file, result)
            yield file

    def _shipped(self, signature: Any) -> Path:
        return self._file(shipped_folder(), signature, PORTABLE)

    def _kept(self, signature: Any, codegen: Any) -> Iterator[Path]:
        """The files for this processor. Several installations may share a folder."""
        for folder in kept_folders(self._module_file):
            yield self._file(folder, signature, (codegen.magic_tuple(), self._module_file, numba.__version__))

    def _file(self, folder: Path, signature: Any, key: Any) -> Path:
        digest = hashlib.blake2b(repr((str(signature), key)).encode(), digest_size=6)
        return folder / f"{self._name}.{digest.hexdigest()}.nbc"

    def _stamp(self, stored: bytes) -> bytes:
        return hashlib.blake2b(stored, key=self._contents, digest_size=_STAMP).digest()

    @cached_property
    def _contents(self) -> bytes:
        """The digest of the kernel's contents, from its first call on: only then is its module complete."""
        return contents(self._kernel).encode()

    def _read(self, file: Path) -> bytes | None:
        """The pickle in a file, if its stamp fits."""
        try:
            data = file.read_bytes()
        except OSError:
            return None
        stamp, stored = data[:_STAMP], data[_STAMP:]
        return stored if stamp == self._stamp(stored) else None

    def _write(self, file: Path, result: Any) -> None:
        """Writes beside the file and renames, so that another process never reads half of it.

        Raises:
            OSError: the folder cannot be made or written to.
        """
        assert not result.library.has_dynamic_globals, f"{self._name} holds addresses of this process"
        stored = dumps(result._reduce())
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{uuid4().hex[:8]}.part")
        try:
            part.write_bytes(self._stamp(stored) + stored)
            part.replace(file)
        finally:
            with suppress(OSError):  # it is gone, if all went well
                part.unlink()
