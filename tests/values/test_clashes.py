"""A schema without values is told with the keywords that exclude each other, and with no others."""

from __future__ import annotations

import random
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
    ({"type": "string", "enum": [1, 2], "minLength": 1}, "type 'string' and enum [1, 2]"),
    ({"type": "string", "const": 1}, "type 'string' and const 1"),
    ({"type": "integer", "enum": [1, 2], "minimum": 3}, "enum [1, 2] and minimum 3"),
    ({"allOf": [{"type": "string", "minLength": 1}, NUMBER]}, "allOf/0/type 'string' and allOf/1/type 'integer'"),
    ({"minLength": 3, "type": "null", "allOf": [{"allOf": [TEXT]}]}, "type 'null' and allOf/0/allOf/0/type 'string'"),
    ({"allOf": [False, TEXT]}, "allOf [False, {'type': 'string'}] excludes every value"),
    (
        {"type": "object", "properties": {"a": {}}, "required": ["a", "b", "c"], "additionalProperties": False},
        "type 'object', required ['b'] and additionalProperties False",
    ),
    (
        {"type": "object", "properties": {"a": False, "b": {}}, "required": ["b", "a"]},
        "type 'object', properties {'a': False} and required ['a']",
    ),
    (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False, "minProperties": 2},
        "type 'object', properties {'a': {}}, additionalProperties False and minProperties 2",
    ),
    (
        {"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 5},
        "type 'integer', minimum 1, maximum 2 and multipleOf 5",
    ),
    ({"type": "string", "pattern": "^a{5}$", "maxLength": 3}, "type 'string', pattern '^a{5}$' and maxLength 3"),
    ({"type": "array", "contains": TEXT, "maxItems": 0}, "type 'array', contains {'type': 'string'} and maxItems 0"),
    (
        {"type": "array", "contains": TEXT, "items": NUMBER, "maxItems": 3},
        "type 'array', contains {'type': 'string'} and items {'type': 'integer'}",
    ),
    ({"type": "array", "contains": TEXT, "minContains": 0, "enum": ["a"]}, "type 'array' and enum ['a']"),
    ({"enum": []}, "enum [] excludes every value"),
    ({"not": {}, "type": "null"}, "not {} excludes every value"),
    ({"anyOf": [TEXT, NULL], "type": "integer"}, "and type 'integer' exclude each other"),
    ({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": NUMBER}}, "$ref '#/$defs/a' and type 'string'"),
    (
        {"$schema": SEVEN, "$ref": "#/definitions/a", "type": "null", "definitions": {"a": {**NUMBER, "const": "x"}}},
        "$ref '#/definitions/a', where type 'integer' and const 'x' exclude each other",
    ),
    (
        {"$schema": FOUR, "type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 1},
        "type 'number', minimum 1, exclusiveMinimum True and maximum 1",
    ),
    (
        {"type": "object", "required": ["a"], "properties": {"b": {}}, "unevaluatedProperties": False},
        "required ['a'] and unevaluatedProperties False",
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
            "allOf/0/enum ['a'] and allOf/1",
        ),
    ):
        with pytest.raises(sg.UnsatisfiableSchema, match=re.escape(words)) as caught:
            sg.JsonSchema({"type": ["array"] if "minItems" in schema else "object", **schema}).automaton()
        assert caught.value.pointer == pointer


KEYWORDS: dict[str, list[Any]] = {
    "type": ["string", "integer", ["array", "object"]], "enum": [[1, "a"], [[], {}]], "const": [2, "b", ["a"]],
    "minimum": [0, 5], "maximum": [1, 6], "multipleOf": [7], "minLength": [1, 3], "maxLength": [0, 2],
    "pattern": ["^b"], "minItems": [1, 2], "maxItems": [0, 1], "items": [False, NUMBER], "contains": [TEXT],
    "required": [["a"], ["b", "c"]], "properties": [{"a": False}, {"b": TEXT}], "additionalProperties": [False],
    "minProperties": [1], "maxProperties": [0, 1], "propertyNames": [{"maxLength": 0}], "not": [TEXT],
    "anyOf": [[NULL, NUMBER], [TEXT]],
}  # fmt: skip
READ = {"properties", "items", "contains"}


def _refusal(schema: dict[str, Any]) -> str:
    try:
        sg.JsonSchema(schema).automaton()
    except sg.UnsatisfiableSchema as error:
        return str(error)
    return ""


def test_the_set_that_is_named_is_a_smallest_one() -> None:
    """Random schemas: the keywords of the message clash alone, and without any one of them there is a value."""
    rng, told = random.Random(5), 0
    for _ in range(600):
        schema = {name: rng.choice(KEYWORDS[name]) for name in rng.sample(sorted(KEYWORDS), rng.randint(2, 6))}
        message = _refusal(schema)
        if not message:
            continue
        told += 1
        words = message.partition("satisfies it: ")[2]
        named = {name: schema[name] for name in schema if re.search(rf"(?:^|, | and |> |>= ){name} ", words)}
        if " > " in words and "type" in schema:
            named["type"] = schema["type"]
        assert _refusal(named), (schema, message)
        for name in named.keys() - READ - {"type"}:
            assert not _refusal({key: value for key, value in named.items() if key != name}), (schema, message)
    assert told > 100


def test_a_message_is_short_and_comes_soon() -> None:
    """However much the schema holds: at most 200 characters of it, within the second that the search may take."""
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
    assert "required ['other'] and additionalProperties False" in _refusal(large)
    assert at_usual_speed(thread_time() - begun) < 20
