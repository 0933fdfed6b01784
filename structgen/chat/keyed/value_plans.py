"""Values that are not written as JSON, as parts of a composition: strings without quotes, and arrays and objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from structgen.chat.arguments import Raw
from structgen.chat.json_values import only, types_of
from structgen.chat.keyed.nested import ESCAPES, LITERALS, SCALAR_WORDS, Elements, Nested
from structgen.chat.literals import Literals, optional
from structgen.chat.spellings import loosened
from structgen.errors import UnsupportedSchema
from structgen.parts.parts import Either, JsonValue, Loop, Plan, Series, Skips, Unordered, Words, mapped
from structgen.parts.special import Fixed
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, length, literals, tidied, union
from structgen.regular.substrings import quote_language
from structgen.regular.texts import escaped, free_text
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Arrays, Node, Objects, Shape, Strings
from structgen.values.names import Outline
from structgen.values.sets.strings import string_predicate, uncapped_language

MAX_DEPTH = 4
"""The largest nesting depth of arrays and objects. Each level of a schema is expanded into parts."""
FREE_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
"""The names that undeclared members may have."""

SPELLED = {
    "number": r"^\s*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$",
    "boolean": r"^\s*([Tt]rue|[Ff]alse)\s*$",
    "null": r"^\s*(null|None)\s*$",
    "array": r"^\s*\[",
    "object": r"^\s*\{",
}
"""JSON type -> the texts that would be read as a value of this type. If an argument also takes values of the type, no
string of the argument may look like this."""


def raw_strings(
    shapes: Sequence[Shape], writer: Raw, behind: str, types: Sequence[str], *, padded: bool = False
) -> list[Plan]:
    """Returns the strings of a schema that can be written without quotes and read back.

    Args:
        writer: how strings are written. No string has a character that the template changes or drops.
        behind: the text that ends a string. No string contains it.
        types: the JSON types of the same argument. No string looks like a value of another of these types. For example,
            `12` is not a string if the argument may be a number.
        padded: may there be a line break before and after a string? Then one at each end does not belong to it.
    """
    sets = tuple(shape.strings for shape in shapes if shape.strings is not None)
    kept = _strings.__wrapped__ if any(strings.quotes for strings in sets) else _strings  # sources come and go
    texts = kept(sets, writer, behind, tuple(types))
    plans: list[Plan] = []
    if writer.wrap is not None:
        opening, closing = writer.wrap
        plans.append(Series((Fixed(opening), kept(sets, Raw(), closing, ("string",)), Fixed(closing))))
    if not padded or _free(sets):  # any text is a free string, with line breaks or without
        return plans if texts.language.empty else [*plans, texts]
    line = _words(("\n",))
    for first, last in ((True, True), (True, False), (False, True), (False, False)):
        bare = ("" if first else r"(?!\n)", "" if last else r"(^$|[^\n]$)")
        inner = kept(sets, writer, behind, tuple(types), bare)
        if not inner.language.empty:
            plans.append(Series((*((line,) if first else ()), inner, *((line,) if last else ()))))
    return plans


def _free(sets: Sequence[Strings]) -> bool:
    """May a string be any text?"""
    free = [uncapped_language(strings) for strings in sets if not strings.quotes]
    return any(language.everything and longest is None for language, longest in free)


def _language(strings: Strings, told: str) -> tuple[CharDfa, int | None]:
    """Returns a set of strings, and the longest length that is still to be enforced.

    Args:
        told: says which kind of strings it is.

    Raises:
        UnsupportedSchema: no automaton can hold it. MissingSource: it quotes, and there is no source.
    """
    bare = replace(strings, quotes=())
    if string_predicate(bare) is not None:
        raise UnsupportedSchema(f"{told} whose pattern or format no automaton can hold")
    language, longest = uncapped_language(bare)
    for quotation in strings.quotes:
        language = intersect(language, quote_language(quotation))
    return language, longest


@lru_cache(256)
def _strings(
    sets: tuple[Strings, ...], writer: Raw, behind: str, types: tuple[str, ...], edges: tuple[str, str] = ("", "")
) -> Words:
    """Returns the part of these strings. Arguments that take the same strings share the part, and so its states.

    Args:
        edges: patterns of how a string begins and ends; empty for any.
    """
    combined: CharDfa | None = None
    longest = 0
    for strings in sets:
        language, max_length = _language(strings, "a string without quotes, in the model's call format,")
        combined = language if combined is None else union(combined, language)
        longest = -1 if max_length is None or longest < 0 else max(longest, max_length)
    bounds = [free_text((), [escaped(text) for text in (behind, *writer.without) if text], 0)]
    bounds += [from_pattern(f"^{edges[0]}")] if edges[0] else []
    bounds += [from_pattern(edges[1])] if edges[1] else []
    if writer.trimmed:
        bounds.append(from_pattern(r"^(\S([\s\S]*\S)?)?$"))
    bounds += [complement(from_pattern(SPELLED[type_])) for type_ in types if type_ != "string"]
    language = intersect(*bounds) if combined is None else intersect(combined, *bounds)
    return Words(language, None if longest < 0 else longest, value=True)


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
        """Returns the values of a schema; None if the format cannot write one, or all are nested too deeply."""
        plans: list[Plan | None] = []
        for shape in shapes:
            words = scalar_words([shape], {"null": self._writer, "boolean": self._writer})
            plans += [] if words is None else [words]
            if shape.numbers is not None:
                plans.append(_numbers(shape))
            if shape.strings is not None:
                plans.append(self._string(shape, types_of(shapes)))
            if depth < MAX_DEPTH and shape.arrays is not None:
                plans.append(self._array(shape.arrays, depth))
            if depth < MAX_DEPTH and shape.objects is not None:
                plans.append(self._object(shape.objects, depth))
        written = tuple(plan for plan in plans if plan is not None)
        return Either(written) if written else None

    def _string(self, shape: Shape, types: Sequence[str]) -> Plan:
        """Returns the strings of a shape. `types`: the JSON types that may appear in its place."""
        if self._writer.escaped:
            assert shape.strings is not None
            made = _quoted_strings.__wrapped__ if shape.strings.quotes else _quoted_strings
            return made(shape.strings)
        opening, closing = self._writer.string
        without = self._writer.without | {text for text in (self._behind,) if text}
        words = raw_strings([shape], Raw(frozenset(without)), closing, ["string"])
        return Series((self._literal.plan(opening), Either(tuple(words)), self._literal.plan(closing)))

    def _array(self, arrays: Arrays, depth: int) -> Plan | None:
        if not arrays.only("prefix", "rest", "min_items", "max_items"):
            raise UnsupportedSchema(
                "contains, uniqueItems and similar rules: the model's call format does not write arrays as JSON"
            )
        opening, separator, closing = map(self._loose, self._writer.array)
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

    def _object(self, objects: Objects, depth: int) -> Plan | None:
        if not objects.only("properties", "rest", "patterns"):
            raise UnsupportedSchema(
                "minProperties and similar rules: the model's call format does not write objects as JSON"
            )
        opening, separator, closing = map(self._loose, self._writer.object)
        rules = Outline(objects, Algebra())
        members = [(member, rules.member(i)) for i, member in enumerate(objects.properties)]
        members = [(member, node) for member, node in members if member.declared or member.required]
        if not members:
            free = self._free_members(rules, depth)
            return Series((opening, Loop(free, 0, None, separator), closing)) if free else Series((opening, closing))
        entries = []
        for member, node in members:
            value = self._value(node.shapes, depth + 1)
            if value is not None:
                begun = {
                    before + member.name.encode(): Series((behind, value)) for before, behind in self._around_names
                }
                entries.append((begun, member.required))
            elif member.required:
                raise _too_deep()
        between = Unordered(tuple(entries), self._before_name, separator) if entries else Series(())
        return Series((opening, between, closing))

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
                for quote, behind in self._around_names:
                    begun = (_words((quote.decode(),)),) if quote else ()
                    plans.append(Series((self._before_name, *begun, Words(names), behind, value)))
        return Either(tuple(plans)) if plans else None

    @cached_property
    def _before_name(self) -> Plan:
        before = self._writer.key[0]
        return Series(()) if self._writer.escaped or not before else self._literal.plan(before)

    @cached_property
    def _around_names(self) -> list[tuple[bytes, Plan]]:
        """The quote before a member's name, and the plan after the name: in Python with either quote."""
        behind = self._writer.key[1]
        if not self._writer.escaped:
            return [(b"", self._loose(behind))]
        return [(quote.encode(), Series((_words((quote,)), self._loose(behind[1:])))) for quote in "\"'"]

    def _loose(self, text: str) -> Plan:
        return self._literal.spelling(loosened(text))


class ElementPlans(NestedPlans):
    """Makes parts from the schemas of arrays and objects that are written as elements."""

    def __init__(self, writer: Elements, literal: Literals) -> None:
        self._elements = writer
        mark = writer.opening.rpartition("<")[0] or writer.opening
        super().__init__(LITERALS, literal, mark)

    def _string(self, shape: Shape, types: Sequence[str]) -> Plan:
        return Either(tuple(raw_strings([shape], Raw(), self._behind, types)))

    def _array(self, arrays: Arrays, depth: int) -> Plan | None:
        if not arrays.only("rest", "min_items", "max_items") or arrays.rest is None:
            raise UnsupportedSchema("prefixItems and similar rules: the model's call format writes arrays as elements")
        item = self._value(arrays.rest.shapes, depth + 1)
        if item is None:
            return None
        before, behind = self._tags(self._elements.item)
        return Loop(Series((before, item, behind)), arrays.min_items, arrays.max_items)

    def _object(self, objects: Objects, depth: int) -> Plan | None:
        if not objects.only("properties", "rest", "patterns"):
            raise UnsupportedSchema(
                "minProperties and similar rules: the model's call format does not write objects as JSON"
            )
        rules = Outline(objects, Algebra())
        entries = []
        for place, member in enumerate(objects.properties):
            value = self._value(rules.member(place).shapes, depth + 1)
            if value is not None:
                end = self._literal.plan(self._elements.end)
                plan = Series((end, value, self._tags(member.name)[1]))
                entries.append(({member.name.encode(): plan}, member.required))
            elif member.required:
                raise _too_deep()
        if not entries and any(rules.other(marks) is not None for marks in rules.marks_of_others()):
            return None  # a name is in two tags, and no mask can tell that it is the same
        return Unordered(tuple(entries), self._loose(self._elements.opening)) if entries else Series(())

    def _tags(self, name: str) -> tuple[Plan, Plan]:
        """Returns the tags around an element of this name."""
        before = self._literal.spelling(loosened(self._elements.opening + name + self._elements.end, behind=False))
        behind = self._literal.spelling(
            loosened(self._elements.closing + name + self._elements.end, before=False, behind=False)
        )
        return before, behind


def _too_deep() -> UnsupportedSchema:
    reasons = f"arrays and objects more than {MAX_DEPTH} deep, or objects whose members have any name, as elements"
    return UnsupportedSchema(f"the model's call format cannot write all values: {reasons}")


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


def scalar_words(shapes: Sequence[Shape], writers: Mapping[str, Any]) -> Plan | None:
    """Returns the spellings of the booleans and of null in a schema; None if it has none of them.

    Args:
        writers: JSON type -> how a format writes it. Of a writer with words of its own, these are spellings, too.
    """
    given = {
        "true": any(shape.true for shape in shapes) and "boolean" in writers,
        "false": any(shape.false for shape in shapes) and "boolean" in writers,
        "null": any(shape.null for shape in shapes) and "null" in writers,
    }
    words = dict(SCALAR_WORDS)
    for writer in writers.values():
        words |= writer.words if isinstance(writer, Nested) else {}
    texts = tuple(dict.fromkeys(text for text, meant in words.items() if given[meant]))
    return _words(texts) if texts else None


@lru_cache(256)
def _quoted_strings(strings: Strings) -> Plan:
    """Returns strings as literals of Python: in either quote, with escapes."""
    language, longest = _language(strings, "a string as a literal of Python")
    if longest is not None and longest <= _COUNTED:
        language, longest = intersect(language, length(0, longest)), None
    return Either(
        tuple(
            Series((_words((quote,)), Words(python_escaped(language, quote), longest, value=True), _words((quote,))))
            for quote in "\"'"
        )
    )


_COUNTED = 200
"""Up to this length, the characters of a literal of Python are counted without its escapes."""


JSON_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
"""The letter after a backslash in JSON -> the character that is meant."""


def json_escaped(language: CharDfa) -> CharDfa:
    """Returns the texts between the quotes of JSON, of the strings in a language. Control characters without a letter
    of their own are in none."""
    return _escaped(language, JSON_ESCAPES, {ord('"'), *range(0x20)})


def python_escaped(language: CharDfa, quote: str) -> CharDfa:
    """Returns the texts between two quotes that are literals of Python, of the strings in a language."""
    return _escaped(language, ESCAPES, {ord(quote), 0x0A, 0x0D})


def spelled_texts(texts: Plan, spell: Callable[[CharDfa], CharDfa]) -> Plan:
    """Returns the texts of a grammar in another spelling, which is given for the automata over its characters."""
    spelled = cache(spell)

    @cache
    def skipped(skips: Skips) -> Skips:
        return Skips(tuple(map(spelled, skips.languages)))

    def change(plan: Plan) -> Plan:
        if not isinstance(plan, Words):
            return plan
        return replace(plan, language=spelled(plan.language), skips=plan.skips and skipped(plan.skips))

    return mapped(texts, change)


def _escaped(language: CharDfa, letters: Mapping[str, str], never: set[int]) -> CharDfa:
    """Returns the spellings of the strings in a language.

    Args:
        letters: the letter after a backslash -> the character that is meant.
        never: the characters that are in no spelling as they are.
    """
    escapes = {ord(letter): ord(meant) for letter, meant in letters.items()}
    alone = sorted({*never, 0x5C, *escapes, *escapes.values()})
    starts = sorted({*language.bounds.tolist(), *alone, *(code + 1 for code in alone)})
    kinds = {
        start: int(language.classes[np.searchsorted(language.bounds, start, side="right") - 1]) for start in starts
    }
    own = {code: int(language.classes.max()) + 1 + n for n, code in enumerate(alone)}
    classes = np.array([own.get(start, kinds[start]) for start in starts], np.int32)
    count = len(language.next)
    table = np.zeros((2 * count - 1, int(language.classes.max()) + 1 + len(alone)), np.int32)
    table[:count, : language.next.shape[1]] = language.next
    for code in alone:
        table[:count, own[code]] = language.next[:, kinds[code]]
    for code in never:
        table[:count, own[code]] = 0
    behind = np.arange(count, dtype=np.int32) + count - 1  # the state after the backslash in each state
    table[1:count, own[0x5C]] = behind[1:]
    for letter, meant in escapes.items():
        table[count:, own[letter]] = language.next[1:, kinds[meant]]
    table[0] = 0
    return tidied(np.array(starts, np.int32), classes, table, (*language.final, *[0] * (count - 1)))


def _numbers(shape: Shape) -> JsonValue:
    """Returns the numbers of a schema, as JSON writes them."""
    return JsonValue(Node("", lambda: (only(shape, "number"),)), plain=True)
