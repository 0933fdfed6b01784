"""A schema without values is told with its place and the keywords that stand there."""

from __future__ import annotations

import re
from time import thread_time
from typing import Any

import pytest

import structgen as sg
from tests.support.speed import at_usual_speed

SEVEN = "http://json-schema.org/draft-07/schema#"
FOUR = "http://json-schema.org/draft-04/schema#"
NULL, TEXT, NUMBER = {"type": "null"}, {"type": "string"}, {"type": "integer"}
BRANCHES = [{"enum": ["a"]}, {"title": "b", "enum": ["b"]}]

CLASHES: list[tuple[dict[str, Any], str]] = [
    ({"type": "integer", "minimum": 1, "maximum": -1}, "minimum 1 > maximum -1"),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 1, "title": "x"}, "exclusiveMinimum 1 >= maximum 1"),
    ({"type": "string", "pattern": "^a", "minLength": 5, "maxLength": 3}, "minLength 5 > maxLength 3"),
    ({"type": "array", "items": TEXT, "minItems": 3, "maxItems": 2}, "minItems 3 > maxItems 2"),
    ({"type": "object", "minProperties": 3, "maxProperties": 2}, "minProperties 3 > maxProperties 2"),
    ({"type": "string", "const": 1}, "type 'string' and const 1 exclude each other"),
    ({"type": "integer", "enum": [1, 2], "minimum": 3}, "type 'integer', enum [1, 2] and minimum 3 exclude"),
    ({"allOf": [False, TEXT]}, "allOf [False, {'type': 'string'}] excludes every value"),
    ({"enum": []}, "enum [] excludes every value"),
    ({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": NUMBER}}, "$ref '#/$defs/a' and type 'string'"),
    (
        {"$schema": FOUR, "type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 1},
        "type 'number', minimum 1, exclusiveMinimum True and maximum 1",
    ),
]


@pytest.mark.parametrize(("schema", "words"), CLASHES, ids=lambda value: value if isinstance(value, str) else "")
def test_the_keywords_that_clash_are_named(schema: dict[str, Any], words: str) -> None:
    """Those, and what they hold."""
    with pytest.raises(
        sg.UnsatisfiableSchema, match=r"at the root of the schema: no JSON value satisfies it: "
    ) as caught:
        sg.JsonSchema(schema).automaton()
    assert words in str(caught.value)


def test_the_place_is_the_one_that_is_needed() -> None:
    """A required member, a first item: the innermost place without a value."""
    for schema, pointer, words in (
        (
            {"properties": {"x": {**NUMBER, "minimum": 3, "maximum": 1}}, "required": ["x"]},
            "/properties/x",
            "3 > maximum",
        ),
        ({"prefixItems": [{}, {**TEXT, "const": 1}], "minItems": 2}, "/prefixItems/1", "type 'string' and const 1"),
        (
            {"properties": {"v": {"allOf": BRANCHES}}, "required": ["v"]},
            "/properties/v",
            "allOf [",
        ),
    ):
        with pytest.raises(sg.UnsatisfiableSchema, match=re.escape(words)) as caught:
            sg.JsonSchema({"type": ["array"] if "minItems" in schema else "object", **schema}).automaton()
        assert caught.value.pointer == pointer


def _refusal(schema: dict[str, Any]) -> str:
    try:
        sg.JsonSchema(schema).automaton()
    except sg.UnsatisfiableSchema as error:
        return str(error)
    return ""


def test_a_message_is_short_and_comes_soon() -> None:
    """However much the schema holds: at most 200 characters of it."""
    begun = thread_time()
    large: dict[str, Any] = {"type": "object", "properties": {f"name{i}": TEXT for i in range(20_000)}}
    large |= {"required": ["name7", "other"], "additionalProperties": False}
    enum = {"type": "integer", "enum": ["x" * 100 + str(i) for i in range(5_000)]}
    many = {"allOf": [{"minimum": i} for i in range(300)], "type": "number", "maximum": 200}
    deep: dict[str, Any] = {"type": "null", "const": "a"}
    for _ in range(2_000):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    for schema in (large, enum, many, deep):
        assert len(_refusal(schema).partition("satisfies")[2]) < 300
    assert at_usual_speed(thread_time() - begun) < 20
