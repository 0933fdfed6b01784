"""Strings in arguments that are not written as JSON: without quotes, or as literals of Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from structgen.chat.arguments import Raw
from structgen.chat.keyed.nested import ESCAPES
from structgen.chat.reading import Event, Happens, Role, Told
from structgen.parts.parts import Either, Loop, Plan, RegularPart, Series, Skips, mapped
from structgen.parts.special import Fixed
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, length, literals, tidied, union
from structgen.regular.substrings import quote_language
from structgen.regular.texts import escaped, free_text
from structgen.schema.normal import Shape, Strings
from structgen.values.sets.strings import uncapped_language, uncapped_predicate

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


@lru_cache(256)
def words(texts: tuple[str, ...]) -> RegularPart:
    """Returns the part of these texts; the same object for the same texts, which many arguments share."""
    return RegularPart(literals(texts))


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
    line = words(("\n",))
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


def held(shapes: Sequence[Shape]) -> bool:
    """Can automata hold the strings of a schema?"""
    sets = [shape.strings for shape in shapes if shape.strings is not None]
    return all(uncapped_predicate(replace(strings, quotes=())) is None for strings in sets)


def _language(strings: Strings) -> tuple[CharDfa, int | None]:
    """Returns a set of strings, or more of them if they are not `held`; and the longest length that is still to be
    enforced.

    Raises:
        MissingSource: it quotes, and there is no source.
    """
    language, longest = uncapped_language(replace(strings, quotes=()))
    for quotation in strings.quotes:
        language = intersect(language, quote_language(quotation))
    return language, longest


@lru_cache(256)
def _strings(
    sets: tuple[Strings, ...], writer: Raw, behind: str, types: tuple[str, ...], edges: tuple[str, str] = ("", "")
) -> RegularPart:
    """Returns the part of these strings. Arguments that take the same strings share the part, and so its states.

    Args:
        edges: patterns of how a string begins and ends; empty for any.
    """
    combined: CharDfa | None = None
    longest = 0
    for strings in sets:
        language, max_length = _language(strings)
        combined = language if combined is None else union(combined, language)
        longest = -1 if max_length is None or longest < 0 else max(longest, max_length)
    bounds = [free_text((), [escaped(text) for text in (behind, *writer.without) if text], 0)]
    bounds += [from_pattern(f"^{edges[0]}")] if edges[0] else []
    bounds += [from_pattern(edges[1])] if edges[1] else []
    if writer.trimmed:
        bounds.append(from_pattern(r"^(\S([\s\S]*\S)?)?$"))
    bounds += [complement(from_pattern(SPELLED[type_])) for type_ in types if type_ != "string"]
    language = intersect(*bounds) if combined is None else intersect(combined, *bounds)
    return RegularPart(language, None if longest < 0 else longest, value=True)


@lru_cache(256)
def quoted_strings(strings: Strings) -> Plan:
    """Returns strings as literals of Python: in either quote, with escapes."""
    language, longest = _language(strings)
    if longest is not None and longest <= _COUNTED:
        language, longest = intersect(language, length(0, longest)), None
    return Either(
        tuple(
            Series(
                (words((quote,)), RegularPart(python_escaped(language, quote), longest, value=True), words((quote,)))
            )
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
        if not isinstance(plan, RegularPart):
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


def string(text: RegularPart) -> Plan:
    """Returns the plan of a reader for a string that is written as it is."""
    return Series((Event(Happens.JSON, '"'), Told(Role.STRING, text, lazy=True), Event(Happens.JSON, '"')))


@lru_cache(256)
def without(stop: str, types: tuple[str, ...] = (), beginning: str = "") -> RegularPart:
    """Returns the texts without this one, that look like no value of these types, and do not begin with this one."""
    unlike = [complement(from_pattern(SPELLED[type_])) for type_ in types]
    unlike += [complement(from_pattern(f"^{escaped(beginning)}"))] if beginning else []
    return RegularPart(intersect(free_text((), [escaped(stop)] if stop else [], 0), *unlike))


@lru_cache
def python_string(quote: str) -> Plan:
    """Returns the plan of a reader for a literal of Python."""
    mark, plain = Event(Happens.JSON, '"'), RegularPart(from_pattern(f"[^\\\\{quote}]", anchored=True))
    letter = Series((Told(Role.WORD, _ESCAPE), Event(Happens.CONVERTED, _unescaped)))
    letters = Loop(Either((Told(Role.STRING, plain), letter)), 0, None)
    return Series((Fixed(quote), mark, letters, Fixed(quote), mark))


_ESCAPE = RegularPart(from_pattern(r"\\(?:u[\s\S]{4}|x[\s\S]{2}|[^ux])", anchored=True))


def _unescaped(text: str) -> str:
    if text[1] in "ux":
        return "\\u" + text[2:].rjust(4, "0")
    return json.dumps(ESCAPES.get(text[1], text), ensure_ascii=False)[1:-1]
