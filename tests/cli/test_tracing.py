"""`structgen trace`: a run or a saved trace, printed or written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from structgen.cli import app
from structgen.testing import scripted

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.load", lambda name, **options: scripted('{"name": "bad Zoë"}'))


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.output


def test_a_run_is_printed_or_written_and_a_saved_one_read_again(tmp_path: Path) -> None:
    schema, saved, page = tmp_path / "s.json", tmp_path / "trace.json", tmp_path / "trace.html"
    schema.write_text(json.dumps(SCHEMA))
    asked = ("trace", "some/model", "Tell me.", "--schema", schema, "--banned", "bad")
    code, told = run(*asked)
    assert code == 0
    assert "banned word 'bad'" in told
    assert run(*asked, "--out", saved) == (0, "")
    code, again = run("trace", saved)
    assert (code, "banned word 'bad'" in again) == (0, True)
    assert run("trace", saved, "--out", page) == (0, "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_is_neither_is_one_line(tmp_path: Path) -> None:
    code, told = run("trace", "some/model")
    assert (code, told.count("\n")) == (1, 1)
    assert "give a prompt" in told
    (tmp_path / "x.json").write_text("{}")
    assert "is not a saved trace" in run("trace", tmp_path / "x.json")[1]
    assert run("trace", tmp_path / "none.json")[0] == 1
    assert "ends in .html or .json" in run("trace", "m", "x", "--out", tmp_path / "x.txt")[1].replace("\n", " ")


def test_spans_of_a_server_need_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    code, told = run("serve", "some/model", "--otel")
    assert (code, "structgen-llm[otel]" in told) == (1, True)
