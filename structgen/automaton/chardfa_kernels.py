"""Kernels over tables of deterministic automata: product, minimisation, lengths.

A table is `next[states, classes]`; state 0 is dead, state 1 the start, and column 0 is never taken. Arrays are made in
Python and filled by kernels, see `rows`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.rows import FIRST_ROWS, empty_table, grown_rows, intern
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


def tidy(next_: Int32, final: Int32, kinds: int) -> tuple[Int32, Int32, Int64]:
    """Trim and minimise: the states renumbered breadth-first from the start, equal columns merged.

    Args:
        final: values in `range(kinds)`, 0 for states that do not accept.

    Returns:
        `next`, `final`, and for each old class its new one (0 for those on which every state dies). The empty
        language keeps its start state, dead.
    """
    states, classes = next_.shape
    total = int(np.count_nonzero(next_))
    size = max(states, total, kinds, classes) + 2
    items, place, owner, first, past, marked = np.zeros((6, 2 * size), np.int32)
    begin, tail, letters, queue = np.zeros((4, size), np.int32)
    block = owner[:size]
    alive = _useful(next_, final, begin, tail, letters, marked[size:], queue, block)
    blocks = _refine(
        final, kinds, classes, begin, tail, letters, queue, alive, items, place, owner, first, past, marked, size
    )
    small = np.zeros((blocks + 2, classes), np.int32)
    merged = np.zeros(classes, np.int64)
    order = np.zeros(blocks + 2, np.int64)
    count, width = _renumber(next_, block, small, merged, order, queue)
    accepts = final[order[:count]]
    accepts[0] = 0
    return np.ascontiguousarray(small[:count, :width]), accepts, merged


@kernel
def _useful(
    next_: Int32, final: Int32, begin: Int32, tail: Int32, letters: Int32, ends: Int32, queue: Int32, block: Int32
) -> int:
    """Find the states from which a final one can be reached.

    Args:
        begin, tail: filled with the transitions by head: those into state i are `begin[i]:begin[i + 1]`, and come from
            `tail`; 0 where the head is useless.
        letters, ends: filled with the transitions by letter: those of letter i stand before `ends[i]`.
        queue: filled with the useful states.
        block: filled with 0 for useful states and -1 for others.

    Returns:
        How many states are useful.
    """
    states, classes = next_.shape
    for here in range(1, states):
        for current in range(1, classes):
            begin[next_[here, current] + 2] += 1
    begin[2] = 0
    for here in range(2, states + 2):
        begin[here] += begin[here - 1]
    count = 0
    for current in range(1, classes):
        for here in range(1, states):
            head = next_[here, current]
            if head > 0:
                at = begin[head + 1]
                begin[head + 1] = at + 1
                tail[at] = here
                letters[count] = at
                count += 1
        ends[current] = count
    count = 0
    for here in range(states):
        block[here] = -1
        if final[here] and here > 0:
            block[here] = 0
            queue[count] = here
            count += 1
    done = 0
    while done < count:
        head = queue[done]
        done += 1
        for at in range(begin[head], begin[head + 1]):
            here = tail[at]
            if block[here] < 0:
                block[here] = 0
                queue[count] = here
                count += 1
    for here in range(1, states):
        if block[here] < 0:
            for at in range(begin[here], begin[here + 1]):
                tail[at] = 0
    return count


@kernel
def _refine(
    final: Int32, kinds: int, classes: int, begin: Int32, tail: Int32, letters: Int32, queue: Int32, alive: int,
    items: Int32, place: Int32, owner: Int32, first: Int32, past: Int32, marked: Int32, size: int,
) -> int:  # fmt: skip
    """The coarsest partition of the useful states that respects `final` and the transitions.

    Valmari and Lehtinen's algorithm for partial automata: blocks of states and blocks of transitions
    ("cords") refine each other; O(transitions * log states). Both are in the same arrays, transitions and cords
    (and the places of transitions) with numbers from `size` on.

    Args:
        begin, tail, letters, queue, alive: what `_useful` found; letters and queue are used up.
        items: grouped by block. The places of block b are `first[b]:past[b]`, of which the first `marked[b]` are
            marked; at the start, `marked[size:]` holds the `ends` of the letters.
        place, owner: of each item, its place among the items, and its block.

    Returns:
        The number of blocks; `owner` has the block of each state.
    """
    blocks = 0
    for i in range(alive):
        marked[final[queue[i]]] += 1
    at = 0
    for kind in range(kinds):
        if marked[kind] > 0:
            first[blocks] = at
            past[blocks] = at
            at += marked[kind]
            marked[kind] = blocks
            blocks += 1
    for i in range(alive):
        state = queue[i]
        block = marked[final[state]]
        at = past[block]
        past[block] = at + 1
        items[at] = state
        place[state] = at
        owner[state] = block
    for kind in range(kinds):
        marked[kind] = 0
    cords, at, i = size, size, 0
    for current in range(1, classes):
        first[cords] = at
        while i < marked[size + current]:
            item = letters[i]
            i += 1
            if tail[item]:
                items[at] = size + item
                place[size + item] = at
                owner[size + item] = cords
                at += 1
        past[cords] = at
        marked[size + current] = 0
        cords += at > first[cords]

    splitter, done = 1, size
    while splitter < blocks or done < cords:
        # What a block or a cord splits: the transitions into its states, or the states its transitions leave.
        count = 0
        states = splitter >= blocks
        if states:
            fresh = blocks
            for at in range(first[done], past[done]):
                letters[count] = tail[items[at] - size]
                count += 1
            done += 1
        else:
            fresh = cords
            for at in range(first[splitter], past[splitter]):
                state = items[at]
                for item in range(begin[state], begin[state + 1]):
                    letters[count] = size + item
                    count += 1
            splitter += 1
        # Marked items move to the front of their block.
        touched = 0
        for i in range(count):
            item = letters[i]
            block, at = owner[item], place[item]
            front = first[block] + marked[block]
            if at >= front:
                other = items[front]
                items[at] = other
                place[other] = at
                items[front] = item
                place[item] = front
                if marked[block] == 0:
                    queue[touched] = block
                    touched += 1
                marked[block] += 1
        # Touched blocks fall into marked and unmarked, the smaller being new.
        for i in range(touched):
            block = queue[i]
            low, high = first[block], past[block]
            middle = low + marked[block]
            marked[block] = 0
            if middle == high:
                continue
            if middle - low <= high - middle:
                first[block] = middle
                high = middle
            else:
                past[block] = middle
                low = middle
            first[fresh], past[fresh] = low, high
            for at in range(low, high):
                owner[items[at]] = fresh
            fresh += 1
        if states:
            blocks = fresh
        else:
            cords = fresh
    return blocks


@kernel
def _renumber(next_: Int32, block: Int32, small: Int32, merged: Int64, order: Int64, number: Int32) -> tuple[int, int]:
    """Write the table of blocks to `small`, breadth-first from the start's, and move equal columns together.

    Args:
        block: per state; -1 for useless ones.
        merged: filled with the new class of each old one.
        order: filled with a state of each block, in the order of their new numbers.
        number: scratch, at least as long as there are blocks.

    Returns:
        The new numbers of states and classes.
    """
    states, classes = next_.shape
    for at in range(states):
        number[at] = 0
    order[1] = 1
    count = 2
    here = 0
    if block[1] < 0:
        here = 1
    else:
        number[block[1]] = 1
    while here + 1 < count:
        here += 1
        for current in range(1, classes):
            target = next_[order[here], current]
            if block[target] >= 0:
                if number[block[target]] == 0:
                    number[block[target]] = count
                    order[count] = target
                    count += 1
                small[here, current] = number[block[target]]
    width = 1
    for current in range(1, classes):
        same, row = -1, 0
        while row < count:
            same += 1
            row = 0
            if same == width:
                break
            while row < count and small[row, same] == small[row, current]:
                row += 1
        if same == width:
            for row in range(count):
                small[row, width] = small[row, current]
            width += 1
        merged[current] = same
    return count, width


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
