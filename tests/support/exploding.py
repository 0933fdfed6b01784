"""Constraints of a few kilobytes whose texts, automata or rules would be far larger. Each kind takes a number, so that
no two are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structgen as sg
from tests.support.tables import cases


def _nested(depth: int, last: Any, kind: Callable[[Any], Any]) -> dict[str, Any]:
    places = {f"a{i}": kind({"$ref": f"#/$defs/a{i + 1}"}) for i in range(depth)}
    return {"$defs": {**places, f"a{depth}": {"const": last}}, "$ref": "#/$defs/a0"}


def _pair(each: Any) -> Any:
    return {"type": "array", "prefixItems": [each, each], "minItems": 2, "items": False}


def _members(each: Any) -> Any:
    return {"type": "object", "properties": {"x": each, "y": each}, "required": ["x", "y"]}


def _both(each: Any) -> Any:
    return {"allOf": [{"type": "object", "properties": {name: each}, "required": [name]} for name in "xy"]}


def _either(each: Any) -> Any:
    return {"anyOf": [_pair(each), _members(each)]}


def _rules(number: int) -> str:
    return "start: r0\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(40)) + f'\nr40: "x{number}"'


SCHEMAS: dict[str, Callable[[int], Any]] = cases("support/exploding", "SCHEMAS", globals())
GRAMMARS: dict[str, Callable[[int], Any]] = cases("support/exploding", "GRAMMARS", globals())
KINDS: dict[str, Callable[[int], Any]] = {
    **{name: lambda n, schema=schema: sg.JsonSchema(schema(n)) for name, schema in SCHEMAS.items()},
    **GRAMMARS,
}
