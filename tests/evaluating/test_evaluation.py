"""Evaluations: what counts as right, how sure a share is, what is read from which files, and what is to be reviewed.

Covers `choosing`, `comparison`, `counts`, `mistakes_page`, `cli.evaluating`.
"""

from __future__ import annotations

import json
import math
import operator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import structgen as sg
from structgen.cli.app import app
from structgen.demo.tasks import Person
from structgen.evaluating.comparison import Row, alike, cases_of
from structgen.evaluating.counts import Accuracy, difference, worth
from structgen.evaluating.evaluation import Evaluation
from structgen.records import Evaluation as Recorded
from structgen.testing import scripted
from tests.support.tables import cases

ROWS = [{"n": number, "name": f"row {number}"} for number in range(100)]

# expected, given, the fields' counts: right, total, expected, given
COMPARED: list[tuple[Any, ...]] = cases("evaluating/evaluation", "COMPARED", globals())


def evaluation(*rows: tuple[Any, Any], chances: Any = (), groups: Any = ()) -> Evaluation:
    made = []
    for number, (expected, given) in enumerate(rows):
        cases = tuple(cases_of(expected, given, {"*": alike}))
        own = {case.pointer: chances[number] for case in cases} if chances else {}
        made.append(Row(str(number), str(groups[number] if groups else number), {}, expected, given, cases, own))
    return Evaluation(made)


@pytest.mark.parametrize(("expected", "given", "counts"), COMPARED)
def test_values_are_compared_place_by_place(expected: Any, given: Any, counts: dict[str, Any]) -> None:
    fields = evaluation((expected, given)).fields
    assert {name: (each.right, each.total, each.expected, each.given) for name, each in fields.items()} == counts


def test_precision_recall_and_what_is_right_as_a_whole() -> None:
    found = evaluation(({"rows": ROWS}, {"rows": [*ROWS[:17], {"n": -1, "name": "?"}]}), ([1], [1]))
    each = found.fields["/rows/*/n"]
    assert (each.recall, each.precision, round(each.f1, 3)) == (0.17, 17 / 18, round(34 / 118, 3))
    assert (found.whole.right, found.whole.total) == (1, 2)
    assert math.isnan(Accuracy().share)
    assert Accuracy().interval == (0.0, 1.0)


@pytest.mark.parametrize(
    ("groups", "value"),
    cases("evaluating/evaluation", "values_of_a_group", globals()),
)
def test_values_of_a_group_are_not_independent(groups: dict[str, tuple[int, int]], value: float) -> None:
    assert worth(groups) == pytest.approx(value)


def test_draws_of_one_row_widen_the_interval() -> None:
    rows = [(1, 1)] * 20 + [(1, 2)] * 20
    alone, drawn = evaluation(*rows).whole, evaluation(*rows, groups=[0] * 20 + [1] * 20).whole
    assert (alone.share, drawn.share, drawn.independent) == (0.5, 0.5, 2.0)
    assert drawn.interval[0] < 0.1 < 0.3 < alone.interval[0]


def test_two_runs_are_compared_row_by_row() -> None:
    before = evaluation(*[({"a": 1, "b": 1}, {"a": 1, "b": number}) for number in range(40)])
    after = evaluation(*[({"a": 1, "b": 1}, {"a": 1, "b": 1 + number // 30}) for number in range(40)])
    found = before.compare(after)
    assert (found.fields["/b"].better, found.fields["/b"].worse, found.fields["/b"].share) == (29, 0, 29 / 40)
    low, high = found.fields["/b"].interval
    assert 0.5 < low < 29 / 40 < high < 0.9
    assert found.fields["/a"].interval[0] < 0 < found.fields["/a"].interval[1]
    assert str(found).splitlines()[-1].split()[:6] == ["whole", "row", "40", "29", "0", "+72%"]
    with pytest.raises(sg.OptionError, match="rows with the same ids"):
        before.compare(evaluation())
    assert difference([("a", 1.0)] * 30 + [("b", -1.0)] * 10).interval[0] < 0  # two groups say little


def test_a_threshold_of_confidence_leaves_the_rest_to_a_review() -> None:
    found = evaluation(*[(1, 1)] * 6, (1, 2), (1, 1), (1, 2), (1, 2), chances=[0.99] * 6 + [0.9, 0.8, 0.7, 0.6])
    assert [(each.threshold, each.coverage) for each in map(found.review, (0.0, 0.13, 0.5))] == [
        (0.99, 0.6), (0.8, 0.8), (0.6, 1.0),
    ]  # fmt: skip
    assert found.review(0.13).accuracy.right == 7
    assert found.review(0.13, "").coverage == 0.8
    assert [mistake.confidence for mistake in found.mistakes] == [0.9, 0.7, 0.6]
    assert evaluation((1, 2), chances=[0.5]).review(0.0).threshold > 1


def test_a_job_is_read_again_goes_on_and_has_a_page(tmp_path: Path) -> None:
    """Rows with value and confidence are in the file; the page has mistakes beside their sources."""
    said = ['{"name": "Ada", "age": 36, "city": "Lyon"}', '{"name": "<Tom>", "age": 51, "city": "Rome"}']
    rows = [
        {"id": "r1", "text": "Ada, 36, Lyon", "expected": Person(name="Ada", age=36, city="Lyon")},
        {"id": "r2", "text": "<Tom>, 51, Oslo", "expected": {"name": "<Tom>", "age": 51, "city": "Oslo"}},
        {"id": "r3", "text": "", "expected": {"name": "Eve", "age": 1, "city": "Bonn"}},
    ]
    out = tmp_path / "run.jsonl"
    result = sg.evaluate(scripted(said), rows, Person, out=out)
    assert (result.failed, result.whole.right, result.fields["/age"].total) == (1, 1, 3)
    assert [(each.id, each.field, each.expected, each.given) for each in result.mistakes[:1]] == [
        ("r2", "/city", "Oslo", "Rome")
    ]
    assert "nothing to read" in result.rows[2].error
    line = json.loads(out.read_text(encoding="utf-8").splitlines()[1])
    assert line["input"]["expected"]["city"] == "Oslo"
    assert line["input"]["text"] == "<Tom>, 51, Oslo"
    assert line["probabilities"].keys() == {"/name", "/age", "/city"}
    again = sg.evaluate(scripted(["x"]), rows, Person, out=out, resume=True)
    read = Recorded.read(out, Person)
    assert str(again) == str(read) == str(result)
    page = (tmp_path / "run.jsonl.job" / "mistakes.html").read_text(encoding="utf-8")
    assert "&lt;Tom&gt;, 51, Oslo" in page
    assert "<Tom>" not in page
    assert page.index("<h2>r2</h2>") < page.index("<h2>r3</h2>")
    assert "<h2>r1</h2>" not in page


CSV = """text,expected,name,age,note
a,"{""name"": ""Ada"", ""age"": 3, ""note"": ""x""}",Ada,3,x
b,"{""name"": ""7"", ""age"": null, ""note"": null}",7,,
"""


class Known(BaseModel):
    name: str
    age: int | None
    note: str | None


@pytest.mark.parametrize("expected", ["expected", ["name", "age", "note"]])
def test_cells_of_csv_are_values_of_the_schema(tmp_path: Path, expected: Any) -> None:
    (tmp_path / "rows.csv").write_text(CSV, encoding="utf-8")
    values = [{"name": "Ada", "age": 3, "note": "x"}, {"name": "7", "age": None, "note": None}]
    result = sg.evaluate(scripted([*map(json.dumps, values)]), tmp_path / "rows.csv", Known, expected=expected)
    assert [row.expected for row in result.rows] == values
    assert result.whole.right == 2


def test_fields_may_have_a_comparison_of_their_own() -> None:
    rows = [{"text": "x", "expected": {"tags": ["b", "a"], "price": 2.0}}]
    schema = {"type": "object", "properties": {"tags": {"type": "array"}, "price": {"type": "number"}}}
    same = {"/tags": operator.eq, "/price": lambda one, other: abs(one - other) < 0.1}
    said = '{"tags": ["a", "b"], "price": 2.05}'
    result = sg.evaluate(scripted(said), rows, schema, same=same)
    assert {name: each.right for name, each in result.fields.items()} == {"/tags": 0, "/price": 1}
    strict = sg.evaluate(scripted(said), rows, schema, same=operator.eq)
    assert {name: each.right for name, each in strict.fields.items()} == {"/tags/*": 2, "/price": 0}


def test_what_cannot_be_evaluated_says_so_and_broken_rows_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(sg.OptionError, match="row '1' has no field 'expected'"):
        sg.evaluate(scripted("1"), [{"text": "x"}], {"type": "integer"})
    with pytest.raises(sg.OptionError, match="expected="):
        sg.evaluate(scripted("1"), [], {"type": "integer"}, expected="")
    with pytest.raises(sg.OptionError, match="the file that a job has written"):
        Recorded.read(tmp_path / "none.jsonl")
    (tmp_path / "rows.jsonl").write_text('{"text": "x", "expected": 1}\n{"te\n{"text": "y"}\n', encoding="utf-8")
    result = sg.evaluate(scripted(["1", "1"]), tmp_path / "rows.jsonl", {"type": "integer"})
    assert (result.whole.right, result.whole.total, result.failed) == (1, 3, 2)


def test_expected_values_that_the_schema_makes_impossible_are_told() -> None:
    rows = [{"text": "x", "expected": {"age": None}}, {"text": "y", "expected": {"age": 3}}]
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    result = sg.evaluate(scripted(['{"age": 3}'] * 2), rows, schema)
    assert "1 of 2 values are impossible" in str(result)
    assert str(result).endswith("/properties/age/type: allow null, too (1 need it, 1 nothing else)")


def test_examples_are_chosen_on_other_rows_than_they_are_judged_on() -> None:
    """A model that is right only where it has seen an example of the label."""
    rows = [{"id": str(number), "text": f"text {number}", "expected": number % 2} for number in range(40)]
    said = [json.dumps(number % 2) for number in range(400)]
    found = sg.choose_examples(scripted(said), rows, {"enum": [0, 1]}, count=2, tries=2, chat=False)
    tested = {row.id for row in found.evaluation.rows}
    assert not tested & {text.rpartition(" ")[2] for text, _ in found.examples}
    assert found.comparison.whole.total == len(tested) > 10
    with pytest.raises(sg.OptionError, match="more rows"):
        sg.choose_examples(scripted("1"), rows[:3], {"enum": [0, 1]})


def test_the_command_evaluates_compares_and_says_what_to_review(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    line = {"text": "Ada Moreau, 36, lives in Lyon.", "expected": {"name": "Ada Moreau", "age": 36, "city": "Lyon"}}
    rows.write_text(json.dumps(line) + "\n", encoding="utf-8")
    common = ["demo", str(rows), "--schema", "structgen.demo.tasks:Person", "--out"]
    prompt = ["--prompt", "Extract the person: name, age, city.\nText: {text}\nJSON: "]
    first = CliRunner().invoke(app, ["evaluate", *common, str(tmp_path / "one.jsonl"), *prompt])
    assert first.exit_code == 0
    assert "/city          1      1      100%" in first.output
    more = ["--against", str(tmp_path / "one.jsonl"), "--risk", "0.5"]
    second = CliRunner().invoke(app, ["evaluate", *common, str(tmp_path / "two.jsonl"), *prompt, *more])
    assert "whole row     1       0      0         +0%" in second.output
    assert "100% of the rows may be taken without a look" in second.output
