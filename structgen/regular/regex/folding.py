"""Letters that differ only in case, by Unicode's simple case folding."""

from __future__ import annotations

from functools import cache, lru_cache

from structgen.regular.regex.charsets import LAST, Ranges, union


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
