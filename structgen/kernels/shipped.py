"""Where kernels lie that were compiled when the package was built, and whether this machine can run them.

Numba itself compiles for one processor. A shipped kernel is compiled for a level that nearly all processors of an
architecture reach. The folder names the versions of numba and the operating system, the file the version of Python, and
the stamp in it the kernel's contents. Where no file fits, or the processor is below the level, the kernel is compiled
at its first use.

The environment variable STRUCTGEN_KERNELS names another folder: for a package that cannot be written to, or an empty
one to find out whether a shipped kernel is at fault.
"""

from __future__ import annotations

import os
import platform
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
