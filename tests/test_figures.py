"""Every figure of README, the concepts and the project's pages names the command that makes it.

- A figure is a ratio with two digits (`0.45`), a percentage, a time (`13 ms`) or a factor (`4.7 times`), outside code.
- A section that has one names `python -m benchmarks NAME`, `make TARGET` or a script of the repository, or links to a
  section that does, or to the finished benchmarks, which name the commit that has theirs.
- Decisions, test runs, first minutes and release notes are records of a day, and need none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "docs" / "project"
RECORDS = {"decisions.md", "test-runs.md", "first-minutes.md", "changelog.md"}
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "concepts").glob("*.md")),
    *(page for page in sorted(PROJECT.glob("*.md")) if page.name not in RECORDS and "release-" not in page.name),
]
FIGURE = re.compile(
    r"(?<![\d.])0\.\d\d+(?![\d.])|\d(?= ?%)|\d(?: to \d[\d.,]*)? (?:ns|us|µs|ms|s|seconds?|minutes?|hours?|times)\b"
)
COMMAND = re.compile(r"python -m benchmarks (\w+)|make ([\w-]+)|\bpython ((?:[\w-]+/)+[\w-]+\.py)")
LINK = re.compile(r"\]\(([^)#\s:]*)(?:#([^)\s]+))?\)")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """The heading and the text of each part of a page between two headings; comments in code are no headings."""
    heading, lines, code = "", list[str](), False
    for line in page.read_text("utf-8").splitlines():
        code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not code:
            yield heading, "\n".join(lines)
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)
    yield heading, "\n".join(lines)


def figures(text: str) -> list[str]:
    """The figures of a text, each with what follows it."""
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return [prose[found.start() : found.end() + 12] for found in FIGURE.finditer(prose)]


def has_command(text: str) -> bool:
    """Whether a text names a command that there is."""
    return any(
        name in BENCHMARKS or target in TARGETS or (script and (ROOT / script).exists())
        for name, target, script in COMMAND.findall(text)
    )


def anchor(heading: str) -> str:
    """The anchor of a heading, as pages link to it."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def is_sourced(page: Path, text: str) -> bool:
    """Whether a section names a command, or links to a section that does."""
    if has_command(text):
        return True
    linked = [((page.parent / name).resolve() if name else page, place) for name, place in LINK.findall(text)]
    return any(
        has_command(body) or place == "finished-benchmarks"
        for target, place in linked
        if target.suffix == ".md" and target.exists()
        for heading, body in sections(target)
        if place == anchor(heading)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_figure_names_the_command_that_makes_it(page: Path) -> None:
    unsourced = {
        heading: found for heading, text in sections(page) if (found := figures(text)) and not is_sourced(page, text)
    }
    assert list(unsourced) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("takes 0.45 of it, 0.2.1 and 30%", 2),
        ("13 ms, 1 to 2 times", 2),
        ("`0.45`", 0),
        ("step 3, 93 MB, [a](0.45)", 0),
    ],
)
def test_what_a_figure_is(text: str, count: int) -> None:
    assert len(figures(text)) == count
