"""The values that a text has begun: where each starts, and which places of the schema it is read against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.automaton.expected import Walk
from structgen.options import Whitespace
from structgen.schema.left_out import speaking
from structgen.schema.reader import read
from structgen.values.blame import started_values
from structgen.values.json_automaton import JsonAutomaton
from tests.support.tables import cases

SHARED = cases("values/begun", "SHARED")


def places(schema: Any, text: str, refused: str = "", **options: Any) -> list[tuple[int, list[str]]]:
    """Of each open value, where it starts and the pointers of what speaks of it."""
    automaton = JsonAutomaton(read(schema), **options)
    walk = Walk(automaton, (text + refused).encode())
    assert walk.taken == len(text.encode()), text[: walk.taken]
    choices = automaton._context.choices()
    values = started_values(automaton.tables, choices, walk.positions, text.encode(), refused.encode())
    return [(value.start, [place.pointer for place in speaking(value.choice.nodes)]) for value in values]


@pytest.mark.parametrize(
    ("text", "inner"),
    cases("values/begun", "places_with_equal_sets", globals()),
)
@pytest.mark.parametrize("any_order", [True, False])
def test_places_with_equal_sets_are_told_apart(text: str, inner: tuple[int, str], any_order: bool) -> None:
    found = places(SHARED, text, any_order=any_order)
    assert found[0] == (0, [""])
    assert (found[-1][0], found[-1][1][-1]) == inner


@pytest.mark.parametrize("whitespace", [Whitespace.COMPACT, Whitespace.INDENTED(2), Whitespace.FLEXIBLE])
def test_in_every_layout(whitespace: Whitespace) -> None:
    value = {"d": {"e": "x", "f": "y"}}
    indent = 2 if whitespace.indent else None
    text = json.dumps(value, indent=indent, separators=(",", ":") if whitespace == Whitespace.COMPACT else None)
    starts = [pointers for _, pointers in places(SHARED, text[: text.index('"y') + 1], whitespace=whitespace)]
    assert starts == [[""], ["/properties/d"], ["/properties/d/properties/f"]]


def test_a_value_that_has_ended_is_open_no_more() -> None:
    assert len(places(SHARED, '{"d": {"e": "x"')) == 2
    assert len(places(SHARED, '{"d": {"e": "x"}')) == 1
    assert places(SHARED, '{"d": {"e": "x"}}') == [(0, [""])], "the whole text's value stays"


def test_a_value_begins_with_the_byte_that_it_refuses() -> None:
    assert places(SHARED, '{"c": [', "1")[-1] == (7, ["/properties/c/items", "/$defs/s"])
    assert places(SHARED, '{"c": [', "")[-1] == (6, ["/properties/c"])


def test_alternatives_that_are_left_are_read_against_together() -> None:
    schema = {"anyOf": [{"properties": {"k": {"const": k}, "v": {"maximum": m}}} for k, m in (("x", 5), ("y", 7))]}
    assert places(schema, '{"v": 1')[-1][1] == ["/anyOf/0/properties/v", "/anyOf/1/properties/v"]
