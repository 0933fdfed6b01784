"""Values that are not written as JSON, as parts of a composition: strings without quotes, and arrays and objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from structgen.chat.arguments import Raw
from structgen.chat.json_values import only
from structgen.chat.keyed.nested import Nested
from structgen.chat.literals import Literals, optional
from structgen.errors import UnsupportedSchema
from structgen.parts.parts import Either, JsonValue, Loop, Plan, Series, Words
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, literals, union
from structgen.regular.string_sets import string_predicate, uncapped_language
from structgen.regular.texts import escaped, free_text
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Arrays, Node, Objects, Shape, Strings
from structgen.values.names import Outline

MAX_DEPTH = 4
"""The largest nesting depth of arrays and objects. Each level of a schema is expanded into parts."""
FREE_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
"""The names that undeclared members may have."""

_SPELLED = {
    "number": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    "boolean": "^([Tt]rue|[Ff]alse)$",
    "null": "^(null|None)$",
    "array": r"^\[",
    "object": r"^\{",
}
"""JSON type -> the texts that would be read as a value of this type. If an argument also takes values of the type, no
string of the argument may look like this."""


def raw_strings(shapes: Sequence[Shape], writer: Raw, behind: str, types: Sequence[str]) -> Words:
    """Returns the strings of a schema that can be written without quotes and read back.

    Args:
        writer: how strings are written. No string has a character that the template changes or drops.
        behind: the text that ends a string. No string contains it.
        types: the JSON types of the same argument. No string looks like a value of another of these types. For example,
            `12` is not a string if the argument may be a number.
    """
    return _strings(tuple(shape.strings for shape in shapes if shape.strings is not None), writer, behind, tuple(types))


@lru_cache(256)
def _strings(sets: tuple[Strings, ...], writer: Raw, behind: str, types: tuple[str, ...]) -> Words:
    """Returns the part of these strings. Arguments that take the same strings share the part, and so its states."""
    combined: CharDfa | None = None
    longest = 0
    for strings in sets:
        if string_predicate(strings) is not None:
            raise UnsupportedSchema(
                "a string without quotes, in the model's call format, whose pattern or format no automaton can hold"
            )
        language, max_length = uncapped_language(strings)
        combined = language if combined is None else union(combined, language)
        longest = -1 if max_length is None or longest < 0 else max(longest, max_length)
    bounds = [free_text((), [escaped(text) for text in (behind, *writer.without) if text], 0)]
    if writer.trimmed:
        bounds.append(from_pattern(r"^(\S([\s\S]*\S)?)?$"))
    bounds += [complement(from_pattern(_SPELLED[type_])) for type_ in types if type_ != "string"]
    language = intersect(*bounds) if combined is None else intersect(combined, *bounds)
    return Words(language, None if longest < 0 else longest)


class NestedPlans:
    """Makes parts of a composition from the schemas of arrays and objects.

    Args:
        behind: the text that ends the whole value. No string contains it.
    """

    def __init__(self, writer: Nested, literal: Literals, behind: str) -> None:
        self._writer, self._literal, self._behind = writer, literal, behind

    def values(self, shapes: Sequence[Shape], type_: str) -> list[Plan]:
        """Returns the values of one JSON type.

        Raises:
            UnsupportedSchema: a schema relates items or members to each other, as `uniqueItems` does.
        """
        plan = self._value([only(shape, type_) for shape in shapes], 0)
        return [] if plan is None else [plan]

    def _value(self, shapes: Sequence[Shape], depth: int) -> Plan | None:
        """Returns the values of a schema; None if all of them are nested too deeply."""
        plans: list[Plan] = []
        for shape in shapes:
            given = (shape.true, shape.false, shape.null)
            texts = [text for text, there in zip(self._writer.scalars, given, strict=True) if there]
            if texts:
                plans.append(_words(tuple(texts)))
            if shape.numbers is not None:
                plans.append(_numbers(shape))
            if shape.strings is not None:
                plans.append(self._string(shape))
            if depth < MAX_DEPTH and shape.arrays is not None:
                plans.append(self._array(shape.arrays, depth))
            if depth < MAX_DEPTH and shape.objects is not None:
                plans.append(self._object(shape.objects, depth))
        return Either(tuple(plans)) if plans else None

    def _string(self, shape: Shape) -> Plan:
        opening, closing = self._writer.string
        without = self._writer.without | {text for text in (self._behind,) if text}
        words = raw_strings([shape], Raw(frozenset(without)), closing, ["string"])
        return Series((self._literal.plan(opening), words, self._literal.plan(closing)))

    def _array(self, arrays: Arrays, depth: int) -> Plan:
        if not arrays.only("prefix", "rest", "min_items", "max_items"):
            raise UnsupportedSchema(
                "contains, uniqueItems and similar rules: the model's call format does not write arrays as JSON"
            )
        opening, separator, closing = map(self._literal.plan, self._writer.array)
        rest = None if arrays.rest is None else self._value(arrays.rest.shapes, depth + 1)
        prefix, minimum, maximum = arrays.prefix[: arrays.max_items], arrays.min_items, arrays.max_items
        count = len(prefix)
        if rest is None and minimum > count:
            raise _too_deep()
        after: Plan = Series(())
        if rest is not None and (maximum is None or maximum > count):
            bounds = max(0, minimum - count), None if maximum is None else maximum - count
            after = Loop(Series((separator, rest)), *bounds) if count else Loop(rest, *bounds, separator)
        for place in reversed(range(count)):
            item = self._value(prefix[place].shapes, depth + 1)
            if item is None:
                raise _too_deep()
            here = Series((separator, item, after) if place else (item, after))
            after = here if place < minimum else optional(here)
        return Series((opening, after, closing))

    def _object(self, objects: Objects, depth: int) -> Plan:
        if not objects.only("properties", "rest", "patterns"):
            raise UnsupportedSchema(
                "minProperties and similar rules: the model's call format does not write objects as JSON"
            )
        opening, separator, closing = map(self._literal.plan, self._writer.object)
        rules = Outline(objects, Algebra())
        members = [(member, rules.member(i)) for i, member in enumerate(objects.properties)]
        members = [(member, node) for member, node in members if member.declared or member.required]
        if not members:
            free = self._free_members(rules, depth)
            return Series((opening, Loop(free, 0, None, separator), closing)) if free else Series((opening, closing))
        if self._writer.sorted:
            members.sort(key=lambda each: each[0].name.lower())
        items = []
        for member, node in members:
            value = self._value(node.shapes, depth + 1)
            if value is not None:
                items.append((self._member(_words((member.name,)), value), member.required))
            elif member.required:
                raise _too_deep()
        return Series((opening, separated(items, separator), closing))

    def _free_members(self, rules: Outline, depth: int) -> Plan | None:
        """Returns the members of an object that declares none; None if there can be none."""
        plans: list[Plan] = []
        if rules.joint.doubtful:
            raise UnsupportedSchema("names of members, in the model's call format, that no automaton can hold")
        for marks in rules.marks_of_others():
            node = rules.other(marks)
            value = None if node is None else self._value(node.shapes, depth + 1)
            names = intersect(from_pattern(FREE_NAME), rules.others_language((marks,)))
            if value is not None and not names.empty:
                plans.append(self._member(Words(names), value))
        return Either(tuple(plans)) if plans else None

    def _member(self, name: Plan, value: Plan) -> Plan:
        before, behind = self._writer.key
        return Series((self._literal.plan(before), name, self._literal.plan(behind), value))


def _too_deep() -> UnsupportedSchema:
    return UnsupportedSchema(f"arrays and objects more than {MAX_DEPTH} deep in the model's call format")


@lru_cache(256)
def _words(texts: tuple[str, ...]) -> Words:
    """Returns the part of these texts; the same object for the same texts, which many arguments share."""
    return Words(literals(texts))


def separated(items: Sequence[tuple[Plan, bool]], separator: Plan) -> Plan:
    """Returns items in their order, with the separator between two of them.

    Args:
        items: pairs of a plan and whether it is required; a plan that is not required may be left out.
    """
    after: Plan = Series(())
    first: Plan = Series(())
    for plan, needed in reversed(items):
        begun = Series((plan, after))
        first = begun if needed else Either((begun, first))
        later = Series((separator, plan))
        after = Series((later if needed else optional(later), after))
    return first


def _numbers(shape: Shape) -> JsonValue:
    """Returns the numbers of a schema, as JSON writes them."""
    return JsonValue(Node("", lambda: (only(shape, "number"),)))
