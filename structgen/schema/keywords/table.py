"""The table of all keywords of drafts 4 to 2020-12, and how each is enforced.

To add a keyword, add a function to `own.py` or `in_place.py` and a row here. The documentation's page of keywords is
generated from `KEYWORDS`. A keyword without a row in a draft is an annotation there, as the standard says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structgen.schema.keywords import arguments, in_place, own
from structgen.schema.keywords.facts import Facts

Apply = Callable[[Facts, Any], None]

MASKED = "masked"
ANNOTATION = "annotation"
STRUCTURE = "structure"
CHECKED = "checked"


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword, as consecutive drafts define it.

    Attributes:
        how: `masked` (no wrong token can be chosen), `checked` (when the value closes), `annotation`
            (restricts nothing), `structure` (names and finds schemas).
        check: raises `Malformed` where the argument is malformed. An annotation's is for `explain`.
        apply: writes what the argument says into the facts; None where it says nothing about values.
        children: how schemas are in the argument: `one`, `list`, `map`, or several of these.
        since, until: the first and the last draft that has it, by number.
        note: for users, how it is enforced.
    """

    name: str
    how: str
    check: arguments.ArgumentCheck
    apply: Apply | None = None
    children: tuple[str, ...] = ()
    since: int = 4
    until: int = 2020
    note: str = ""


def _one(name: str, how: str, apply: Apply | None = None, note: str = "", since: int = 4) -> Keyword:
    return Keyword(name, how, arguments.subschema, apply, ("one",), since, note=note)


def _map(name: str, how: str, apply: Apply | None = None, since: int = 4) -> Keyword:
    return Keyword(name, how, arguments.named_subschemas, apply, ("map",), since)


def _list(name: str, how: str, apply: Apply | None = None, note: str = "", since: int = 4) -> Keyword:
    return Keyword(name, how, arguments.subschemas, apply, ("list",), since, note=note)


_TOO_LARGE = "exact for decimals; multiples too large for an automaton are checked when the number ends"
_TOO_COMPLEX = "ECMA-262; look-around, back-references and too many states: checked at the closing quote"
_FORMATS = "those of the standard; regex and international host names are checked; unknown ones annotate"
_UNIQUE = "masked where items have few values; else an item that equals an earlier one may not end"
_MULTIPLIED = "checked at the closing bracket where the alternatives of one place would multiply beyond 64"

_EVALUATED = "what contains found is evaluated in 2020-12; in 2019-09 contains has no annotation to be read"
_INTEGERS = "integers in digits, as 5 or 5.0; never with an exponent, as 5e0"
_VALUES_4 = arguments.not_empty(arguments.json_values, "at least one value")
_NAMES_4 = arguments.not_empty(arguments.names, "at least one name")

_ANY_SCHEMA = (
    Keyword("type", MASKED, arguments.type_names, own.type_4, until=4),
    Keyword("type", MASKED, arguments.type_names, own.type_, since=6, note=_INTEGERS),
    Keyword("enum", MASKED, _VALUES_4, own.enum, until=4),
    Keyword("enum", MASKED, arguments.json_values, own.enum, since=6),
    Keyword("const", MASKED, arguments.json_value, own.const, since=6),
)

_NUMBERS = (
    Keyword("minimum", MASKED, arguments.number, own.minimum),
    Keyword("maximum", MASKED, arguments.number, own.maximum),
    Keyword("exclusiveMinimum", MASKED, arguments.exclusive_flag("minimum"), own.exclusive_minimum_4, until=4),
    Keyword("exclusiveMaximum", MASKED, arguments.exclusive_flag("maximum"), own.exclusive_maximum_4, until=4),
    Keyword("exclusiveMinimum", MASKED, arguments.number, own.exclusive_minimum, since=6),
    Keyword("exclusiveMaximum", MASKED, arguments.number, own.exclusive_maximum, since=6),
    Keyword("multipleOf", MASKED, arguments.multiple, own.multiple_of, note=_TOO_LARGE),
)

_QUOTED = "of structgen alone: a verbatim piece of `source=`; each character has one spelling, that of json.dumps"

_STRINGS = (
    Keyword("minLength", MASKED, arguments.count, own.min_length),
    Keyword("maxLength", MASKED, arguments.count, own.max_length),
    Keyword("pattern", MASKED, arguments.pattern, own.pattern, note=_TOO_COMPLEX),
    Keyword("format", MASKED, arguments.text, own.format_, note=_FORMATS),
    Keyword("x-quote", MASKED, arguments.quote, own.quote, note=_QUOTED),
)

_ARRAYS = (
    Keyword("items", MASKED, arguments.subschema_or_list, own.items, ("one", "list"), until=2019),
    Keyword("items", MASKED, arguments.items, own.items, ("one",), since=2020),
    _list("prefixItems", MASKED, own.prefix_items, since=2020),
    Keyword("additionalItems", MASKED, arguments.subschema_or_flag, own.additional_items, ("one",), until=2019),
    Keyword("minItems", MASKED, arguments.count, own.min_items),
    Keyword("maxItems", MASKED, arguments.count, own.max_items),
    Keyword("uniqueItems", CHECKED, arguments.flag, own.unique_items, note=_UNIQUE),
    Keyword("contains", MASKED, arguments.contained, own.contains, ("one",), since=6),
    Keyword("minContains", MASKED, arguments.count, since=2019),
    Keyword("maxContains", MASKED, arguments.count, since=2019),
    _one("unevaluatedItems", MASKED, note=_EVALUATED, since=2019),
)

_OBJECTS = (
    Keyword("properties", MASKED, arguments.named_subschemas, own.properties, ("map",)),
    Keyword("required", MASKED, _NAMES_4, own.required, until=4),
    Keyword("required", MASKED, arguments.names, own.required, since=6),
    Keyword("additionalProperties", MASKED, arguments.subschema_or_flag, own.additional_properties, ("one",)),
    Keyword("minProperties", MASKED, arguments.count, own.min_properties),
    Keyword("maxProperties", MASKED, arguments.count, own.max_properties),
    Keyword("patternProperties", MASKED, arguments.patterned_subschemas, own.pattern_properties, ("map",)),
    _one("propertyNames", MASKED, own.property_names, since=6),
    Keyword("dependencies", MASKED, arguments.dependencies_4, in_place.dependencies, ("map",), until=4),
    Keyword("dependencies", MASKED, arguments.dependencies, in_place.dependencies, ("map",), since=6),
    Keyword("dependentRequired", MASKED, arguments.dependent_names, in_place.dependent_required, since=2019),
    _map("dependentSchemas", MASKED, in_place.dependent_schemas, since=2019),
    _one("unevaluatedProperties", MASKED, since=2019),
)

_COMBINATORS = (
    Keyword("$ref", MASKED, arguments.reference, in_place.ref),
    _list("allOf", MASKED, in_place.all_of, _MULTIPLIED),
    _list("anyOf", MASKED, in_place.any_of, _MULTIPLIED),
    _list("oneOf", MASKED, in_place.one_of, _MULTIPLIED),
    Keyword("not", MASKED, arguments.negated, in_place.not_, ("one",), note=_MULTIPLIED),
    _one("if", MASKED, in_place.if_, _MULTIPLIED, since=7),
    _one("then", MASKED, since=7),
    _one("else", MASKED, since=7),
    Keyword("$dynamicRef", MASKED, arguments.dynamic_reference, in_place.dynamic_ref, since=2020),
    Keyword("$recursiveRef", MASKED, arguments.recursive_reference, in_place.recursive_ref, since=2019, until=2019),
)

_ANCHOR = arguments.anchor(r"[A-Za-z_][-A-Za-z0-9._]*", "a letter or _, then letters, digits, '-', '_' and '.'")
_ANCHOR_2019 = arguments.anchor(r"[A-Za-z][-A-Za-z0-9.:_]*", "a letter, then letters, digits, '-', '_', ':' and '.'")

_STRUCTURE = (
    Keyword("$schema", STRUCTURE, arguments.text),
    Keyword("id", STRUCTURE, arguments.identifier, until=4),
    Keyword("$id", STRUCTURE, arguments.identifier, since=6, until=7),
    Keyword("$id", STRUCTURE, arguments.identifier_2019, since=2019),
    Keyword("$anchor", STRUCTURE, _ANCHOR_2019, since=2019, until=2019),
    Keyword("$anchor", STRUCTURE, _ANCHOR, since=2020),
    Keyword("$dynamicAnchor", STRUCTURE, _ANCHOR, since=2020),
    Keyword("$recursiveAnchor", STRUCTURE, arguments.flag, since=2019, until=2019),
    Keyword("$recursiveAnchor", STRUCTURE, arguments.text, since=2020),
    Keyword("$vocabulary", STRUCTURE, arguments.vocabulary, since=2019),
    _map("definitions", STRUCTURE),
    _map("$defs", STRUCTURE, since=2019),
)

_ANNOTATIONS = (
    Keyword("$recursiveRef", ANNOTATION, arguments.text, since=2020),
    Keyword("title", ANNOTATION, arguments.text),
    Keyword("description", ANNOTATION, arguments.text),
    Keyword("examples", ANNOTATION, arguments.listing, since=6),
    Keyword("$comment", ANNOTATION, arguments.text, since=7),
    Keyword("readOnly", ANNOTATION, arguments.flag, since=7),
    Keyword("writeOnly", ANNOTATION, arguments.flag, since=2019),
    Keyword("deprecated", ANNOTATION, arguments.flag, since=2019),
    Keyword("contentMediaType", ANNOTATION, arguments.text, since=7),
    Keyword("contentEncoding", ANNOTATION, arguments.text, since=7),
    Keyword("contentSchema", ANNOTATION, arguments.unused_subschema, None, ("one",), 2019),
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
"""The JSON type of the values that a keyword restricts, for keywords that restrict one type."""


def speaks_of(keyword: str, kinds: int) -> bool:
    """Can a keyword restrict values of one of these JSON types, bits of `TYPES`?"""
    kind = SPEAKS_OF.get(keyword)
    return kind is None or bool(arguments.TYPES[kind] & kinds)


VALIDATION = frozenset(
    row.name
    for row in (*_ANY_SCHEMA, *_NUMBERS, *_STRINGS, *_ARRAYS, *_OBJECTS)
    if not row.children and row.name not in ("format", "dependencies")
)
"""Keywords that a dialect has only with the vocabulary "validation"."""
