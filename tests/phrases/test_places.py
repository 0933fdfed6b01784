"""Whether strings can stand where a phrase is bound to, and have it."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.phrases.progress import MAX_PLACES, may_have, may_have_strings
from structgen.schema.reader import read
from tests.support.tables import cases

SCHEMA: dict[str, Any] = cases("phrases/places", "SCHEMA")


@pytest.mark.parametrize(
    "pointer",
    ["/city", "/a~1b", "/*", "/x-y", "/tags/1", "/tags/*", "/tags/7/deep", "/tags/*/deep", "/**", "/nothing/**"],
)
def test_strings_that_are_there(pointer: str) -> None:
    assert may_have_strings(read(SCHEMA), pointer)


@pytest.mark.parametrize("pointer", ["", "/age", "/tags/0", "/tags", "/city/x", "/age/*"])
def test_places_without_strings(pointer: str) -> None:
    assert not may_have_strings(read(SCHEMA), pointer)


def test_names_are_met_where_any_may_come() -> None:
    assert may_have_strings(read(True), "/a/0/b")
    assert not may_have_strings(read({"type": "object", "additionalProperties": {"type": "integer"}}), "/a")


def test_a_schema_without_end_is_left_open() -> None:
    many = {"type": "array", "items": {"properties": {f"p{i}": {"type": "integer"} for i in range(MAX_PLACES + 1)}}}
    assert may_have_strings(read({"properties": {"a": many}}), "/a/*/*/*")


@pytest.mark.parametrize(("strings", "patterns", "expected"), cases("phrases/places", "strings_that_may_match"))
def test_strings_that_may_match(strings: dict[str, Any], patterns: list[str], expected: bool) -> None:
    assert may_have(read({"type": "object", "properties": {"a": strings}}), "/a", patterns) is expected
