"""Checks of a caller's arguments. Each failure names the argument, its value, and what is allowed.

It is an `OptionError`, or an error of the class that is passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from numbers import Integral, Real
from typing import Any

from structgen.errors import QUOTED, OptionError, RequestError, quoted

MAX_INTEGER = 2**31 - 2
"""The largest number that is taken as a count."""


def require(condition: bool, name: str, value: object, allowed: str, error: type[RequestError] = OptionError) -> None:
    """Refuses a value unless the condition holds."""
    if not condition:
        raise error(f"{name}={quoted(value)}: expected {allowed}")


def is_number(value: Any, low: float, high: float = math.inf) -> bool:
    """Is it a finite number from `low` to `high`?"""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return math.isfinite(number) and low <= number <= high


def is_whole(value: Any, low: int, high: float = math.inf) -> bool:
    """Is it a whole number from `low` to `high`? True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral) and low <= int(value) <= high


def require_unicode(name: str, *texts: str) -> None:
    """Refuses lone surrogates, which Python's strings may have and UTF-8 cannot encode."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"{quoted(text[error.start : error.end])} at character {error.start}"
            raise OptionError(f"{name} has {half}, half of a surrogate pair: it is no Unicode text") from error


def is_listed(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Is it a list or tuple of objects of this kind, possibly empty?"""
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in value)


def require_flag(name: str, value: object) -> None:
    """Refuses anything but True and False."""
    require(isinstance(value, bool), name, value, "True or False")


def require_one_of(name: str, value: object, *allowed: bool | str) -> None:
    """Refuses what is none of these values."""
    *others, last = map(repr, allowed)
    known = any(isinstance(value, type(each)) and value == each for each in allowed)
    require(known, name, value, f"{', '.join(others)} or {last}")


def require_count(name: str, value: object, low: int, error: type[RequestError] = OptionError) -> None:
    """Refuses anything but a whole number from `low` to `MAX_INTEGER`."""
    require(is_whole(value, low), name, value, f"a whole number, at least {low}", error)
    require(is_whole(value, low, MAX_INTEGER), name, value, f"at most {MAX_INTEGER:,}", error)


def several(name: str, value: Any, allowed: str, error: type[RequestError] = OptionError) -> list[Any]:
    """The items of an iterable; refuses texts, mappings and classes, which are mistakes."""
    meant = isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping, type))
    require(meant, name, value, allowed, error)
    return list(value)


def nearest(name: str, names: Iterable[str], cutoff: float = 0.0) -> str:
    """The up to three names most like a wrong one, quoted; of the first 1,000 names that are not too long."""
    short = islice((known for known in names if len(known) <= QUOTED), 1000)
    return ", ".join(map(quoted, get_close_matches(name[:QUOTED], short, 3, cutoff)))
