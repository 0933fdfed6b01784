"""What is often passed as `schema=` by mistake is told what to pass instead."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.testing import scripted
from tests.support.tables import cases


class City(BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = "red"


INNER = {"type": "object"}


@pytest.mark.parametrize(("schema", "advice"), cases("schema/python/mistaken", "what_is_no_schema", globals()), ids=str)
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
