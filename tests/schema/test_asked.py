"""Members that may be null are required, and the schema takes nothing that it did not take before."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.errors import OptionError
from structgen.schema.asked import with_nulls, without_absent
from structgen.testing import scripted
from tests.support.tables import cases

NULL, TEXT = {"type": "null"}, {"type": "string"}
MAYBE = {"anyOf": [TEXT, NULL]}


@pytest.mark.parametrize(("schema", "required"), cases("schema/asked", "members_that_may_be", globals()))  # fmt: skip
def test_members_that_may_be_null_are_required(schema: Any, required: list[str] | None) -> None:
    asked = with_nulls(schema)
    assert (asked.get("required") if isinstance(asked, dict) else None) == required
    if required is None:
        assert asked == schema
    for value in ({}, {"a": None}, {"a": "x", "b": "y"}, {"a": None, "b": None, "c": 1}) if required else ():
        takes = [jsonschema.Draft202012Validator(each).is_valid(value) for each in (asked, schema)]
        assert takes[1] or not takes[0]


def test_objects_within_are_asked_too() -> None:
    inner = {"type": "object", "properties": {"a": MAYBE}}
    asked = with_nulls({"type": "array", "items": {"anyOf": [inner, {"allOf": [inner]}]}})
    assert asked["items"]["anyOf"][0]["required"] == asked["items"]["anyOf"][1]["allOf"][0]["required"] == ["a"]


class Address(BaseModel):
    city: str
    zip: str = "none"


class Contact(BaseModel):
    name: str
    age: int = -1
    phone: str | None = None
    address: Address | None = None
    more: list[Address] = []


@pytest.mark.parametrize(
    ("text", "value"),
    cases("schema/asked", "optional_members_are_written", globals()),
)
def test_optional_members_are_written_and_then_missing(text: str, value: Contact) -> None:
    model = scripted(text)
    made = sg.generate(model, "x", Contact, optional="write", details=True)
    assert (made.text, made.value) == (text, value)
    plain = sg.generate(model, "x", Contact.model_json_schema(), optional="write")
    assert Contact.model_validate(plain) == value
    written = json.loads(text)
    assert set(plain) == {name for name in written if written[name] is not None or name in ("phone", "address")}


def test_numbers_stay_as_they_are_written_where_null_is_taken_out() -> None:
    schema = {"properties": {"a": {"type": "number"}, "b": {"type": "number"}, "c": {"type": "null"}}}
    assert without_absent('{"a":1.50,"b":null,"c":null,"d":null}', schema) == '{"a": 1.50, "c": null, "d": null}'


def test_what_optional_cannot_be_written_for_is_refused() -> None:
    class Checked(Contact):
        @field_validator("age")
        @classmethod
        def check(cls, age: int) -> int:
            return age

    for schema, told in ((Checked, "its validators would meet null"), (sg.Choice(["a"]), "optional members")):
        with pytest.raises(OptionError, match=told):
            sg.generate(scripted("a"), "x", schema, optional="write")
    with pytest.raises(OptionError, match=r"optional='all'"):
        sg.generate(scripted("a"), "x", Contact, optional="all")
