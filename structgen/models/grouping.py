"""Which rows are read by one forward pass, and which beginnings of several rows are read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from structgen.models.prefixes import common
from structgen.models.row import Row

MAX_READ = 8192
"""The most tokens of one forward pass, padding included; a longer row is read by itself."""

SHORT = 16
"""Rows with at most this many pending tokens are all read together, padded to the longest."""


def is_begun(row: Row) -> bool:
    """Is what is pending of the row only text? A prompt with inputs is not, and is read by itself."""
    return row.inputs is None or row.valid > 0


def twins_among(rows: Sequence[Row]) -> dict[int, int]:
    """New rows that equal an earlier one, with its index: both are read once, and copied."""
    first: dict[tuple[int, ...], int] = {}
    fresh = {i: (id(row.inputs), *row.ids) for i, row in enumerate(rows) if row.valid == 0}
    return {i: first[ids] for i, ids in fresh.items() if first.setdefault(ids, i) != i}


def beginnings(rows: Sequence[Row], spare: int) -> list[tuple[list[Row], int]]:
    """New rows with a common beginning, and its length, where reading it once saves more than `spare` tokens.

    Args:
        rows: new ones, of which a beginning may be known already. The first of each group knows most.
    """
    alike: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        if row.inputs is None and len(row.ids) > SHORT:
            alike.setdefault(tuple(row.ids[:SHORT]), []).append(row)
    shared = []
    for group in alike.values():
        ids = [row.ids[:-1] for row in group]  # the last id of each is read by itself
        group.sort(key=lambda row: -row.valid)
        length = common(min(ids), max(ids))
        if (len(group) - 1) * (length - group[0].valid) > spare:
            shared.append((group, length))
    return shared


def text_groups(rows: Sequence[Row], spare: int) -> list[list[int]]:
    """Indexes of rows that are read together: all with few pending tokens, and groups of the others.

    Rows with one pending token are a group of their own where they would cost more than `spare` tokens of padding
    next to the others.
    """
    pending = [len(row.ids) - row.valid for row in rows]
    if len(set(pending)) == 1 and pending[0] <= SHORT:  # most steps
        return [list(range(len(rows)))]
    short = [i for i, count in enumerate(pending) if count <= SHORT]
    padding = len(short) * max((pending[i] for i in short), default=0) - sum(pending[i] for i in short)
    groups = [short]
    if padding > spare:
        groups = [[i for i in short if pending[i] == 1], [i for i in short if pending[i] > 1]]
    long = sorted((i for i, count in enumerate(pending) if count > SHORT), key=lambda i: (rows[i].valid, pending[i]))
    return [group for group in groups + packed(long, pending, spare) if group]


def portion(pending: Sequence[int], spare: int) -> int:
    """How many pending tokens of each row one pass should read: as many as let all rows together read most in its time.

    The time of a pass is that of its tokens, padding included, and of `spare` others. Also compared are two passes, one
    for the rows with one token, and one for the others. See `text_groups`.
    """
    several = [count for count in pending if count > 1]
    apart = sum(pending) / (2 * spare + len(pending) - len(several) + len(several) * max(pending))
    speeds = {most: sum(min(each, most) for each in pending) / (spare + len(pending) * most) for most in set(pending)}
    best = max(speeds, key=lambda most: speeds[most])
    return best if speeds[best] >= apart else max(pending)


def packed(indexes: Iterable[int], lengths: Sequence[int], spare: int) -> list[list[int]]:
    """The indexes in groups of neighbours, as few as one forward pass each can read.

    Args:
        lengths: of each row, how many tokens are read.
        spare: tokens of padding that a group may have.
    """
    groups: list[list[int]] = []
    for i in indexes:
        together = [lengths[j] for j in (*groups[-1], i)] if groups else []
        tokens = max(together, default=0) * len(together)
        if not together or tokens > MAX_READ or tokens - sum(together) > spare:
            groups.append([])
        groups[-1].append(i)
    return groups
