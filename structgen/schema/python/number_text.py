"""Numbers as text: patterns of the decimal digits that lie within bounds.

JSON's member names are strings, and so are Pydantic's decimals: where a validator reads a number out of a string, the
bounds have to be said as patterns. Plain notation without leading zeros; every pattern is anchored by its caller.
"""

from __future__ import annotations

from decimal import Decimal

_TAIL = r"(?:\.[0-9]+)?"
_ANY_WHOLE = "(?:0|[1-9][0-9]*)"
_MOST_PLACES = 40
NOTHING = r"[^\s\S]"
"""A pattern that no text matches."""


def integers(low: int | None, high: int | None) -> str:
    """The integers from `low` to `high` (None: no bound), both included; a pattern of nothing when there are none."""
    parts = []
    if low is None or low < 0:
        least = max(1, -high) if high is not None else 1
        most = None if low is None else -low
        if most is None or least <= most:
            parts.append("-" + whole(least, most))
    if high is None or high >= 0:
        least = max(0, low) if low is not None else 0
        if high is None or least <= high:
            parts.append(whole(least, high))
    return either(parts)


def whole(low: int, high: int | None) -> str:
    """The integers from `low` >= 0 to `high`."""
    first = str(low)
    size = len(first)
    if high is None:
        if low <= 1:
            return _ANY_WHOLE if low == 0 else "[1-9][0-9]*"
        return either([_between(first, "9" * size), f"[1-9][0-9]{{{size},}}"])
    last = str(high)
    if size == len(last):
        return _between(first, last)
    parts = [_between(first, "9" * size), _between("1" + "0" * (len(last) - 1), last)]
    if len(last) - size > 1:
        parts.insert(1, f"[1-9][0-9]{{{size},{len(last) - 2}}}")
    return either(parts)


def _between(low: str, high: str) -> str:
    """The digits from `low` to `high`, which are as many."""
    size = len(low)
    if low == high:
        return low
    if set(low) == {"0"} and set(high) == {"9"}:
        return "[0-9]" if size == 1 else f"[0-9]{{{size}}}"
    if size == 1:
        return f"[{low}-{high}]"
    first, last = int(low[0]), int(high[0])
    if first == last:
        return low[0] + _between(low[1:], high[1:])
    parts = []
    if set(low[1:]) != {"0"}:
        parts.append(low[0] + _between(low[1:], "9" * (size - 1)))
        first += 1
    end = None
    if set(high[1:]) != {"9"}:
        end = high[0] + _between("0" * (size - 1), high[1:])
        last -= 1
    if first <= last:
        parts.append(
            (f"[{first}-{last}]" if first < last else str(first)) + _between("0" * (size - 1), "9" * (size - 1))
        )
    return either([*parts, end] if end is not None else parts)


def either(parts: list[str]) -> str:
    """One of some patterns; nothing at all where there is none."""
    if not parts:
        return NOTHING
    return parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")"


def decimals(digits: int | None, places: int | None) -> str:
    """Plain decimals of at most `digits` digits in all and `places` of them after the point, zeros counted."""
    if digits is None:
        return f"-?{_ANY_WHOLE}{_TAIL if places is None else _fraction(places)}"
    if places is None:
        parts = ["0" + _fraction(digits)]
        parts += [f"[1-9][0-9]{{{n - 1}}}" + _fraction(digits - n) for n in range(1, digits + 1)]
    elif digits >= places:
        parts = ["0" + _fraction(places)]
        if digits > places:
            parts.append(f"[1-9][0-9]{{0,{digits - places - 1}}}" + _fraction(places))
        else:
            # where no digit may stand before the point, Pydantic counts the one of a plain 0
            parts = [rf"0\.0{{{n}}}[1-9][0-9]{{0,{places - 1 - n}}}" for n in range(places)]
    else:
        parts = [rf"0\.0{{{n}}}[1-9][0-9]{{0,{digits - 1 - n}}}" for n in range(digits)]
    return "-?" + either(parts)


def _fraction(places: int) -> str:
    return rf"(?:\.[0-9]{{1,{min(places, _MOST_PLACES)}}})?" if places else ""


def at_least(bound: Decimal, *, strict: bool) -> str:
    """The plain decimals that are at least `bound`, or above it."""
    if bound < 0:
        return f"(?:-{_up_to(-bound, strict)}|{_ANY_WHOLE}{_TAIL})"
    if bound == 0 and not strict:
        return rf"(?:{_ANY_WHOLE}{_TAIL}|-0(?:\.0+)?)"
    return _from(bound, strict)


def at_most(bound: Decimal, *, strict: bool) -> str:
    """The plain decimals that are at most `bound`, or below it."""
    if bound > 0:
        return f"(?:-{_ANY_WHOLE}{_TAIL}|{_up_to(bound, strict)})"
    if bound == 0 and not strict:
        return rf"(?:-{_ANY_WHOLE}{_TAIL}|0(?:\.0+)?)"
    return "-" + _from(-bound, strict)


def _parts(bound: Decimal) -> tuple[int, str]:
    """The digits before the point, and those behind it without zeros at the end."""
    before, _, behind = format(bound, "f").partition(".")
    return int(before), behind.rstrip("0")


def _from(bound: Decimal, strict: bool) -> str:
    """Decimals without a sign that are at least, or above, `bound` >= 0."""
    before, behind = _parts(bound)
    parts = [whole(before + 1, None) + _TAIL]
    if not behind:
        parts.append(rf"{before}\.0*[1-9][0-9]*" if strict else f"{before}{_TAIL}")
        return either(parts)
    for n, digit in enumerate(behind):
        if digit != "9":
            parts.append(rf"{before}\.{behind[:n]}[{int(digit) + 1}-9][0-9]*")
    parts.append(rf"{before}\.{behind}" + ("0*[1-9][0-9]*" if strict else "[0-9]*"))
    return either(parts)


def _up_to(bound: Decimal, strict: bool) -> str:
    """Decimals without a sign that are at most, or below, `bound` > 0."""
    before, behind = _parts(bound)
    parts = [whole(0, before - 1) + _TAIL] if before else []
    if not behind:
        return either(parts if strict else [*parts, rf"{before}(?:\.0+)?"])
    parts.append(f"{before}")
    for n, digit in enumerate(behind):
        if n:
            parts.append(rf"{before}\.{behind[:n]}")
        if digit != "0":
            parts.append(rf"{before}\.{behind[:n]}[0-{int(digit) - 1}][0-9]*")
    if not strict:
        parts.append(rf"{before}\.{behind}0*")
    return either(parts)
