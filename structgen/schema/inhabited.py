"""A quick yes to "does some value satisfy this schema?", read off the raw schema.

Before a member may be started, its schema must be known to have a value. For most schemas a glance settles that;
reading them into the normal form for it would cost more than the masks of the whole document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, STRUCTURE

_RESTRICTING = frozenset(row.name for row in KEYWORDS if row.how not in (STRUCTURE, ANNOTATION))
UNCLEAR = frozenset(row.name for row in KEYWORDS if row.may_empty and row.name in _RESTRICTING)
"""Keywords that a glance does not settle beside others."""

_PAIRS = (("minimum", "maximum"), ("minLength", "maxLength"))
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
_BESIDE_LITERALS = frozenset(("enum", "const", "type", "title", "description", "default", "examples"))
_DEPTH = 4


def plainly_inhabited(schema: Any, target: Callable[[dict[str, Any]], Any], depth: int = _DEPTH) -> bool:
    """True when some value certainly satisfies `schema`; False when a glance does not tell.

    Args:
        target: the schema that the `$ref` of a schema leads to.
    """
    if not isinstance(schema, dict) or not schema:
        return schema is True or schema == {}
    keys = schema.keys()
    if not keys.isdisjoint(UNCLEAR):
        alone = len(keys & _RESTRICTING) == 1 and depth > 0
        return alone and any(plainly_inhabited(each, target, depth - 1) for each in _enough(schema, target))
    if "enum" in keys or "const" in keys:
        return keys <= _BESIDE_LITERALS and _holds_literal(schema)
    for low, high in _PAIRS:
        if low in keys and high in keys and not _whole_range(schema[low], schema[high]):
            return False
    if "format" in keys and ("minLength" in keys or "maxLength" in keys):
        return False
    return "required" not in keys or _has_required(schema, target, depth)


def _enough(schema: dict[str, Any], target: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Of a schema with one restricting keyword: schemas of which each value satisfies it, none if that is not plain."""
    if "$ref" in schema:
        return [target(schema)]
    alike: list[Any] = schema.get("allOf", schema.get("oneOf", ()))
    return alike if len(alike) == 1 else schema.get("anyOf", [])


def _holds_literal(schema: dict[str, Any]) -> bool:
    """Is the first literal certainly of the schema's type?"""
    values = schema.get("enum", [schema.get("const")])
    if not values or ("enum" in schema and "const" in schema):
        return False
    value, wanted = values[0], schema.get("type")
    if wanted is None:
        return True
    types = _PYTHON_TYPES.get(wanted) if isinstance(wanted, str) else None
    return types is not None and isinstance(value, types) and not isinstance(value, bool)


def _whole_range(low: Any, high: Any) -> bool:
    return isinstance(low, int) and isinstance(high, int) and low <= high


def _has_required(schema: dict[str, Any], target: Callable[[dict[str, Any]], Any], depth: int) -> bool:
    """Has every required member a value (where `required` is a list of names)?"""
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    names = schema["required"]
    if depth <= 0 or not isinstance(names, list):
        return False
    return all(plainly_inhabited(properties.get(name, rest), target, depth - 1) for name in names)
