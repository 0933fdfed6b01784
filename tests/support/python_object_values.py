"""Containers and classes with JSON at the borders of what their validators take; see `python_values.py`."""

from __future__ import annotations

import collections
import datetime as dt
import json
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import (
    Field,
    RootModel,
    conlist,
    constr,
)

from tests.support.python_classes import (
    Aliased,
    AliasedToo,
    Allowing,
    Box,
    ByFunction,
    Choices,
    Computed,
    Defaults,
    Forbidding,
    Item,
    Key,
    Named,
    OnlyName,
    Options,
    Owner,
    Pairs,
    Partial,
    Ping,
    Point,
    Size,
    Spaced,
    Strict,
    Tree,
    Typed,
    UserId,
    Word,
)
from tests.support.python_values import ONE_UUID, Row

CONTAINERS: list[Row] = [
    ("Any", Any, ["1", '{"a": [null]}', '"x"'], []),
    ("object", object, ["1", "[]"], []),
    ("list", list, ["[]", '[1, "a", []]'], ["{}", "1"]),
    ("dict", dict, ["{}", '{"a": 1}'], ["[]"]),
    ("conlist", conlist(int, min_length=1, max_length=2), ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]", '["a"]']),
    ("list of Literals", list[Literal["a", "b"]], ['["a", "b", "a"]', "[]"], ['["c"]']),
    ("set", set[int], ["[]", "[1, 2]"], ['["a"]']),
    ("set, length", Annotated[set[str], Field(min_length=2)], ['["a", "b"]'], ['["a"]', '["a", "a"]']),
    ("frozenset", frozenset[Literal["a", "b"]], ['["b", "a"]', "[]"], ['["c"]']),
    ("set of keys", set[Key], ['[{"name": "a"}]'], ["[1]"]),
    ("bare set", set, ['[1, "a", null]'], ["[[]]", "[{}]"]),
    ("tuple", tuple[int, str], ['[1, "a"]'], ["[1]", '[1, "a", 2]', '["a", 1]']),
    ("tuple, open", tuple[int, ...], ["[]", "[1, 2]"], ['["a"]']),
    ("empty tuple", tuple[()], ["[]"], ["[1]"]),
    ("deque", Annotated[collections.deque[int], Field(max_length=2)], ["[]", "[1, 2]"], ['["a"]']),
    ("Sequence", Sequence[int], ["[]", "[1]"], ['["a"]']),
    ("Iterable", Iterable[int], ["[]", "[1]"], ["1"]),
    ("dict[str, int]", dict[str, int], ["{}", '{"a": 1, "": 2}'], ['{"a": "b"}', "[]"]),
    ("dict[int, str]", dict[int, str], ['{"1": "a", "-20": ""}', "{}"], ['{"a": "a"}', '{"1e2": ""}', '{"1": 1}']),
    (
        "dict[int, T], bounds",
        dict[Annotated[int, Field(ge=5, lt=120)], bool],
        ['{"5": true, "119": false}', '{"42": true}'],
        ['{"4": true}', '{"120": true}'],
    ),
    ("dict[Literal, int]", dict[Literal["a", "b"], int], ['{"a": 1}', '{"b": 1, "a": 2}'], ['{"c": 1}']),
    ("dict[UUID, int]", dict[uuid.UUID, int], [json.dumps({ONE_UUID: 1})], ['{"a": 1}']),
    ("dict[date, int]", dict[dt.date, int], ['{"2024-02-29": 1}'], ['{"2023-02-29": 1}']),
    ("dict[float, int]", dict[float, int], ['{"1.5": 1, "-2.0": 2}'], ['{"a": 1}']),
    ("dict[bool, int]", dict[bool, int], ['{"true": 1, "false": 2}'], ['{"maybe": 1}']),
    ("dict[IntEnum, int]", dict[Size, int], ['{"1": 1, "2": 2}'], ['{"3": 1}', '{"SMALL": 1}']),
    ("dict[Enum, int]", dict[Word, int], ['{"yes": 1}'], ['{"YES": 1}']),
    ("dict[Decimal, int]", dict[Decimal, int], ['{"1.5": 1}'], ['{"x": 1}']),
    ("dict[pattern, int]", dict[constr(pattern="^x-"), int], ['{"x-a": 1}', "{}"], ['{"a": 1}', '{"x-a": ""}']),
    (
        "dict, lengths",
        Annotated[dict[str, int], Field(min_length=1, max_length=2)],
        ['{"a": 1}', '{"a": 1, "b": 2}'],
        ["{}", '{"a": 1, "b": 2, "c": 3}'],
    ),
    (
        "dict[int, T], lengths",
        Annotated[dict[int, int], Field(min_length=2)],
        ['{"1": 1, "2": 2}'],
        ['{"1": 1}', '{"1": 1, "01": 2}'],
    ),
    ("Counter", collections.Counter[str], ['{"a": 2}'], ['{"a": "b"}']),
    ("defaultdict", collections.defaultdict[str, int], ['{"a": 2}'], ['{"a": "b"}']),
    ("OrderedDict", collections.OrderedDict[int, int], ['{"2": 1, "1": 0}'], ['{"a": 1}']),
    (
        "Union",
        Union[int, str, None],  # noqa: UP007 - this very form is tested
        ["1", '"a"', "null"],
        ["[]"],
    ),
    (
        "Optional",
        Optional[int],  # noqa: UP045 - this very form is tested
        ["1", "null"],
        ['"a"'],
    ),
    ("lengths on a union", Annotated[list[int] | set[int], Field(min_length=1)], ["[1]"], ["[]"]),
    ("bounds on a union", Annotated[int | float, Field(gt=0)], ["1", "0.5"], ["0", "-1"]),
    ("NewType", UserId, ["1"], ['"a"']),
    ("type alias", Pairs, ['[["a", 1]]'], ['[["a"]]']),
    ("NamedTuple", Point, ["[1, 2.5]", "[1]"], ["[]", "[1, 2, 3]", '["a"]']),
    ("TypedDict", Options, ['{"a": 1}', '{"a": 1, "b": "c"}'], ["{}", '{"b": "c"}']),
    ("TypedDict, partial", Partial, ['{"a": 1}', '{"a": 1, "b": "c"}'], ["{}", '{"b": "c"}']),
    ("dataclass", Item, ['{"name": "a"}', '{"name": "a", "price": 1.5}'], ["{}", '{"name": 1}']),
    ("RootModel", RootModel[list[int]], ["[1]", "[]"], ['["a"]', "{}"]),
]

MODELS: list[Row] = [
    (
        "recursive model",
        Tree,
        ['{"value": 1, "children": [{"value": 2, "children": []}]}'],
        ['{"value": 1, "children": [{}]}'],
    ),
    ("mutual recursion", Ping, ["{}", '{"pong": {"pings": [{}, {"pong": null}]}}'], ['{"pong": {}}']),
    (
        "discriminated",
        Owner,
        ['{"pet": {"kind": "cat", "lives": 9}}', '{"pet": {"kind": "dog"}}'],
        ['{"pet": {"lives": 9}}', '{"pet": {"kind": "cat"}}'],
    ),
    (
        "nested discriminator",
        Owner,
        ['{"pet": {"kind": "bird", "size": "big"}}'],
        ['{"pet": {"kind": "bird"}}', '{"pet": {"kind": "bird", "size": "mid"}}'],
    ),
    (
        "discriminator with alias",
        Annotated[Aliased | AliasedToo, Field(discriminator="kind")],
        ['{"the kind": "b"}'],
        ['{"the kind": "c"}', "{}"],
    ),
    ("callable discriminator", ByFunction, ['{"kind": "cat", "lives": 1}', '{"kind": "dog"}'], ["[]"]),
    ("aliases", Spaced, ['{"the name": "a"}'], ['{"name": "a"}', "{}"]),
    (
        "alias or name",
        Named,
        ['{"firstName": "a", "lastName": 1}', '{"first": "a", "last": 1}', '{"first": "a"}'],
        ["{}", '{"last": 1}'],
    ),
    ("name only", OnlyName, ['{"first": "a"}'], ['{"firstName": "a"}']),
    ("alias choices", Choices, ['{"one": 1}'], ["{}"]),
    ("extra allow", Allowing, ['{"name": "a", "x": [1]}', '{"name": "a"}'], ["{}"]),
    ("extra allow, typed", Typed, ['{"name": "a", "x": 1}'], ['{"name": "a", "x": "b"}']),
    ("extra forbid", Forbidding, ['{"name": "a"}'], ['{"name": "a", "x": 1}']),
    ("computed, excluded", Computed, ['{"width": 2}', '{"width": 2, "hidden": 1}'], ["{}"]),
    ("defaults", Defaults, ['{"needed": null}', '{"made": [1], "none": "a", "needed": "b"}'], ["{}", '{"needed": 1}']),
    (
        "generic",
        Box[int],
        ['{"content": 1}', '{"content": 1, "spare": {"content": 2, "spare": null}}'],
        ['{"content": "a"}', '{"content": 1, "spare": {"content": "a"}}'],
    ),
    (
        "strict model",
        Strict,
        ['{"count": 1, "when": "2024-01-01", "tags": ["a"], "price": "1.5", "kind": "a"}'],
        ['{"count": 1.0, "when": "2024-01-01", "tags": [], "price": "1", "kind": 1}'],
    ),
]
