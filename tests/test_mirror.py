"""The tests mirror the package: each module has a test file of its name, or a test file says that it covers it.

Whoever covers a module reaches it: the test file imports it, or a module that imports it, and so on.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import structgen
from tests.test_imports import everything_behind, imports, name_of

PACKAGE, TESTS = Path(structgen.__file__).parent, Path(__file__).parent
MODULES = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]
KNOWN = {name_of(PACKAGE / module) for module in MODULES} | {name_of(path) for path in PACKAGE.rglob("__init__.py")}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def covered_in(folder: Path, pattern: str) -> dict[str, list[Path]]:
    """The names in backquotes behind "Covers" in the docstrings of the test files of a folder, with these files."""
    names: dict[str, list[Path]] = {}
    for path in folder.glob(pattern):
        _, _, covered = (ast.get_docstring(parsed(path)) or "").partition("Covers ")
        for name in re.findall(r"`([\w.]+)`", covered):
            names.setdefault(name, []).append(path)
    return names


def covering(module: Path) -> list[Path]:
    """`structgen/a/b.py` has `tests/a/test_b.py`; or a test file in `tests/a/` covers `b`, or any covers `a.b`."""
    folder, whole = TESTS / module.parent, ".".join(module.with_suffix("").parts)
    own = [path for path in [folder / f"test_{module.stem}.py"] if path.exists()]
    inside = covered_in(folder, "test_*.py").get(module.stem, [])
    return [*own, *inside, *covered_in(TESTS, "**/test_*.py").get(whole, [])]


@cache
def reached(path: Path) -> frozenset[str]:
    """The modules that a test file imports or names, those of `sg.name`, those that they import, and so on."""
    text = path.read_text(encoding="utf-8")
    named = {name for _, name in imports(parsed(path), everywhere=True)}
    for shared in [name for name in named if name.startswith("tests.") and name.count(".") > 1]:
        named |= reached(TESTS.parent.joinpath(*shared.split(".")).with_suffix(".py"))
    named |= {structgen._HOME_OF.get(public, "structgen") for public in re.findall(r"\bsg\.(\w+)", text)}
    named |= set(re.findall(r"\bstructgen(?:\.\w+)+", text))
    return frozenset(named).union(*(everything_behind(name) for name in named & KNOWN))


def test_a_module_has_a_test_file_or_one_that_covers_it() -> None:
    missing = [str(module) for module in MODULES if not covering(module)]
    assert missing == []


def test_who_covers_a_module_reaches_it() -> None:
    """Coverage agrees: what a test file does not import, it does not run."""
    idle = []
    for module in MODULES:
        name = name_of(PACKAGE / module)
        idle += [
            f"{path.relative_to(TESTS)} does not come to {name}"
            for path in covering(module)
            if name not in reached(path)
        ]
    assert idle == []


def test_what_test_files_cover_is_there() -> None:
    """A module that was moved or removed is covered by nobody."""
    whole = {".".join(module.with_suffix("").parts) for module in MODULES}
    gone: set[str] = set()
    for folder in {path.parent for path in TESTS.rglob("test_*.py")}:
        own = ".".join(folder.relative_to(TESTS).parts)
        named = set(covered_in(folder, "test_*.py"))
        gone |= {f"{own}: {name}" for name in named - whole if f"{own}.{name}" not in whole}
    assert gone == set()
