"""Every example, and every block of code in the documentation, runs and prints what it says it prints.

An example ends with `# Output:` and its lines as comments. In Markdown, a `python` block that prints is
followed by a `text` block with what it prints; blocks of a page share their names. `UPDATE_OUTPUTS=1` writes
what is printed into the files (for a new demo model): read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UPDATE = os.environ.get("UPDATE_OUTPUTS") == "1"
OUTPUT = "\n# Output:\n"
STEP = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output in the file is the real one."""
    source = path.read_text(encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines, f"{path.name} prints nothing"
    code = source.partition(OUTPUT)[0].rstrip("\n")
    checked(path, source, f"{code}\n{OUTPUT}" + "".join(f"# {line}\n" for line in lines))


def test_there_are_examples_and_code_on_the_pages() -> None:
    """Nothing passes by being empty."""
    assert len(EXAMPLES) >= 5
    for name in ("README.md", "docs/index.md", "docs/concepts/how-it-works.md"):
        assert STEP.search((ROOT / name).read_text(encoding="utf-8")), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_runs_and_prints_what_it_says(path: Path) -> None:
    """Blocks run in order with shared names; output that is not shown, or not printed, fails."""
    names: dict[str, Any] = {"__name__": "page"}
    source = path.read_text(encoding="utf-8")

    def with_output(found: re.Match[str]) -> str:
        code = found["code"]
        output = ran(code, path, source.count("\n", 0, found.start("code")), names)
        return f"```python\n{code}```" + (f"\n```text\n{output}```" if output else "")

    checked(path, source, STEP.sub(with_output, source))
