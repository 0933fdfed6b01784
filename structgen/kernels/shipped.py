"""Kernels that were compiled when the package was built, for all machines of one kind.

Numba keeps what it compiles for one processor. Here a kernel is compiled for a level that nearly all processors of an
architecture reach, and its file lies in the package, in a folder for the version of numba and the operating system. Its
name holds the version of Python, and its stamp what the kernel is made of. A kernel that is not there, a processor
below the level, another version: it is compiled at its first use, as ever.

The environment variable STRUCTGEN_KERNELS names another folder than the package's: for a package that cannot be written
to, and, with an empty folder, for finding out whether a shipped kernel is at fault.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_features

PORTABLE = "any processor of the level"
"""Stands in the keys of files for numba's name of one processor."""
_X86_64 = (
    "x86-64-v3",
    "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
)
_LEVELS = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": ("generic", ""), "arm64": ("generic", "")}
"""Of an architecture: LLVM's name of the level, and the features it needs."""


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
