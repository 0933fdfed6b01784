"""A report as data: saved and read again, shown in a terminal, and made of a run.

Covers `trace.records` and `terminal`.
"""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import pytest
from rich.console import Console

import structgen as sg
from structgen.testing import scripted
from structgen.trace.records import Alternative, TracedToken, Undone
from structgen.trace.report import Report, places_of_undone
from structgen.trace.terminal import show
from tests.support.tables import cases

SCHEMA = cases("trace/report", "SCHEMA")


def run_of(text: str, **options: object) -> sg.Generation[object]:
    return sg.generate(scripted(text), "Tell me.", SCHEMA, details=True, **options)  # type: ignore[arg-type, return-value]


def printed(report: Report, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    show(report, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_a_report_has_what_the_run_has() -> None:
    run = run_of('{"name": "bad", "n": 2}', banned=["bad"])
    report = run.report()
    assert (report.text, report.finish, report.is_json, report.prompt) == (run.text, run.finish, True, run.prompt)
    assert report.undone == list(run.trace)
    assert report.tokens == list(run.trace.tokens)
    assert set(report.fields) == set(run.fields)
    assert report.fields["/n"].values == pytest.approx(dict(run.fields["/n"].values))
    usage, stats = report.usage, run.stats
    assert (usage.forced, usage.drafted, usage.rollbacks) == (stats.fast_forwarded, stats.drafted, stats.rollbacks)
    assert (usage.completion_tokens, usage.rolled_back) == (len(run.token_ids), stats.rolled_back)
    assert usage.prompt_tokens == run.prompt_tokens


def test_a_saved_report_is_read_as_it_was(tmp_path: Path) -> None:
    run = run_of('{"name": "é🙂\\n", "n": 2}')
    path = tmp_path / "trace.json"
    report = run.report(path)
    assert Report.read(path) == report
    assert isinstance(Report.read(path).tokens[-1].alternatives, tuple)
    json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize(
    "content", ["", "[]", '{"text": 3}', '{"version": 2, "text": "", "is_json": true, "finish": "end"}']
)
def test_another_file_is_refused_with_its_place(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(sg.OptionError, match=r"trace\.json' is not a saved trace"):
        Report.read(path)


def test_the_name_of_a_file_says_what_is_written(tmp_path: Path) -> None:
    run = run_of('{"name": "a", "n": 1}')
    run.report(str(tmp_path / "trace.HTML"))
    assert (tmp_path / "trace.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(sg.OptionError, match=r"ends in \.html or \.json"):
        run.report(tmp_path / "trace.txt")


def test_a_terminal_shows_the_text_what_was_taken_back_and_the_value() -> None:
    report = run_of('{"name": "bad", "n": 2}', banned=["bad"]).report()
    told = printed(report)
    assert "⟲bad" in told
    assert "banned word 'bad'" in told
    assert "name: " in told
    assert f"{report.usage.completion_tokens} tokens" in told
    assert max(map(len, printed(report, 40).splitlines())) <= 40


def test_a_terminal_shows_runs_of_which_little_is_known() -> None:
    assert "hello" in printed(Report(text="hello", is_json=False, finish="length"))
    assert "went wrong" in printed(Report(text="[1", is_json=True, finish="error", error="went wrong"))
    report = run_of('{"name": "' + "x" * 60 + '", "n": 2}', limits=sg.Limits(40)).report()
    assert "at /name: max_new_tokens=40" in printed(report)


def test_markup_of_rich_in_a_text_is_text() -> None:
    report = run_of('{"name": "[red]x[/red]", "n": 2}').report()
    assert "[red]x[/red]" in printed(report)


def test_an_undone_text_stands_where_a_later_rollback_went_further_back() -> None:
    token = TracedToken(1, "a", alternatives=(Alternative(1, "a", 1.0, True),))
    undone = [Undone(3, "x", "r"), Undone(1, "y", "r"), Undone(1, "z", "r"), Undone(9, "w", "r")]
    report = Report(text="aaaa", is_json=False, finish="end", tokens=[token] * 4, undone=undone)
    assert places_of_undone(report.undone, len(report.tokens)) == {1: [0, 1, 2], 4: [3]}


def test_a_notebook_shows_a_run_as_html() -> None:
    html = run_of('{"name": "<b>", "n": 2}')._repr_html_()
    assert "&lt;" in html
    assert "<script" not in html


def test_a_report_tells_which_schemas_each_value_was_read_against() -> None:
    """Also behind a reference, in a list, beside a quote, whose source is left out, and from another process."""
    schema = cases("trace/report", "a_report_tells_which")
    run = sg.generate(scripted('{"names": ["Bob"], "age": 3}'), "?", schema, source="Bob", details=True)
    report = run.report()
    assert report.parts == {
        "/names/0": ["/properties/names/items", "/$defs/name"],
        "/names": ["/properties/names"],
        "/age": ["/properties/age", "/properties/age/anyOf/0", "/properties/age/anyOf/1"],
        "": [""],
    }
    assert report.json_schema["$defs"]["name"]["x-quote"] == {"whole": "words", "source": "…"}
    assert pickle.loads(pickle.dumps(run)).report() == report
    assert sg.generate(scripted("ab"), "?", sg.Regex("ab"), details=True).report().json_schema is None
