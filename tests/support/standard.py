"""JSON Schema by the letter of the standard: a judge of small schemas that shares no code with the package.

It is slow and has no references and formats. Values are those of `json.loads(text, parse_float=Decimal)`, so `1` and
`1.0` are equal and yet told apart, as draft 4 needs. `tests.schema.test_exactness` holds it to two other validators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """What keywords evaluated of a value that satisfies them: names of members and indexes of items."""

    names: frozenset[str] = frozenset()
    items: frozenset[int] = frozenset()


NOTHING = Seen()


def satisfies(schema: Any, text: str, draft: int) -> bool:
    """Does the JSON text satisfy the schema in this draft (4, 6, 7, 2019 or 2020)?"""
    return Standard(draft).seen(schema, json.loads(text, parse_float=Decimal)) is not None


def same(a: Any, b: Any) -> bool:
    """JSON's equality: 1 is 1.0, and neither is true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return bool(a == b)


class Standard:
    """The judge for one draft."""

    def __init__(self, draft: int) -> None:
        self._draft = draft

    def seen(self, schema: Any, value: Any) -> Seen | None:
        """What the schema evaluated of the value; None where the value does not satisfy it."""
        if isinstance(schema, bool):
            return NOTHING if schema else None
        if not self._simple(schema, value):
            return None
        parts = [*self._in_place(schema, value)]
        if isinstance(value, list):
            parts += self._items(schema, value)
        if isinstance(value, dict):
            parts += self._members(schema, value)
        if None in parts:
            return None
        seen = _all(part for part in parts if part is not None)
        return self._unevaluated(schema, value, seen) if self._draft >= 2019 else seen

    def _holds(self, schema: Any, value: Any) -> bool:
        return self.seen(schema, value) is not None

    def _is_type(self, name: str, value: Any) -> bool:
        if isinstance(value, bool):
            return name == "boolean"
        if name == "integer":
            whole = isinstance(value, Decimal) and value == int(value) and self._draft > 4
            return isinstance(value, int) or whole
        kinds = {"null": type(None), "number": (int, Decimal), "string": str, "array": list, "object": dict}
        return name in kinds and isinstance(value, kinds[name])

    def _simple(self, schema: Any, value: Any) -> bool:
        """The keywords without subschemas."""
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(self._is_type(name, value) for name in types):
            return False
        if "enum" in schema and not any(same(value, each) for each in schema["enum"]):
            return False
        if "const" in schema and self._draft >= 6 and not same(value, schema["const"]):
            return False
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            return self._number(schema, Decimal(value))
        if isinstance(value, str):
            long_enough = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            return long_enough and ("pattern" not in schema or re.search(schema["pattern"], value) is not None)
        if isinstance(value, list):
            right = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            return right and not (schema.get("uniqueItems") and _repeats(value))
        if isinstance(value, dict):
            right = schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
            needed = {*schema.get("required", ())}
            for name, more in schema.get("dependentRequired" if self._draft >= 2019 else "dependencies", {}).items():
                needed |= {*more} if isinstance(more, list) and name in value else set()
            return right and needed <= value.keys()
        return True

    def _number(self, schema: Any, value: Decimal) -> bool:
        bounds = {name: Decimal(str(schema[name])) for name in ("minimum", "maximum") if name in schema}
        for name in ("exclusiveMinimum", "exclusiveMaximum"):
            bound = schema.get(name)
            if self._draft == 4 and bound is True:
                bound = schema[name[9:].lower()]
            if isinstance(bound, (int, float)) and not isinstance(bound, bool):
                bounds[name] = Decimal(str(bound))
        above = value >= bounds.get("minimum", value) and bounds.get("exclusiveMinimum", value - 1) < value
        below = value <= bounds.get("maximum", value) and bounds.get("exclusiveMaximum", value + 1) > value
        return above and below and value % Decimal(str(schema.get("multipleOf", value or 1))) == 0

    def _in_place(self, schema: Any, value: Any) -> Iterable[Seen | None]:
        """The keywords that apply other schemas to the same value."""
        for each in schema.get("allOf", ()):
            yield self.seen(each, value)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                held = [seen for each in schema[name] if (seen := self.seen(each, value)) is not None]
                yield _all(held) if held and (name == "anyOf" or len(held) == 1) else None
        if "not" in schema and self._holds(schema["not"], value):
            yield None
        if "if" in schema and self._draft >= 7:
            met = self.seen(schema["if"], value)
            yield met or NOTHING
            yield self.seen(schema.get("else" if met is None else "then", True), value)
        for name, each in schema.get("dependentSchemas" if self._draft >= 2019 else "dependencies", {}).items():
            if isinstance(value, dict) and name in value and not isinstance(each, list):
                yield self.seen(each, value)

    def _items(self, schema: Any, value: list[Any]) -> Iterable[Seen | None]:
        items = schema.get("items", True)
        prefix = schema.get("prefixItems", ()) if self._draft >= 2020 else items if isinstance(items, list) else ()
        rest = items if self._draft >= 2020 or not isinstance(items, list) else schema.get("additionalItems", True)
        told = "items" in schema if self._draft >= 2020 or not prefix else "additionalItems" in schema
        for index, item in enumerate(value):
            if index < len(prefix) or told:
                each = prefix[index] if index < len(prefix) else rest
                yield Seen(items=frozenset([index])) if self._holds(each, item) else None
        if "contains" in schema and self._draft >= 6:
            met = [index for index, item in enumerate(value) if self._holds(schema["contains"], item)]
            minimum, maximum = 1, len(met)
            if self._draft >= 2019:
                minimum, maximum = schema.get("minContains", 1), schema.get("maxContains", len(met))
            # In 2019-09 unevaluatedItems reads the annotations of items, additionalItems and unevaluatedItems alone.
            counted = frozenset(met) if self._draft >= 2020 else frozenset[int]()
            yield Seen(items=counted) if minimum <= len(met) <= maximum else None

    def _members(self, schema: Any, value: dict[str, Any]) -> Iterable[Seen | None]:
        for name, member in value.items():
            rules = [schema["properties"][name]] if name in schema.get("properties", {}) else []
            rules += [each for regex, each in schema.get("patternProperties", {}).items() if re.search(regex, name)]
            if not rules and "additionalProperties" in schema:
                rules = [schema["additionalProperties"]]
            for each in rules:
                yield Seen(frozenset([name])) if self._holds(each, member) else None
            if self._draft >= 6 and not self._holds(schema.get("propertyNames", True), name):
                yield None

    def _unevaluated(self, schema: Any, value: Any, seen: Seen) -> Seen | None:
        if isinstance(value, list) and "unevaluatedItems" in schema:
            rest = [item for index, item in enumerate(value) if index not in seen.items]
            held = all(self._holds(schema["unevaluatedItems"], item) for item in rest)
            return Seen(seen.names, frozenset(range(len(value)))) if held else None
        if isinstance(value, dict) and "unevaluatedProperties" in schema:
            others = [member for name, member in value.items() if name not in seen.names]
            held = all(self._holds(schema["unevaluatedProperties"], member) for member in others)
            return Seen(frozenset(value), seen.items) if held else None
        return seen


def _repeats(value: list[Any]) -> bool:
    return any(same(value[i], value[j]) for i in range(len(value)) for j in range(i))


def _all(parts: Iterable[Seen]) -> Seen:
    parts = [*parts]
    return Seen(
        frozenset(name for part in parts for name in part.names),
        frozenset(index for part in parts for index in part.items),
    )
