"""Rules over the items of arrays and the members of objects: each row whole, byte by byte and at random splits.

Covers `array_progress`, `finite`, `lockstep` and `names`.
"""
# ruff: noqa: E501 - rows of a table

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema
from structgen.masks.grammar import Grammar
from structgen.schema.algebra import Algebra
from structgen.schema.normal import (
    ANY,
    NEVER,
    Arrays,
    Contains,
    Named,
    Node,
    Numbers,
    Objects,
    Property,
    Shape,
    Strings,
)
from structgen.values.json_automaton import JsonAutomaton
from tests.support.matching import allowed, byte_vocabulary, judged, plain_verdict, rich_vocabulary
from tests.support.tables import cases
from tests.support.walking import assert_valid, random_walk

ARRAY: dict[str, Any] = {"type": "array"}
OBJECT: dict[str, Any] = {"type": "object"}
INTEGER: dict[str, Any] = {"type": "integer"}
TWO = {"const": 2}

ROWS: dict[str, tuple[Any, list[Any], list[Any]]] = cases("values/arrays", "ROWS", globals())


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", ROWS)
def test_a_value_is_taken_exactly_when_it_is_valid(name: str, order: str) -> None:
    """Every value is judged rightly; what an order forbids is at least never taken wrongly."""
    schema, good, bad = ROWS[name]
    good = [value for value in good if order == "any" or not isinstance(value, dict)]
    assert judged(schema, [*good, *bad], order=order) == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize("name", ROWS)
def test_walks_end_validly(name: str) -> None:
    """Any walk under the masks finds an end, and `jsonschema` accepts the document."""
    for seed, order in enumerate(["schema", "any"]):
        grammar = JsonSchema(ROWS[name][0], order=order).compile(rich_vocabulary())
        assert_valid(ROWS[name][0], random_walk(grammar, seed, longest=20))


EMPTY = cases("values/arrays", "EMPTY", globals())


@pytest.mark.parametrize("name", EMPTY)
def test_what_no_value_satisfies_is_found_beforehand(name: str) -> None:
    """Counts, names and rules that contradict each other are errors before anything runs."""
    with pytest.raises(UnsatisfiableSchema):
        JsonSchema(EMPTY[name]).automaton()


HUNDRED: dict[str, Any] = {
    **OBJECT, "properties": {"x": {}, "y": {}}, "patternProperties": {"^[0-9]{2}$": {}}, "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize("order", ["schema", "any"])
def test_all_names_of_a_pattern_may_be_needed(order: str) -> None:
    """A declared member that is left out is one too few, and where all have come no other may begin."""
    grammar = JsonSchema({**HUNDRED, "minProperties": 102}, order=order).compile(byte_vocabulary())
    every = {"x": 1, "y": 2, **{f"{i:02}": i for i in range(100)}}
    assert _takes(grammar, every)
    assert not _takes(grammar, {name: value for name, value in every.items() if name != "42"})
    matcher = grammar.matcher()
    for byte in b'{"':
        matcher.advance(byte)
    # In the schema's order "y" would leave "x" out.
    assert [allowed(matcher.mask(), byte) for byte in b"xy0"] == [True, order == "any", True]


def test_an_undeclared_member_ends_no_declared_one() -> None:
    """In the schema's order it may come once nothing required is left, and what was open before is open after it."""
    schema = {**OBJECT, "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "required": ["b"]}
    grammar, anyhow = (JsonSchema(schema, order=order).compile(byte_vocabulary()) for order in ("schema", "any"))
    for names, taken in (
        ("bxc", True), ("bxcyd", True), ("abxyz", True), ("abcdx", True),
        ("xb", False), ("axb", False), ("bxa", False), ("bdxc", False), ("bxdc", False),
    ):  # fmt: skip
        assert _takes(grammar, dict.fromkeys(names, 1)) == taken, names
        assert _takes(anyhow, dict.fromkeys(names, 1)), names
    assert bytes(grammar.matcher().forced_tokens()) == b'{"'
    for text in (b'{"b": 1, "x": 1, "c": 1, "x": 1}', b'{"b": 1, "c": 1, "x": 1, "c": 1}'):
        assert not plain_verdict(grammar, text)
        assert not plain_verdict(anyhow, text)


def test_an_unsatisfiable_schema_is_told_by_the_innermost_place_that_is_needed() -> None:
    """Down through required members and items, but not round a cycle."""
    never = {**OBJECT, "minProperties": 511, "propertyNames": {"pattern": "^[ab]{1,8}$"}}
    inside = {**OBJECT, "properties": {"b": {}, "a": {**ARRAY, "minItems": 1, "items": never}}, "required": ["a"]}
    for schema, pointer in (
        (inside, "/properties/a/items"),
        ({"anyOf": [inside, False]}, "/anyOf/0/properties/a/items"),
        ({"anyOf": [inside, {"type": "string", "maxLength": 0, "minLength": 1}]}, "/anyOf/0/properties/a/items"),
        ({**OBJECT, "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, ""),
    ):
        with pytest.raises(UnsatisfiableSchema) as caught:
            JsonSchema(schema).automaton()
        assert caught.value.pointer == pointer


def _node(**parts: Any) -> Node:
    return Node("", lambda: (Shape(**parts),))


def _grammar(node: Node) -> Grammar:
    return Grammar(JsonAutomaton(node, algebra=Algebra()), byte_vocabulary())


def _takes(grammar: Grammar, value: Any) -> bool:
    return plain_verdict(grammar, json.dumps(value).encode())


ONE, TEXT = _node(numbers=Numbers(literals=(1,))), _node(strings=Strings())


def test_an_excluded_set_is_told_when_the_value_closes() -> None:
    """`without` refuses the closing bracket, and only that, as long as the value is in the excluded set."""
    ones = _node(arrays=Arrays(rest=ONE))
    grammar = _grammar(_node(arrays=Arrays(rest=ANY, without=(ones,))))
    for good in ([2], [1, 2], [1, [1]], ["x", 1]):
        assert _takes(grammar, good), good
    for bad in ([], [1], [1, 1]):
        assert not _takes(grammar, bad), bad


def test_excluded_sets_exclude_in_turn() -> None:
    """An excluded set may exclude others: the verdicts are told inside out."""
    ones = _node(arrays=Arrays(rest=ONE))
    not_ones = _node(arrays=Arrays(rest=ANY, without=(ones,)))
    grammar = _grammar(_node(arrays=Arrays(rest=ANY, without=(not_ones, _node(arrays=Arrays(rest=ANY, max_items=1))))))
    assert _takes(grammar, [1, 1])
    for bad in ([], [1], [1, 2], [2, 2]):
        assert not _takes(grammar, bad), bad


def test_an_excluded_object_is_a_set_of_values_whatever_the_order() -> None:
    """Objects are excluded in any order of their members, also where the schema's own order is kept."""
    inner = _node(objects=Objects((Property("a", ONE, True), Property("b", ONE, True)), ANY))
    grammar = _grammar(
        _node(objects=Objects((Property("b", ANY, False), Property("a", ANY, False)), ANY, without=(inner,)))
    )
    assert _takes(grammar, {"b": 2, "a": 1, "x": 1})
    assert _takes(grammar, {"b": 1})
    assert not _takes(grammar, {"b": 1, "a": 1})
    assert not _takes(grammar, {"b": 1, "a": 1, "x": {}})


def test_what_is_watched_reaches_into_members() -> None:
    """A watched node is followed through nested values and never keeps one alive."""
    deep = _node(objects=Objects((Property("a", _node(arrays=Arrays(rest=ONE)), True),), ANY))
    grammar = _grammar(
        _node(objects=Objects((Property("a", _node(arrays=Arrays(rest=ANY)), False),), None, without=(deep,)))
    )
    for good in ({}, {"a": [2]}, {"a": [1, "x"]}):
        assert _takes(grammar, good), good
    for bad in ({"a": []}, {"a": [1, 1]}, {"a": 1}, {"b": 1}):
        assert not _takes(grammar, bad), bad


def test_names_that_no_automaton_holds_are_asked() -> None:
    """A set of names with a predicate decides the value's schema when the name has ended."""
    twins = Strings(patterns=(r"^(.+)\1$",))
    grammar = _grammar(_node(objects=Objects(rest=TEXT, patterns=(Named(twins, ONE),), some=(Named(twins, ANY),))))
    for good in ({"abab": 1}, {"x": "y", "aa": 1}, {"aa": 1, "aba": ""}):
        assert _takes(grammar, good), good
    for bad in ({}, {"x": "y"}, {"abab": "x"}, {"aba": 1, "aa": 1}):
        assert not _takes(grammar, bad), bad


def test_existential_members_share_one_member_where_they_can() -> None:
    """One member may meet several rules; two are needed where no name is in both sets."""
    both = Objects(
        rest=ANY, some=(Named(Strings(patterns=("^a",)), ONE), Named(Strings(patterns=("b$",)), ONE)), max_properties=1
    )
    grammar = _grammar(_node(objects=both))
    assert _takes(grammar, {"ab": 1})
    assert not _takes(grammar, {"a": 1})
    assert not _takes(grammar, {"a": 1, "b": 1})


def test_contains_from_an_item_on() -> None:
    """`start` leaves the first items out."""
    grammar = _grammar(_node(arrays=Arrays(rest=ANY, contains=(Contains(ONE, 1, None, 2),))))
    assert _takes(grammar, [0, 0, 1])
    assert not _takes(grammar, [1, 1])
    assert not _takes(grammar, [1, 1, 0])


def test_a_forbidden_member_is_no_member() -> None:
    """A declared member whose value can never be is never started."""
    grammar = _grammar(_node(objects=Objects((Property("no", NEVER, False, declared=False),), ANY)))
    assert _takes(grammar, {"n": 1, "non": 1})
    assert not _takes(grammar, {"no": 1})
