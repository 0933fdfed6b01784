"""Patterns of numbers written as text: decimal digits within bounds.

Member names in JSON are strings, and so are Pydantic's decimals: where a validator reads a number from a string, its
bounds must be patterns. Numbers are in plain notation without leading zeros. Callers anchor the patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

_TAIL = r"(?:\.[0-9]+)?"
_ANY_WHOLE = "(?:0|[1-9][0-9]*)"
_MAX_PLACES = 40
NOTHING = r"[^\s\S]"
"""A pattern that no text matches."""
BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Pydantic's names of bounds, and the keywords of JSON Schema."""


def bounds_of(schema: Any) -> dict[str, Any]:
    """The bounds of a core schema, by Pydantic's names."""
    return {name: schema[name] for name in BOUNDS if schema.get(name) is not None}


def either(parts: list[str]) -> str:
    """One of some patterns; `NOTHING` where there is none."""
    if not parts:
        return NOTHING
    return parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")"


def first_differences(text: str, *, above: bool) -> Iterator[tuple[str, str]]:
    """The larger texts (or, not `above`, the smaller ones), by the first digit that is different.

    Yields a pattern that ends with that digit, and what `text` has behind it.
    """
    for n, digit in enumerate(text):
        if digit.isdigit() and digit != ("9" if above else "0"):
            yield text[:n] + (f"[{int(digit) + 1}-9]" if above else f"[0-{int(digit) - 1}]"), text[n + 1 :]


def beyond(text: str, *, above: bool) -> list[str]:
    """Patterns of the larger (or smaller) texts that have digits where `text` has digits, and are else equal to it."""
    return [start + re.sub("[0-9]", "[0-9]", rest) for start, rest in first_differences(text, above=above)]


def integers(low: int | None, high: int | None) -> str:
    """The integers from `low` to `high`, both included; None is no bound."""
    parts = []
    if low is None or low < 0:
        parts.append("-" + whole(max(1, -high) if high is not None else 1, None if low is None else -low))
    if high is None or high >= 0:
        parts.append(whole(max(0, low) if low is not None else 0, high))
    return either(parts)


def whole(low: int, high: int | None) -> str:
    """The integers from `low` >= 0 to `high`."""
    if high is None and low <= 1:
        return "[1-9][0-9]*" if low else _ANY_WHOLE
    if high is not None and low > high:
        return NOTHING
    first, last = str(low), str(high)
    size = len(first)
    if high is None:
        return either([_between(first, "9" * size), f"[1-9][0-9]{{{size},}}"])
    if size == len(last):
        return _between(first, last)
    parts = [_between(first, "9" * size), _between("1" + "0" * (len(last) - 1), last)]
    if len(last) - size > 1:
        parts.append(f"[1-9][0-9]{{{size},{len(last) - 2}}}")
    return either(parts)


def _between(low: str, high: str) -> str:
    """The integers from `low` to `high`, which have equally many digits."""
    if low == high:
        return low
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    first, last, low_rest, high_rest, parts = int(low[0]), int(high[0]), low[1:], high[1:], list[str]()
    if low_rest.strip("0"):
        parts += [f"{first}{part}" for part in (low_rest, *beyond(low_rest, above=True))]
        first += 1
    if high_rest.strip("9"):
        parts += [f"{last}{part}" for part in (high_rest, *beyond(high_rest, above=False))]
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}]" + "[0-9]" * len(low_rest))
    return either(parts)


def decimals(digits: int | None, places: int | None) -> str:
    """Plain decimals with at most `digits` digits in all and `places` of them after the point, zeros counted."""
    if digits is None:
        return f"-?{_ANY_WHOLE}{_TAIL if places is None else _fraction(places)}"
    if places is None:
        parts = ["0" + _fraction(digits)]
        parts += [f"[1-9][0-9]{{{n - 1}}}" + _fraction(digits - n) for n in range(1, digits + 1)]
    elif digits > places:
        parts = ["0" + _fraction(places), f"[1-9][0-9]{{0,{digits - places - 1}}}" + _fraction(places)]
    else:  # where only a 0 may stand before the point, Pydantic counts that 0
        parts = [rf"0\.0{{{n}}}[1-9][0-9]{{0,{digits - 1 - n}}}" for n in range(digits)]
    return "-?" + either(parts)


def _fraction(places: int) -> str:
    return rf"(?:\.[0-9]{{1,{min(places, _MAX_PLACES)}}})?" if places else ""


def within(bounds: Mapping[str, Decimal]) -> list[str]:
    """For each bound, by its name in Pydantic, the pattern of the plain decimals that keep it."""
    return [_side(bound, above=name[0] == "g", strict=name[1] == "t") for name, bound in bounds.items()]


def _side(bound: Decimal, *, above: bool, strict: bool) -> str:
    """The plain decimals above `bound` (or below it); without `strict`, `bound` too."""
    towards, away = ("", "-") if above else ("-", "")  # the signs of numbers far beyond the bound, and of all others
    size = bound if above else -bound
    if size < 0:
        return f"(?:{away}{_up_to(-size, strict)}|{towards}{_ANY_WHOLE}{_TAIL})"
    if size == 0 and not strict:
        return rf"(?:{towards}{_ANY_WHOLE}{_TAIL}|{away}0(?:\.0+)?)"
    return towards + _from(size, strict)


def _split(bound: Decimal) -> tuple[int, str]:
    """The digits before the point, and those behind it without zeros at the end."""
    before, _, behind = format(bound, "f").partition(".")
    return int(before), behind.rstrip("0")


def _from(bound: Decimal, strict: bool) -> str:
    """Decimals without a sign that are at least, or above, `bound` >= 0."""
    before, behind = _split(bound)
    parts = [whole(before + 1, None) + _TAIL]
    parts += [rf"{before}\.{start}[0-9]*" for start, _ in first_differences(behind, above=True)]
    if strict:
        parts.append(rf"{before}\.{behind}0*[1-9][0-9]*")
    else:
        parts.append(rf"{before}\.{behind}[0-9]*" if behind else f"{before}{_TAIL}")
    return either(parts)


def _up_to(bound: Decimal, strict: bool) -> str:
    """Decimals without a sign that are at most, or below, `bound` > 0."""
    before, behind = _split(bound)
    parts = [whole(0, before - 1) + _TAIL] if before else []
    parts += [rf"{before}\.{start}[0-9]*" for start, _ in first_differences(behind, above=False)]
    if behind:
        parts += [str(before), *(rf"{before}\.{behind[:n]}" for n in range(1, len(behind)))]
    if not strict:
        parts.append(rf"{before}\.{behind}0*" if behind else rf"{before}(?:\.0+)?")
    return either(parts)
