"""The tests mirror the package: each module has a test file of its name, or a test file beside it names the module."""

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
def said_in(folder: Path) -> str:
    """What the docstrings of the test files in a folder say."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("test_*.py"))]
    return "\n".join(ast.get_docstring(tree) or "" for tree in trees)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_a_test_file_or_is_named_by_one(module):
    """`structgen/a/b.py` has `tests/a/test_b.py`, or a docstring of a test file in `tests/a/` says `b`."""
    folder = TESTS / module.parent
    covered = re.search(rf"`(?:\w+\.)*{module.stem}`", said_in(folder))
    assert (folder / f"test_{module.stem}.py").exists() or covered, f"no test file in {folder.name}/ covers {module}"
