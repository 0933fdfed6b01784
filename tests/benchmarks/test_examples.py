"""Examples of other libraries' documentation, each with one line changed; the ones of installed libraries run."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.examples import FOLDER, examples, outcome

FILES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_example_names_its_page_and_the_line_that_was_changed(path):
    cells = path.read_text("utf-8").split("# %% ")[1:]
    assert [each.page for each in examples(path)] == [cell.partition("\n")[0] for cell in cells]
    assert all(cell.count("# was: ") == 1 and ": " in cell.partition("\n")[0] for cell in cells)


def test_there_are_fifty_and_more():
    found = [each for path in FILES for each in examples(path)]
    assert len(found) >= 50
    assert sum(not each.differs for each in found) >= 0.9 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_run_unless_they_say_why_not(path):
    if importlib.util.find_spec(path.stem) is None:
        pytest.skip(f"needs {path.stem}")
    rows = [outcome(each, seconds=600) for each in examples(path)]
    assert [(row["page"], row["error"]) for row in rows if "error" in row and not row["differs"]] == []
