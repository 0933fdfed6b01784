"""Kernels over tables of deterministic automata: product, lengths. Minimisation stands in `minimise`.

A table is `next[states, classes]`; state 0 is dead, state 1 the start, and column 0 is never taken. Arrays are made in
Python and filled by kernels, see `interning`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.regular.interning import FIRST_ROWS, empty_table, grown_rows, intern
from structgen.kernels import kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ALL, SOME, EVERY = 0, 1, 2
"""Which rows of a product live on: no component dead, some component alive, every row."""


def product(
    flat: Int32, offsets: Int64, widths: Int64, columns: Int64, live: int, limit: int
) -> tuple[Int32, Int64] | None:
    """Run n tables in step.

    Args:
        flat, offsets, widths: table i is `flat[offsets[i]:]`, in rows of `widths[i]`.
        columns: `[n, classes]`, the column of table i for a joint class; class 0 is never taken.
        live: `ALL`, `SOME` or `EVERY`.

    Returns:
        `next`, and the states of the n tables in each joint state, `[states, n]`; None when there are more than
        `limit` states.
    """
    tables, classes = columns.shape
    rows, next_ = np.zeros((FIRST_ROWS, tables), np.int64), np.zeros((FIRST_ROWS, classes), np.int32)
    rows[1] = 1
    here, count = 0, 2
    while count <= limit:
        if len(rows) < count + classes:
            rows, next_ = grown_rows(rows, count + classes), grown_rows(next_, count + classes)
        here, count = _expand(flat, offsets, widths, columns, live, limit, rows, empty_table(rows), next_, here, count)
        if here + 1 == count:
            return next_[:count], rows[:count]
    return None


@kernel
def _expand(
    flat: Int32,
    offsets: Int64,
    widths: Int64,
    columns: Int64,
    live: int,
    limit: int,
    rows: Int64,
    table: Int64,
    next_: Int32,
    here: int,
    count: int,
) -> tuple[int, int]:
    """Expand the states of `product` until all are, the limit is passed, or there is no room for one more.

    Returns:
        The last state expanded, and the number of states.
    """
    tables, classes = columns.shape
    for index in range(1, count):
        intern(rows, table, index)
    while here + 1 < count and count <= limit and count + classes <= rows.shape[0]:
        here += 1
        for current in range(1, classes):
            alive = 0
            for at in range(tables):
                target = flat[offsets[at] + rows[here, at] * widths[at] + columns[at, current]]
                rows[count, at] = target
                alive += target > 0
            if (live == 0 and alive < tables) or (live == 1 and alive == 0):
                continue
            index = intern(rows, table, count)
            count += index == count
            next_[here, current] = index
    return here, count


def extreme_lengths(next_: Int32, final: Int32) -> tuple[int, int]:
    """The shortest and the longest accepted length of a trimmed, non-empty table; -1 for no longest one."""
    least, most = _lengths(next_, final, *np.zeros((4, len(next_)), np.int64))
    return int(least), int(most)


@kernel
def _lengths(
    next_: Int32, final: Int32, shortest: Int64, longest: Int64, queue: Int64, degree: Int64
) -> tuple[int, int]:
    """`extreme_lengths`, with zeros for scratch."""
    states, classes = next_.shape
    # Twice through the states: by the shortest way to them, then each after all that lead to it (none in a cycle).
    queue[0] = 1
    count, at, least = 1, 0, -1
    while at < count:
        here = queue[at]
        at += 1
        if final[here] and least < 0:
            least = shortest[here]
        for current in range(1, classes):
            target = next_[here, current]
            if target > 0:
                degree[target] += 1
                if degree[target] == 1 and target != 1:
                    shortest[target] = shortest[here] + 1
                    queue[count] = target
                    count += 1
    if degree[1]:
        return least, -1
    count, at, most = 1, 0, 0
    while at < count:
        here = queue[at]
        at += 1
        if final[here] and longest[here] > most:
            most = longest[here]
        for current in range(1, classes):
            target = next_[here, current]
            if target > 0:
                if longest[target] <= longest[here]:
                    longest[target] = longest[here] + 1
                degree[target] -= 1
                if degree[target] == 0:
                    queue[count] = target
                    count += 1
    return least, (most if count == states - 1 else -1)
