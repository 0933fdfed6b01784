"""What runs for every change: of a long table some rows, of random inputs a third. The others are slow, and run before
an issue is resolved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def thinned(rows: Iterable[Any], stride: int, first: int = 0) -> list[Any]:
    """The rows for `parametrize`: all but every `stride`-th, counted from `first`, are marked as slow."""
    return [row if at % stride == first else as_slow(row) for at, row in enumerate(rows)]


def as_slow(row: Any) -> Any:
    """A row, marked as slow."""
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)


def diagonal(short: Iterable[Any], long: Iterable[Any], width: int = 1) -> list[Any]:
    """All pairs for `parametrize`; of each value of `long`, all but `width` pairs are slow, another place each time."""
    one, two = list(short), list(long)
    places = [(i, j) for j in range(len(two)) for i in range(len(one))]
    fast = {((j + k * len(one) // width) % len(one), j) for j in range(len(two)) for k in range(width)}
    return [(one[i], two[j]) if (i, j) in fast else as_slow((one[i], two[j])) for i, j in places]


def times(count: int) -> int:
    """How many random inputs a property is tried with: a third for every change, all of them in `make test-all`."""
    thorough = settings.default.max_examples >= settings.get_profile("thorough").max_examples
    return count if thorough else count // 3
