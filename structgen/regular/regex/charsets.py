"""Sets of code points as sorted ranges: those that ECMA-262 names, their coarsest common partition, case folding.

`\\p{...}`: the general categories are those of this Python's `unicodedata`, all others those of the `regex` module.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

Ranges = tuple[tuple[int, int], ...]
"""Ascending, disjoint, non-adjacent `(first, last)` pairs; both ends belong to the set."""

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
ANY: Ranges = ((0, LAST),)


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The code points in any of `ranges`, which may overlap and come in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def negation(ranges: Ranges) -> Ranges:
    """The code points that are not in `ranges`."""
    gaps = []
    start = 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def contains(ranges: Ranges, code: int) -> bool:
    """Whether a code point is in the set."""
    index = bisect_right(ranges, (code, LAST + 1)) - 1
    return index >= 0 and code <= ranges[index][1]


def _code_points(text: str) -> Ranges:
    return union((ord(char), ord(char)) for char in text)


DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACES: Ranges = union((*_code_points("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), (0x2000, 0x200A)))
LINE_ENDS: Ranges = _code_points("\n\r\u2028\u2029")
NOT_LINE_END: Ranges = negation(LINE_ENDS)

CLASS_ESCAPES: dict[str, Ranges] = {
    "d": DIGITS,
    "D": negation(DIGITS),
    "w": WORD,
    "W": negation(WORD),
    "s": SPACES,
    "S": negation(SPACES),
}


def partition(sets: Sequence[Ranges]) -> tuple[list[int], list[int], list[list[int]]]:
    """Split the code points into the fewest classes such that each set is a union of classes.

    Class 0 holds the surrogates, which are never text, and the code points that are in no set.

    Returns:
        The first code points of the intervals, ascending from 0; the class of each interval; and the classes of each
        set.
    """
    dead = 1 << len(sets)
    toggles: dict[int, int] = {0: 0, SURROGATES[0]: dead, SURROGATES[1] + 1: dead}
    for index, ranges in enumerate(sets):
        bit = 1 << index
        for low, high in ranges:
            toggles[low] = toggles.get(low, 0) ^ bit
            toggles[high + 1] = toggles.get(high + 1, 0) ^ bit
    toggles.pop(LAST + 1, None)
    bounds: list[int] = []
    classes: list[int] = []
    known, mask = {0: 0}, 0  # by hand: a `Numbering` takes a quarter more time here
    for start in sorted(toggles):
        mask ^= toggles[start]
        current = 0 if mask & dead else known.setdefault(mask, len(known))
        if not classes or classes[-1] != current:
            bounds.append(start)
            classes.append(current)
    return bounds, classes, _members(known, len(sets))


def _members(known: dict[int, int], count: int) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(count)]
    for mask, current in known.items():
        while mask:
            bit = mask & -mask
            members[bit.bit_length() - 1].append(current)
            mask ^= bit
    return members


def simple_fold(char: str) -> str:
    """The same character for all characters that differ only in case (ECMA-262's Canonicalize with `iu`)."""
    full = char.casefold()
    if len(full) == 1:
        return full
    # A letter that folds to several has a simple folding only where its lower case is another letter
    lower = char.lower()
    return lower if len(lower) == 1 else char


@cache
def _siblings() -> tuple[tuple[int, ...], ...]:
    """Every set of two or more code points that fold alike."""
    groups: dict[str, list[int]] = {}
    for code in range(LAST + 1):
        char = chr(code)
        if char.casefold() != char or char.upper() != char:
            groups.setdefault(simple_fold(char), []).append(code)
    return tuple(tuple(codes) for codes in groups.values() if len(codes) > 1)


@lru_cache(1024)
def folded(ranges: Ranges) -> Ranges:
    """`ranges` and all characters that differ from one of theirs only in case."""
    more = list(ranges)
    for codes in _siblings():
        if any(low <= code <= high for code in codes for low, high in ranges):
            more += [(code, code) for code in codes]
    return union(more)


_PROPERTY = re.compile(r"[A-Za-z0-9_ &-]+(=[A-Za-z0-9_ -]+)?")


@cache
def _categories() -> dict[str, Ranges]:
    """The code points of each two-letter category, found by one pass over all of them."""
    runs: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != current:
            runs.setdefault(current, []).append((start, code - 1))
            start, current = code, category
    return {name: tuple(ranges) for name, ranges in runs.items()}


@cache
def property_ranges(name: str) -> Ranges | None:
    """The set that `\\p{name}` stands for; None for an unknown property.

    `name` is a General_Category, short or long, alone or after `gc=` or `General_Category=`; or `Any`, `ASCII` or
    `Assigned`; or a script (`Script=`, `Script_Extensions=`), a binary property or a block by any name that the `regex`
    module has for it.
    """
    key, _, value = name.rpartition("=")
    if not key and name in ("Any", "ASCII"):
        return ANY if name == "Any" else ((0, 0x7F),)
    if key not in ("", "gc", "General_Category"):
        return _other_property(name)
    categories = _categories()
    if not key and name == "Assigned":
        wanted = [short for short in categories if short != "Cn"]
    else:
        wanted = [short for short in categories if value and short.startswith(value)] or _named_categories(value)
    return union(pair for short in wanted for pair in categories[short]) if wanted else _other_property(name)


def _named_categories(name: str) -> list[str]:
    """The categories with a long name (`Letter` has five), as the `regex` module knows them; empty for another name."""
    pattern = _compiled(f"gc={name}")
    first = {short: chr(ranges[0][0]) for short, ranges in _categories().items()}
    return [short for short, char in first.items() if pattern is not None and pattern.match(char)]


def _other_property(name: str) -> Ranges | None:
    """The characters with a property, as the `regex` module finds them in a text of all code points."""
    pattern = _compiled(name)
    everything = "".join(map(chr, range(LAST + 1)))
    return pattern and tuple((match.start(), match.end() - 1) for match in pattern.finditer(everything))


def _compiled(name: str) -> Any:
    """The pattern `\\p{name}+` of the `regex` module; None where it knows no such property."""
    import regex

    if not _PROPERTY.fullmatch(name):
        return None
    try:
        return regex.compile(rf"\p{{{name}}}+")
    except regex.error:
        return None
