# ruff: noqa: E501 - rows of data
"""Schemas made to hang, to explode or to crash, with texts that they take and refuse, or the error that they end in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from structgen.errors import LimitExceeded, RequestError, SchemaError, UnsatisfiableSchema


@dataclass(frozen=True)
class Row:
    """A schema, JSON texts that it takes and that it does not, or the error that it ends in."""

    schema: Callable[[], Any]
    takes: tuple[Any, ...] = ()
    refuses: tuple[Any, ...] = ()
    error: type[RequestError] | None = None
    says: str = ""


def nested(depth: int, wrap: Callable[[Any], Any], core: Any) -> Any:
    """`core`, wrapped so many times."""
    for _ in range(depth):
        core = wrap(core)
    return core


def many(count: int, **keywords: Any) -> dict[str, Any]:
    return {f"p{i}": {**keywords} for i in range(count)}


def branches(count: int, keyword: str) -> dict[str, Any]:
    """Objects told apart by nothing but one value."""
    return {
        keyword: [
            {"properties": {"kind": {"const": i}, f"v{i}": {"type": "integer"}}, "required": ["kind"]}
            for i in range(count)
        ]
    }


def combined(count: int, inner: Callable[[int], Any], keyword: str) -> dict[str, Any]:
    """A conjunction of unions, 2^count combinations when multiplied out."""
    return {"type": "object", "allOf": [{keyword: [inner(2 * i), inner(2 * i + 1)]} for i in range(count)]}


def has(i: int) -> Any:
    return {"required": [f"p{i}"]}


def typed(i: int) -> Any:
    return {"properties": {f"p{i // 2}": {"type": "integer" if i % 2 else "string"}}, "required": [f"p{i // 2}"]}


def deep(keyword: str, depth: int) -> Any:
    """A schema within a schema, so many times."""
    wraps: dict[str, Callable[[Any], Any]] = {
        "properties": lambda it: {"type": "object", "properties": {"a": it}},
        "required": lambda it: {"type": "object", "properties": {"a": it}, "required": ["a"]},
        "items": lambda it: {"type": "array", "items": it},
        "anyOf": lambda it: {"anyOf": [it, {"type": "null"}]},
        "oneOf": lambda it: {"oneOf": [it, {"type": "string"}]},
        "allOf": lambda it: {"allOf": [it]},
        "not": lambda it: {"not": it},
        "if": lambda it: {"if": {"type": "integer"}, "then": it, "else": {"type": "string"}},
    }
    return nested(depth, wraps[keyword], {"type": "integer"})


def chain(length: int) -> dict[str, Any]:
    """References that lead to references."""
    links = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "integer"}}}


def members(*numbers: int, **others: Any) -> dict[str, Any]:
    return {**{f"p{i}": 1 for i in numbers}, **others}


ROWS: dict[str, Row] = {
    "10,000 properties": Row(
        lambda: {"type": "object", "properties": many(10_000, type="integer"), "additionalProperties": False},
        ({}, {"p0": 1, "p9999": 2}), ({"p10000": 1}, {"p5000": "x"}),
    ),
    "10,000 properties, 1,429 members": Row(
        lambda: {"type": "object", "properties": many(10_000, type="integer"), "additionalProperties": False},
        (members(*range(0, 10_000, 7)),), (members(*range(0, 10_000, 7), x=1),),
    ),
    "10,000 properties, all of them": Row(
        lambda: {"type": "object", "properties": many(10_000, type="integer"), "minProperties": 5000, "maxProperties": 10_000, "additionalProperties": False},
        (members(*range(10_000)),), (members(*range(4999)),),
    ),
    "10,000 properties among others": Row(
        lambda: {"type": "object", "properties": many(10_000, type="integer")},
        (members(*range(0, 10_000, 7), x=None), members(3, x="x", p5=1)), (members(0, 7, p14="x"),),
    ),
    "10,000 properties beside patterns": Row(
        lambda: {"type": "object", "properties": many(10_000, type="integer"), "patternProperties": {"^x-": {"type": "string"}, "7$": {"maximum": 9}}, "additionalProperties": False},
        (members(*range(0, 10_000, 7), **{"x-y": "z"}),), (members(*range(0, 10_000, 7), y="z"), {"p7": 10}, {"x-y": 1}),
    ),
    "10,000 properties in a union": Row(
        lambda: {"anyOf": [{"type": "object", "properties": many(10_000, type="integer"), "required": [f"p{i}"], "additionalProperties": False} for i in (0, 7)]},
        (members(*range(0, 10_000, 7)),), (members(1, 2),),
    ),
    "1,000 required properties": Row(
        lambda: {"type": "object", "properties": many(1000, type="integer"), "required": [f"p{i}" for i in range(1000)]},
        (members(*range(1000)),), ({}, members(*range(999))),
    ),
    "anyOf of 1,000 objects": Row(
        partial(branches, 1000, "anyOf"), ({"kind": 999, "v999": 1}, {"kind": 0, "v999": "x"}), ({"kind": 1000}, {"kind": 999, "v999": "x"})
    ),
    "oneOf of 1,000 objects that overlap": Row(partial(branches, 1000, "oneOf"), error=LimitExceeded, says="oneOf with 1000 branches"),
    "oneOf of 1,000 tagged objects": Row(
        lambda: {"oneOf": [{"type": "object", "properties": {"kind": {"const": f"k{i}"}, f"v{i}": {"type": "integer"}}, "required": ["kind"]} for i in range(1000)]},
        ({"kind": "k999", "v999": 1}, {"kind": "k0", "v999": "x"}), ({"kind": "k1000"}, {"kind": "k999", "v999": "x"}),
    ),
    "oneOf of 1,000 literals": Row(lambda: {"oneOf": [{"const": f"w{i}" if i % 2 else i} for i in range(1000)]}, ("w999", 0), ("w0", 999, None)),
    "anyOf of 1,000 names": Row(
        lambda: {"type": "object", "anyOf": [has(i) for i in range(1000)]}, ({"p999": 1}, {"p0": 1, "x": 1}), ({}, {"p1000": 1})
    ),
    "oneOf of 1,000 names": Row(lambda: {"type": "object", "oneOf": [has(i) for i in range(1000)]}, error=LimitExceeded, says="oneOf with 1000 branches"),
    "oneOf of 1,000 overlapping numbers": Row(
        lambda: {"oneOf": [{"type": "integer", "minimum": i} for i in range(1000)]}, error=LimitExceeded, says="oneOf with 1000 branches"
    ),
    "oneOf of 8 overlapping numbers": Row(lambda: {"oneOf": [{"type": "integer", "minimum": i} for i in range(8)]}, (0,), (1, 2, 1000, -1)),
    "oneOf of 60 overlapping numbers": Row(lambda: {"oneOf": [{"type": "integer", "minimum": i} for i in range(60)]}, error=LimitExceeded, says="the limit is 4096"),
    "oneOf of 12 overlapping patterns": Row(
        lambda: {"type": "string", "oneOf": [{"pattern": f"a{{{i}}}"} for i in range(1, 13)]}, ("a", "ba"), ("", "aa", "b")
    ),
    "oneOf of 200 overlapping patterns": Row(
        lambda: {"type": "string", "oneOf": [{"pattern": f"a{{{i}}}"} for i in range(1, 201)]}, error=LimitExceeded, says="64 sets of strings"
    ),
    "objects nested 500 deep": Row(
        lambda: nested(500, lambda it: {"type": "object", "properties": {"a": it}, "required": ["a"]}, {"type": "integer"}),
        (nested(500, lambda it: {"a": it}, 1),), (nested(499, lambda it: {"a": it}, 1), nested(500, lambda it: {"a": it}, "x")),
    ),
    "arrays nested 500 deep": Row(
        lambda: nested(500, lambda it: {"type": "array", "items": it, "minItems": 1}, {"type": "integer"}),
        (nested(500, lambda it: [it], 1),), (nested(499, lambda it: [it], 1), nested(501, lambda it: [it], 1)),
    ),
    "values nested 900 deep under a cycle": Row(
        lambda: {"type": "array", "items": {"$ref": "#"}}, (nested(900, lambda it: [it], []),), (nested(900, lambda it: [it], 1),)
    ),
    "allOf nested 500 deep": Row(lambda: nested(500, lambda it: {"allOf": [it]}, {"type": "integer"}), (1,), ("x",)),
    "anyOf nested 500 deep": Row(lambda: nested(500, lambda it: {"anyOf": [it, {"type": "null"}]}, {"type": "integer"}), (1, None), ("x",)),
    "oneOf nested 500 deep": Row(lambda: nested(500, lambda it: {"oneOf": [it, {"type": "string"}]}, {"type": "integer"}), (1,), (None, "x")),
    "not nested 500 deep": Row(lambda: nested(500, lambda it: {"not": it}, {"type": "integer"}), (1, -3), ("x", 1.5)),
    "not nested 51 deep in objects": Row(
        lambda: nested(51, lambda it: {"type": "object", "not": {"properties": {"a": it}}}, {"type": "integer"}), ({"a": 1},), ({}, 1)
    ),
    "if nested 200 deep": Row(
        lambda: nested(200, lambda it: {"if": {"type": "integer"}, "then": it, "else": {"type": "string"}}, {"minimum": 5}), (5, "x"), (4, None)
    ),
    "a tree of oneOf, 6 deep": Row(
        lambda: nested(6, lambda it: {"oneOf": [it, {"type": "object", "properties": {"a": it}, "required": ["a"]}]}, {"type": "integer"}),
        (1, {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}), ({"b": 1}, "x", {"a": 1}),
    ),
    "2^20 combinations of anyOf": Row(
        partial(combined, 20, has, "anyOf"), (members(*range(0, 40, 2)), members(*range(1, 40, 2))), ({}, members(*range(20)))
    ),
    "2^20 combinations of oneOf": Row(
        partial(combined, 20, has, "oneOf"), (members(*range(0, 40, 2)),), ({}, members(*range(40)))
    ),
    "2^20 combinations of typed anyOf": Row(
        partial(combined, 20, typed, "anyOf"), (members(*range(20)),), ({}, members(*range(19)), members(*range(19), p19=None))
    ),
    "2^20 combinations of not": Row(
        lambda: {"type": "object", "allOf": [{"not": {"allOf": [has(2 * i), has(2 * i + 1)]}} for i in range(20)]},
        ({}, members(*range(0, 40, 2))), (members(0, 1), members(38, 39)),
    ),
    "2^20 combinations of if": Row(
        lambda: {"type": "object", "allOf": [{"if": has(2 * i), "then": has(2 * i + 1)} for i in range(20)]},
        ({}, members(1), members(*range(40))), (members(0), members(*range(39))),
    ),
    "2^60 combinations of scalars": Row(
        lambda: {"allOf": [{"anyOf": [{"type": "integer", "minimum": i}, {"type": "string", "minLength": i}]} for i in range(60)]},
        (59, 60, "x" * 59), (58, "x" * 58, None),
    ),
    "2^8 combinations of array items": Row(
        lambda: {"type": "array", "allOf": [{"anyOf": [{"contains": {"const": 2 * i}}, {"contains": {"const": 2 * i + 1}}]} for i in range(8)]},
        (list(range(0, 16, 2)), list(range(16))), ([], list(range(0, 14, 2))),
    ),
    "2^30 combinations of array items": Row(
        lambda: {"type": "array", "allOf": [{"anyOf": [{"contains": {"const": 2 * i}}, {"contains": {"const": 2 * i + 1}}]} for i in range(30)]},
        (list(range(0, 60, 2)),), ([], list(range(0, 58, 2))),
    ),
    "6 rules of contains": Row(
        lambda: {"type": "array", "allOf": [{"contains": {"multipleOf": p}} for p in (2, 3, 5, 7, 11, 13)]}, error=LimitExceeded, says="50,000 automaton states",
    ),
    "4 rules of contains": Row(
        lambda: {"type": "array", "allOf": [{"contains": {"multipleOf": p}} for p in (2, 3, 5, 7)]}, ([2, 3, 5, 7], [210]), ([2], [], [2, 3, 5]),
    ),
    "12 rules of contains": Row(
        lambda: {"type": "array", "allOf": [{"contains": {"multipleOf": p}} for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)]}, error=LimitExceeded, says="256 combinations",
    ),
    "a pattern of 2^21 states": Row(lambda: {"type": "string", "pattern": "^(a|b)*a(a|b){20}$"}, ("a" * 21, "b" + "a" * 25), ("a" * 20, "b" * 30, "")),
    "a pattern of 2^500 states": Row(lambda: {"type": "string", "pattern": "(a|b)*a(a|b){499}$"}, ("a" * 500, "bca" + "b" * 499), ("a" * 499, "b" * 600)),
    "a pattern of a million states": Row(lambda: {"type": "string", "pattern": "^(a{1000,}){1000}$"}, error=LimitExceeded, says="200,000 instructions"),
    "a pattern with counted classes": Row(lambda: {"type": "string", "pattern": "^(\\p{L}{1,300}\\d{1,300}){300}$"}, error=LimitExceeded, says="200,000 instructions"),
    "a pattern nested 1,000 deep": Row(lambda: {"type": "string", "pattern": "(" * 1000 + "a" + ")*" * 1000}, error=LimitExceeded, says="nested"),
    "a pattern of 20,000 characters": Row(lambda: {"type": "string", "pattern": "^" + "ab" * 10_000 + "$"}, ("ab" * 10_000,), ("ab" * 9_999,)),
    "a pattern of 100,000 characters": Row(lambda: {"type": "string", "pattern": "^" + "ab" * 50_000 + "$"}, error=LimitExceeded, says="80,000 instructions"),
    "a pattern of 1 MB": Row(lambda: {"type": "string", "pattern": "(a|b)" * 200_000}, error=LimitExceeded, says="80,000 instructions"),
    "a pattern of 100,000 alternatives": Row(
        lambda: {"type": "string", "pattern": "^(" + "|".join(f"w{i}x" for i in range(100_000)) + ")$"}, ("w0x", "w99999x"), ("w100000x",)
    ),
    "a pattern of 100,000 alternatives that are no texts": Row(
        lambda: {"type": "string", "pattern": "|".join(f"[wW]{i}x" for i in range(100_000))}, error=LimitExceeded, says="80,000 instructions"
    ),
    "a pattern of 50,000 repetitions": Row(lambda: {"type": "string", "pattern": "(ab){2,50000}c"}, ("ababc", "ab" * 500 + "c"), ("abc", "abab")),
    "a pattern of a million repetitions": Row(lambda: {"type": "string", "pattern": "(a{1,1000}){1,1000}"}, error=LimitExceeded, says="200,000 instructions"),
    "a pattern of nested bounds": Row(
        lambda: {"type": "string", "pattern": r"^(?=.{1,255}$)((.{1,63}\.){1,127}[a-z]{1,63})$"}, ("a.b", "a" * 63 + ".b"), ("a", "a" * 65 + ".b")
    ),
    "a pattern of 10,000 characters 20 times": Row(
        lambda: {"type": "string", "pattern": "^[" + "".join(chr(0x4E00 + 2 * i) for i in range(10_000)) + "]{20}$"}, ("一" * 20,), ("一" * 19, "丁" * 20)
    ),
    "a pattern of 1,000 letters": Row(lambda: {"type": "string", "pattern": r"\p{L}{1000}"}, ("é" * 1000,), ("é" * 999,)),
    "a pattern of 400 classes": Row(
        lambda: {"type": "string", "pattern": "".join("[" + "".join(chr(0x4E00 + i * j % 20_000) for i in range(50)) + "]" for j in range(1, 400))}, ("一" * 399,), ("一" * 398,)
    ),
    "a pattern of 100,000 brackets": Row(lambda: {"type": "string", "pattern": "[" * 100_000}, error=SchemaError, says="not closed"),
    "a pattern of 500,000 class names": Row(lambda: {"type": "string", "pattern": "[" + "[:" * 500_000}, error=SchemaError, says="not closed"),
    "a pattern of a million braces": Row(lambda: {"type": "string", "pattern": "{" * 1_000_000}, error=LimitExceeded, says="80,000 instructions"),
    "a pattern nested 10,000 deep": Row(lambda: {"type": "string", "pattern": "(" * 10_000 + "a" + ")" * 10_000}, error=LimitExceeded, says="nested"),
    "names by hostile patterns": Row(
        lambda: {"type": "object", "patternProperties": {"(ab){2,50000}c": {"type": "integer"}, "^(a|b)*a(a|b){25}$": {"type": "null"}}, "additionalProperties": False},
        ({"ababc": 1, "a" * 26: None},), ({"abc": 1}, {"a" * 25: None}, {"ababc": None}),
    ),
    "a pattern of 20,000 alternatives": Row(
        lambda: {"type": "string", "pattern": "^(" + "|".join(f"w{i}x" for i in range(20_000)) + ")$"}, ("w0x", "w19999x"), ("w20000x",)
    ),
    "20 patterns at once": Row(
        lambda: {"type": "string", "allOf": [{"pattern": f"x{i}y"} for i in range(20)]}, ("".join(f"x{i}y" for i in range(20)),), ("x1y", "")
    ),
    "8 exploding patterns at once": Row(
        lambda: {"type": "string", "allOf": [{"pattern": f"(a|b)*a(a|b){{{i}}}$"} for i in range(8, 16)]}, ("a" * 16, "b" + "a" * 20), ("a" * 15, "b" * 30)
    ),
    "not an exploding pattern": Row(lambda: {"type": "string", "not": {"pattern": "^(a|b)*a(a|b){20}$"}}, ("", "b" * 30, "c"), ("a" * 21,)),
    "nested look-ahead": Row(lambda: {"type": "string", "pattern": "^" + "(?=.*" * 30 + "a" + ")" * 30}, ("a", "ba"), ("b",)),
    "50 look-aheads": Row(lambda: {"type": "string", "pattern": "^" + "".join(f"(?=.*x{i}y)" for i in range(50))}, refuses=("", "x0y"), takes=("".join(f"x{i}y" for i in range(50)),)),
    "back-references that backtrack": Row(lambda: {"type": "string", "pattern": "^(a+)+(b+)+\\1\\2c$"}),
    "back-references that backtrack at length": Row(lambda: {"type": "string", "pattern": "^(a*)*(a*)*\\1\\2c$"}, refuses=("a" * 40 + "d",)),
    "a cycle that produces nothing": Row(
        lambda: {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, error=UnsatisfiableSchema
    ),
    "an array cycle that produces nothing": Row(lambda: {"type": "array", "items": {"$ref": "#"}, "minItems": 1}, error=UnsatisfiableSchema),
    "a cycle of $ref alone": Row(lambda: {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, error=SchemaError, says="leads back to itself"),
    "a cycle through allOf": Row(lambda: {"allOf": [{"$ref": "#"}, {"type": "integer"}]}, error=SchemaError, says="leads back to itself"),
    "a cycle through anyOf": Row(lambda: {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}, error=SchemaError, says="leads back to itself"),
    "a cycle through not": Row(lambda: {"not": {"$ref": "#"}}, error=SchemaError, says="leads back to itself"),
    "a cycle through oneOf": Row(lambda: {"oneOf": [{"$ref": "#"}, {"type": "integer"}]}, error=SchemaError, says="leads back to itself"),
    "a cycle through if": Row(lambda: {"if": {"$ref": "#"}, "then": False}, error=SchemaError, says="leads back to itself"),
    "a cycle through not and properties": Row(lambda: {"type": "object", "properties": {"a": {"not": {"$ref": "#"}}}}, ({}, {"a": 1}, {"a": {"a": {}}}), ({"a": {}}, 1)),
    "a cycle of two, multiplied": Row(
        lambda: {
            "$defs": {
                "a": {"type": "object", "properties": {"x": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}},
                "b": {"type": "object", "properties": {"x": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, "y": {"type": "integer"}}},
            },
            "$ref": "#/$defs/a",
        },
        ({}, {"x": {"x": {"x": {}}}}), ({"x": 1}, {"x": {"y": "x"}}),
    ),
    "a chain of 5,000 $ref": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}, "d5000": {"type": "integer"}}}, (1,), ("x",)
    ),
    "a chain of 5,000 properties by $ref": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}, "required": ["a"]} for i in range(5000)}, "d5000": {"type": "integer"}}},
        (), ({}, {"a": {}}),
    ),
    "a chain of 5,000 $ref that produces nothing": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}, "required": ["a"]} for i in range(5000)}, "d5000": False}},
        error=UnsatisfiableSchema,
    ),
    "every definition refers twice": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(40)}, "d40": {"type": "integer"}}}, (1,), ("x",)
    ),
    "every definition refers twice, by anyOf": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(40)}, "d40": {"type": "integer"}}}, (1,), ("x",)
    ),
    "every definition refers twice, by properties": Row(
        lambda: {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": {"$ref": f"#/$defs/d{i + 1}"}}, "required": ["a", "b"]} for i in range(40)}, "d40": {"type": "integer"}}}, (), ({},)
    ),
    "5,000 strings of 200 characters": Row(
        lambda: {"enum": [f"{i:05}" + chr(97 + i % 26) * 195 for i in range(5000)]}, ("00000" + "a" * 195,), ("00000" + "a" * 194, "05000")
    ),
    "5,000 long strings alike but for the end": Row(
        lambda: {"enum": ["x" * 195 + f"{i:05}" for i in range(5000)]}, ("x" * 195 + "04999",), ("x" * 195 + "05000",)
    ),
    "an enum of 2,000 objects": Row(
        lambda: {"enum": [{"id": i, "tags": ["a", str(i)], "in": {"v": i / 2}} for i in range(2000)]},
        ({"id": 7, "tags": ["a", "7"], "in": {"v": 3.5}},), ({"id": 7, "tags": ["a", "8"], "in": {"v": 3.5}}, {}),
    ),
    "an enum of 5,000 objects": Row(
        lambda: {"enum": [{"id": i, "tags": ["a", str(i)], "in": {"v": i / 2}} for i in range(5000)]},
        ({"id": 7, "tags": ["a", "7"], "in": {"v": 3.5}},), ({"id": 7, "tags": ["a", "8"], "in": {"v": 3.5}}, {}),
    ),
    "an enum of 300 objects": Row(
        lambda: {"enum": [{"id": i, "tags": ["a", str(i)], "in": {"v": i / 2}} for i in range(300)]},
        ({"id": 7, "tags": ["a", "7"], "in": {"v": 3.5}},), ({"id": 7, "tags": ["a", "8"], "in": {"v": 3.5}}, {}),
    ),
    "an enum of 20,000 numbers": Row(lambda: {"enum": [i * 7919 / 16 for i in range(20_000)]}, (7919 / 16, 7919), (1, 7919.1)),
    "not an enum of 5,000 strings": Row(lambda: {"type": "string", "not": {"enum": [f"w{i}" for i in range(5000)]}}, ("w5000", ""), ("w0", "w4999")),
    "not an enum of 300 objects": Row(lambda: {"type": "object", "not": {"enum": [{"id": i} for i in range(300)]}}, ({"id": 300}, {}), ({"id": 0}, {"id": 299})),
    "not an enum of 2,000 objects": Row(lambda: {"type": "object", "not": {"enum": [{"id": i} for i in range(2000)]}}, ({"id": 2000}, {}), ({"id": 0}, {"id": 1999})),
    "not an enum of 5,000 objects": Row(
        lambda: {"type": "object", "not": {"enum": [{"id": i, "tags": ["a", str(i)]} for i in range(5000)]}},
        ({"id": 7, "tags": ["a", "8"]}, {}), ({"id": 7, "tags": ["a", "7"]},),
    ),
    "unique items of an enum of 5,000": Row(
        lambda: {"type": "array", "uniqueItems": True, "items": {"enum": [f"w{i}" for i in range(5000)]}, "minItems": 3},
        (["w1", "w2", "w3"],), (["w1", "w2", "w1"], ["w1", "w2"]),
    ),
    "unique items of too few values": Row(
        lambda: {"type": "array", "uniqueItems": True, "items": {"enum": list(range(60))}, "minItems": 61}, error=UnsatisfiableSchema
    ),
    "unique items of 60 values, all of them": Row(
        lambda: {"type": "array", "uniqueItems": True, "items": {"enum": list(range(60))}, "minItems": 60}, (list(range(60)),), ([0, 0],)
    ),
    "unique items of 30 values that contain others": Row(
        lambda: {"type": "array", "uniqueItems": True, "items": {"enum": list(range(30))}, "allOf": [{"contains": {"const": i}} for i in range(6)]}, (list(range(6)),), (list(range(5)), [0, 0]),
    ),
    "unique objects": Row(
        lambda: {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["a", "b"], "additionalProperties": False}, "minItems": 4},
        ([{"a": a, "b": b} for a in (True, False) for b in (True, False)],), ([{"a": True, "b": True}] * 4,),
    ),
    "dependentSchemas in a circle": Row(
        lambda: {"type": "object", "dependentSchemas": {f"p{i}": {"required": [f"p{(i + 1) % 50}"]} for i in range(50)}},
        ({}, members(*range(50)), {"x": 1}), (members(0), members(*range(49))),
    ),
    "dependentRequired of everything": Row(
        lambda: {"type": "object", "dependentRequired": {f"p{i}": [f"p{j}" for j in range(100)] for i in range(100)}},
        ({}, members(*range(100))), (members(3), members(*range(99))),
    ),
    "dependentSchemas by reference to itself": Row(
        lambda: {"type": "object", "dependentSchemas": {"a": {"$ref": "#"}}}, error=SchemaError, says="leads back to itself"
    ),
    "a number of 400 digits": Row(lambda: {"type": "integer", "minimum": 10**400, "maximum": 10**400 + 5}, (10**400 + 3,), (10**400 + 6, 1)),
    "a number beyond the doubles": Row(lambda: json.loads('{"type": "number", "minimum": 1e400}'), error=SchemaError, says="a finite number"),
    "a bound of 10^5000": Row(lambda: {"type": "integer", "minimum": 10**4000}),
    "a const of 10^5000": Row(lambda: {"const": 10**4000}),
    "multiples of 1e-300": Row(lambda: {"type": "number", "multipleOf": 1e-300}, (1, 0), ("x",)),
    "multiples of 1e300": Row(lambda: {"type": "number", "multipleOf": 1e300}, (0,), (1, 7)),
    "multiples of a great prime": Row(lambda: {"type": "integer", "multipleOf": 2**61 - 1}, (0, 2**61 - 1), (1, 2**61)),
    "multiples of 20 primes": Row(
        lambda: {"type": "integer", "allOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)]}, (0,), (1, 2)
    ),
    "multiples of 0.0001 in narrow bounds": Row(lambda: {"type": "number", "multipleOf": 0.0001, "minimum": 0.1, "maximum": 0.1002}, (0.1, 0.1001), (0.10005, 0.2)),
    "no multiple within bounds": Row(lambda: {"type": "integer", "multipleOf": 2**40, "minimum": 1, "maximum": 2**40 - 1}, error=UnsatisfiableSchema),
    "bounds of 1e-300": Row(lambda: {"type": "number", "exclusiveMinimum": 0, "maximum": 1e-300}, (), (0, 1)),
    "minItems of a thousand million": Row(lambda: {"type": "array", "minItems": 10**9}, (), ([], [1])),
    "maxItems of a thousand million": Row(lambda: {"type": "array", "maxItems": 10**9}, ([], [1]), ({},)),
    "minItems beyond 64 bits": Row(lambda: {"type": "array", "minItems": 10**30}),
    "maxItems beyond 64 bits": Row(lambda: {"type": "array", "maxItems": 10**30}, ([], [1]), ({},)),
    "maxLength of a thousand million": Row(lambda: {"type": "string", "maxLength": 10**9}, ("", "x"), (1,)),
    "minLength of a thousand million": Row(lambda: {"type": "string", "minLength": 10**9}, error=LimitExceeded, says="524,287"),
    "maxLength beyond 64 bits": Row(lambda: {"type": "string", "maxLength": 10**30}, ("", "x"), (1,)),
    "minLength beyond 64 bits": Row(lambda: {"type": "string", "minLength": 10**30}, error=LimitExceeded, says="524,287"),
    "a pattern with great lengths": Row(lambda: {"type": "string", "pattern": "^[a-z]+$", "minLength": 10**6, "maxLength": 10**9}, error=LimitExceeded, says="50,000 automaton states"),
    "a great maxLength not": Row(lambda: {"type": "string", "not": {"maxLength": 10**9}}, error=LimitExceeded, says="524,287"),
    "minProperties of a million": Row(lambda: {"type": "object", "minProperties": 10**6}, (), ({}, {"a": 1})),
    "maxProperties of a million": Row(lambda: {"type": "object", "maxProperties": 10**6}, ({}, {"a": 1}), (1,)),
    "minProperties beyond what the names allow": Row(
        lambda: {"type": "object", "minProperties": 10**6, "propertyNames": {"pattern": "^[ab]{1,8}$"}}, error=UnsatisfiableSchema
    ),
    "minProperties of all names": Row(
        lambda: {"type": "object", "minProperties": 510, "propertyNames": {"pattern": "^[ab]{1,8}$"}}, (), ({}, {"a": 1})
    ),
    "minProperties of more names than a character has": Row(
        lambda: {"type": "object", "minProperties": 10**9, "propertyNames": {"maxLength": 1}}, error=UnsatisfiableSchema
    ),
    "minProperties of more names than an enum has": Row(
        lambda: {"type": "object", "minProperties": 5001, "propertyNames": {"enum": [f"n{i}" for i in range(5000)]}}, error=UnsatisfiableSchema
    ),
    "contains a million times": Row(lambda: {"type": "array", "contains": {"const": 1}, "minContains": 10**6}, (), ([1], [])),
    "contains at most a million times": Row(lambda: {"type": "array", "contains": {"const": 1}, "maxContains": 10**6}, ([1],), ([],)),
    "40 rules of contains with counts": Row(
        lambda: {"type": "array", "allOf": [{"contains": {"multipleOf": p}, "minContains": 2, "maxContains": 9} for p in range(2, 42)]}, error=LimitExceeded, says="256 combinations"
    ),
    "10 overlapping patternProperties": Row(
        lambda: {"type": "object", "patternProperties": {f"x{i}": {"minimum": i} for i in range(10)}}, ({"x9": 9, "x3": 3}, {"x0x1x2": 2}), ({"x9": 8}, {"x0x1x2x3": 2}),
    ),
    "50 overlapping patternProperties": Row(
        lambda: {"type": "object", "patternProperties": {f"x{i}": {"minimum": i} for i in range(50)}}, ({"x49": 49},), error=LimitExceeded, says="patterns of names in one object"
    ),
    "50 patternProperties that explode together": Row(
        lambda: {"type": "object", "patternProperties": {f"^(a|b)*a(a|b){{{i}}}$": {"minimum": i} for i in range(2, 52)}}, ({"a": 1},), error=LimitExceeded, says="can only be tested at the end of a name; the limit is 8"
    ),
    "patternProperties beside 500 properties": Row(
        lambda: {"type": "object", "properties": many(500, type="integer"), "patternProperties": {f"{i}$": {"minimum": i} for i in range(10)}},
        ({"p19": 9, "x": None},), ({"p19": 8}, {"z5": 4}),
    ),
    "propertyNames that explode": Row(
        lambda: {"type": "object", "propertyNames": {"pattern": "^(a|b)*a(a|b){20}$"}}, ({"a" * 21: 1},), ({"b" * 21: 1},)
    ),
    "propertyNames of an enum of 5,000": Row(
        lambda: {"type": "object", "propertyNames": {"enum": [f"w{i}" for i in range(5000)]}}, ({"w4999": 1, "w0": 1},), ({"w5000": 1},)
    ),
    "unevaluatedProperties under 20 anyOf": Row(
        lambda: {"type": "object", "allOf": [{"anyOf": [{"properties": {f"p{2 * i}": True}, "required": [f"p{2 * i}"]}, {"properties": {f"p{2 * i + 1}": True}, "required": [f"p{2 * i + 1}"]}]} for i in range(20)], "unevaluatedProperties": False},
        error=LimitExceeded, says="256 combinations",
    ),
    "unevaluatedProperties under anyOf of 300": Row(
        lambda: {"type": "object", "anyOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(300)], "unevaluatedProperties": False}, error=LimitExceeded, says="256 combinations"),
    "unevaluatedProperties over oneOf of 30": Row(
        lambda: {"type": "object", "oneOf": [{"properties": {f"p{i}": {"type": "integer"}}, "required": [f"p{i}"]} for i in range(30)], "unevaluatedProperties": False},
        (members(7),), ({}, members(7, 8), {"x": 1}),
    ),
    "unevaluatedItems under 6 contains": Row(
        lambda: {"type": "array", "allOf": [{"contains": {"const": i}} for i in range(6)], "unevaluatedItems": False}, (list(range(6)),), (list(range(7)), [])
    ),
    "unevaluated in a cycle": Row(
        lambda: {"type": "object", "properties": {"a": {"$ref": "#"}}, "anyOf": [{"properties": {"b": True}}, {"$ref": "#/$defs/c"}], "$defs": {"c": {"properties": {"c": {"$ref": "#"}}}}, "unevaluatedProperties": False},
        ({"a": {"b": 1}}, {"c": {"a": {}}}), ({"x": 1}, {"a": {"x": 1}}),
    ),
    "100,000 schemas": Row(lambda: {"anyOf": [{"type": "integer", "title": str(i)} for i in range(100_000)]}),
    "required of 1,000 undeclared names": Row(lambda: {"type": "object", "required": [f"p{i}" for i in range(1000)]}, (members(*range(1000)),), (members(*range(999)),)),
    "prefixItems of 10,000": Row(lambda: {"type": "array", "prefixItems": [{"const": i} for i in range(10_000)], "items": False}, (list(range(300)), []), ([1],)),
    "a const nested 500 deep": Row(lambda: {"const": nested(500, lambda it: [{"a": it}], 1)}, (nested(500, lambda it: [{"a": it}], 1),), (nested(499, lambda it: [{"a": it}], 1),)),
    "a const of 20,000 items": Row(lambda: {"const": list(range(20_000))}, refuses=([], [0, 2])),
    "not a const nested 500 deep": Row(lambda: {"not": {"const": nested(500, lambda it: [{"a": it}], 1)}}, (1, [{"a": 1}]), (nested(500, lambda it: [{"a": it}], 1),)),
    **{
        f"{keyword} nested {depth:,} deep": Row(partial(deep, keyword, depth), takes, refuses, (LimitExceeded if depth > 20_000 and keyword not in ("properties", "items") else None), "20,000 deep")
        for keyword, takes, refuses in [
            ("properties", ({"a": {"a": {}}}, {"b": 1}), ({"a": {"a": 1}}, 1)), ("required", (), ({}, {"a": {}})), ("items", ([[[]]],), ([[1]], 1)), ("anyOf", (1, None), ("x",)),
            ("oneOf", (1,), (None, [])), ("allOf", (1,), ("x",)), ("not", (1,), ("x",)), ("if", (7,), (1.5, None)),
        ]
        for depth in (10_000, 100_000)
    },  # a conjunction of 20,000 places is still read
    "a const nested 10,000 deep": Row(lambda: {"const": nested(10_000, lambda it: [it], 1)}, refuses=([], [[1]])),
    "a const nested 100,000 deep": Row(lambda: {"const": nested(100_000, lambda it: [it], 1)}, error=LimitExceeded, says="at /const: a value nests more than 20,000 deep"),
    "an enum nested 10,000 deep": Row(lambda: {"enum": [nested(10_000, lambda it: {"a": it}, i) for i in range(2)] + [1]}, (1,), ({}, 2)),
    "an enum nested 100,000 deep": Row(lambda: {"enum": [nested(100_000, lambda it: {"a": it}, 1)]}, error=LimitExceeded, says="at /enum: a value nests more than 20,000 deep"),
    "a default and examples nested 100,000 deep": Row(
        lambda: {"type": "integer", "default": nested(100_000, lambda it: [it], 1), "examples": [nested(100_000, lambda it: {"a": it}, 1)], "x-note": nested(100_000, lambda it: [it], 1)}, (1,), ("x",)
    ),
    "a fault nested 100,000 deep": Row(lambda: nested(100_000, lambda it: {"items": it}, {"type": "word"}), error=SchemaError, says="/items/type: type: found 'word'"),
    "a chain of 10,000 $ref": Row(partial(chain, 10_000), (1,), ("x",)),
    "a chain of 100,000 $ref": Row(partial(chain, 100_000), error=LimitExceeded, says="20,000 deep"),
    "allOf of 10,000 objects": Row(lambda: {"allOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(10_000)]}, (members(0, 9999), 1), (members(p5="x"),)),
    "allOf of 50,000": Row(lambda: {"allOf": [{"type": "integer", "minimum": i} for i in range(50_000)]}, (49_999,), (49_998, "x")),
    "anyOf of 100,000 numbers": Row(lambda: {"anyOf": [{"type": "integer", "minimum": i} for i in range(100_000)]}, error=LimitExceeded, says="100000 alternatives in one place; the limit is 4096"),
    "anyOf of 100,000 objects": Row(lambda: {"type": "object", "anyOf": [has(i) for i in range(100_000)]}, error=LimitExceeded, says="100000 alternatives in one place; the limit is 4096"),
    "anyOf of 3,000 objects with names of their own": Row(
        partial(branches, 3000, "anyOf"), error=LimitExceeded, says="3,000 alternatives that are objects, with 6,000 names together; the limit of their product is 4,194,304"
    ),
    "oneOf of 100,000 numbers": Row(lambda: {"oneOf": [{"type": "integer", "minimum": i} for i in range(100_000)]}, error=LimitExceeded, says="oneOf with 100000 branches"),
    "oneOf of 10,000 literals": Row(lambda: {"oneOf": [{"const": f"w{i}"} for i in range(10_000)]}, ("w0", "w9999"), ("w10000", 1)),
    "100,000 properties": Row(lambda: {"type": "object", "properties": many(100_000, type="integer"), "additionalProperties": False}, (members(0, 99_999),), (members(5, 100_000),)),
    "100,000 required properties": Row(
        lambda: {"type": "object", "properties": many(100_000, type="integer"), "required": [f"p{i}" for i in range(100_000)]}, refuses=({}, members(0), members(0, 1, p2="x"))
    ),
    "required of 100,000 undeclared names": Row(lambda: {"type": "object", "required": [f"p{i}" for i in range(100_000)]}, refuses=({}, members(0, 1))),
    "minContains of a thousand million": Row(lambda: {"type": "array", "contains": {"type": "integer"}, "minContains": 10**9}, refuses=([], [1, 1])),
    "minProperties of a thousand million": Row(lambda: {"type": "object", "minProperties": 10**9}, refuses=({}, {"a": 1})),
    "names that are keywords": Row(
        lambda: {"properties": {"$ref": {"type": "integer"}, "properties": {"type": "string"}, "not": {"not": {"type": "null"}}}}, ({"$ref": 1, "properties": "x"},), ({"$ref": "#"}, {"not": None})
    ),
    "names of control characters and lone surrogates": Row(
        lambda: {"properties": {"\x00\n": {"const": 1}, '"\\': {"const": 2}}, "required": ["\x00\n"], "additionalProperties": False}, ({"\x00\n": 1, '"\\': 2},), ({'"\\': 2},)
    ),
}  # fmt: skip
