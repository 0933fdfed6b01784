"""Where compiled kernels lie, and which of those in the package this machine can run.

Kernels are looked for in this order:

1. In the package, where its build has put them. Numba itself compiles for one processor; these are compiled for a
   level that nearly all processors of an architecture reach. The folder is named after the versions of numba and the
   operating system. The environment variable STRUCTGEN_KERNELS names another one: for a package that cannot be written
   to, or an empty one to find out whether a kernel of the package is at fault.
2. In $NUMBA_CACHE_DIR, if it is set. Else in the `__pycache__` beside the kernel's module, and then in the user's cache
   folder. What is compiled on this machine is kept in the first of them that can be written to.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_features

PORTABLE = "any processor of the level"
"""Replaces, in the keys of files, numba's name of one processor."""
_X86_64 = (
    "x86-64-v3",
    "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
)
_LEVELS = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": ("generic", ""), "arm64": ("generic", "")}
"""By architecture: LLVM's name of the level, and the processor features it needs."""


def shipped_folder() -> Path:
    """The folder for this version of numba, this operating system and this architecture."""
    kind = f"numba-{numba.__version__}-{platform.system()}-{platform.machine()}"
    chosen = os.environ.get("STRUCTGEN_KERNELS")
    return (Path(chosen) if chosen else Path(__file__).with_name("compiled")) / kind.lower()


def level() -> str | None:
    """LLVM's name of the processors to compile for; None where none is known for this architecture."""
    return _LEVELS.get(platform.machine().lower(), (None, ""))[0]


@cache
def runs_here() -> bool:
    """Are there kernels for this machine?"""
    if level() is None or not shipped_folder().is_dir():
        return False
    needed, present = _LEVELS[platform.machine().lower()][1].split(), get_host_cpu_features()
    return all(present.get(feature) for feature in needed)


def kept_folders(module_file: str) -> list[Path]:
    """Where kernels of a module may be kept on this machine, the best place first."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR)]
    try:
        return [Path(module_file).with_name("__pycache__"), cache_directory() / "kernels"]
    except FileNotFoundError:
        return [Path(module_file).with_name("__pycache__")]


def cache_directory() -> Path:
    """The user's folder for whatever is cached: `$STRUCTGEN_CACHE_DIR`, or `structgen` in the platform's cache folder.

    Raises:
        FileNotFoundError: the user has no home.
    """
    chosen = os.environ.get("STRUCTGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "structgen" / "Cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "structgen"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structgen"
    except RuntimeError as error:
        raise FileNotFoundError("this user has no home folder: STRUCTGEN_CACHE_DIR may name a folder") from error
