"""Kernels that trim and minimise the tables of deterministic automata: see `chardfa_kernels` for these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import inner_kernel, kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


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
    blocks = _first_blocks(final, kinds, queue, alive, items, place, owner, first, past, marked)
    cords = _first_cords(classes, tail, letters, items, place, owner, first, past, marked, size)
    splitter, done = 1, size
    while splitter < blocks or done < cords:
        # What a block or a cord splits: the transitions into its states, or the states its transitions leave.
        count = 0
        states = splitter >= blocks
        if states:
            for at in range(first[done], past[done]):
                letters[count] = tail[items[at] - size]
                count += 1
            done += 1
        else:
            for at in range(first[splitter], past[splitter]):
                state = items[at]
                for item in range(begin[state], begin[state + 1]):
                    letters[count] = size + item
                    count += 1
            splitter += 1
        touched = _mark(letters, count, queue, items, place, owner, first, marked)
        if states:
            blocks = _divide(queue, touched, blocks, items, owner, first, past, marked)
        else:
            cords = _divide(queue, touched, cords, items, owner, first, past, marked)
    return blocks


@inner_kernel
def _first_blocks(
    final: Int32, kinds: int, queue: Int32, alive: int,
    items: Int32, place: Int32, owner: Int32, first: Int32, past: Int32, marked: Int32,
) -> int:  # fmt: skip
    """The blocks of `_refine` at the start: the useful states by kind. How many there are."""
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
    return blocks


@inner_kernel
def _first_cords(
    classes: int, tail: Int32, letters: Int32,
    items: Int32, place: Int32, owner: Int32, first: Int32, past: Int32, marked: Int32, size: int,
) -> int:  # fmt: skip
    """The cords of `_refine` at the start: the transitions by letter. The number behind the last one."""
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
    return cords


@inner_kernel
def _mark(
    wanted: Int32, count: int, queue: Int32, items: Int32, place: Int32, owner: Int32, first: Int32, marked: Int32
) -> int:
    """Move the first `count` of the wanted items to the front of their blocks. How many blocks are in `queue` then."""
    touched = 0
    for i in range(count):
        item = wanted[i]
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
    return touched


@inner_kernel
def _divide(
    queue: Int32, touched: int, fresh: int, items: Int32, owner: Int32, first: Int32, past: Int32, marked: Int32
) -> int:
    """Divide the touched blocks into marked and unmarked, the smaller being new, from `fresh` on. The next new one."""
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
    return fresh


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
