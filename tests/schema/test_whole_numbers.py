"""Ints where the schema says integer, floats elsewhere."""

from __future__ import annotations

import json

import pytest

import structgen as sg
from structgen.schema.whole_numbers import loads
from structgen.testing import scripted
from tests.support.tables import cases

INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}


@pytest.mark.parametrize(("schema", "text", "expected"), cases("schema/whole_numbers", "a_whole_number_is", globals()))
def test_a_whole_number_is_an_int_where_every_schema_of_its_place_says_so(schema, text, expected):
    assert repr(loads(text, schema)) == expected.replace('"', "'")


def test_a_value_without_whole_floats_comes_back_as_it_is():
    value = {"a": [1, 1.5, "5.0", None]}
    assert loads(json.dumps(value), {"$ref": "#/nowhere"}) == value


def test_a_schema_that_cannot_be_read_changes_nothing():
    assert repr(loads("[5.0]", {"items": {"$ref": "#/nowhere"}})) == "[5.0]"


def test_what_is_generated_and_what_a_tool_parses_has_ints():
    assert repr(sg.generate(scripted("5.0"), "n", INTEGER)) == "5"
    tool = sg.Tool.of({"name": "f", "parameters": {"properties": {"n": INTEGER, "x": NUMBER}}})
    assert repr(tool.parse('{"n": 5.0, "x": 5.0}')) == "{'n': 5, 'x': 5.0}"
