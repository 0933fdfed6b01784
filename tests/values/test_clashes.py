"""A schema without values is told with its place and the keywords that stand there."""

from __future__ import annotations

import re
from time import thread_time
from typing import Any

import pytest

import structgen as sg
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

SEVEN = "http://json-schema.org/draft-07/schema#"
FOUR = "http://json-schema.org/draft-04/schema#"
NULL, TEXT, NUMBER = {"type": "null"}, {"type": "string"}, {"type": "integer"}
BRANCHES = [{"enum": ["a"]}, {"title": "b", "enum": ["b"]}]

CLASHES: list[tuple[dict[str, Any], str]] = cases("values/clashes", "CLASHES", globals())


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
