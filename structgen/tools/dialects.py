"""Schemas as declarations of tools write them, as JSON Schema: OpenAPI 3.0's `nullable`, Gemini's types in capitals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structgen.errors import SchemaError, quoted
from structgen.schema.keywords.table import KEYWORDS

Schema = dict[str, Any]

_INNER: dict[str, set[str]] = {}
"""How schemas stand in the argument of each keyword, in any draft: `one`, `list`, `map`, or several of these."""
for _row in KEYWORDS:
    if _row.children:
        _INNER.setdefault(_row.name, set()).update(_row.children)
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_CAPITALS = frozenset("NULL BOOLEAN INTEGER NUMBER STRING ARRAY OBJECT TYPE_UNSPECIFIED".split())
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
"""Gemini writes them as texts: they are integers of 64 bits."""


def mapped(schema: Any, change: Callable[[Schema, str], Any], pointer: str = "") -> Any:
    """Returns a schema after a change to each of its schemas, inner ones first.

    Args:
        change: takes a schema, which it may keep, and the JSON pointer to it.
        pointer: of `schema`.
    """
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key, value in schema.items():
        at, inner = f"{pointer}/{key}", _INNER.get(key, ())
        if isinstance(value, Mapping) and "map" in inner:
            result[key] = {name: mapped(each, change, f"{at}/{name}") for name, each in value.items()}
        elif isinstance(value, list) and "list" in inner:
            result[key] = [mapped(each, change, f"{at}/{number}") for number, each in enumerate(value)]
        elif "one" in inner:
            result[key] = mapped(value, change, at)
    return change(result, pointer)


def as_json_schema(schema: Mapping[str, Any], where: str) -> Any:
    """Returns the schema of a declaration as JSON Schema.

    `nullable: true` becomes a type, and `exclusiveMinimum: true` a number. If the type of the whole is Gemini's
    `OBJECT`, so are those within.

    Args:
        where: whose schema it is, for messages.

    Raises:
        SchemaError: a type is written as Gemini does, and that of the whole is not; or it is `TYPE_UNSPECIFIED`.
    """
    whole = schema.get("type")
    capitals = isinstance(whole, str) and whole in _CAPITALS

    def change(each: Schema, pointer: str) -> Schema:
        kind = each.get("type")
        if isinstance(kind, str) and kind in _CAPITALS:
            if not capitals or kind == "TYPE_UNSPECIFIED":
                told = "" if capitals else f", and that of the whole is {quoted(whole)}: write both alike"
                raise SchemaError(f"{where}: the type {kind} is Gemini's{told}", pointer)
            counts = {key: int(each[key]) for key in _COUNTS if str(each.get(key)).isdecimal()}
            each = {**each, **counts, "type": kind.lower()}
        for exclusive, bound in _EXCLUSIVE.items():
            if isinstance(each.get(exclusive), bool) and each.pop(exclusive) and bound in each:
                each[exclusive] = each.pop(bound)
        if each.pop("nullable", False) is True:
            return {"anyOf": [each, {"type": "null"}]}
        return each

    return mapped(schema, change)
