"""What is often passed as `schema=` by mistake is told what to pass instead."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

import structgen as sg
from structgen.testing import scripted


class City(BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = "red"


INNER = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "advice"),
    [
        ({"type": "json_schema"}, "it is the response_format of an API, without a schema"),
        ({"type": "json_object"}, "for any JSON object pass {'type': 'object'}"),
        ({"type": "text"}, "for plain text leave schema= out"),
        ({"type": "function", "function": {"name": "f"}}, "it is the description of a tool, without parameters"),
        ({"name": str, "age": int}, "'name' holds the class str; pass a TypedDict or a Pydantic model"),
        ({"name": "string", "age": "int"}, "its members are names of types; pass a TypedDict, or {'type': 'object'"),
        (TypeAdapter(int), "pass the type that it adapts, or its json_schema()"),
        (["red", "green"], "pass sg.Choice(['red', 'green'])"),
        ({"red"}, "pass sg.Choice(['red'])"),
        ([City], "pass list[City]"),
        ([City, Point], "A | B for one of several types"),
        ('{"type": "object"}', "pass json.loads(text)"),
        (b' {"type": "object"}', "pass json.loads(text)"),
        ("[a-z]+", "pass sg.Regex(text) for a pattern"),
        (re.compile("[a-z]+"), "pass sg.Regex('[a-z]+')"),
        (City(name="a"), "an instance of City: pass the class, schema=City"),
        (Point(1), "an instance of Point: pass the class, schema=Point"),
        (Colour.RED, "pass the class, schema=Colour, or Literal[Colour.RED]"),
        (5, "pass {'const': 5}"),
    ],
    ids=str,
)
def test_what_is_no_schema_is_told_what_to_pass(schema: Any, advice: str) -> None:
    """As a schema, as the one of a row, as that of `JsonSchema` and `explain`."""
    model = scripted("anything")
    with pytest.raises(sg.SchemaError, match=re.escape(advice)):
        sg.generate(model, "p", schema=schema)
    with pytest.raises(sg.SchemaError, match=re.escape(advice)):
        sg.generate(model, ["p", "q"], schema=[City, schema])
    with pytest.raises(sg.SchemaError, match=re.escape(advice)):
        sg.JsonSchema(schema).compile(model.vocabulary)
    with pytest.raises(sg.SchemaError, match=re.escape(advice)):
        sg.explain(schema)


def test_texts_for_a_list_of_prompts_are_a_choice_too() -> None:
    """A list has one schema per prompt, so these would be told that there are too few."""
    with pytest.raises(sg.SchemaError, match=r"pass sg.Choice\(\['a', 'b', 'c'\]\)"):
        sg.generate(scripted("x"), ["p", "q"], schema=["a", "b", "c"])


@pytest.mark.parametrize(
    "schema", [{"name": "x"}, {"name": "x", "type": "object"}, {"schema": INNER}, {}, True], ids=str
)
def test_json_schemas_are_left_alone(schema: Any) -> None:
    """Unknown keywords are annotations, whatever they hold."""
    assert sg.generate(scripted("{}"), "p", schema=schema) == {}
