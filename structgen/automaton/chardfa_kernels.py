"""Kernels over tables of deterministic automata: product, minimisation, literals, lengths.

A table is `next[states, classes]`; state 0 is dead, state 1 the start, and column 0 is never taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.rows import find_row, grown_rows, grown_table, kernel

ALL, SOME, EVERY = 0, 1, 2
"""Which rows of a product live on: no component dead, some component alive, every row."""


@kernel
def product(
    flat: NDArray[np.int32],
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    columns: NDArray[np.int64],
    live: int,
    limit: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Run n tables in step.

    Args:
        flat, offsets, widths: table i is `flat[offsets[i]:]`, in rows of `widths[i]`.
        columns: `[n, classes]`, the column of table i for a joint class; class 0 is never taken.
        live: `ALL`, `SOME` or `EVERY`.

    Returns:
        `next`, and the states of the n tables in each joint state, `[states, n]`; no rows at all when there
        are more than `limit` states.
    """
    tables, classes = columns.shape
    rows = np.zeros((64, tables), np.int64)
    rows[1] = 1
    count = 2
    table = grown_table(rows, 1, count)
    next_ = np.zeros((64, classes), np.int32)
    row = np.zeros(tables, np.int64)
    here = 0
    while here + 1 < count:
        here += 1
        if count > limit:
            return next_[:0], rows[:0]
        if count + classes > rows.shape[0]:
            rows = grown_rows(rows, count + classes)
            table = grown_table(rows, 1, count)
            wider = np.zeros((rows.shape[0], classes), np.int32)
            wider[:count] = next_[:count]
            next_ = wider
        for current in range(1, classes):
            alive = 0
            for at in range(tables):
                row[at] = flat[offsets[at] + rows[here, at] * widths[at] + columns[at, current]]
                alive += row[at] > 0
            if (live == 0 and alive < tables) or (live == 1 and alive == 0):
                continue
            index = find_row(rows, table, row)
            if index < 0:
                rows[count] = row
                table[-1 - index] = count
                index = count
                count += 1
            next_[here, current] = index
    return next_[:count], rows[:count]


@kernel
def insert_words(codes: NDArray[np.int64], ends: NDArray[np.int64], classes: int) -> NDArray[np.int32]:
    """The trie of words: `codes` are their classes, word i ends before `ends[i]`. Its state numbers are in
    order of insertion, so the state after the whole of a word is found by walking it again.
    """
    next_ = np.zeros((codes.size + 2, classes), np.int32)
    count = 2
    start = 0
    for end in ends:
        here = 1
        for at in range(start, end):
            if next_[here, codes[at]] == 0:
                next_[here, codes[at]] = count
                count += 1
            here = next_[here, codes[at]]
        start = end
    return next_[:count]


@kernel
def useful_states(next_: NDArray[np.int32], final: NDArray[np.int32]) -> NDArray[np.int64]:
    """Per state, 1 when a final state can be reached from it (0 for state 0)."""
    states, classes = next_.shape
    begin = np.zeros(states + 2, np.int64)
    for here in range(1, states):
        for current in range(1, classes):
            begin[next_[here, current] + 2] += 1
    for at in range(2, states + 2):
        begin[at] += begin[at - 1]
    source = np.zeros(begin[states + 1], np.int64)
    for here in range(1, states):
        for current in range(1, classes):
            head = next_[here, current]
            source[begin[head + 1]] = here
            begin[head + 1] += 1
    useful = np.zeros(states, np.int64)
    stack = np.zeros(states, np.int64)
    top = 0
    for here in range(1, states):
        if final[here]:
            useful[here] = 1
            stack[top] = here
            top += 1
    while top:
        top -= 1
        head = stack[top]
        for at in range(begin[head], begin[head + 1]):
            if useful[source[at]] == 0:
                useful[source[at]] = 1
                stack[top] = source[at]
                top += 1
    return useful


@kernel
def _mark(
    item: int,
    items: NDArray[np.int64],
    place: NDArray[np.int64],
    block: NDArray[np.int64],
    first: NDArray[np.int64],
    marked: NDArray[np.int64],
    touched: NDArray[np.int64],
    count: int,
) -> int:
    """Move `item` into the marked front of its block; returns how many blocks are touched now."""
    owner = block[item]
    at = place[item]
    front = first[owner] + marked[owner]
    if at < front:
        return count
    items[at] = items[front]
    place[items[at]] = at
    items[front] = item
    place[item] = front
    if marked[owner] == 0:
        touched[count] = owner
        count += 1
    marked[owner] += 1
    return count


@kernel
def _split(
    items: NDArray[np.int64],
    block: NDArray[np.int64],
    first: NDArray[np.int64],
    past: NDArray[np.int64],
    marked: NDArray[np.int64],
    touched: NDArray[np.int64],
    count: int,
    blocks: int,
) -> int:
    """Split touched blocks into marked and unmarked, the smaller being new; returns the number of blocks."""
    for at in range(count):
        owner = touched[at]
        middle = first[owner] + marked[owner]
        marked[owner] = 0
        if middle == past[owner]:
            continue
        if middle - first[owner] <= past[owner] - middle:
            first[blocks] = first[owner]
            past[blocks] = middle
            first[owner] = middle
        else:
            first[blocks] = middle
            past[blocks] = past[owner]
            past[owner] = middle
        for where in range(first[blocks], past[blocks]):
            block[items[where]] = blocks
        marked[blocks] = 0
        blocks += 1
    return blocks


@kernel
def equivalent(
    next_: NDArray[np.int32], final: NDArray[np.int32], useful: NDArray[np.int64], kinds: int
) -> NDArray[np.int64]:
    """The block of each state in the coarsest partition that respects `final` and the transitions.

    Valmari and Lehtinen's algorithm for partial automata: blocks of states and blocks of transitions
    ("cords") refine each other; O(transitions * log states).

    Args:
        final: values in `range(kinds)`.
        useful: only states with 1 take part; the others are in block -1.
    """
    states, classes = next_.shape
    items = np.flatnonzero(useful)
    alive = items.size
    place = np.zeros(states, np.int64)
    block = np.full(states, -1, np.int64)
    for at in range(alive):
        place[items[at]] = at
        block[items[at]] = 0
    first, past = np.zeros(alive + 1, np.int64), np.zeros(alive + 1, np.int64)
    marked = np.zeros(alive + 1, np.int64)
    touched = np.zeros(alive + 1, np.int64)
    past[0] = alive
    blocks = 1
    for kind in range(1, kinds):
        count = 0
        for here in range(1, states):
            if useful[here] and final[here] == kind:
                count = _mark(here, items, place, block, first, marked, touched, count)
        blocks = _split(items, block, first, past, marked, touched, count, blocks)

    total = 0
    for here in range(1, states):
        if useful[here]:
            for current in range(1, classes):
                total += useful[next_[here, current]]
    tail, head = np.zeros(total, np.int64), np.zeros(total, np.int64)
    cord = np.zeros(total, np.int64)
    c_items, c_place = np.arange(total), np.arange(total)
    c_first, c_past = np.zeros(total + 1, np.int64), np.zeros(total + 1, np.int64)
    c_marked, c_touched = np.zeros(total + 1, np.int64), np.zeros(total + 1, np.int64)
    cords = 0
    begin = np.zeros(states + 2, np.int64)
    at = 0
    for current in range(1, classes):
        c_first[cords] = at
        for here in range(1, states):
            target = next_[here, current]
            if useful[here] and useful[target]:
                tail[at], head[at], cord[at] = here, target, cords
                begin[target + 2] += 1
                at += 1
        c_past[cords] = at
        cords += at > c_first[cords]
    for here in range(2, states + 2):
        begin[here] += begin[here - 1]
    incoming = np.zeros(total, np.int64)
    for at in range(total):
        incoming[begin[head[at] + 1]] = at
        begin[head[at] + 1] += 1

    splitter, done = 1, 0
    while done < cords:
        count = 0
        for at in range(c_first[done], c_past[done]):
            count = _mark(tail[c_items[at]], items, place, block, first, marked, touched, count)
        blocks = _split(items, block, first, past, marked, touched, count, blocks)
        done += 1
        while splitter < blocks:
            count = 0
            for at in range(first[splitter], past[splitter]):
                for where in range(begin[items[at]], begin[items[at] + 1]):
                    count = _mark(
                        incoming[where], c_items, c_place, cord, c_first, c_marked, c_touched, count
                    )
            cords = _split(c_items, cord, c_first, c_past, c_marked, c_touched, count, cords)
            splitter += 1
    return block


@kernel
def tidy(
    next_: NDArray[np.int32], final: NDArray[np.int32], kinds: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Trim and minimise: the states renumbered breadth-first from the start, equal columns merged.

    Args:
        final: values in `range(kinds)`, 0 for states that do not accept.

    Returns:
        `next`, `final`, and for each old class its new one (0 for those on which every state dies). The empty
        language keeps its start state, dead.
    """
    states, classes = next_.shape
    useful = useful_states(next_, final)
    block = equivalent(next_, final, useful, kinds)
    number = np.zeros(states, np.int64)
    order = np.zeros(states, np.int64)
    order[1] = 1
    count = 2
    if useful[1]:
        number[block[1]] = 1
    here = 0
    while here + 1 < count and useful[1]:
        here += 1
        for current in range(1, classes):
            target = next_[order[here], current]
            if useful[target] and number[block[target]] == 0:
                number[block[target]] = count
                order[count] = target
                count += 1
    small = np.zeros((count, classes), np.int32)
    kinds_of = np.zeros(count, np.int32)
    for here in range(1, count):
        kinds_of[here] = final[order[here]]
        for current in range(1, classes):
            target = next_[order[here], current]
            if useful[order[here]] and useful[target]:
                small[here, current] = number[block[target]]
    merged = np.zeros(classes, np.int64)
    kept = np.zeros(classes, np.int64)
    width = 1
    for current in range(1, classes):
        same = -1
        for other in range(width):
            if np.all(small[:, kept[other]] == small[:, current]):
                same = other
                break
        if same < 0:
            same = width
            kept[width] = current
            width += 1
        merged[current] = same
    narrow = np.zeros((count, width), np.int32)
    for current in range(width):
        narrow[:, current] = small[:, kept[current]]
    return narrow, kinds_of, merged


@kernel
def extreme_lengths(next_: NDArray[np.int32], final: NDArray[np.int32]) -> tuple[int, int]:
    """The shortest and the longest accepted length of a trimmed, non-empty table; -1 for no longest one."""
    states, classes = next_.shape
    shortest = np.full(states, -1, np.int64)
    queue = np.zeros(states, np.int64)
    degree = np.zeros(states, np.int64)
    shortest[1] = 0
    queue[0] = 1
    count = 1
    least = -1
    at = 0
    while at < count:
        here = queue[at]
        at += 1
        if final[here] and least < 0:
            least = shortest[here]
        for current in range(1, classes):
            target = next_[here, current]
            if target > 0:
                degree[target] += 1
                if shortest[target] < 0:
                    shortest[target] = shortest[here] + 1
                    queue[count] = target
                    count += 1
    if degree[1]:
        return least, -1
    longest = np.zeros(states, np.int64)
    queue[0] = 1
    count = 1
    at = 0
    most = 0
    while at < count:
        here = queue[at]
        at += 1
        if final[here] and longest[here] > most:
            most = longest[here]
        for current in range(1, classes):
            target = next_[here, current]
            if target > 0:
                longest[target] = max(longest[target], longest[here] + 1)
                degree[target] -= 1
                if degree[target] == 0:
                    queue[count] = target
                    count += 1
    return least, (most if count == states - 1 else -1)
