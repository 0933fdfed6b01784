"""Every keyword that this release knows, and how it enforces it: the one table, in drafts 4 to 2020-12.

Adding a keyword is adding a function to `own_keywords.py` or `in_place_keywords.py` and a row here. The page of
keyword support is generated from `KEYWORDS`. A keyword that no row of a draft names is an annotation there, as the
standard says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structgen.schema import checks, in_place_keywords, own_keywords
from structgen.schema.facts import Facts

Apply = Callable[[Facts, Any], None]

MASKED = "masked"
ANNOTATION = "annotation"
STRUCTURE = "structure"
CHECKED = "checked"


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword, as some span of drafts defines it.

    Attributes:
        how: `masked` (no wrong token can be chosen), `checked` (told when the value closes), `annotation`
            (restricts nothing), `structure` (names and finds schemas).
        check: whether the argument is well formed.
        apply: writes what the argument says; None when it says nothing about values.
        children: where the schemas in the argument stand: `one`, `list`, `map`, or several of these.
        since, until: the first and the last draft that knows it, by number.
        may_empty: may it leave a schema without any value, beside keywords of which that is not so? `inhabited` decides
            on its own only where no keyword may; some it looks at itself.
        note: what a user should know of how it is enforced.
    """

    name: str
    how: str
    check: checks.Check
    apply: Apply | None = None
    children: tuple[str, ...] = ()
    since: int = 4
    until: int = 2020
    note: str = ""
    may_empty: bool = True


def _one(name: str, how: str, apply: Apply | None = None, note: str = "", since: int = 4) -> Keyword:
    return Keyword(name, how, checks.subschema, apply, ("one",), since, note=note)


def _map(name: str, how: str, apply: Apply | None = None, since: int = 4) -> Keyword:
    return Keyword(name, how, checks.named_subschemas, apply, ("map",), since)


def _harmless(name: str, how: str, check: checks.Check, apply: Apply | None = None, **more: Any) -> Keyword:
    """A keyword that empties no schema, or only where `inhabited` sees it."""
    return Keyword(name, how, check, apply, **more, may_empty=False)


def _list(name: str, how: str, apply: Apply | None = None, note: str = "", since: int = 4) -> Keyword:
    return Keyword(name, how, checks.subschemas, apply, ("list",), since, note=note)


_MULTIPLIED = "checked at the closing bracket where the alternatives of one place would multiply beyond 64"

_ANY_SCHEMA = (
    _harmless("type", MASKED, checks.type_names, own_keywords.type_4, until=4),
    _harmless("type", MASKED, checks.type_names, own_keywords.type_, since=6),
    _harmless("enum", MASKED, checks.some_json_values, own_keywords.enum, until=4),
    _harmless("enum", MASKED, checks.json_values, own_keywords.enum, since=6),
    _harmless("const", MASKED, checks.json_value, own_keywords.const, since=6),
)

_NUMBERS = (
    _harmless("minimum", MASKED, checks.number, own_keywords.minimum),
    _harmless("maximum", MASKED, checks.number, own_keywords.maximum),
    Keyword("exclusiveMinimum", MASKED, checks.exclusive_flag("minimum"), own_keywords.exclusive_minimum_4, until=4),
    Keyword("exclusiveMaximum", MASKED, checks.exclusive_flag("maximum"), own_keywords.exclusive_maximum_4, until=4),
    Keyword("exclusiveMinimum", MASKED, checks.number, own_keywords.exclusive_minimum, since=6),
    Keyword("exclusiveMaximum", MASKED, checks.number, own_keywords.exclusive_maximum, since=6),
    Keyword(
        "multipleOf",
        MASKED,
        checks.multiple,
        own_keywords.multiple_of,
        note="exact for decimals; multiples too large for an automaton are checked when the number ends",
    ),
)

_STRINGS = (
    _harmless("minLength", MASKED, checks.count, own_keywords.min_length),
    _harmless("maxLength", MASKED, checks.count, own_keywords.max_length),
    Keyword(
        "pattern",
        MASKED,
        checks.pattern,
        own_keywords.pattern,
        note="ECMA-262; look-around, back-references and too many states: checked at the closing quote",
    ),
    _harmless(
        "format",
        MASKED,
        checks.text,
        own_keywords.format_,
        note="those of the standard; regex and international host names are checked; unknown ones annotate",
    ),
)

_ARRAYS = (
    _harmless("items", MASKED, checks.subschema_or_list, own_keywords.items, children=("one", "list"), until=2019),
    _harmless("items", MASKED, checks.items, own_keywords.items, children=("one",), since=2020),
    _list("prefixItems", MASKED, own_keywords.prefix_items, since=2020),
    _harmless(
        "additionalItems",
        MASKED,
        checks.subschema_or_flag,
        own_keywords.additional_items,
        children=("one",),
        until=2019,
    ),
    Keyword("minItems", MASKED, checks.count, own_keywords.min_items),
    _harmless("maxItems", MASKED, checks.count, own_keywords.max_items),
    _harmless(
        "uniqueItems",
        CHECKED,
        checks.flag,
        own_keywords.unique_items,
        note="masked where items have few values; else an item that equals an earlier one may not end",
    ),
    Keyword("contains", MASKED, checks.contained, own_keywords.contains, ("one",), since=6),
    Keyword("minContains", MASKED, checks.count, since=2019),
    _harmless("maxContains", MASKED, checks.count, since=2019),
    _one("unevaluatedItems", MASKED, since=2019),
)

_OBJECTS = (
    _harmless("properties", MASKED, checks.named_subschemas, own_keywords.properties, children=("map",)),
    _harmless("required", MASKED, checks.some_names, own_keywords.required, until=4),
    _harmless("required", MASKED, checks.names, own_keywords.required, since=6),
    _harmless(
        "additionalProperties", MASKED, checks.subschema_or_flag, own_keywords.additional_properties, children=("one",)
    ),
    Keyword("minProperties", MASKED, checks.count, own_keywords.min_properties),
    Keyword("maxProperties", MASKED, checks.count, own_keywords.max_properties),
    Keyword("patternProperties", MASKED, checks.patterned_subschemas, own_keywords.pattern_properties, ("map",)),
    _one("propertyNames", MASKED, own_keywords.property_names, since=6),
    Keyword("dependencies", MASKED, checks.dependencies_4, in_place_keywords.dependencies, ("map",), until=4),
    Keyword("dependencies", MASKED, checks.dependencies, in_place_keywords.dependencies, ("map",), since=6),
    Keyword("dependentRequired", MASKED, checks.dependent_names, in_place_keywords.dependent_required, since=2019),
    _map("dependentSchemas", MASKED, in_place_keywords.dependent_schemas, since=2019),
    _one("unevaluatedProperties", MASKED, since=2019),
)

_COMBINATORS = (
    Keyword("$ref", MASKED, checks.reference, in_place_keywords.ref),
    _list("allOf", MASKED, in_place_keywords.all_of, _MULTIPLIED),
    _list("anyOf", MASKED, in_place_keywords.any_of, _MULTIPLIED),
    _list("oneOf", MASKED, in_place_keywords.one_of, _MULTIPLIED),
    Keyword("not", MASKED, checks.negated, in_place_keywords.not_, ("one",), note=_MULTIPLIED),
    _one("if", MASKED, in_place_keywords.if_, _MULTIPLIED, since=7),
    _one("then", MASKED, since=7),
    _one("else", MASKED, since=7),
    Keyword("$dynamicRef", MASKED, checks.dynamic_reference, in_place_keywords.dynamic_ref, since=2020),
    Keyword(
        "$recursiveRef", MASKED, checks.recursive_reference, in_place_keywords.recursive_ref, since=2019, until=2019
    ),
)

_ANCHOR = checks.anchor(r"[A-Za-z_][-A-Za-z0-9._]*", "a letter or _, then letters, digits, '-', '_' and '.'")
_ANCHOR_2019 = checks.anchor(r"[A-Za-z][-A-Za-z0-9.:_]*", "a letter, then letters, digits, '-', '_', ':' and '.'")

_STRUCTURE = (
    Keyword("$schema", STRUCTURE, checks.text),
    Keyword("id", STRUCTURE, checks.identifier, until=4),
    Keyword("$id", STRUCTURE, checks.identifier, since=6, until=7),
    Keyword("$id", STRUCTURE, checks.identifier_2019, since=2019),
    Keyword("$anchor", STRUCTURE, _ANCHOR_2019, since=2019, until=2019),
    Keyword("$anchor", STRUCTURE, _ANCHOR, since=2020),
    Keyword("$dynamicAnchor", STRUCTURE, _ANCHOR, since=2020),
    Keyword("$recursiveAnchor", STRUCTURE, checks.flag, since=2019, until=2019),
    Keyword("$recursiveAnchor", STRUCTURE, checks.text, since=2020),
    Keyword("$vocabulary", STRUCTURE, checks.vocabulary, since=2019),
    _map("definitions", STRUCTURE),
    _map("$defs", STRUCTURE, since=2019),
)

_ANNOTATIONS = (
    Keyword("$recursiveRef", ANNOTATION, checks.text, since=2020),
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

SPEAKS_OF: dict[str, str] = {
    row.name: kind
    for kind, rows in (("number", _NUMBERS), ("string", _STRINGS), ("array", _ARRAYS), ("object", _OBJECTS))
    for row in rows
}
"""The JSON type of the values that a keyword restricts; those that restrict any value are not in it."""

VALIDATION = frozenset(
    row.name
    for row in (*_ANY_SCHEMA, *_NUMBERS, *_STRINGS, *_ARRAYS, *_OBJECTS)
    if not row.children and row.name not in ("format", "dependencies")
)
"""The keywords that a dialect has only with the vocabulary of validation."""
