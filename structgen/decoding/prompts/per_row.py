"""Options that are given once for all prompts of a call, or as a list with one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from structgen.errors import OptionError, quoted

T = TypeVar("T")


def each_of(name: str, given: Any, kind: type, count: int) -> Sequence[Any]:
    """One value for every row, or a list with one for each."""
    if isinstance(given, kind):
        return [given] * count
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, kind) for item in given):
        raise OptionError(f"{name}={quoted(given)}: expected {kind.__name__}(...) or a list of them")
    return per_row(name, given, count)


def lists(name: str, given: Any, count: int) -> Sequence[Any]:
    """One list for every row, or a list with one for each."""
    nested = isinstance(given, (list, tuple)) and given and all(isinstance(item, (list, tuple)) for item in given)
    return per_row(name, given, count) if nested else [given] * count


def per_row(name: str, given: Sequence[Any], count: int) -> Sequence[Any]:
    """Returns a list with one entry for each row, and refuses any other."""
    if len(given) != count:
        raise OptionError(f"{name} has {len(given)} entries for {count} prompts")
    return given


def shared(make: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
    """The function's result for each row; rows with the same argument objects share one.

    Args:
        columns: for each argument, its values by row.
    """
    made, results = dict[tuple[int, ...], T](), list[T]()
    for row in zip(*columns, strict=True):
        key = tuple(map(id, row))
        if key not in made:
            made[key] = make(*row)
        results.append(made[key])
    return results
