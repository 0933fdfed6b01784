"""Patterns of the dates, times and durations that Pydantic reads from strings; dates and times within bounds.

They follow Python, not the formats of JSON Schema: no year 0, no leap second, offsets below 24 hours, and the time
zone may be missing. Dates and times are written as `isoformat` writes them, with fixed widths: the order of the texts
is the order of time, so a bound is a comparison digit by digit.
"""

from __future__ import annotations

import datetime
from typing import Any

from structgen.schema.python.number_text import NOTHING, beyond, bounds_of, integers

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


def text(*patterns: str) -> dict[str, Any]:
    """The JSON Schema of the strings that match each of the patterns as a whole."""
    schemas = [{"pattern": f"^(?:{pattern})$"} for pattern in patterns]
    return {"type": "string", **schemas[0], **({"allOf": schemas[1:]} if schemas[1:] else {})}


def _fraction(schema: Any) -> str:
    """The fraction of a second, with six digits at most where Pydantic refuses more."""
    return _FINE if schema.get("microseconds_precision") == "error" else r"(?:\.[0-9]+)?"


def _side(bound: str, tail: str, equal: list[str], *, above: bool) -> str:
    """The texts shaped like `bound` that are above (or below) it, each with `tail`; and those of `equal`."""
    parts = beyond(bound, above=above)
    options = ["(?:" + "|".join(parts) + ")" + tail] if parts else []
    return "|".join([*options, *equal]) or NOTHING


def _date_side(name: str, bound: datetime.date, tail: str = "") -> str:
    """The dates that keep a bound, by its name in Pydantic."""
    text = bound.isoformat()[:10]
    return _side(text, tail, [text + tail] if name[1] == "e" else [], above=name[0] == "g")


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
    fraction, zone, bounds = _fraction(schema), _zone(schema), bounds_of(schema)
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
    return _side(second, fraction + zone, equal, above=name[0] == "g")


def time(schema: Any) -> dict[str, Any]:
    """Times of the day; without a zone where there are bounds."""
    fraction, bounds = _fraction(schema), bounds_of(schema)
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
