"""A schema whose members that may be null are written: null, or a value."""

from __future__ import annotations

from collections.abc import Mapping
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


def with_nulls(schema: Any) -> Any:
    """A copy in which each declared member that may be null is required, so that a model has to say it.

    It takes no value that the schema does not take. A schema with `not`, `if` and the like stays as it is.
    """
    if not isinstance(schema, dict) or _turns(schema):
        return schema
    copy = deepcopy(schema)
    _require(copy, copy)
    return copy


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


def _require(schema: Any, root: dict[str, Any]) -> None:
    if not isinstance(schema, dict):
        return
    members = schema.get("properties")
    if isinstance(members, dict):
        required = schema.get("required", [])
        also = [name for name, each in members.items() if name not in required and _may_be_null(each, root, DEEPEST)]
        if also:
            schema["required"] = [*required, *also]
    for each in _below(schema):
        _require(each, root)


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
