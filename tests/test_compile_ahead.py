"""Kernels compiled ahead: all of them, into a folder from which other processes load them.

Covers `kernels.folders`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

from structgen.compile_ahead import main
from structgen.kernels import SHORT, folders
from structgen.kernels.folders import runs_here, shipped_folder

USE = """
import importlib, json, pkgutil, sys
from importlib.metadata import packages_distributions
from structgen.compile_ahead import use_kernels
use_kernels()
homes = packages_distributions()
loaded = sorted({home for name in sys.modules for home in homes.get(name.partition(".")[0], ())})
for package in ("regular", "automaton", "values", "parts", "masks", "endings", "vocabulary"):
    found = importlib.import_module(f"structgen.{package}")
    for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
        importlib.import_module(module.name)
from structgen.kernels import KERNELS
name = lambda k: f"{k.py_func.__module__}.{k.py_func.__name__}"
compiled = sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)
print(json.dumps([len(KERNELS), [name(kernel) for kernel in KERNELS if not kernel.signatures], compiled, loaded]))
"""


def used(kept: Path, **environment: str) -> tuple[int, list[str], int, list[str]]:
    """The number of kernels, those that nothing has used, how many were compiled in a new process, and the packages of
    others that were imported for it."""
    environment = dict(os.environ) | {"NUMBA_CACHE_DIR": str(kept)} | environment
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=True)
    kernels, left, compiled, loaded = json.loads(done.stdout)
    return kernels, left, compiled, loaded


def built_with() -> set[str]:
    """The packages that are there when a wheel is built: the build's requirements, and what these require."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    todo, there = re.findall(r'"([\w-]+)', text.partition("build-backend")[0]), set[str]()
    while todo:
        name = todo.pop()
        if name not in there and name != "hatchling":
            there.add(name)
            with suppress(PackageNotFoundError):  # another Python or system needs it
                todo += [re.split(r"[^\w-]", each)[0] for each in requires(name) or [] if "extra ==" not in each]
    return {name.replace("_", "-").lower() for name in there}


@pytest.mark.slow
def test_no_kernel_is_left_to_be_compiled_later(tmp_path):
    """A kernel takes up to a second or three: nobody should wait for one in the middle of a text."""
    kernels, left, _, loaded = used(tmp_path)
    assert kernels > 30
    assert left == []
    optional = {"interegular", "setuptools", "colorama", "pyyaml", "scipy", "cffi", "pycparser"}  # of lark and numba
    assert {name.replace("_", "-").lower() for name in loaded} - built_with() <= optional


@pytest.mark.slow
@pytest.mark.skipif(not SHORT, reason="this numba compiles in its own way")
def test_what_is_shipped_is_loaded_and_not_compiled(tmp_path, monkeypatch):
    """On a machine that has compiled nothing; and a kernel whose file is gone is compiled, it alone."""
    monkeypatch.setenv("STRUCTGEN_KERNELS", str(tmp_path / "shipped"))
    main()
    assert used(tmp_path / "kept")[2] == 0
    assert not (tmp_path / "kept").exists() or not list((tmp_path / "kept").rglob("*.nbc"))
    next(shipped_folder().glob("structgen.vocabulary.trie.fill_trie.*.nbc")).unlink()
    assert used(tmp_path / "kept")[2] == 1
    assert [path.name.split(".cpython")[0] for path in (tmp_path / "kept").rglob("*.nbc")] == [
        "structgen.vocabulary.trie.fill_trie"
    ]


@pytest.mark.parametrize(("features", "expected"), [({}, False), (None, True)])
def test_kernels_are_for_processors_of_the_level(tmp_path, monkeypatch, features, expected):
    """One that lacks an instruction compiles for itself; so does an architecture of which no level is known."""
    monkeypatch.setenv("STRUCTGEN_KERNELS", str(tmp_path))
    monkeypatch.setattr(folders, "get_host_cpu_features", lambda: {"avx": True} if features == {} else _Every())
    monkeypatch.setattr(folders.platform, "machine", lambda: "x86_64")
    runs_here.cache_clear()
    assert not runs_here()  # no folder for this version of numba
    shipped_folder().mkdir(parents=True)
    runs_here.cache_clear()
    assert runs_here() is expected
    monkeypatch.setattr(folders.platform, "machine", lambda: "riscv64")
    runs_here.cache_clear()
    assert not runs_here()
    runs_here.cache_clear()


class _Every(dict[str, bool]):
    def __missing__(self, feature: str) -> bool:
        return True

    def get(self, feature: str, default: bool | None = None) -> bool:
        return True
