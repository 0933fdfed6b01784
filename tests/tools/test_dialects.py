"""Schemas as declarations write them: OpenAPI's `nullable`, Gemini's types in capitals."""

from __future__ import annotations

import pytest

from structgen.errors import SchemaError
from structgen.tools import Tool
from structgen.tools.dialects import as_json_schema, mapped

GEMINI = {
    "type": "OBJECT",
    "properties": {
        "type": {"type": "STRING", "nullable": True},
        "many": {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}, "minItems": "1", "maxItems": "3"},
        "either": {"anyOf": [{"type": "NUMBER"}, {"type": "BOOLEAN"}]},
        "in": {"type": "OBJECT", "properties": {"deep": {"type": "STRING", "enum": ["STRING"]}}},
    },
    "required": ["type"],
    "propertyOrdering": ["type", "many"],
}


def test_geminis_declarations_are_read():
    tool = Tool.of({"name": "look", "description": "Looks.", "parameters": GEMINI})
    arguments = {"type": None, "many": [1, 2], "either": 1.5, "in": {"deep": "STRING"}}
    assert tool.parse('{"type": null, "many": [1, 2], "either": 1.5, "in": {"deep": "STRING"}}') == arguments
    for wrong in (
        '{"type": 1}',
        '{"type": "a", "many": []}',
        '{"type": "a", "other": 1}',
        '{"type": "a", "either": ""}',
    ):
        with pytest.raises(Exception, match="refused"):
            tool.parse(wrong)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        assert Tool.of({"name": "count", key: schema}).parse('{"n": 1}') == {"n": 1}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [({"type": "object", "properties": {"a": {"type": "STRING"}}}, "/properties/a"),
     ({"properties": {"a": {"items": {"type": "INTEGER"}}}}, "/properties/a/items"),
     ({"type": "OBJECT", "properties": {"a": {"type": "TYPE_UNSPECIFIED"}}}, "/properties/a")],
)  # fmt: skip
def test_capitals_that_the_whole_does_not_have_are_refused_by_name(schema, pointer):
    with pytest.raises(SchemaError, match=r"the parameters of the tool 'look': the type .* is Gemini's") as raised:
        Tool.of({"name": "look", "parameters": schema})
    assert raised.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "read"),
    [({"allOf": [{"nullable": True}]}, {"allOf": [{"anyOf": [{}, {"type": "null"}]}]}),
     ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
     ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}),
     ({"nullable": False, "type": "string"}, {"type": "string"}),
     ({"type": []}, {"type": []}),
     ({"properties": {"nullable": {"type": "boolean"}}}, {"properties": {"nullable": {"type": "boolean"}}}),
     ({"const": {"nullable": True}, "enum": [{"type": "INTEGER"}]},) * 2,
     (True, True)],
)  # fmt: skip
def test_openapis_keywords_are_read_where_they_are_keywords(schema, read):
    assert (mapped(schema, lambda each, _: each) if schema is True else as_json_schema(schema, "x")) == read
