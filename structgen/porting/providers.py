"""What the structured output of each provider takes of JSON Schema, as data.

OpenAI: "Supported schemas" of its guide on structured outputs, strict mode. Anthropic: "JSON Schema limitations" of its
guide, and the formats of its own SDK. Gemini: the reference of `responseJsonSchema`. Mistral lists none: what its SDK
sends in strict mode, and what the engine it names (llguidance) enforces. As of October 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_NUMBERS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_COUNTS = frozenset(("minItems", "maxItems"))
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_SCALARS = frozenset(("string", "number", "boolean", "null"))


@dataclass(frozen=True, slots=True)
class Provider:
    """What one provider takes.

    Attributes:
        keywords: that restrict values, next to the ones every provider has (`type`, `enum`, `anyOf`, `$ref`,
            `properties`, `required`, `additionalProperties`, `items`).
        formats: the values of `format` that it enforces.
        enums: the JSON types of the values of an `enum`.
        closed: must every object have `additionalProperties: false`?
        required: must every member be required? What may be missing is then written as null.
        root_object: must the whole be an object, and no union?
        recursive: may a schema refer to itself?
        typed: must every schema say its type, so that none takes any JSON?
        at_most: the greatest argument of a keyword; a greater one becomes this.
        pattern_without: a regular expression for what a `pattern` must not have.
        limits: the most `members`, `levels` of objects, `values` of enums, `characters` of names and values, members
            that are `optional`, and `unions`.
    """

    keywords: frozenset[str]
    formats: frozenset[str]
    enums: frozenset[str] = _SCALARS
    closed: bool = True
    required: bool = False
    root_object: bool = True
    recursive: bool = True
    typed: bool = True
    at_most: Mapping[str, int] = field(default_factory=dict)
    pattern_without: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)


PROVIDERS = {
    "openai": Provider(
        keywords=_NUMBERS | _COUNTS | {"pattern", "format"},
        formats=_FORMATS,
        required=True,
        limits={"members": 5000, "levels": 10, "values": 1000, "characters": 120_000},
    ),
    "anthropic": Provider(
        keywords=frozenset(("minItems", "pattern", "format")),
        formats=_FORMATS | {"uri"},
        recursive=False,
        at_most={"minItems": 1},
        pattern_without=r"\(\?(?!:)|\\[1-9bBk]",
        limits={"optional": 24, "unions": 16},
    ),
    "gemini": Provider(
        keywords=_COUNTS | {"minimum", "maximum", "prefixItems", "format"},
        formats=frozenset(("date-time", "date", "time")),
        enums=frozenset(("string", "number")),
        closed=False,
        root_object=False,
        typed=False,
    ),
    "mistral": Provider(
        keywords=_NUMBERS | _COUNTS | {"minLength", "maxLength", "prefixItems", "pattern", "format"},
        formats=_FORMATS | {"uri"},
        typed=False,
    ),
}
