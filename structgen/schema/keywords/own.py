"""Keywords about the value itself and its parts; one function each (see `facts.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from structgen.regular.quotes import quotation_of
from structgen.schema.keywords.arguments import TYPES
from structgen.schema.keywords.facts import Facts
from structgen.schema.leaves import literal_shapes
from structgen.schema.normal import NEVER, Contains, Named, Numbers, Strings
from structgen.schema.scalars import FREE_STRINGS, counted_class, exact

_PLAIN_INTEGERS = Numbers(integer=True, plain=True)


# In any schema.


def type_(facts: Facts, value: Any) -> None:
    facts.types &= TYPES[value] if isinstance(value, str) else sum(TYPES[name] for name in value)


def type_4(facts: Facts, value: Any) -> None:
    """In draft 4 `1.0` is not an integer."""
    type_(facts, value)
    facts.integers = _PLAIN_INTEGERS


def enum(facts: Facts, value: Any) -> None:
    facts.factors.append(literal_shapes(value, facts.pointer_to("enum")))


def const(facts: Facts, value: Any) -> None:
    facts.factors.append(literal_shapes((value,), facts.pointer_to("const")))


# Numbers.


@lru_cache(maxsize=4096)
def _bound(field: str, value: int | float, exclusive: bool) -> Numbers:
    return Numbers(**{field: exact(value), f"exclusive_{field}": exclusive})  # type: ignore[arg-type]


def minimum(facts: Facts, value: Any) -> None:
    facts.numbers["minimum"] = _bound("minimum", value, False)


def maximum(facts: Facts, value: Any) -> None:
    facts.numbers["maximum"] = _bound("maximum", value, False)


def exclusive_minimum(facts: Facts, value: Any) -> None:
    facts.numbers["exclusive_minimum"] = _bound("minimum", value, True)


def exclusive_maximum(facts: Facts, value: Any) -> None:
    facts.numbers["exclusive_maximum"] = _bound("maximum", value, True)


def exclusive_minimum_4(facts: Facts, value: Any) -> None:
    if value and "minimum" in facts.schema:  # one may be left out to see what refuses a text
        facts.numbers["exclusive_minimum"] = _bound("minimum", facts.schema["minimum"], True)


def exclusive_maximum_4(facts: Facts, value: Any) -> None:
    if value and "maximum" in facts.schema:  # one may be left out to see what refuses a text
        facts.numbers["exclusive_maximum"] = _bound("maximum", facts.schema["maximum"], True)


def multiple_of(facts: Facts, value: Any) -> None:
    facts.numbers["multiple"] = Numbers(multiples=(exact(value),))


# Strings.


def min_length(facts: Facts, value: Any) -> None:
    facts.strings["min_length"] = max(int(value), facts.strings.get("min_length", 0))


def max_length(facts: Facts, value: Any) -> None:
    facts.strings["max_length"] = min(int(value), facts.strings.get("max_length", int(value)))


def pattern(facts: Facts, value: Any) -> None:
    counted = counted_class(value)
    if counted is None:
        facts.strings["patterns"] = (value,)
        return
    facts.strings["patterns"] = counted.patterns
    min_length(facts, counted.min_length)
    max_length(facts, counted.max_length)


def format_(facts: Facts, value: Any) -> None:
    if facts.reader.formats:
        facts.strings["formats"] = (value,)


def quote(facts: Facts, value: Any) -> None:
    facts.strings["quotes"] = (quotation_of(value),)


# Arrays.


def items(facts: Facts, value: Any) -> None:
    """Up to 2019-09 an array here is what 2020-12 calls prefixItems."""
    if isinstance(value, list):
        facts.arrays["prefix"] = facts.children("items", value)
    else:
        facts.arrays["rest"] = facts.child("items", value)


def prefix_items(facts: Facts, value: Any) -> None:
    facts.arrays["prefix"] = facts.children("prefixItems", value)


def additional_items(facts: Facts, value: Any) -> None:
    """Has no effect unless `items` is an array."""
    if isinstance(facts.schema.get("items"), list):
        facts.arrays["rest"] = facts.child("additionalItems", value)


def min_items(facts: Facts, value: Any) -> None:
    facts.arrays["min_items"] = int(value)


def max_items(facts: Facts, value: Any) -> None:
    facts.arrays["max_items"] = int(value)


def unique_items(facts: Facts, value: Any) -> None:
    if value:
        facts.arrays["unique"] = True


def contains(facts: Facts, value: Any) -> None:
    """From 2019-09 on `minContains` and `maxContains` may appear next to it."""
    minimum, maximum = 1, None
    if facts.reader.dialect(facts.schema).number >= 2019:
        minimum, maximum = int(facts.schema.get("minContains", 1)), facts.schema.get("maxContains")
    if minimum or maximum is not None:
        maximum = None if maximum is None else int(maximum)
        facts.arrays["contains"] = (Contains(facts.child("contains", value), minimum, maximum),)


# Objects.


def properties(facts: Facts, value: Any) -> None:
    facts.objects["properties"] = value
    facts.home = len(facts.factors)


def required(facts: Facts, value: Any) -> None:
    facts.objects["required"] = dict.fromkeys(value)


def additional_properties(facts: Facts, value: Any) -> None:
    facts.objects["rest"] = None if value is False else facts.child("additionalProperties", value)


def pattern_properties(facts: Facts, value: Any) -> None:
    _add_patterns(
        facts,
        [
            Named(Strings(patterns=(pattern,)), facts.reader.node(schema, (facts.place, "patternProperties", pattern)))
            for pattern, schema in value.items()
        ],
    )


def property_names(facts: Facts, value: Any) -> None:
    """A member is impossible where its name does not satisfy the schema."""
    strings = [shape.strings for shape in facts.branch(value, "propertyNames").shapes if shape.strings]
    if FREE_STRINGS not in strings:
        _add_patterns(facts, [Named(Strings(without=tuple(strings)), NEVER)])


def _add_patterns(facts: Facts, patterns: list[Named]) -> None:
    if patterns:
        facts.objects["patterns"] = (*facts.objects.get("patterns", ()), *patterns)


def min_properties(facts: Facts, value: Any) -> None:
    facts.objects["min_properties"] = int(value)


def max_properties(facts: Facts, value: Any) -> None:
    facts.objects["max_properties"] = int(value)
