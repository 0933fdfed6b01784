"""Every keyword that this release knows, and how it enforces it: the one table, in drafts 4 to 2020-12.

Adding a keyword is adding a function to `facts.py` and a row here. The page of keyword support is generated
from `KEYWORDS`. A keyword that no row of a draft names is an annotation there, as the standard says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structgen.schema import checks, facts

Apply = Callable[[facts.Facts, Any], None]

MASKED = "masked"
ANNOTATION = "annotation"
STRUCTURE = "structure"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword, as some span of drafts defines it.

    Attributes:
        how: `masked` (no wrong token can be chosen), `annotation` (restricts nothing), `structure` (names and
            finds schemas), `refused` (`UnsupportedSchema`, unless the argument restricts nothing).
        check: whether the argument is well formed.
        apply: writes what the argument says; None when it says nothing about values.
        children: where the schemas in the argument stand: `one`, `list`, `map`, or several of these.
        since, until: the first and the last draft that knows it, by number.
    """

    name: str
    how: str
    check: checks.Check
    apply: Apply | None = None
    children: tuple[str, ...] = ()
    since: int = 4
    until: int = 2020


def _one(name: str, how: str, apply: Apply | None = None, **drafts: int) -> Keyword:
    return Keyword(name, how, checks.subschema, apply, ("one",), **drafts)


def _map(name: str, how: str, apply: Apply | None = None, **drafts: int) -> Keyword:
    return Keyword(name, how, checks.named_subschemas, apply, ("map",), **drafts)


def _list(name: str, how: str, apply: Apply | None = None, **drafts: int) -> Keyword:
    return Keyword(name, how, checks.subschemas, apply, ("list",), **drafts)


def _is_true(schema: dict[str, Any], value: Any) -> bool:
    return value is True or value == {}


def _is_nothing(schema: dict[str, Any], value: Any) -> bool:
    return not value


def _refused_one(name: str, harmless: Callable[[dict[str, Any], Any], bool], **drafts: int) -> Keyword:
    return Keyword(name, REFUSED, checks.refused(checks.subschema, harmless), None, ("one",), **drafts)


def _refused_map(name: str, check: checks.Check, **drafts: int) -> Keyword:
    return Keyword(name, REFUSED, checks.refused(check, _is_nothing), None, ("map",), **drafts)


def _lacks(*names: str) -> Callable[[dict[str, Any], Any], bool]:
    return lambda schema, value: not any(name in schema for name in names)


_ANY_SCHEMA = (
    Keyword("type", MASKED, checks.type_names, facts.type_4, until=4),
    Keyword("type", MASKED, checks.type_names, facts.type_, since=6),
    Keyword("enum", MASKED, checks.distinct_json_values, facts.enum, until=4),
    Keyword("enum", MASKED, checks.json_values, facts.enum, since=6),
    Keyword("const", MASKED, checks.json_value, facts.const, since=6),
)

_NUMBERS = (
    Keyword("minimum", MASKED, checks.number, facts.minimum),
    Keyword("maximum", MASKED, checks.number, facts.maximum),
    Keyword("exclusiveMinimum", MASKED, checks.exclusive_flag("minimum"), facts.exclusive_minimum_4, until=4),
    Keyword("exclusiveMaximum", MASKED, checks.exclusive_flag("maximum"), facts.exclusive_maximum_4, until=4),
    Keyword("exclusiveMinimum", MASKED, checks.number, facts.exclusive_minimum, since=6),
    Keyword("exclusiveMaximum", MASKED, checks.number, facts.exclusive_maximum, since=6),
    Keyword("multipleOf", REFUSED, checks.refused(checks.positive)),
)

_STRINGS = (
    Keyword("minLength", MASKED, checks.count, facts.min_length),
    Keyword("maxLength", MASKED, checks.count, facts.max_length),
    Keyword("pattern", MASKED, checks.pattern, facts.pattern),
    Keyword("format", MASKED, checks.format_name, facts.format_),
)

_ARRAYS = (
    Keyword("items", MASKED, checks.subschema_or_list, facts.items, ("one", "list"), until=2019),
    Keyword("items", MASKED, checks.items, facts.items, ("one",), since=2020),
    _list("prefixItems", MASKED, facts.prefix_items, since=2020),
    Keyword(
        "additionalItems", MASKED, checks.subschema_or_flag, facts.additional_items, ("one",), until=2019
    ),
    Keyword("minItems", MASKED, checks.count, facts.min_items),
    Keyword("maxItems", MASKED, checks.count, facts.max_items),
    Keyword("uniqueItems", REFUSED, checks.refused(checks.flag, _is_nothing)),
    _refused_one(
        "contains",
        lambda schema, value: schema.get("minContains") == 0 and "maxContains" not in schema,
        since=6,
    ),
    Keyword("minContains", ANNOTATION, checks.count, since=2019),
    Keyword("maxContains", ANNOTATION, checks.count, since=2019),
    _refused_one("unevaluatedItems", _is_true, since=2019),
)

_OBJECTS = (
    _map("properties", MASKED, facts.properties),
    Keyword("required", MASKED, checks.some_names, facts.required, until=4),
    Keyword("required", MASKED, checks.names, facts.required, since=6),
    Keyword("additionalProperties", MASKED, checks.subschema_or_flag, facts.additional_properties, ("one",)),
    Keyword("minProperties", MASKED, checks.least_members, facts.min_properties),
    Keyword("maxProperties", MASKED, checks.count, facts.max_properties),
    _refused_map("patternProperties", checks.named_subschemas),
    _refused_one("propertyNames", _is_true, since=6),
    _refused_map("dependencies", checks.dependencies_4, until=4),
    _refused_map("dependencies", checks.dependencies, since=6),
    Keyword("dependentRequired", REFUSED, checks.refused(checks.dependent_names, _is_nothing), since=2019),
    _refused_map("dependentSchemas", checks.named_subschemas, since=2019),
    _refused_one("unevaluatedProperties", _is_true, since=2019),
)

_COMBINATORS = (
    Keyword("$ref", MASKED, checks.reference, facts.ref),
    _list("allOf", MASKED, facts.all_of),
    _list("anyOf", MASKED, facts.any_of),
    Keyword("oneOf", MASKED, checks.one_of, facts.one_of, ("list",)),
    _refused_one("not", lambda schema, value: value is False),
    _refused_one("if", _lacks("then", "else"), since=7),
    _refused_one("then", _lacks("if"), since=7),
    _refused_one("else", _lacks("if"), since=7),
    Keyword("$dynamicRef", REFUSED, checks.refused(checks.text), since=2020),
    Keyword("$recursiveRef", REFUSED, checks.refused(checks.text), since=2019),
)

_STRUCTURE = (
    Keyword("$schema", STRUCTURE, checks.text),
    Keyword("id", STRUCTURE, checks.identifier, until=4),
    Keyword("$id", STRUCTURE, checks.identifier, since=6, until=7),
    Keyword("$id", STRUCTURE, checks.identifier_2019, since=2019),
    Keyword("$anchor", STRUCTURE, checks.anchor_2019, since=2019, until=2019),
    Keyword("$anchor", STRUCTURE, checks.anchor, since=2020),
    Keyword("$dynamicAnchor", STRUCTURE, checks.anchor, since=2020),
    Keyword("$recursiveAnchor", STRUCTURE, checks.flag, since=2019, until=2019),
    Keyword("$recursiveAnchor", STRUCTURE, checks.text, since=2020),
    Keyword("$vocabulary", STRUCTURE, checks.vocabulary, since=2019),
    _map("definitions", STRUCTURE),
    _map("$defs", STRUCTURE, since=2019),
)

_ANNOTATIONS = (
    Keyword("title", ANNOTATION, checks.text),
    Keyword("description", ANNOTATION, checks.text),
    Keyword("examples", ANNOTATION, checks.listing, since=6),
    Keyword("$comment", ANNOTATION, checks.text, since=7),
    Keyword("readOnly", ANNOTATION, checks.flag, since=7),
    Keyword("writeOnly", ANNOTATION, checks.flag, since=2019),
    Keyword("deprecated", ANNOTATION, checks.flag, since=2019),
    Keyword("contentMediaType", ANNOTATION, checks.text, since=7),
    Keyword("contentEncoding", ANNOTATION, checks.text, since=7),
    _one("contentSchema", ANNOTATION, since=2019),
)

KEYWORDS: tuple[Keyword, ...] = (
    *_ANY_SCHEMA,
    *_NUMBERS,
    *_STRINGS,
    *_ARRAYS,
    *_OBJECTS,
    *_COMBINATORS,
    *_STRUCTURE,
    *_ANNOTATIONS,
)
