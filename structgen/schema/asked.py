"""A schema whose optional members are written: null, or a value. And texts without the nulls that mean absent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from structgen.schema.references import value_at

_BY_NAME = "properties", "patternProperties", "$defs", "definitions", "dependentSchemas"
_LISTED = "allOf", "anyOf", "oneOf", "prefixItems"
_SINGLE = "items", "additionalProperties", "then", "else"
_TURNS = "not", "if", "contains", "unevaluatedProperties", "minProperties", "maxProperties"
"""Keywords by which a schema with more required members may take what it did not take before, or take nothing."""
DEEPEST = 32
"""The most references in a row that are followed."""


def with_nulls(schema: Any, *, everywhere: bool = False) -> Any:
    """A copy in which each declared member that may be null is required, so that a model has to say it.

    It takes no value that the schema does not take. A schema with `not`, `if` and the like stays as it is.

    Args:
        everywhere: each other optional member may be null, too, and is required; `without_absent` leaves it out again.
    """
    if not isinstance(schema, dict) or _turns(schema):
        return schema
    copy = deepcopy(schema)
    _require(copy, copy, everywhere)
    return copy


class _Number(str):
    """A number as the text has it."""

    __slots__ = ()


def without_absent(text: str, schema: Any) -> str:
    """A JSON text without the optional members that are null in it, and that the schema does not let be null.

    Args:
        schema: the one of which `with_nulls(everywhere=True)` has been made.
    """
    value = json.loads(text, parse_float=_Number, parse_int=_Number)
    if not isinstance(schema, dict) or _turns(schema):
        return text
    return _written(value, [schema], schema)


def _written(value: Any, schemas: list[Any], root: dict[str, Any]) -> str:
    """The text of a value.

    Args:
        schemas: those that the value may have to satisfy.
    """
    described = [each for schema in schemas for each in _branches(schema, root, DEEPEST)]
    if isinstance(value, dict):
        members = list[str]()
        for name, member in value.items():
            own = [each["properties"][name] for each in described if name in each.get("properties", ())]
            required = any(name in each.get("required", ()) for each in described)
            nullable = any(_may_be_null(each, root, DEEPEST) for each in own)
            if member is None and own and not required and not nullable:
                continue
            others = own or [each.get("additionalProperties", True) for each in described]
            members.append(f"{json.dumps(name, ensure_ascii=False)}: {_written(member, others, root)}")
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        items = [part for each in described for part in (each.get("items", True), *each.get("prefixItems", ()))]
        return "[" + ", ".join(_written(each, items, root) for each in value) + "]"
    return value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _branches(schema: Any, root: dict[str, Any], deepest: int) -> Iterator[dict[str, Any]]:
    """A schema, what it refers to, and its alternatives."""
    if not isinstance(schema, dict) or not deepest:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        try:
            yield from _branches(value_at(root, reference[1:]), root, deepest - 1)
        except LookupError:
            return
    for name in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(name, ()):
            yield from _branches(each, root, deepest - 1)


def _below(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas directly in a schema."""
    inner = [each for name in _BY_NAME if isinstance(named := schema.get(name), dict) for each in named.values()]
    inner += [each for name in _LISTED if isinstance(listed := schema.get(name), list) for each in listed]
    return inner + [schema[name] for name in _SINGLE if name in schema]


def _turns(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    unclear = "oneOf" in schema and "discriminator" not in schema
    return unclear or any(name in schema for name in _TURNS) or any(map(_turns, _below(schema)))


def _require(schema: Any, root: dict[str, Any], everywhere: bool) -> None:
    if not isinstance(schema, dict):
        return
    members = schema.get("properties")
    if isinstance(members, dict):
        required = schema.get("required", [])
        nullable = {name for name, each in members.items() if _may_be_null(each, root, DEEPEST)}
        also = [
            name for name, each in members.items()
            if name not in required and each is not False and (everywhere or name in nullable)
        ]  # fmt: skip
        if also:
            schema["required"] = [*required, *also]
    for each in _below(schema):
        _require(each, root, everywhere)
    if isinstance(members, dict):
        for name in also:
            if name not in nullable:
                members[name] = {"anyOf": [members[name], {"type": "null"}]}


def _may_be_null(schema: Any, root: dict[str, Any], deepest: int) -> bool:
    """Does a schema say that its value may be null? Not so for one that takes anything."""
    if not isinstance(schema, dict) or not deepest:
        return False
    reference, kinds = schema.get("$ref"), schema.get("type")
    if isinstance(reference, str) and reference.startswith("#/"):
        try:
            return _may_be_null(value_at(root, reference[1:]), root, deepest - 1)
        except LookupError:
            return False
    branches = [each for name in ("anyOf", "oneOf") for each in schema.get(name, ())]
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    named = kinds == "null" or (isinstance(kinds, list) and "null" in kinds)
    return named or None in values or any(_may_be_null(each, root, deepest - 1) for each in branches)
