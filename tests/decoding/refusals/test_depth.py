"""Values are nested no deeper than `Limits(max_depth=...)` says, which every reader of JSON reads."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.schema.reader import read
from structgen.testing import scripted, scripted_chat
from structgen.values.judge import Judge, Refused
from tests.support.tables import cases


class Tree(BaseModel):
    name: str = ""
    children: list[Tree] = []


class Chain(BaseModel):
    next: Chain | None


LISTS = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
TAIL = cases("decoding/refusals/depth", "TAIL")
TAIL["$defs"]["link"] |= {"required": ["n"], "additionalProperties": False}


def depth(value: Any) -> int:
    level, deepest = [value], 0
    while level := [each for each in level if isinstance(each, (list, dict))]:
        level, deepest = [c for each in level for c in (each.values() if isinstance(each, dict) else each)], deepest + 1
    return deepest


@pytest.mark.parametrize(
    ("schema", "text"),
    cases("decoding/refusals/depth", "no_value_is_deeper", globals()),
    ids=["any", "members", "tree", "chain", "lists", "second items", "deeper ends", "brackets in names"],
)
@pytest.mark.parametrize("limit", [128, 7])
def test_no_value_is_deeper_than_the_limit_and_each_is_read(schema: Any, text: str, limit: int) -> None:
    """`"[" * 900` ended as `RunError`, 3,000 levels of a recursive schema as a bare `RecursionError`."""
    limits = sg.Limits(2000, max_repeated=None, max_depth=limit)
    done = sg.generate(scripted(text), "x", schema, limits=limits, details=True)
    deepest = depth(json.loads(done.text))
    assert sg.Limits().max_depth == 128
    assert deepest <= limits.max_depth
    assert deepest >= limits.max_depth - 5
    assert any(cap.name == "max_depth" and cap.limit == limits.max_depth for cap in done.caps)


def test_what_a_schema_requires_may_be_deeper() -> None:
    schema: dict[str, Any] = {"const": 0}
    for _ in range(20):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
    value = sg.generate(scripted("[" * 20), "x", schema, limits=sg.Limits(max_depth=5))
    assert depth(value) == 20


def test_depth_in_calls_is_limited_too() -> None:
    @sg.tool
    def keep(value: list[Any]) -> None:
        """Keeps a value."""

    said = '<tool_call>\n{"name": "keep", "arguments": {"value": ' + "[" * 300
    with pytest.warns(sg.BudgetWarning, match="max_depth=128"):
        call = sg.call(scripted_chat(said), "x", [keep], limits=sg.Limits(1000, max_repeated=None))
    (kept,) = call
    assert 100 < depth(kept.arguments) <= 128


def test_a_limit_beyond_what_readers_take_is_refused() -> None:
    with pytest.raises(sg.OptionError, match="max_depth=500"):
        sg.Limits(max_depth=500)


@pytest.mark.parametrize("depth_", [100, 900, 20_000])
@pytest.mark.parametrize("schema", [True, LISTS, TAIL], ids=["any", "lists", "links"])
def test_foreign_values_of_any_depth_are_judged_without_recursion(schema: Any, depth_: int) -> None:
    judge = Judge(read(schema))
    value: Any = 0
    for _ in range(depth_):
        value = [value]
    assert judge.holds(value) == (schema is True) == (judge.fault(value) is None)
    for text in ("[" * depth_ + "]" * depth_, '{"n": ' * depth_):
        with suppress(Refused):
            judge.value(text)
