"""The languages of numbers and strings: normal form in, `CharDfa` or literals out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from structgen.automaton.chardfa import CharDfa, from_pattern, intersect, length, literals
from structgen.automaton.formats import format_dfa
from structgen.automaton.numbers import number_dfa
from structgen.schema.normal import Numbers, Strings

_DIGITS_ALONE = r"^-?(0|[1-9]\d*)$"


@lru_cache(1024)
def number_language(numbers: Numbers) -> CharDfa:
    """All JSON spellings of the numbers in the set."""
    if numbers.plain:
        return intersect(number_dfa(replace(numbers, plain=False)), from_pattern(_DIGITS_ALONE))
    return number_dfa(numbers)


@lru_cache(1024)
def constraints_language(strings: Strings) -> CharDfa | None:
    """The language of the patterns and formats alone; None when there are none."""
    parts = [from_pattern(pattern) for pattern in strings.patterns]
    parts += [dfa for dfa in map(format_dfa, strings.formats) if dfa is not None]
    language: CharDfa | None = None
    for part in parts:
        language = part if language is None else intersect(language, part)
    return language


@lru_cache(1024)
def uncapped_language(strings: Strings) -> tuple[CharDfa, int | None]:
    """The strings that satisfy all but `max_length`, and the longest length that is still to be enforced."""
    if strings.literals is not None:
        return literals(list(allowed_literals(strings))), None
    language, most = constraints_language(strings), strings.max_length
    if language is None:
        return length(strings.min_length), most
    if language.empty:
        return language, None
    shortest, longest = language.length_range()
    if shortest < strings.min_length:
        language = intersect(language, length(strings.min_length))
    return language, None if longest is not None and most is not None and longest <= most else most


def string_language(strings: Strings) -> CharDfa:
    """All strings that satisfy `strings`."""
    language, most = uncapped_language(strings)
    return language if most is None else intersect(language, length(0, most))


def allowed_literals(strings: Strings) -> tuple[str, ...]:
    """The literals that satisfy the other fields too."""
    assert strings.literals is not None
    language = constraints_language(strings)
    most = strings.max_length if strings.max_length is not None else 1 << 60
    return tuple(
        text
        for text in strings.literals
        if strings.min_length <= len(text) <= most and (language is None or language.matches(text))
    )


def is_free(strings: Strings) -> bool:
    """True when nothing but the length is restricted."""
    return strings.literals is None and constraints_language(strings) is None


def string_is_empty(strings: Strings) -> bool:
    """True when no string satisfies `strings`."""
    if strings.literals is not None:
        return not allowed_literals(strings)
    if is_free(strings):
        return strings.max_length is not None and strings.max_length < strings.min_length
    language, most = uncapped_language(strings)
    return language.empty or (most is not None and language.length_range()[0] > most)
