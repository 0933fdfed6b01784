"""Accuracy by field: what counts as right, as wrong, as a failure."""

from __future__ import annotations

import json
import math
import operator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import structgen as sg
from structgen.batch_jobs.evaluation import Accuracy
from structgen.demo.tasks import Person
from structgen.testing import scripted

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "home": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "age": {"type": "integer"},
    },
    "required": ["name", "home"],
    "additionalProperties": False,
}


def test_fields_are_counted_by_pointer_and_rows_as_a_whole(tmp_path: Path) -> None:
    """Case and white space do not count; order in lists does; a member too many makes the row wrong alone."""
    said = [
        '{"name": "ada  MOREAU", "home": {"city": "Lyon"}, "tags": ["a", "b"]}',
        '{"name": "Tom", "home": {"city": "Rome"}, "tags": ["b", "a"]}',
        '{"name": "Eve", "home": {"city": "Bonn"}, "age": 3}',
    ]
    rows = [
        {"id": "r1", "text": "1", "expected": {"name": "Ada Moreau", "home": {"city": "Lyon"}, "tags": ["a", "B"]}},
        {"id": "r2", "text": "2", "expected": {"name": "Tom", "home": {"city": "Oslo"}, "tags": ["a", "b"]}},
        {"id": "r3", "text": "3", "expected": {"name": "Eve", "home": {"city": "Bonn"}}},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = sg.evaluate(scripted(said), str(file), SCHEMA)
    assert {name: (each.right, each.total) for name, each in result.fields.items()} == {
        "/name": (3, 3), "/home/city": (2, 3), "/tags": (1, 2),
    }  # fmt: skip
    assert (result.whole.right, result.whole.total, result.failed) == (1, 3, 0)
    wrong = {(each.id, each.field, str(each.expected), str(each.given)) for each in result.mistakes}
    assert wrong == {
        ("r2", "/home/city", "Oslo", "Rome"),
        ("r2", "/tags", "['a', 'b']", "['b', 'a']"),
        ("r3", "/age", "None", "3"),
    }
    assert str(result).splitlines()[2].split() == ["/home/city", "2", "3", "67%", "21%", "to", "94%"]
    result.plot(tmp_path / "plot.svg")
    assert "2 of 3" in [text.text for text in ElementTree.parse(tmp_path / "plot.svg").iter() if text.text]
    strict = sg.evaluate(scripted(said[:1]), rows[:1], SCHEMA, same=operator.eq)
    assert (strict.fields["/name"].right, strict.fields["/home/city"].right) == (0, 1)


def test_scalars_types_and_rows_that_fail() -> None:
    """A value that is no object is one field; a value of the type is as good as JSON; a failure is wrong everywhere."""
    labels = [{"text": "x", "label": "yes"}, {"text": "y", "label": "no"}]
    result = sg.evaluate(scripted(['"yes"', '"yes"']), labels, {"enum": ["yes", "no"]}, expected="label")
    assert (result.fields[""].right, result.whole.share) == (1, 0.5)
    assert "(value)" in str(result)
    person = Person(name="Ada", age=36, city="Lyon")
    rows = [{"text": "a", "expected": person}, {"text": "", "expected": person}]
    result = sg.evaluate(scripted(json.dumps(person.model_dump())), rows, Person)
    assert (result.failed, result.whole.right, result.fields["/age"].total) == (1, 1, 2)
    assert "nothing to read" in result.mistakes[0].given


def test_what_cannot_be_evaluated_says_so() -> None:
    """Before the second row runs."""
    with pytest.raises(sg.OptionError, match="row '1' has no field 'expected'"):
        sg.evaluate(scripted("1"), [{"text": "x"}], {"type": "integer"})
    with pytest.raises(sg.OptionError, match="expected="):
        sg.evaluate(scripted("1"), [], {"type": "integer"}, expected="")
    assert math.isnan(Accuracy().share)
    assert Accuracy().interval == (0.0, 1.0)
