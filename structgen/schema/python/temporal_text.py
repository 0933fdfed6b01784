"""Dates, times and durations as Pydantic reads them out of strings: patterns, bounds included.

Closer to Python than the formats of JSON Schema: there is no year 0 and no leap second, an offset is below 24 hours,
and a time zone may be left out. Dates and times are written as `isoformat` writes them: fixed widths, so that the
order of the texts is the order of time, and a bound is a comparison digit by digit.
"""

from __future__ import annotations

import datetime
from typing import Any

from structgen.schema.python.number_text import NOTHING, integers

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))|(?:0[48]|[2468][048]|[13579][26])00)"
DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = "[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ZERO_FRACTION = r"(?:\.0{1,6})?"
_ONE_SECOND = datetime.timedelta(seconds=1)


def text(*patterns: str) -> dict[str, Any]:
    """The strings that match each of some patterns as a whole."""
    schemas = [{"pattern": f"^(?:{pattern})$"} for pattern in patterns]
    return {"type": "string", **schemas[0], **({"allOf": schemas[1:]} if schemas[1:] else {})}


def _fraction(precision: str | None) -> str:
    return r"(?:\.[0-9]{1,6})?" if precision == "error" else r"(?:\.[0-9]+)?"


def _generic(template: str) -> str:
    """Any digits where `template` has digits."""
    return "".join("[0-9]" if char.isdigit() else char for char in template)


def _side(bound: str, tail: str, equal: list[str], *, behind: bool) -> str:
    """The texts of the same shape that come behind `bound` (or before it) with any tail, or one of `equal`."""
    parts = [
        f"{bound[:n]}{f'[{int(digit) + 1}-9]' if behind else f'[0-{int(digit) - 1}]'}{_generic(bound[n + 1 :])}"
        for n, digit in enumerate(bound)
        if digit.isdigit() and digit != ("9" if behind else "0")
    ]
    options = ["(?:" + "|".join(parts) + ")" + tail] if parts else []
    return "|".join([*options, *equal]) or NOTHING


def date(schema: Any) -> dict[str, Any]:
    """Dates within the bounds of a core schema; past dates end yesterday as it is now."""
    bounds = []
    for name, behind, equal in (("ge", True, True), ("gt", True, False), ("le", False, True), ("lt", False, False)):
        bound = schema.get(name)
        if bound is not None:
            bounds.append(_date_side(bound.isoformat()[:10], behind=behind, equal=equal))
    bounds += _now_side(schema)
    return text(DATE, *bounds)


def _date_side(bound: str, *, behind: bool, equal: bool, tail: str = "") -> str:
    return _side(bound, tail, [bound + tail] if equal else [], behind=behind)


def _now_side(schema: Any, tail: str = "") -> list[str]:
    """What past and future mean at this moment. The past stays past; the future is for the validator to judge."""
    local, utc = datetime.date.today(), datetime.datetime.now(datetime.timezone.utc).date()
    if schema.get("now_op") == "past":
        return [_date_side(min(local, utc).isoformat(), behind=False, equal=False, tail=tail)]
    if schema.get("now_op") == "future":
        return [_date_side(max(local, utc).isoformat(), behind=True, equal=False, tail=tail)]
    return []


def datetime_(schema: Any) -> dict[str, Any]:
    """Dates with a time. A bound fixes the zone: `Z` where it has one, none where it has none."""
    fraction = _fraction(schema.get("microseconds_precision"))
    bounds = {name: schema[name] for name in ("ge", "gt", "le", "lt") if schema.get(name) is not None}
    zone = _zone(schema.get("tz_constraint"))
    if bounds or schema.get("now_op"):
        aware = any(bound.tzinfo is not None for bound in bounds.values())
        zone = {_ANY_ZONE: "Z?", _SOME_ZONE: "Z"}.get(zone, zone) if not bounds else "Z" if aware else ""
    parts = [f"{DATE}T{_CLOCK}{fraction}{zone}"]
    parts += [_moment_side(name, _utc(bound), fraction + zone, zone) for name, bound in bounds.items()]
    return text(*parts, *_now_side(schema, tail=f"T{_CLOCK}{fraction}{zone}"))


_SOME_ZONE = f"(?:[Zz]|{_OFFSET})"
_ANY_ZONE = f"{_SOME_ZONE}?"


def _zone(constraint: Any) -> str:
    """The zones of `tz_constraint`: aware, naive, an offset in seconds, or None."""
    if constraint is None:
        return _ANY_ZONE
    if constraint in ("aware", "naive"):
        return _SOME_ZONE if constraint == "aware" else ""
    hours, rest = divmod(abs(int(constraint)), 3600)
    offset = rf"{'-' if constraint < 0 else '[+]'}{hours:02}:{rest // 60:02}"
    return offset if constraint else f"(?:Z|{offset})"


def _utc(bound: datetime.datetime) -> datetime.datetime:
    return bound if bound.tzinfo is None else bound.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _moment_side(name: str, bound: datetime.datetime, tail: str, zone: str, *, is_time: bool = False) -> str:
    """One bound, to the second: what is left of a second counts as beyond. A time is one of the first of a month."""
    whole, behind = bound.replace(microsecond=0), name in ("ge", "gt")
    if behind and bound.microsecond:
        whole, name = whole + _ONE_SECOND, "ge"
    exact = whole.time().isoformat() if is_time else whole.isoformat()
    if behind:
        equal = [exact + tail] if name == "ge" else []
        return NOTHING if is_time and whole.day > 1 else _side(exact, tail, equal, behind=True)
    equal = [exact + _ZERO_FRACTION + zone] if name == "le" or bound.microsecond else []
    return _side(exact, tail, equal, behind=False)


def time(schema: Any) -> dict[str, Any]:
    """Times of the day; without a zone where there are bounds."""
    fraction = _fraction(schema.get("microseconds_precision"))
    bounds = {name: schema[name] for name in ("ge", "gt", "le", "lt") if schema.get(name) is not None}
    zone = _zone(schema.get("tz_constraint")) if not bounds else ""
    parts = [f"{_CLOCK}{fraction}{zone}"]
    for name, bound in bounds.items():
        moment = datetime.datetime.combine(datetime.date(2000, 1, 1), bound.replace(tzinfo=None))
        parts.append(_moment_side(name, moment, fraction, "", is_time=True))
    return text(*parts)


# The largest counts keep below the 999,999,999 days that a timedelta holds, and each below 2**32 seconds or days.
_SECONDS = r"[0-9]{1,9}(?:\.[0-9]+)?S"
_TIME = rf"T(?:[0-9]{{1,6}}H(?:[0-9]{{1,7}}M)?(?:{_SECONDS})?|[0-9]{{1,7}}M(?:{_SECONDS})?|{_SECONDS})"
_DAYS = "[0-9]{1,8}D"
_SPAN = rf"(?:[0-9]{{1,6}}Y(?:[0-9]{{1,6}}M)?(?:{_DAYS})?|[0-9]{{1,6}}M(?:{_DAYS})?|{_DAYS})"
_DURATION = rf"(?:P{_SPAN}(?:{_TIME})?|P{_TIME}|P[0-9]{{1,7}}W)"
_FINE = r"(?:\.[0-9]{1,6})?"
_COUNTS = ((2_739_725, "Y"), (364, "D"), (23, "H"), (59, "M"), (59, "S"))
_SECONDS_IN = (365 * 86_400, 86_400, 3_600, 60, 1)


def timedelta(schema: Any) -> dict[str, Any]:
    """Durations: any notation of ISO 8601 with sane counts, and all that Pydantic writes itself.

    With bounds only what Pydantic writes: years of 365 days, days, hours, minutes and seconds, each in its range.
    """
    bounds = {name: schema[name] for name in ("ge", "gt", "le", "lt") if schema.get(name) is not None}
    if not bounds:
        longest = f"P(?:{integers(1_000_000, 2_739_725)}Y(?:{integers(1, 364)}D)?|2739726Y[1-8]D)(?:{_clock_counts()})?"
        extreme = r"P2739726Y9DT23H59M59\.999999S|-P2739726Y9D"
        return text(f"-?(?:{_DURATION}|{longest})|{extreme}")
    lows = [(bounds[name], name == "gt") for name in ("ge", "gt") if name in bounds]
    highs = [(bounds[name], name == "lt") for name in ("le", "lt") if name in bounds]
    sides = [_duration_side(bound, strict, above=True) for bound, strict in lows]
    sides += [_duration_side(bound, strict, above=False) for bound, strict in highs]
    return text(*sides)


def _clock_counts() -> str:
    second = rf"[1-5]?[0-9]{_FINE}S"
    hour, minute = "(?:1?[0-9]|2[0-3])H", "[1-5]?[0-9]M"
    return f"T(?:{hour}(?:{minute})?(?:{second})?|{minute}(?:{second})?|{second})"


def _duration_side(bound: datetime.timedelta, strict: bool, *, above: bool) -> str:
    """The written durations at or above (or at or below) a bound."""
    negative = bound < datetime.timedelta(0)
    size = -bound if negative else bound
    free = _written([(0, most) for most, _ in _COUNTS], fine=True)
    larger, smaller = (_beside(size, strict, larger=each) for each in (True, False))
    if above:
        return f"-(?:{smaller})|{free}" if negative else larger
    return f"-(?:{larger})" if negative else f"-(?:{free})|{smaller}"


def _counts(size: datetime.timedelta) -> tuple[list[int], int]:
    """Years, days, hours, minutes, seconds; and the microseconds left."""
    rest, counts = size.days * 86_400 + size.seconds, []
    for unit in _SECONDS_IN:
        count, rest = divmod(rest, unit)
        counts.append(count)
    return counts, size.microseconds


def _beside(size: datetime.timedelta, strict: bool, *, larger: bool) -> str:
    """The durations larger or smaller than one without a sign; that one, too, unless the bound is strict."""
    counts, left = _counts(size)
    ranges = [(count + 1, most) if larger else (0, count - 1) for count, (most, _) in zip(counts, _COUNTS, strict=True)]
    options = [
        _written([*((c, c) for c in counts[:n]), (low, high), *((0, m) for m, _ in _COUNTS[n + 1 :])], fine=True)
        for n, (low, high) in enumerate(ranges)
        if low <= high
    ]
    if (not strict and not left) if larger else (left or not strict):
        options.append(_written([(count, count) for count in counts], fine=larger))
    return "|".join(options) or NOTHING


def _written(ranges: list[tuple[int, int]], *, fine: bool) -> str:
    """Durations whose counts lie in these ranges; a count of zero may be left out, not all of them."""
    years, days, *clock = [
        (integers(max(low, 1), high) + (_FINE if fine and unit == "S" else "") + unit if high > 0 else "", low == 0)
        for (low, high), (_, unit) in zip(ranges, _COUNTS, strict=True)
    ]
    if fine and ranges[4][0] == 0:
        seconds = r"0\.[0-9]{1,6}S"
        clock[2] = (f"(?:{clock[2][0]}|{seconds})" if clock[2][0] else seconds, True)
    dates = [a + b for a in _ways(years) for b in _ways(days)]
    times = [a + b + c for a in _ways(clock[0]) for b in _ways(clock[1]) for c in _ways(clock[2])]
    options = ["P" + a + (f"T{b}" if b else "") for a in dates for b in times if a or b]
    if all(low == 0 for low, _ in ranges):
        options.append("PT0S")
    return "(?:" + "|".join(options) + ")" if options else NOTHING


def _ways(count: tuple[str, bool]) -> list[str]:
    """A count written, and left out where it may be zero."""
    written, optional = count
    return [*([written] if written else []), *([""] if optional else [])]
