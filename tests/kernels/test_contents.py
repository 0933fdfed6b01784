"""A kernel is compiled again when, and only when, something that it is made of has changed, wherever that stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from structgen.kernels import inner_kernel, kernel
from structgen.kernels.contents import contents

FILES = {
    "numbers_of.py": "BASE = 40\nMORE = BASE + 1\n",
    "tables_of.py": "import numpy as np\nTABLE = np.arange(4) * 10\n",
    "parts_of.py": """
from structgen.kernels import inner_kernel
from numbers_of import MORE

@inner_kernel
def part(n):
    return n + MORE
""",
    "whole_of.py": """
from structgen.kernels import kernel
from parts_of import part
from tables_of import TABLE

@kernel
def whole(n):
    return part(n) + TABLE[n]

@kernel
def other(n):
    return n + 1
""",
    "unrelated.py": "",
}
RUN = """
import unrelated
from whole_of import other, whole
print(int(whole(1)), sum(whole.stats.cache_misses.values()), int(other(1)), sum(other.stats.cache_misses.values()))
"""
EDITS = [
    ("unrelated.py", "", "X = 1\n", (52, 0, 2, 0)),
    ("whole_of.py", "@kernel\ndef whole", "# a comment above\n\n@kernel\ndef whole", (52, 0, 2, 0)),
    ("numbers_of.py", "BASE = 40", "BASE = 10 * 4", (52, 0, 2, 0)),
    ("numbers_of.py", "BASE = 40", "BASE = 50", (62, 1, 2, 0)),
    ("parts_of.py", "n + MORE", "n - MORE", (-30, 1, 2, 0)),
    ("tables_of.py", "* 10", "* 30", (72, 1, 2, 0)),
    ("whole_of.py", "n + 1", "n + 2", (52, 0, 3, 1)),
    ("whole_of.py", "part(n) + TABLE", "part(2) + TABLE", (53, 1, 2, 0)),
]


def found(folder: Path) -> tuple[int, ...]:
    """What the kernels give in a new process, and how many of each were compiled."""
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": path}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


def rewritten(path: Path, text: str) -> None:
    """Another text with the times of the old one: nobody may go by them."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.slow
def test_every_edit_that_matters_compiles_what_it_matters_to_and_no_other(tmp_path):
    """Each edit alone, made and taken back: a constant behind a constant, a part, a table, the kernel, a comment."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert found(tmp_path) == (52, 1, 2, 1)
    assert found(tmp_path) == (52, 0, 2, 0)
    for name, old, new, wanted in EDITS:
        rewritten(tmp_path / name, FILES[name].replace(old, new) if old else new)
        assert found(tmp_path) == wanted, (name, new)
        rewritten(tmp_path / name, FILES[name])
        assert found(tmp_path)[::2] == (52, 2), (name, new)


def changed(monkeypatch, name: str, value: object) -> bool:
    before = contents(_doubled)
    monkeypatch.setitem(globals(), name, value)
    return contents(_doubled) != before


SCALE: object = 2
LIST: object = np.array([1, 2, 3])


@inner_kernel
def _scaled(n: int) -> int:
    return n * SCALE


@kernel
def _doubled(n: int) -> int:
    return _scaled(n) + LIST[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCALE", 3),
        ("SCALE", 2.0),
        ("SCALE", True),
        ("SCALE", np.int64(2)),
        ("LIST", np.array([1, 2, 4])),
        ("LIST", np.array([1, 2, 3], np.int32)),
        ("LIST", np.array([[1, 2, 3]])),
        ("LIST", np.array([1, 0, 2, 0, 3])[::2]),
        ("LIST", (1, 2, 3)),
        ("_scaled", inner_kernel(lambda n: n)),
    ],
)
def test_a_value_of_another_kind_or_shape_is_another_content(monkeypatch, name, value):
    """What is equal in Python need not be in machine code."""
    assert changed(monkeypatch, name, value)


def test_an_equal_value_is_the_same_content(monkeypatch):
    assert not changed(monkeypatch, "LIST", np.array([1, 2, 3]))
    assert not changed(monkeypatch, "unused", 3)


def test_a_value_that_may_change_unseen_is_refused(monkeypatch):
    monkeypatch.setitem(globals(), "SCALE", object())
    with pytest.raises(TypeError, match=r"_scaled: SCALE is <object object.*numbers, arrays, tuples and other kernels"):
        contents(_doubled)
