"""The schemas that one value must satisfy, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from structgen.json_text.lexer import canonical
from structgen.json_text.pointers import escaped
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.schema.keywords.table import SPEAKS_OF

LOWER = ("minimum", "exclusiveMinimum", "minItems", "minLength", "minProperties")
UPPER = ("maximum", "exclusiveMaximum", "maxItems", "maxLength", "maxProperties")


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A schema that a value must satisfy, at a pointer, without some of its keywords."""

    schema: Any
    at: str
    without: frozenset[str] = frozenset()

    def get(self, keyword: str, default: Any = None) -> Any:
        return default if keyword in self.without else self.schema.get(keyword, default)

    def but(self, *keywords: str) -> Conjunct:
        return Conjunct(self.schema, self.at, self.without | {*keywords})

    def inner(self, schema: Any, *tokens: object) -> Conjunct:
        return Conjunct(schema, self.at + "".join(f"/{escaped(token)}" for token in tokens))


def have(parts: list[Conjunct], kind: str) -> bool:
    """Does a keyword of a part speak of this type?"""
    return any(SPEAKS_OF.get(key) == kind for part in parts for key in part.schema.keys() - part.without)


def kinds_of(parts: list[Conjunct]) -> set[str] | None:
    """The types that all parts allow; None where none says one."""
    kinds: set[str] | None = None
    for part in parts:
        said = part.get("type")
        if said is not None:
            own = {said} if isinstance(said, str) else set(said)
            own |= {"integer"} if "number" in own else set()
            kinds = own if kinds is None else kinds & own
    return kinds


def values_of(parts: list[Conjunct]) -> list[Any] | None:
    """The values that all `enum`s and `const`s of the parts list; None where there is no list."""
    lists = [part.get("enum") for part in parts if part.get("enum") is not None]
    lists += [[part.get("const")] for part in parts if "const" in part.schema and "const" not in part.without]
    if not lists:
        return None
    keys = [{canonical(value) for value in each} for each in lists[1:]]
    return [value for value in lists[0] if all(canonical(value) in each for each in keys)]


def member_of(part: Conjunct, name: str) -> list[Conjunct]:
    """What a part says about the member `name`."""
    said = [part.inner(part.get("properties")[name], "properties", name)] if name in part.get("properties", ()) else []
    for pattern, schema in part.get("patternProperties", {}).items():
        if _is_in(pattern, name):
            said.append(part.inner(schema, "patternProperties", pattern))
    return said or [part.inner(part.get("additionalProperties", True), "additionalProperties")]


def _is_in(pattern: str, name: str) -> bool:
    """Does an ECMA-262 pattern match somewhere in a name?"""
    predicate = pattern_predicate(pattern)
    return pattern_language(pattern).matches(name) if predicate is None else predicate(name)


def tuple_of(part: Conjunct, *, is_new: bool) -> tuple[list[Conjunct], Conjunct]:
    """The schemas of the first items, and that of the others. `is_new`: has the draft `prefixItems`?"""
    items = part.get("items", True)
    if isinstance(items, list):
        prefix, key, rest = items, "items", part.get("additionalItems", True)
    else:
        prefix, key, rest = part.get("prefixItems", []) if is_new else [], "prefixItems", items
    return [part.inner(each, key, i) for i, each in enumerate(prefix)], part.inner(rest, "items")


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """A portable schema that takes null, too."""
    kinds = schema.get("type")
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "anyOf" in schema:
        has = any(branch.get("type") == "null" for branch in schema["anyOf"])
        return schema if has else {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    listed = [kinds] if isinstance(kinds, str) else kinds or ["null"]
    if "null" in listed:
        return schema
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*listed, "null"], **values}
