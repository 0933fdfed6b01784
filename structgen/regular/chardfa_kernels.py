"""Kernels over tables of deterministic automata: product, lengths. Minimisation is in `minimise`.

A table is `next[states, classes]`; state 0 is dead, state 1 the start, and column 0 is never taken. Arrays are made in
Python and filled by kernels, see `interning`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Rows, kernel
from structgen.memory import afford
from structgen.regular.interning import FIRST_ROWS, empty_table, grown_rows, intern

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ALL, SOME, EVERY = 0, 1, 2
"""Which joint states of a product are kept: those with all components alive, with some alive, or every one."""
NO_LONGEST = -1
"""In place of a longest length."""


def product(
    flat: Int32, offsets: Int64, widths: Int64, columns: Int64, live: int, limit: int
) -> tuple[Int32, Int64] | None:
    """The product of n tables, which are run in step.

    Args:
        flat, offsets, widths: table i is `flat[offsets[i]:]`, in rows of `widths[i]`.
        columns: `[n, classes]`, the column of table i for a joint class; class 0 is never taken.
        live: `ALL`, `SOME` or `EVERY`.

    Returns:
        `next`, and `[states, n]`, the states of the tables in each joint state; None for more than `limit` states.
    """
    tables, classes = columns.shape
    rows, next_ = np.zeros((FIRST_ROWS, tables), np.int64), np.zeros((FIRST_ROWS, classes), np.int32)
    rows[1] = 1
    done, count = 0, 2
    while count <= limit:
        afford(3 * rows.nbytes + next_.nbytes)  # and the table of `intern`
        if len(rows) < count + classes:
            rows, next_ = grown_rows(rows, count + classes), grown_rows(next_, count + classes)
        done, count = _expand(flat, offsets, widths, columns, live, limit, rows, empty_table(rows), next_, done, count)
        if done + 1 == count:
            return next_[:count], rows[:count]
    return None


@kernel
def _expand(
    flat: Int32, offsets: Int64, widths: Int64, columns: Rows[Int64], live: int, limit: int,
    rows: Rows[Int64], table: Int64, next_: Rows[Int32], done: int, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Expand the states of `product` until all are, the limit is passed, or there is no room for one more.

    The plain loop: for each state and class, the tuple of the tables' next states is a state, unless `live` says no.

    Args:
        rows: int64[capacity, tables], the states of the tables in each joint state.
        table: empty; the `count` rows there are are interned first.
        next_: int32[capacity, classes], filled.
        done: the last state expanded.

    Returns:
        The last state expanded, and the number of states.
    """
    tables, classes = columns.shape
    for index in range(1, count):
        intern(rows, table, index)
    while done + 1 < count and count <= limit and count + classes <= rows.shape[0]:
        done += 1
        for current in range(1, classes):
            alive = 0
            for i in range(tables):
                row = offsets[i] + rows[done, i] * widths[i]
                target = flat[row + columns[i, current]]
                rows[count, i] = target
                alive += target > 0
            if (live == ALL and alive < tables) or (live == SOME and alive == 0):
                continue
            index = intern(rows, table, count)
            count += index == count
            next_[done, current] = index
    return done, count


FAR = 1 << 30
"""The steps from a state that leads to no accepting one."""


def fewest_steps(next_: Int32, accepts: NDArray[np.bool_]) -> Int32:
    """int32[states]: the fewest steps from each state of a table to an accepting one; `FAR` if none can be reached.

    Args:
        next_: int32[states, classes], all columns of which may be taken.
    """
    steps: Int32 = np.where(accepts, 0, FAR).astype(np.int32)
    lower_steps(np.ascontiguousarray(next_), steps)
    return steps


@kernel
def lower_steps(next_: Rows[Int32], steps: Int32) -> int:
    """Lower the steps of each state to one more than those of a state to which it leads, until none is too high.

    States are visited from the last to the first and back in turn: most transitions lead to higher or to lower numbers,
    so few rounds are needed. Returns the number of rounds.
    """
    changed, rounds, states = 1, 0, next_.shape[0]
    while changed != 0:
        changed = 0
        for place in range(states):
            state = place if rounds % 2 else states - 1 - place
            least = steps[state]
            for current in range(next_.shape[1]):
                following = steps[next_[state, current]] + 1
                if following < least:
                    least = following
            if least < steps[state]:
                steps[state] = least
                changed = 1
        rounds += 1
    return rounds


@kernel
def longest_length(next_: Rows[Int32], final: Int32, longest: Int64, queue: Int64, degree: Int64) -> int:
    """The longest accepted length of a trimmed, non-empty table; or `NO_LONGEST`.

    The plain loop: the lengths of all paths from the start to accepting states. Equal to it, each state is visited
    after all states that lead to it, and so met by its longest path; states in or after a cycle are not visited.

    Args:
        longest, queue, degree: scratch, zeros for each state. `degree` counts the transitions from states that are
            still to come.
    """
    states, classes = next_.shape
    for state in range(1, states):
        for current in range(1, classes):
            degree[next_[state, current]] += 1
    if degree[1]:  # the start is in a cycle
        return NO_LONGEST
    queue[0] = 1
    count, done, length = 1, 0, 0
    while done < count:
        state = queue[done]
        done += 1
        if final[state] and longest[state] > length:
            length = longest[state]
        for current in range(1, classes):
            target = next_[state, current]
            if target > 0:
                if longest[target] <= longest[state]:
                    longest[target] = longest[state] + 1
                degree[target] -= 1
                if degree[target] == 0:
                    queue[count] = target
                    count += 1
    return length if count == states - 1 else NO_LONGEST
