"""Every example, and every block of code in the documentation, runs and prints what it says it prints.

An example ends with `# Output:` and its lines as comments. In Markdown, a `python` block that prints is
followed by a `text` block with what it prints; blocks of a page share their names. A block that shows an example
(`--8<--`, its path, `--8<--`) leaves the example's names to the blocks behind it. A block that needs a
download, a network or another package has a title that says so ("Needs ..."); it must be Python all the same.
`UPDATE_OUTPUTS=1` writes what is printed into the files (for a new demo model): read the difference before you
commit it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import os
import re
import runpy
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import structgen
from structgen.testing import scripted_chat
from tests.support.releases import require_release

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UPDATE = os.environ.get("UPDATE_OUTPUTS") == "1"
OUTPUT = "\n# Output:\n"
STEP = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)
FENCE = re.compile(
    r"^(?P<indent> *)```[ {.]*(?:python|py|python3)\b(?P<rest>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
SHOWN = re.compile(r"--8<--\n(?P<path>examples/[\w/]+\.py)\n--8<--\n")
NEEDS = re.compile(r"^# Needs: (\w+)$", re.MULTILINE)
QUICK_START = '{"name": "Ada Moreau", "age": 36, "city": "Lyon"}'


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A page that turns logging on does so for itself."""
    logger, root = logging.getLogger("structgen"), logging.getLogger()
    before = logger.level, root.level, root.handlers[:]
    yield
    logger.setLevel(before[0])
    root.setLevel(before[1])
    root.handlers[:] = before[2]


def checked(path: Path, source: str, wanted: str) -> None:
    """The file is what it would be with the real output, or becomes that."""
    if UPDATE:
        path.write_text(wanted, encoding="utf-8")
    assert source == wanted or UPDATE, f"{path.name}: shown and real output differ"


def ran(code: str, path: Path, line: int, names: dict[str, Any]) -> str:
    """What a block of a page prints; tracebacks name the page and its lines."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * line + code, str(path), "exec", dont_inherit=True), names)
    return printed.getvalue()


def marked(path: Path) -> Any:
    """An example as a parameter: one that starts a process of its own is slow."""
    return pytest.param(path, marks=[pytest.mark.slow] if "import subprocess" in path.read_text("utf-8") else [])


@pytest.mark.parametrize("path", map(marked, EXAMPLES), ids=lambda path: path.stem)
def test_example_prints_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output in the file is the real one."""
    source = path.read_text(encoding="utf-8")
    for package in NEEDS.findall(source):
        if find_spec(package) is None:
            pytest.skip(f"{path.name} needs {package}")
    runpy.run_path(str(path), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines, f"{path.name} prints nothing"
    code = source.partition(OUTPUT)[0].rstrip("\n")
    checked(path, source, f"{code}\n{OUTPUT}" + "".join(f"# {line}".rstrip() + "\n" for line in lines))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_what_it_says(path: Path) -> None:
    """The cells of a notebook run in order; the text below a cell is what it prints."""
    source = path.read_text(encoding="utf-8")
    notebook, names = json.loads(source), {"__name__": "notebook"}
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            output = ran("".join(cell["source"]), path, 0, names)
            stream = {"name": "stdout", "output_type": "stream", "text": output.splitlines(keepends=True)}
            cell["outputs"], cell["execution_count"] = [stream] if output else [], number
    checked(path, source, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_there_are_examples_and_code_on_the_pages() -> None:
    """Nothing passes by being empty."""
    assert len(EXAMPLES) >= 11
    assert NOTEBOOKS
    for name in ("docs/how-to/clients.md", "docs/concepts/how-it-works.md"):
        assert STEP.search((ROOT / name).read_text(encoding="utf-8")), name


APPS = re.compile(r"^\| [^|]+ \| (\d+) \| \[[^]]+\]\(([^)#]*)", re.MULTILINE)


def test_the_apps_are_as_short_as_the_page_says() -> None:
    """Lines of code without the docstring, comments and blank lines; each app is on the page that the table names."""
    folder = ROOT / "docs" / "tutorial"
    programs = [*EXAMPLES, ROOT / "examples" / "web" / "app.py"]
    lengths = {str(path.relative_to(ROOT)): length_of(path.read_text(encoding="utf-8")) for path in programs}
    told = APPS.findall((folder / "apps.md").read_text(encoding="utf-8"))
    for length, page in told:
        shown = SHOWN.findall((folder / (page or "apps.md")).read_text(encoding="utf-8"))
        assert int(length) in {lengths[example] for example in shown}, page
    assert len(told) == 10
    assert max(int(length) for length, _ in told) < 20


def length_of(source: str) -> int:
    """The lines of code of an example."""
    code = source.partition(OUTPUT)[0]
    tree = ast.parse(code)
    docstring = (ast.get_docstring(tree, clean=False) or "").count("\n") + 1
    return sum(bool(line.strip()) and not line.startswith("#") for line in code.splitlines()) - docstring


def test_every_example_is_shown_in_the_documentation() -> None:
    """Examples that no page shows are found by nobody."""
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert [path.name for path in EXAMPLES if f"examples/{path.name}" not in pages] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_runs_and_prints_what_it_says(path: Path) -> None:
    """Blocks run in order with shared names; output that is not shown, or not printed, fails."""
    if path.name == "images.md":
        require_release("transformers", "5.2")
    names: dict[str, Any] = {"__name__": "page"}
    source = path.read_text(encoding="utf-8")

    def with_output(found: re.Match[str]) -> str:
        code, line = found["code"], source.count("\n", 0, found.start("code"))
        if shown := SHOWN.fullmatch(code):
            later = (block["code"] for block in STEP.finditer(source, found.end()))
            if all(map(SHOWN.fullmatch, later)):
                return found[0]  # nothing on the page needs its names
            example = (ROOT / shown["path"]).read_text(encoding="utf-8")
            if all(map(find_spec, NEEDS.findall(example))):
                ran(example, path, line, names)
            return found[0]
        output = ran(code, path, line, names)
        return f"```python\n{code}```" + (f"\n```text\n{output}```" if output else "")

    checked(path, source, STEP.sub(with_output, source))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_does_not_run_says_why_and_is_python(path: Path) -> None:
    """Blocks of Python in any other spelling of the fence would run nowhere in silence."""
    for block in FENCE.finditer(path.read_text(encoding="utf-8")):
        if block["rest"]:
            assert re.fullmatch(r' title="Needs [^"]{5,}; (?:not )?run by [^"]+"', block["rest"]), block[0]
            shown = SHOWN.fullmatch(block["code"])
            ast.parse((ROOT / shown["path"]).read_text(encoding="utf-8") if shown else dedent(block["code"]))
        else:
            assert block[0].startswith("```python\n"), block[0]


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_quick_start_runs_where_the_model_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code, with a scripted chat model in place of the download, prints what is shown behind it."""
    source = (ROOT / name).read_text(encoding="utf-8")
    block = next(block for block in FENCE.finditer(source) if block["rest"])
    monkeypatch.setattr(structgen, "load", lambda model: scripted_chat(QUICK_START))
    output = ran(block["code"], ROOT / name, 0, {"__name__": "page"})
    assert source[block.end() :].startswith(f"\n```text\n{output}```")
