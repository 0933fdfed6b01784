"""Values that two branches of a `oneOf` take are named, in `explain` and in a warning."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import structgen as sg
from structgen.endings import overlaps
from structgen.testing import scripted
from tests.support.tables import cases

A, B = {"a": {"type": "string"}}, {"b": {"type": "integer"}}
OBJECT = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(("schema", "pairs"), cases("endings/overlaps", "explain_names_a_value", globals()), ids=str)
def test_explain_names_a_value_of_both_branches(schema: dict[str, Any], pairs: dict[str, tuple[str, bool]]) -> None:
    notes = [cliff for cliff in sg.explain(schema).cliffs if cliff.what.startswith("oneOf refuses")]
    assert {note.pointer for note in notes} == set(pairs)
    for note in notes:
        text = note.what.split("oneOf refuses ")[1].split(", which its branches")[0]
        value = json.loads(text)
        whole = [value] if note.pointer else value
        assert len(text) == len(pairs[note.pointer][0])
        assert not Draft202012Validator(schema).is_valid(whole)
        place = schema["items"] if note.pointer else schema
        assert sum(Draft202012Validator(branch).is_valid(value) for branch in place["oneOf"]) == 2


def test_a_run_that_meets_such_a_value_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the branches require different members, of which the author wants exactly one."""
    schema = {"oneOf": [{**OBJECT, "properties": A, "$comment": __name__}, {**OBJECT, "properties": A | B}]}
    model = scripted('{"a": "x"}')
    with pytest.warns(sg.SchemaWarning, match=r"root of the schema: oneOf refuses \{\}, which its branches 0 and 1"):
        assert set(sg.generate(model, "p", schema=schema)) == {"a", "b"}  # the junk that the warning is about
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.generate(model, "p", schema=schema)
        monkeypatch.setattr(overlaps, "MOST_SECONDS", -1.0)  # a search that takes too long is given up
        sg.generate(model, "p", schema={**schema, "title": "another"})
        exactly = {"type": "object", "properties": A | B, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
        assert sg.generate(model, "p", schema=exactly) == {"a": "x"}
