"""Schemas as a prompt shows them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.errors import OptionError, SchemaError
from structgen.rendering import schema_text
from tests.support.tables import cases


class Kind(Enum):
    TOWN = "town"
    CITY = "city"


class Mayor(BaseModel):
    name: str
    party: str | None = None


class City(BaseModel):
    name: str = Field(description="its name,\n in English", max_length=40)
    kind: Kind
    people: Annotated[int, Field(ge=0)] = 1
    tags: list[str] = Field(max_length=3, examples=[["old"]])
    mayor: Mayor
    size: tuple[int, float]
    either: Literal["a", 2] = "a"


CITY = cases("rendering", "CITY", globals())


def test_a_model_is_shown_with_descriptions_bounds_and_defaults():
    assert sg.render(City) == CITY


def test_json_schemas_and_other_types_are_shown():
    assert sg.render({"type": "array", "items": {"type": ["integer", "null"]}}) == "[integer | null, ...]"
    assert sg.render(dict[str, int]) == "{\n  [name]: integer,\n}"
    assert sg.render(sg.JsonSchema({"const": "é"})) == '"é"'
    assert sg.render({}) == "any JSON"
    with pytest.raises(SchemaError):
        sg.render(3)
    with pytest.raises(SchemaError, match="has no JSON Schema to show: say in the prompt"):
        sg.render(sg.Regex("a+"))


def test_a_type_that_holds_itself_ends():
    class Tree(BaseModel):
        children: list[Tree]

    Tree.model_rebuild(_types_namespace={"Tree": Tree})
    assert "..." in sg.render(Tree)


def test_a_prompt_is_told_the_form_of_its_answer():
    assert schema_text(int) == "Answer with JSON of this form:\ninteger"
    assert schema_text(int, "So:") == "So:\ninteger"


def test_generate_writes_the_schema_behind_the_prompt():
    from structgen.testing import scripted

    plain = sg.generate(scripted("7"), "How many?", schema=int, details=True)
    told = sg.generate(scripted("7"), "How many?", schema=int, prompt_schema=True, details=True)
    assert (plain.value, told.value) == (7, 7)
    assert told.prompt_tokens == len(f"How many?\n\n{schema_text(int)}\n")
    last = list(sg.stream(scripted("7"), "How many?", int, prompt_schema=True))[-1]
    assert last.result is not None
    assert last.result.prompt_tokens == told.prompt_tokens
    with pytest.raises(OptionError, match="prompt_schema"):
        sg.generate(scripted("7"), "How many?", schema=int, prompt_schema="yes")
