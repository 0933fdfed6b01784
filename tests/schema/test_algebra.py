"""The laws of the normal form's conjunction, on random schemas and random values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from structgen.errors import LimitExceeded
from structgen.schema.algebra import Algebra, pack
from structgen.schema.normal import ANY, NEVER, Node
from structgen.schema.reader import read
from tests.support.schema_oracle import accepts
from tests.support.thinning import times

SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, 2, -3, "", "a", "ab", "b"])
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.integers(0, 3)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, max_size=3),
        "const": VALUES,
        "minimum": st.integers(-2, 2) | st.just(0.5),
        "exclusiveMaximum": st.integers(-2, 2) | st.just(1.5),
        "maximum": st.integers(-2, 2),
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "pattern": st.sampled_from(["a", "^a", "b$"]),
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "items": inner,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "properties": st.dictionaries(KEYS, inner, max_size=3),
        "required": st.lists(KEYS, max_size=2, unique=True),
        "additionalProperties": inner,
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "$ref": st.just("#/$defs/shared"),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "[bc]"]), inner, max_size=2),
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
        "dependentSchemas": st.dictionaries(KEYS, inner, max_size=2),
        "unevaluatedItems": inner,
        "unevaluatedProperties": inner,
    }
    return st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: optional[name] for name in names})
    )


SUBSCHEMAS = st.recursive(st.booleans() | st.just({}), _keywords, max_leaves=6)
SHARED = {"shared": {"anyOf": [{"type": ["string", "null"]}, {"items": {"$ref": "#/$defs/shared"}}]}}


def _read(schema: Any) -> Node | None:
    try:
        node = read(_rooted(schema))
        _ = node.shapes
    except LimitExceeded:  # too many combinations under one unevaluated keyword
        return None
    return node


def _rooted(schema: Any) -> Any:
    return {**schema, "$defs": SHARED} if isinstance(schema, dict) else schema


@settings(max_examples=times(400))
@given(SUBSCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_the_normal_form_accepts_what_jsonschema_accepts(schema: Any, values: list[Any]) -> None:
    """For every keyword that is masked, alone and beside others."""
    node = _read(schema)
    if node is not None:
        validator = Draft202012Validator(_rooted(schema))
        for value in values:
            assert accepts(node, value) == validator.is_valid(value), value


@settings(max_examples=times(300))
@given(SUBSCHEMAS, SUBSCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_a_conjunction_holds_exactly_what_both_hold(left: Any, right: Any, values: list[Any]) -> None:
    """accepts(a & b, v) == accepts(a, v) and accepts(b, v), in either order."""
    a, b = _read(left), _read(right)
    if a is None or b is None:
        return
    algebra = Algebra()
    for both in (algebra.node(a, b), algebra.node(b, a)):
        for value in values:
            assert accepts(both, value) == (accepts(a, value) and accepts(b, value)), value


@settings(max_examples=times(300))
@given(SUBSCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_a_complement_holds_exactly_what_is_not_held(schema: Any, values: list[Any]) -> None:
    """accepts(not a, v) == not accepts(a, v), and so does the complement of what the complement is made of."""
    node = _read(schema)
    if node is not None:
        algebra = Algebra()
        outside = algebra.negation(node)
        again = Node("", lambda: algebra.negated(Node("", lambda: algebra.negated(node))))
        for value in values:
            assert accepts(outside, value) != accepts(node, value), value
            assert accepts(again, value) == accepts(node, value), value


@given(st.lists(SUBSCHEMAS, max_size=4), st.lists(VALUES, min_size=1, max_size=8))
def test_packing_a_union_keeps_its_values(schemas: list[Any], values: list[Any]) -> None:
    """Shapes of different types share one; the values are the same, and there are no more shapes."""
    nodes = [node for node in map(_read, schemas) if node is not None]
    shapes = [shape for node in nodes for shape in node.shapes]
    packed = pack(shapes)
    union = Node("", lambda: packed)
    assert len(packed) <= len(shapes)
    for value in values:
        assert accepts(union, value) == any(accepts(node, value) for node in nodes), value


def test_conjunctions_are_interned_whatever_their_order() -> None:
    """The same set of places is one node, so that recursion ends."""
    algebra = Algebra()
    a, b, c = (read({"type": "array", "minItems": n}) for n in (1, 2, 3))
    assert algebra.node(algebra.node(a, b), c) is algebra.node(b, algebra.node(c, a))
    assert algebra.node(a, a) is a
    assert algebra.node(a, ANY) is a
    assert algebra.node(NEVER, a) is NEVER


def test_a_recursive_schema_conjoined_with_another_has_finitely_many_nodes() -> None:
    """Walking down the same member comes back to the same node."""
    list_of = {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}}}
    named = {"properties": {"next": {"$ref": "#/$defs/named"}, "name": {"type": "string"}}}
    root = read(
        {
            "$defs": {"list": list_of, "named": named},
            "allOf": [{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/named"}],
        }
    )
    seen, node = [], root
    for _ in range(6):
        seen.append(node)
        objects = node.shapes[0].objects
        assert objects is not None
        node = objects.properties[0].value
    assert len(set(map(id, seen))) <= 3


def test_a_large_product_is_left_to_the_closing_bracket() -> None:
    """Where alternatives would multiply, one side becomes a check, and the values stay the same."""
    union = {"anyOf": [{"required": [f"{i}"]} for i in range(100)]}
    others = {"anyOf": [{"required": [f"x{i}"]} for i in range(100)]}
    node = read({"type": "object", "allOf": [union, others]})
    assert len(node.shapes) == 100
    assert accepts(node, {"3": 0, "x7": 0})
    assert not accepts(node, {"3": 0, "7": 0})


def test_too_many_sets_of_scalars_are_an_error_that_names_the_limit() -> None:
    """Products of unions are bounded."""
    union = {"anyOf": [{"pattern": f"a{i}"} for i in range(100)]}
    others = {"anyOf": [{"pattern": f"b{i}"} for i in range(100)]}
    with pytest.raises(LimitExceeded, match="4096"):
        _ = read({"type": "string", "allOf": [union, others]}).shapes
