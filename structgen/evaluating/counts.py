"""Shares with their intervals; what belongs together (draws of one input, items of a list) is not independent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt

_Z = 1.96
"""Standard deviations of a 95% interval."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How many of some values are right.

    Attributes:
        right: how many are.
        total: of how many.
        expected, given: how many of them were expected, and how many were given: the others are null, or missing.
        hits: how many of those that were expected and given are right.
        independent: how many independent values they are worth, at most `total`. 40 values of two inputs, all right in
            one and all wrong in the other, are worth 2.
    """

    right: int = 0
    total: int = 0
    expected: int = 0
    given: int = 0
    hits: int = 0
    independent: float = 0.0

    @property
    def share(self) -> float:
        """From 0 to 1; NaN of none."""
        return _ratio(self.right, self.total)

    @property
    def precision(self) -> float:
        """The share of the given values that are right; NaN if none was given."""
        return _ratio(self.hits, self.given)

    @property
    def recall(self) -> float:
        """The share of the expected values that were given; NaN if none was expected."""
        return _ratio(self.hits, self.expected)

    @property
    def f1(self) -> float:
        """The harmonic mean of `precision` and `recall`; NaN if nothing was expected or given."""
        return _ratio(2 * self.hits, self.expected + self.given)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share lies with 95%, by Wilson's method: wide where there are few independent values."""
        if not self.total:
            return 0.0, 1.0
        n, z2 = self.independent, _Z * _Z
        middle = (self.share + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z / (1 + z2 / n) * sqrt(self.share * (1 - self.share) / n + z2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def worth(groups: Mapping[str, tuple[int, int]]) -> float:
    """How many independent values some groups are worth: what the variance between groups says.

    Args:
        groups: of each, how many of its values are right, and how many it has.
    """
    total = sum(count for _, count in groups.values())
    share = _ratio(sum(right for right, _ in groups.values()), total)
    if not 0 < share < 1:  # nothing is known of how alike the values of a group are
        return float(len(groups))
    variance = sum((right - share * count) ** 2 for right, count in groups.values()) / total**2
    return min(float(total), share * (1 - share) / variance) if variance else float(total)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one run is than another on the same rows.

    Attributes:
        better, worse: the number of rows of which more, or fewer, values are right.
        total: the number of rows.
        share: the mean difference of the rows' shares of right values, from -1 to 1. Above 0: the second run is better.
        interval: where it lies with 95%; the runs differ if 0 is not in it.
    """

    better: int
    worse: int
    total: int
    share: float
    interval: tuple[float, float]


def difference(rows: Iterable[tuple[str, float]]) -> Difference:
    """The mean of the differences of rows, with the interval of Bonett and Price (2012), by groups of rows.

    Args:
        rows: the group of each row, and its difference.
    """
    groups: dict[str, list[float]] = {}
    for group, each in rows:
        groups.setdefault(group, []).append(each)
    every = [each for own in groups.values() for each in own]
    n = len(every) + 2
    middle = sum(every) / n  # with two more rows, one better and one worse
    squares = sum((sum(own) - middle * len(own)) ** 2 for own in groups.values()) + 2 + 2 * middle**2
    half = _Z * sqrt(squares) / n
    better, worse = sum(each > 0 for each in every), sum(each < 0 for each in every)
    interval = max(-1.0, middle - half), min(1.0, middle + half)
    return Difference(better, worse, len(every), _ratio(sum(every), len(every)), interval)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two evaluations of the same rows. `print` shows its table.

    Attributes:
        fields: the differences by field.
        whole: the difference of whole rows.
        unpaired: the number of rows that only one of them has.
    """

    fields: dict[str, Difference]
    whole: Difference
    unpaired: int

    def __str__(self) -> str:
        """The table: a line for each field, and one for whole rows."""
        lines = [*((name or "(value)", each) for name, each in self.fields.items()), ("whole row", self.whole)]
        width = max(len(name) for name, _ in lines)
        rows = [f"{'field':{width}}  rows  better  worse  difference  95% interval"]
        for name, each in lines:
            low, high = each.interval
            counts = f"{each.total:5} {each.better:7} {each.worse:6} {each.share:+11.0%}"
            rows.append(f"{name:{width}} {counts}  {low:+.0%} to {high:+.0%}")
        return "\n".join([*rows, *([f"{self.unpaired} rows are in one of them alone"] if self.unpaired else [])])
