"""Schemas without schemas in them are read once for each content."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.schema.leaves import leaf_content
from structgen.schema.reader import read
from tests.support.tables import cases

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def shapes_of(leaf: dict[str, Any], **options: Any) -> Any:
    """The shapes of a leaf that stands in a schema, and in one of draft 4 where `$schema` is given."""
    dialect = {"$schema": options.pop("dialect")} if "dialect" in options else {}
    root = read({**dialect, "properties": {"a": leaf}}, **options)
    objects = root.shapes[0].objects
    assert objects is not None
    return objects.properties[0].value.shapes


@pytest.mark.parametrize("leaf", cases("schema/leaves", "equal_leaves_have_the"), ids=str)
def test_equal_leaves_have_the_same_shapes_wherever_they_stand(leaf: dict[str, Any]) -> None:
    """Also in another schema, and whatever annotations stand beside them."""
    assert shapes_of(leaf) is shapes_of({"title": "t", **leaf, "default": 1, "description": "d"})


def test_what_reads_a_leaf_otherwise_tells_leaves_apart() -> None:
    """Whether formats count, and the draft: in draft 4 `1.0` is no integer. A string is the same in both."""
    date: dict[str, Any] = {"type": "string", "format": "date"}
    assert shapes_of(date) != shapes_of(date, formats=False) == shapes_of({"type": "string"})
    assert shapes_of({"type": "integer"}, dialect=DRAFT_4) != shapes_of({"type": "integer"})
    assert shapes_of({"type": "string"}, dialect=DRAFT_4) is shapes_of({"type": "string"})


@pytest.mark.parametrize(
    "schema",
    [{"enum": [1]}, {"const": True}, {"const": [1]}, {"items": {}}, {"type": "string", "$ref": "#"}, {"x": 1}],
    ids=str,
)
def test_other_schemas_are_no_leaves(schema: dict[str, Any]) -> None:
    """Python takes 1, 1.0 and True for equal; and what is unknown may mean anything."""
    assert leaf_content(schema) is None


def test_literals_that_differ_in_type_are_told_apart() -> None:
    """They are equal to Python."""
    one, true = shapes_of({"const": 1}), shapes_of({"const": True})
    assert (one[0].true, true[0].true) == (False, True)
