"""Checks of a caller's arguments. Each failure names the argument, its value, and what is allowed.

It is an `OptionError`, or an error of the class that is passed.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache, wraps
from itertools import islice
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from structgen.errors import QUOTED, OptionError, RequestError, quoted

MAX_INTEGER = 2**31 - 2
"""The largest number that is taken as a count."""
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])
Check = Callable[[str, Any], object]
"""Raises an `OptionError` for a value that an option cannot have, given the option's name and the value."""


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
            raise OptionError(f"{name} has {half}, half of a surrogate pair: it is not Unicode text") from error


_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+:[\t -~]*", re.ASCII)


def require_headers(value: Any) -> None:
    """Refuses further HTTP headers that cannot be sent; their values, which may be keys, are not shown."""
    require(isinstance(value, Mapping), "headers", type(value).__name__, "texts by their names")
    for name, text in value.items():
        sent = isinstance(name, str) and isinstance(text, str) and _HEADER.fullmatch(f"{name}:{text}")
        require(bool(sent) and text.strip() == text, f"headers[{quoted(name)}]", "...", "one line of ASCII text")
        framing = name.lower() in ("content-length", "transfer-encoding")
        require(not framing, "headers", name, "none that says how long the body is")


def is_listed(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Is it a list or tuple of objects of this kind, possibly empty?"""
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in value)


def require_flag(name: str, value: object) -> None:
    """Refuses anything but True and False."""
    require(isinstance(value, bool), name, value, "True or False")


def flag_of(name: str, value: bool | None) -> bool:
    """A flag that may be left out: None is False."""
    require_flag(name, value is not None and value)
    return bool(value)


def require_one_of(name: str, value: object, *allowed: bool | str) -> None:
    """Refuses what is none of these values."""
    *others, last = map(repr, allowed)
    known = any(isinstance(value, type(each)) and value == each for each in allowed)
    require(known, name, value, f"{', '.join(others)} or {last}")


def require_count(name: str, value: object, low: int, error: type[RequestError] = OptionError) -> None:
    """Refuses anything but a whole number from `low` to `MAX_INTEGER`."""
    require(is_whole(value, low), name, value, f"a whole number, at least {low}", error)
    require(is_whole(value, low, MAX_INTEGER), name, value, f"at most {MAX_INTEGER:,}", error)


def option(check: Check, **takers: Any) -> dict[str, Any]:
    """The metadata of a dataclass's field that is an option: its check, and who takes it.

    temperature: float = field(default=0.0, metadata=option(allowing(is_positive, "a number above 0"), openai=True))
    """
    return {"check": check, **takers}


def options_with(record: type[Any], *takers: str) -> tuple[str, ...]:
    """The names of the options in a record that one of these takers has."""
    return tuple(each.name for each in fields(record) if any(map(each.metadata.get, takers)))


def left_out(given: Any) -> bool:
    """Is this the empty tuple that options of several things are by default? Arrays, too, can be asked."""
    return isinstance(given, tuple) and not given


def check_options(record: Any) -> None:
    """Checks each field of a record by its own metadata, but no default."""
    kind: Any = type(record)
    for name, default, check in _checked(kind):
        value = getattr(record, name)
        if value is not default:
            check(name, value)


@lru_cache(None)
def _checked(record: type[Any]) -> list[tuple[str, Any, Check]]:
    """The fields of a record that are checked, with their defaults and checks."""
    return [(each.name, each.default, each.metadata["check"]) for each in fields(record) if "check" in each.metadata]


def allowing(valid: Callable[[Any], bool], allowed: str) -> Check:
    """A check by a predicate; `allowed` says in words what it lets pass."""
    return lambda name, value: require(valid(value), name, value, allowed)


def optional(check: Check) -> Check:
    """A check that None passes, too."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*allowed: bool | str) -> Check:
    """A check that only these values pass."""
    return lambda name, value: require_one_of(name, value, *allowed)


def count_from(low: int) -> Check:
    """A check that whole numbers from `low` to `MAX_INTEGER` pass."""
    return lambda name, value: require_count(name, value, low)


def named_options(record: C) -> C:
    """Lets a dataclass of options refuse a name that it does not have, and say which one was meant."""
    record.__init__ = _refusing(record.__init__, record.__name__)
    return record


def named_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Lets a function refuse an argument that it does not have, and say which one was meant. None is not given."""
    return _refusing(function, function.__name__, nones=False)


def _refusing(function: Callable[P, R], owner: str, *, nones: bool = True) -> Callable[P, R]:
    known = {name: each for name, each in inspect.signature(function).parameters.items() if name != "self"}

    @wraps(function)
    def called(*arguments: P.args, **given: P.kwargs) -> R:
        for name, value in [*given.items()]:
            if name not in known:
                near = get_close_matches(name[:QUOTED], known, 1)
                meant = f"did you mean {near[0]}=?" if near else f"there are {', '.join(known)}"
                raise OptionError(f"{owner} has no option {name}=: {meant}")
            if value is None and not nones and known[name].default is not inspect.Parameter.empty:
                del given[name]
        return function(*arguments, **given)

    return called


def without_nones(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given: one that is None is not."""
    return {name: value for name, value in options.items() if value is not None}


def several(name: str, value: Any, allowed: str, error: type[RequestError] = OptionError) -> list[Any]:
    """The items of an iterable; refuses texts, mappings and classes, which are mistakes."""
    meant = isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping, type))
    require(meant, name, value, allowed, error)
    return list(value)


def nearest(name: str, names: Iterable[str], cutoff: float = 0.0) -> str:
    """The up to three names most like a wrong one, quoted; of the first 1,000 names that are not too long."""
    short = islice((known for known in names if len(known) <= QUOTED), 1000)
    return ", ".join(map(quoted, get_close_matches(name[:QUOTED], short, 3, cutoff)))
