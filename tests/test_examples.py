"""Every example, and every block of code in the documentation, runs and prints what it says it prints.

An example ends with `# Output:` and its lines as comments. In Markdown, a `python` block that prints is followed
by a `text` block with what it prints; the blocks of a page share their names.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def promised(source: str) -> str:
    """The lines behind `# Output:`."""
    _, _, output = source.partition("\n# Output:\n")
    return "".join(line.removeprefix("#").removeprefix(" ") for line in output.splitlines(keepends=True))


def steps(page: str) -> list[tuple[int, str, str]]:
    """Each python block of a page: its line, its code, what it prints."""
    blocks = [(page.count("\n", 0, found.start(2)), *found.groups()) for found in BLOCK.finditer(page)]
    following = [*blocks[1:], (0, "", "")]
    return [
        (line, code, output if kind == "text" else "")
        for (line, language, code), (_, kind, output) in zip(blocks, following, strict=True)
        if language == "python"
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output in the file is the real one."""
    wanted = promised(path.read_text(encoding="utf-8"))
    assert wanted.strip(), f"{path.name} does not say what it prints"
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out == wanted


def test_there_are_examples_and_code_on_the_pages() -> None:
    """Nothing passes by being empty."""
    assert len(EXAMPLES) >= 5
    assert steps((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_runs_and_prints_what_it_says(path: Path) -> None:
    """Blocks run in order with shared names; output that is not shown, or not printed, fails."""
    names: dict[str, Any] = {"__name__": "page"}
    for line, code, output in steps(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(path), "exec"), names)
        assert printed.getvalue() == output, f"{path.name}, the block at line {line + 1}"
