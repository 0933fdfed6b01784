"""`\\p{...}`: the general categories, as this Python's `unicodedata` knows them, and all else as `regex` does."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any

from structgen.regular.regex.charsets import ANY, LAST, Ranges, union

_NAME = re.compile(r"[A-Za-z0-9_ &-]+(=[A-Za-z0-9_ -]+)?")


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

    if not _NAME.fullmatch(name):
        return None
    try:
        return regex.compile(rf"\p{{{name}}}+")
    except regex.error:
        return None
