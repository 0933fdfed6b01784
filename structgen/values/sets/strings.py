"""Sets of strings with all fields of the normal form: patterns, formats, lengths, literals, sets that are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from structgen.memo import kept_in, schema_cache
from structgen.patience import check_patience
from structgen.regular.chardfa import (
    LANGUAGES,
    CharDfa, combine, intersect, length, less, literals, tidied,
)  # fmt: skip
from structgen.regular.formats import FORMATS, format_language
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.substrings import substrings
from structgen.errors import LimitExceeded
from structgen.schema.normal import Listed, Strings
from structgen.regular.regex.counted import COUNTED_SPAN, FEW_COUNTED
from structgen.schema.scalars import FIELDS, fits

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT_LIMIT = 10_000
"""A set with more members is not counted."""
CAPPED_LIMIT = 100_000
"""States of a `string_language` with the greatest length in it; where more are needed, a predicate counts."""
_FEW = 1_000
_PLAIN = re.compile(r"\^([^\\^$.*+?()\[\]{}|]*)\$")
"""Patterns that one text has."""
MANY = 100
"""From this number of texts on, texts are tested side by side."""


@kept_in(LANGUAGES)
def _parts(strings: Strings) -> list[tuple[CharDfa, Callable[[str], bool] | None]]:
    """The language of each pattern and format, and its predicate: whether a member matches; None: each one does."""
    strings.check_only("string_language", *FIELDS)
    patterns = [(pattern_language(pattern), pattern_predicate(pattern)) for pattern in strings.patterns]
    return patterns + [(format_language(name), FORMATS[name].predicate) for name in strings.formats if name in FORMATS]


@kept_in(LANGUAGES)
def _constraints(strings: Strings) -> tuple[CharDfa, bool]:
    """The language of the patterns and formats without what is left out; is it exact?"""
    language, exact = length(), not strings.quotes
    for part, test in _parts(strings):
        exact = exact and test is None
        try:
            language = part if language.everything else intersect(language, part)
        except LimitExceeded:
            exact = False
    for other in strings.without:
        try:
            language, exact = less(language, exact, string_language(other), known=string_predicate(other) is None)
        except LimitExceeded:
            exact = False
    return language, exact


def uncapped_language(strings: Strings) -> tuple[CharDfa, int | None]:
    """The strings that satisfy all but `max_length`, and the longest length that is still to be enforced.

    A superset where there is an `uncapped_predicate`, else exact.
    """
    return _language(strings)[:2]


@kept_in(LANGUAGES)
def _language(strings: Strings) -> tuple[CharDfa, int | None, bool]:
    """The language, the longest length still to be enforced, and whether both together are exact."""
    check_patience()
    if strings.literals is not None:
        return literals(allowed_literals(strings)), None, True
    (language, exact), maximum = _constraints(strings), _longest(strings)
    if language.everything:
        return length(strings.min_length), maximum, exact
    if language.empty:
        return language, None, True
    if strings.min_length or maximum is not None:
        language, maximum = _bounded(language, strings.min_length, maximum)
    if not exact and count_members(language, _FEW, maximum) is not None:
        capped = language if maximum is None else intersect(language, length(0, maximum))
        few = [text for text in members(capped, _FEW) or () if string_holds(strings, text)]
        return literals(few), None, True
    return language, maximum, exact


def _bounded(language: CharDfa, minimum: int, maximum: int | None) -> tuple[CharDfa, int | None]:
    """`language` from the length `minimum` on, and the longest length that is still to be enforced.

    A short `maximum` is held by the language too: it has a state for each length up to `minimum` anyway. With a counter
    next to them each length would have a mask of its own, which costs three times as much.
    """
    shortest, longest = language.length_range()
    if maximum is not None and longest is not None and longest <= maximum:
        maximum = None
    if shortest >= minimum:
        return language, maximum
    states = len(language.final) * (maximum or 0)
    if maximum is not None and 1 < minimum <= maximum <= minimum * COUNTED_SPAN and states <= FEW_COUNTED:
        return intersect(language, length(minimum, maximum)), None
    return intersect(language, length(minimum)), maximum


def _longest(strings: Strings) -> int | None:
    """The least of the upper bounds on the length."""
    bounds = [strings.max_length, *(FORMATS[name].longest for name in strings.formats if name in FORMATS)]
    return min((bound for bound in bounds if bound is not None), default=None)


@kept_in(LANGUAGES)
def string_language(strings: Strings) -> CharDfa:
    """All strings that satisfy `strings`; a superset where there is a `string_predicate`."""
    if _counted(strings):
        return length(strings.min_length, strings.max_length)
    language, longest = uncapped_language(strings)
    if longest is None or not _capped(language, longest):
        return language
    return intersect(language, length(0, longest), limit=CAPPED_LIMIT)


@schema_cache(1024)
def string_predicate(strings: Strings) -> Callable[[str], bool] | None:
    """Decides whether a member of `string_language` satisfies `strings`; None: each one does."""
    if _counted(strings):
        return None
    language, longest, exact = _language(strings)
    return None if exact and (longest is None or _capped(language, longest)) else partial(string_holds, strings)


@schema_cache(1024)
def uncapped_predicate(strings: Strings) -> Callable[[str], bool] | None:
    """Decides whether a member of `uncapped_language` within its length satisfies `strings`; None: each one does."""
    return None if _language(strings)[2] else partial(string_holds, strings)


def jointly_capped(sets: Sequence[Strings]) -> tuple[list[CharDfa], list[Callable[[str], bool] | None], int | None]:
    """A language and its predicate for each set, and the longest length that is still to be enforced for all.

    The sets with the greatest bound leave it to a counter, if no other set has a longer text.
    """
    caps = [uncapped_language(each)[1] for each in sets]
    maximum = max((cap for cap in caps if cap is not None), default=None)
    counted = [cap is not None and cap == maximum for cap in caps]
    if maximum is None or not all(
        by or _within(string_language(s), maximum) for s, by in zip(sets, counted, strict=True)
    ):
        counted, maximum = [False] * len(sets), None
    languages = [uncapped_language(s)[0] if by else string_language(s) for s, by in zip(sets, counted, strict=True)]
    tests = [uncapped_predicate(s) if by else string_predicate(s) for s, by in zip(sets, counted, strict=True)]
    return languages, tests, maximum


def _within(language: CharDfa, maximum: int) -> bool:
    longest = 0 if language.empty else language.length_range()[1]
    return longest is not None and longest <= maximum


@kept_in(LANGUAGES)
def doubted_language(strings: Strings) -> CharDfa:
    """`uncapped_language` with the mask 1 for members, and 3 where the predicate may say no."""
    language = uncapped_language(strings)[0]
    alone = strings.formats and strings == Strings(strings.min_length, strings.max_length, formats=strings.formats[:1])
    doubts = FORMATS[strings.formats[0]].doubts if alone else None
    if doubts is None:
        return replace(language, final=tuple(3 if final else 0 for final in language.final))
    both = combine([language, doubts()])
    return tidied(both.bounds, both.classes, both.next, [final if final & 1 else 0 for final in both.final])


def _counted(strings: Strings) -> bool:
    """Is only the length restricted, and short enough for an automaton to count?"""
    return strings.free and (strings.max_length or 0) <= CAPPED_LIMIT // 2 - 2


def _capped(language: CharDfa, longest: int) -> bool:
    """May `string_language` hold the greatest length?"""
    return len(language.final) * (longest + 2) <= CAPPED_LIMIT


def string_holds(strings: Strings, text: str) -> bool:
    """Whether `text` satisfies `strings`: the definition."""
    if not fits(text, strings.min_length, _longest(strings)):
        return False
    if strings.literals is not None and text not in strings.literals:
        return False
    if not all(language.matches(text) and (test is None or test(text)) for language, test in _parts(strings)):
        return False
    if not all(quotation.holds(text) for quotation in strings.quotes):
        return False
    return not any(string_holds(other, text) for other in strings.without)


def allowed_literals(strings: Strings) -> Listed[str]:
    """The literals that satisfy the other fields too."""
    assert strings.literals is not None
    texts, others = _narrowed(strings, strings.literals)
    if others == Strings():
        return strings.literals if texts is strings.literals else Listed(texts)
    return Listed(compress(texts, strings_hold(others, texts)))


def _narrowed(strings: Strings, literals: Listed[str]) -> tuple[Sequence[str], Strings]:
    """The literals, and what they must satisfy. A pattern that only one text has leaves that one, and is satisfied."""
    for pattern in strings.patterns:
        if (plain := _PLAIN.fullmatch(pattern)) is not None:
            others = replace(
                strings, literals=None, patterns=tuple(each for each in strings.patterns if each != pattern)
            )
            return [plain[1]] if plain[1] in literals else [], others
    return literals, replace(strings, literals=None)


def strings_hold(strings: Strings, texts: Sequence[str]) -> NDArray[np.bool_]:
    """`string_holds` of each text. Many texts are read side by side."""
    if strings.literals is not None or len(texts) < MANY:
        return np.fromiter((string_holds(strings, text) for text in texts), np.bool_, len(texts))
    longest = _longest(strings)
    holds = np.fromiter((fits(text, strings.min_length, longest) for text in texts), np.bool_, len(texts))
    for language, test in _parts(strings):
        holds &= language.matches_each(texts)
        if test is not None:
            holds[holds] = [test(texts[i]) for i in np.flatnonzero(holds)]
    for quotation in strings.quotes:
        holds[holds] = [quotation.holds(texts[i]) for i in np.flatnonzero(holds)]
    for other in strings.without:
        holds &= ~strings_hold(other, texts)
    return holds


def is_free(strings: Strings) -> bool:
    """True when nothing but the length is restricted."""
    if strings.free or strings.literals is not None:
        return strings.free
    language, exact = _constraints(strings)
    return exact and language.everything


def string_is_empty(strings: Strings) -> bool:
    """True when no string satisfies `strings`. False also where a large set that is not regular may be empty."""
    if strings.literals is not None:
        texts, others = _narrowed(strings, strings.literals)
        return not any(string_holds(others, text) for text in texts)
    if any(quotation.source is not None and substrings(quotation).empty for quotation in strings.quotes):
        return True
    if is_free(strings):
        return strings.max_length is not None and strings.max_length < strings.min_length
    language, longest = uncapped_language(strings)
    return language.empty or (longest is not None and language.length_range()[0] > longest)


@schema_cache(1024)
def string_count(strings: Strings) -> int | None:
    """How many strings satisfy `strings`; None when infinite, unknown or above `COUNT_LIMIT`."""
    if strings.literals is not None:
        return len(set(allowed_literals(strings)))
    language, longest, exact = _language(strings)
    return count_members(language, COUNT_LIMIT, longest) if exact else None


def count_members(dfa: CharDfa, limit: int, longest: int | None = None) -> int | None:
    """How many members there are, at most `longest` code points long; None when infinite or more than `limit`."""
    if longest is None:
        longest = 0 if dfa.empty else dfa.length_range()[1]
        if longest is None:
            return None
    sizes = np.bincount(
        dfa.classes, np.diff(dfa.bounds.astype(np.float64), append=0x110000), minlength=dfa.next.shape[1]
    )
    sizes[0] = 0
    heads, columns = np.nonzero(dfa.next)
    tails, weights = dfa.next[heads, columns], sizes[columns]
    accepts = np.array(dfa.final) != 0
    paths = np.zeros(len(dfa.final))
    paths[1] = 1
    total = float(accepts[1])
    for _ in range(longest):
        # Clipped: numbers beyond the limit do not matter, and floats are exact below it
        paths = np.minimum(np.bincount(tails, paths[heads] * weights, minlength=paths.size), limit + 1)
        total += float(paths[accepts].sum())
        if total > limit:
            return None
        if not paths.any():
            break
    return int(total)


def members(dfa: CharDfa, limit: int) -> list[str] | None:
    """All members, shorter ones first; None when there are infinitely many or more than `limit`."""
    if count_members(dfa, limit) is None:
        return None
    highs = [*(dfa.bounds[1:] - 1).tolist(), 0x10FFFF]
    intervals = list(zip(dfa.bounds.tolist(), highs, dfa.classes.tolist(), strict=True))
    texts: list[str] = []
    level = [("", 1)] if not dfa.empty else []
    while level:
        texts += [text for text, state in level if dfa.final[state]]
        level = [
            (text + chr(code), int(dfa.next[state, kind]))
            for text, state in level
            for low, high, kind in intervals
            if dfa.next[state, kind]
            for code in range(low, high + 1)
        ]
    return texts
