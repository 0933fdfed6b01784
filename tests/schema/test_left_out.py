"""A schema read again without some keywords is the schema that does not have them."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.automaton.expected import Walk
from structgen.schema.algebra import Both, UnionNode
from structgen.schema.left_out import LeftOut, speaking
from structgen.schema.normal import ANY
from structgen.schema.reader import SchemaNode, read
from structgen.values.json_automaton import JsonAutomaton

CHAIN = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"maximum": 5, "type": "integer"}], "minimum": 3}}}


def root_of(schema: Any) -> SchemaNode:
    """The root of a schema."""
    root = read(schema)
    assert isinstance(root, SchemaNode)
    return root


def takes(root: Any, text: str) -> bool:
    """Is a text a value of a normal form?"""
    walk = Walk(JsonAutomaton(root), text.encode())
    return walk.taken == len(text) and walk.may_end


def rules_of(root: SchemaNode) -> dict[str, tuple[SchemaNode, str]]:
    """The rules that speak of the root's value, by keyword."""
    return {keyword: (place, keyword) for place in speaking([root]) for keyword in place.schema}


@pytest.mark.parametrize(
    ("keyword", "taken", "refused"),
    [("maximum", "9", "2"), ("minimum", "2", "9"), ("type", "4.5", "2.5"), ("allOf", "9.5", "2"), ("$ref", "null", "")],
)
def test_what_is_behind_references_is_left_out_where_it_stands(keyword: str, taken: str, refused: str) -> None:
    root = root_of(CHAIN)
    twin = LeftOut(root.reader, [rules_of(root)[keyword]]).twin(root)
    assert not takes(root, taken)
    assert takes(twin, taken)
    assert takes(twin, "4")
    assert not refused or not takes(twin, refused)
    assert takes(root, "4"), "the schema itself is as it was"
    assert CHAIN["$defs"]["a"]["minimum"] == 3  # type: ignore[index]


def test_a_twin_shares_no_node_with_the_other_reader() -> None:
    root = root_of({"properties": {"a": {"maxLength": 2}, "b": True}})
    twin = LeftOut(root.reader).twin(root)
    assert twin is not root
    values = [member.value for node in (root, twin) for member in node.shapes[0].objects.properties]  # type: ignore[union-attr]
    assert values[0] is not values[2]
    assert values[1] is values[3] is ANY


def test_compound_nodes_are_made_again_of_twins() -> None:
    root = root_of({"properties": {"a": {"maximum": 5}, "b": {"minimum": 3}}})
    a, b = (member.value for member in root.shapes[0].objects.properties)  # type: ignore[union-attr]
    algebra = root.reader.algebra
    both, either, neither = algebra.node(a, b), algebra.union([a, b]), algebra.negation(b)
    twin = LeftOut(root.reader, [(a, "maximum")])  # type: ignore[list-item]
    assert [takes(twin.twin(both), text) for text in ("9", "2", "4")] == [True, False, True]
    assert takes(twin.twin(either), "9")
    assert not takes(twin.twin(neither), "4")
    assert takes(twin.twin(neither), "2")
    assert isinstance(both, Both)
    assert isinstance(either, UnionNode)
    assert [node.pointer for node in speaking([both])] == ["/properties/a", "/properties/b"]
    assert speaking([neither]) == []


def test_a_place_of_several_rules_and_another_reader() -> None:
    root, other = root_of({"type": "integer", "maximum": 5}), root_of({"type": "string"})
    twin = LeftOut(root.reader, [(root, "type"), (root, "maximum")])
    assert twin.twin(root) is ANY
    assert twin.twin(other) is other
