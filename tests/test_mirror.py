"""The tests mirror the package: each module has a test file of its name, or a test file says that it covers it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import structgen

PACKAGE, TESTS = Path(structgen.__file__).parent, Path(__file__).parent
MODULES = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]


@cache
def covered_in(folder: Path, pattern: str) -> frozenset[str]:
    """The names in backquotes behind "Covers" in the docstrings of the test files of a folder."""
    names: set[str] = set()
    for path in folder.glob(pattern):
        _, _, said = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("Covers ")
        names.update(re.findall(r"`([\w.]+)`", said))
    return frozenset(names)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_a_test_file_or_one_that_covers_it(module: Path) -> None:
    """`structgen/a/b.py` has `tests/a/test_b.py`; or a test file in `tests/a/` covers `b`, or any covers `a.b`."""
    folder, whole = TESTS / module.parent, ".".join(module.with_suffix("").parts)
    named = module.stem in covered_in(folder, "test_*.py") or whole in covered_in(TESTS, "**/test_*.py")
    assert named or (folder / f"test_{module.stem}.py").exists(), f"no test file covers {whole}"


def test_what_test_files_cover_is_there() -> None:
    """A module that was moved or removed is covered by nobody."""
    whole = {".".join(module.with_suffix("").parts) for module in MODULES}
    gone: set[str] = set()
    for folder in {path.parent for path in TESTS.rglob("test_*.py")}:
        own = ".".join(folder.relative_to(TESTS).parts)
        named = covered_in(folder, "test_*.py")
        gone |= {f"{own}: {name}" for name in named - whole if f"{own}.{name}" not in whole}
    assert gone == set()
