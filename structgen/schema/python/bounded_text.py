"""Patterns of numbers, dates, times and durations written as text; numbers, dates and times within bounds.

Member names in JSON are strings, and so are Pydantic's decimals, dates and times: where a validator reads a value from
a string, its bounds must be patterns. Numbers are in plain notation without leading zeros.

Dates and times follow Python, not the formats of JSON Schema: no year 0, no leap second, offsets below 24 hours, and
the time zone may be missing. They are written as `isoformat` writes them, with fixed widths: the order of the texts is
the order of time, so a bound is a comparison digit by digit.
"""

from __future__ import annotations

import datetime
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


def text(*patterns: str) -> dict[str, Any]:
    """The JSON Schema of the strings that match each of the patterns as a whole."""
    schemas = [{"pattern": f"^(?:{pattern})$"} for pattern in patterns]
    return {"type": "string", **schemas[0], **({"allOf": schemas[1:]} if schemas[1:] else {})}


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

    Yields a pattern that ends with that digit, and what `text` has after it.
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
    else:  # where only a 0 may appear before the point, Pydantic counts that 0
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
    """The digits before the point, and those after it without zeros at the end."""
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


# Dates, times and durations

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))|(?:0[48]|[2468][048]|[13579][26])00)"
DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = "[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FINE = r"(?:\.[0-9]{1,6})?"
_ZERO_FRACTION = r"(?:\.0{1,6})?"


def _second_fraction(schema: Any) -> str:
    """The fraction of a second, with six digits at most where Pydantic refuses more."""
    return _FINE if schema.get("microseconds_precision") == "error" else r"(?:\.[0-9]+)?"


def _fixed_side(bound: str, tail: str, equal: list[str], *, above: bool) -> str:
    """The texts shaped like `bound` that are above (or below) it, each with `tail`; and those of `equal`."""
    parts = beyond(bound, above=above)
    options = ["(?:" + "|".join(parts) + ")" + tail] if parts else []
    return "|".join([*options, *equal]) or NOTHING


def _date_side(name: str, bound: datetime.date, tail: str = "") -> str:
    """The dates that keep a bound, by its name in Pydantic."""
    text = bound.isoformat()[:10]
    return _fixed_side(text, tail, [text + tail] if name[1] == "e" else [], above=name[0] == "g")


def date(schema: Any) -> dict[str, Any]:
    """Dates within the bounds of a core schema; past dates end yesterday, seen from now."""
    return text(DATE, *(_date_side(name, bound) for name, bound in bounds_of(schema).items()), *_now_side(schema))


def _now_side(schema: Any, tail: str = "") -> list[str]:
    """Past or future dates, seen from now. A future date may be past when the validator judges it."""
    days = datetime.date.today(), datetime.datetime.now(datetime.timezone.utc).date()
    side = {"past": ("lt", min(days)), "future": ("gt", max(days))}.get(schema.get("now_op"))
    return [] if side is None else [_date_side(*side, tail)]


def datetime_(schema: Any) -> dict[str, Any]:
    """Dates with a time. With bounds the zone is `Z` where a bound has a zone, else there is none."""
    fraction, zone, bounds = _second_fraction(schema), _zone(schema), bounds_of(schema)
    if bounds:
        zone = "Z" if any(bound.tzinfo is not None for bound in bounds.values()) else ""
    elif schema.get("now_op"):
        zone = {_ANY_ZONE: "Z?", _SOME_ZONE: "Z"}.get(zone, zone)
    moments = (_moment_side(name, _utc(bound), fraction, zone) for name, bound in bounds.items())
    tail = f"T{_CLOCK}{fraction}{zone}"
    return text(DATE + tail, *moments, *_now_side(schema, tail))


_SOME_ZONE = f"(?:[Zz]|{_OFFSET})"
_ANY_ZONE = f"{_SOME_ZONE}?"


def _zone(schema: Any) -> str:
    """The zones that `tz_constraint` of a core schema allows: "aware", "naive", an offset in seconds, or any."""
    constraint = schema.get("tz_constraint")
    if constraint is None:
        return _ANY_ZONE
    if constraint in ("aware", "naive"):
        return _SOME_ZONE if constraint == "aware" else ""
    hours, rest = divmod(abs(int(constraint)), 3600)
    offset = rf"{'-' if constraint < 0 else '[+]'}{hours:02}:{rest // 60:02}"
    return offset if constraint else f"(?:Z|{offset})"


def _utc(bound: datetime.datetime) -> datetime.datetime:
    return bound if bound.tzinfo is None else bound.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _moment_side(name: str, bound: datetime.datetime | datetime.time, fraction: str, zone: str) -> str:
    """The moments that keep a bound without a zone. Within the second of the bound only its first moment may."""
    second = bound.isoformat(timespec="seconds")
    if name[0] == "g":
        equal = [second + fraction + zone] if name == "ge" and not bound.microsecond else []
    else:
        equal = [second + _ZERO_FRACTION + zone] if name == "le" or bound.microsecond else []
    return _fixed_side(second, fraction + zone, equal, above=name[0] == "g")


def time(schema: Any) -> dict[str, Any]:
    """Times of the day; without a zone where there are bounds."""
    fraction, bounds = _second_fraction(schema), bounds_of(schema)
    zone = "" if bounds else _zone(schema)
    sides = (_moment_side(name, bound.replace(tzinfo=None), fraction, zone) for name, bound in bounds.items())
    return text(f"{_CLOCK}{fraction}{zone}", *sides)


# The largest counts stay below the 999,999,999 days that a timedelta can hold, and each below 2**32 seconds or days.
_SECONDS = r"[0-9]{1,9}(?:\.[0-9]+)?S"
_TIME = rf"T(?:[0-9]{{1,6}}H(?:[0-9]{{1,7}}M)?(?:{_SECONDS})?|[0-9]{{1,7}}M(?:{_SECONDS})?|{_SECONDS})"
_DAYS = "[0-9]{1,8}D"
_SPAN = rf"(?:[0-9]{{1,6}}Y(?:[0-9]{{1,6}}M)?(?:{_DAYS})?|[0-9]{{1,6}}M(?:{_DAYS})?|{_DAYS})"
_DURATION = rf"(?:P{_SPAN}(?:{_TIME})?|P{_TIME}|P[0-9]{{1,7}}W)"


def timedelta(schema: Any) -> dict[str, Any]:
    """Durations in all notations of ISO 8601 with counts of few digits, and all that Pydantic writes.

    Bounds are left to the validator: `P1DT1H` and `PT25H` are one duration, and text tells no order of them.
    """
    second = rf"[1-5]?[0-9]{_FINE}S"
    hour, minute = "(?:1?[0-9]|2[0-3])H", "[1-5]?[0-9]M"
    clock = f"T(?:{hour}(?:{minute})?(?:{second})?|{minute}(?:{second})?|{second})"
    longest = f"P(?:{integers(1_000_000, 2_739_725)}Y(?:{integers(1, 364)}D)?|2739726Y[1-8]D)(?:{clock})?"
    return text(rf"-?(?:{_DURATION}|{longest})|P2739726Y9DT23H59M59\.999999S|-P2739726Y9D")
