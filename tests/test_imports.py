"""Imports flow one way, what needs no torch runs without it, and names are where structgen.engine and
structgen.records have them; each module has a test file.

Covers `engine` and `records`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

import structgen

PACKAGE = Path(structgen.__file__).parent

# Lower layers first; a part may import its own layer's names and those of layers below, never above. Parts of
# one layer do not import each other, except where ALLOWED says so.
LAYERS = [
    {"errors", "memo", "waiting", "cache_folder"},
    {"arguments", "patience", "telemetry", "http_client", "console"},
    {"memory"},
    {"model_settings"},
    {"options", "callbacks", "given_prompts"},
    {"kernels"},
    {"json_text", "vocabulary"},
    {"regular"},
    {"automaton"},
    {"schema"},
    {"masks", "values"},
    {"endings", "guards", "parts"},
    {"constraints", "models", "tools", "phrases", "engine"},
    {"explanation", "chat", "rendering", "porting", "trace", "fitting"},
    {"decoding"},
    {"remote_replies"},
    {"reasking", "remote", "few_shot", "classifying"},
    {"streams"},
    {"api"},
    {"testing", "absence"},
    {"calling"},
    {"documents"},
    {"batch_jobs"},
    {"evaluating"},
    {"demo", "server", "records"},
    {"integrations"},
    {"cli"},
    {"__main__"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
WITHOUT_TORCH = {
    "errors", "memo", "waiting", "cache_folder", "arguments", "patience", "memory", "telemetry", "options", "callbacks",
    "kernels", "schema", "given_prompts", "json_text", "model_settings",
    "automaton", "vocabulary",
    "regular", "masks", "values", "parts", "endings", "constraints", "guards", "explanation",
    "tools", "chat", "rendering", "porting", "phrases", "trace", "engine", "fitting",
}  # fmt: skip
HEAVY = ("torch", "transformers")


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def part_of(name: str) -> str:
    """`masks` for `structgen.masks.walk`; empty for the package itself, which names everything, lazily."""
    return name.partition(".")[2].partition(".")[0]


def imports(tree: ast.AST, *, everywhere: bool) -> list[tuple[int, str]]:
    """The (line, module) of each import; of functions and TYPE_CHECKING blocks only with `everywhere`."""
    found: list[tuple[int, str]] = []
    blocks = (getattr(tree, name, []) for name in ("body", "orelse", "handlers", "finalbody", "cases"))
    for node in chain.from_iterable(blocks):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            named = [f"{node.module}.{alias.name}" for alias in node.names]  # a module or a name of one
            found += [(node.lineno, name if name in MODULES else node.module or "") for name in named]
        elif everywhere or not (is_function(node) or is_type_checking(node)):
            found += imports(node, everywhere=everywhere)
    return found


def is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def parse(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"), name)


def test_every_part_of_the_package_has_a_place_in_the_layers():
    parts = {part_of(name) for name in MODULES} - {""}
    assert parts <= set(LEVEL)
    assert {"errors", "schema", "vocabulary", "masks", "decoding", "api", "cli"} <= parts


def test_a_module_imports_its_own_part_and_lower_layers_only():
    """Counted wherever they stand, in functions and TYPE_CHECKING blocks too."""
    wrong = []
    for name in MODULES:
        part = part_of(name)
        for line, imported in imports(parse(name), everywhere=True) if part else []:
            if imported == "structgen":  # the public face
                if LEVEL[part] <= LEVEL["api"]:
                    wrong.append(f"{name}:{line}: {part} imports the whole package")
            elif imported.startswith("structgen."):
                other = part_of(imported)
                if other != part and LEVEL[other] >= LEVEL[part]:
                    wrong.append(f"{name}:{line}: {part} imports {other}")
    assert wrong == []


def test_torch_and_transformers_come_from_models_and_decoding_upward_only():
    light = [name for name in MODULES if part_of(name) in WITHOUT_TORCH]
    found = [(name, *each) for name in light for each in imports(parse(name), everywhere=False)]
    assert [(name, line, heavy) for name, line, heavy in found if heavy.split(".")[0] in HEAVY] == []


def test_modules_import_each_other_without_cycles():
    """Following its imports, those of functions and TYPE_CHECKING blocks too, never comes back to a module."""
    assert [name for name in MODULES if name in everything_behind(name)] == []


@cache
def everything_behind(name: str) -> frozenset[str]:
    """The modules that a module names in an import, those that they name, and so on."""
    seen, todo = set[str](), list(imported_by(name))
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            todo += imported_by(each) - seen
    return frozenset(seen)


@cache
def imported_by(name: str) -> frozenset[str]:
    """The modules of the package that a module names in an import."""
    found = {imported for _, imported in imports(parse(name), everywhere=True)}
    return frozenset(found & MODULES.keys() - {name, "structgen"})


def run(code: str) -> str:
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize(
    "name",
    [
        "structgen",
        "structgen.masks",
        "structgen.constraints.basic",
        "structgen.schema.python.types",
        "structgen.vocabulary",
    ],
)
def test_the_lower_layers_run_without_torch_and_transformers(name):
    loaded = run(f"import sys, {name}; print([m for m in {HEAVY} if m in sys.modules], 'structgen' in sys.modules)")
    assert loaded == "[] True"


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np, structgen as sg
vocabulary = sg.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + [None], end_ids=[256])
schema = {"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"]}
schema["additionalProperties"] = False
matcher = sg.JsonSchema(schema).compile(vocabulary).matcher()
while not matcher.finished:
    matcher.advance(int(matcher.apply(np.arange(257.0)).argmax()))
words = np.zeros((1, vocabulary.words), np.uint32)
sg.fill_masks([sg.Regex("[ab]+").compile(vocabulary).matcher()], words)
texts = [sg.Lark('start: "a" | "b"'), sg.Choice(["a"]), sg.Repeat(sg.Regex("a"), max=3)]
starts = [text.compile(vocabulary).matcher().allowed_tokens() for text in texts]
print(matcher.text.decode(), words.any(), starts, sg.explain(schema).__class__.__name__)
"""


def test_masks_work_where_torch_and_transformers_are_absent():
    """Engines that have their own tensors need no others."""
    assert run(WITHOUT) == '{"a": "yy"} True [[97, 98], [97], [97, 256]] Explanation'


def test_importing_structgen_loads_no_part_of_it():
    """All public names are lazy: a bare import costs a file or two."""
    loaded = run("import sys, structgen; print(sorted(m for m in sys.modules if m.startswith('structgen.')))")
    assert loaded == "[]"


def test_the_public_surface_is_sorted_complete_and_importable():
    assert structgen.__all__ == sorted(structgen.__all__)
    for name in structgen.__all__:
        assert getattr(structgen, name) is not None
    assert set(structgen.__all__) <= set(dir(structgen))
    with pytest.raises(AttributeError, match="no_such_name"):
        structgen.no_such_name  # noqa: B018


def test_a_name_of_another_library_is_told_where_its_page_is():
    for page, names in structgen._NAMES_ELSEWHERE.items():
        text = (PACKAGE.parent / "docs" / "how-to" / "migrate" / f"{page}.md").read_text(encoding="utf-8")
        for name in names.split():
            assert name in text
            with pytest.raises(AttributeError, match=f"{name}.*migrate/{page}.md"):
                getattr(structgen, name)


def test_what_type_checkers_see_is_what_runs():
    """The stub of the package imports each public name, under that name, from the module that really has it."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [(node.module, each) for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names]
    assert all(each.name == each.asname for _, each in imports)
    assert {each.name: module for module, each in imports if module != "structgen"} == structgen._HOME_OF
    assert [each.name for module, each in imports if module == "structgen"] == structgen._MODULES


def test_a_name_that_has_moved_works_from_the_top_and_says_where_it_is():
    for module, names in structgen._MOVED.items():
        for name in names.split():
            assert name not in structgen.__all__
            with pytest.warns(DeprecationWarning, match=f"structgen.{name} is structgen.{module}.{name} now"):
                assert getattr(structgen, name) is getattr(import_module(f"structgen.{module}"), name)


def test_the_reference_has_every_public_name():
    pages = (PACKAGE.parent / "docs" / "reference").glob("*.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    listed = [line.removeprefix("::: structgen.") for line in lines if line.startswith(":::")]
    moved = [f"{module}.{name}" for module, names in structgen._MOVED.items() for name in names.split()]
    records = [f"records.{name}" for name in structgen.records.__all__ if name != "RunEvent"]  # a union of these
    assert sorted(listed) == sorted({*structgen.__all__, *moved, *records})


def test_every_dependency_and_extra_of_the_package_is_imported_by_it():
    """What users install is what the code uses; the extras `dev` and `docs` are ours."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML reader")
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    imported = {module.partition(".")[0] for name in MODULES for _, module in imports(parse(name), everywhere=True)}
    packages = [*project["project"]["dependencies"]]
    packages += [package for name in extras.keys() - {"dev", "docs"} for package in extras[name]]
    other = {
        "llama_cpp_python": "llama_cpp",
        "opentelemetry_api": "opentelemetry",
        "python_docx": "docx",
        "structgen_llm": "structgen",
    }  # packages whose module has another name
    wanted = {re.split(r"[^\w-]", package)[0].replace("-", "_") for package in packages}
    wanted = {other.get(package, package) for package in wanted}
    untyped = {module.removesuffix(".*") for override in project["tool"]["mypy"]["overrides"]
               if override.get("ignore_missing_imports") for module in override["module"]}  # fmt: skip
    assert wanted | untyped <= imported


# The tests mirror the package: each module has a test file of its name, or a test file says that it covers it. Whoever
# covers a module reaches it: the test file imports it, or a module that imports it, and so on.
TESTS = Path(__file__).parent
FILES = [path.relative_to(PACKAGE) for path in MODULES.values() if path.name != "__init__.py"]


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
    return frozenset(named).union(*(everything_behind(name) for name in named & MODULES.keys()))


def test_a_module_has_a_test_file_or_one_that_covers_it() -> None:
    missing = [str(module) for module in FILES if not covering(module)]
    assert missing == []


def test_who_covers_a_module_reaches_it() -> None:
    """Coverage agrees: what a test file does not import, it does not run."""
    idle = []
    for module in FILES:
        name = name_of(PACKAGE / module)
        idle += [
            f"{path.relative_to(TESTS)} does not come to {name}"
            for path in covering(module)
            if name not in reached(path)
        ]
    assert idle == []


def test_what_test_files_cover_is_there() -> None:
    """A module that was moved or removed is covered by nobody."""
    whole = {".".join(module.with_suffix("").parts) for module in FILES}
    gone: set[str] = set()
    for folder in {path.parent for path in TESTS.rglob("test_*.py")}:
        own = ".".join(folder.relative_to(TESTS).parts)
        named = set(covered_in(folder, "test_*.py"))
        gone |= {f"{own}: {name}" for name in named - whole if f"{own}.{name}" not in whole}
    assert gone == set()
