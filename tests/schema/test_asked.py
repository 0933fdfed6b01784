"""Members that may be null are required, and the schema takes nothing that it did not take before."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from structgen.schema.asked import with_nulls
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
