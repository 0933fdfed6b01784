"""Kernels that trim and minimise the tables of deterministic automata: see `chardfa_kernels` for these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Rows, inner_kernel, kernel
from structgen.memory import afford
from structgen.regular.interning import zeros

Int32 = NDArray[np.int32]

BEGIN, TAIL, LETTER, QUEUE = range(4)
"""Rows of `work`, int32[4, .]. Transitions are numbers from 0 on, in the order of their heads.

BEGIN: those into state i are `begin[i]:begin[i + 1]`. TAIL: the state that each comes from; 0 where its head is
useless. LETTER: the class of each; then scratch, the items to be marked. QUEUE: filled by `_useful` with the useful
states; then scratch, the blocks that were touched.
"""
WORK = 4
ITEMS, PLACE, OWNER, FIRST, PAST, MARKED = range(6)
"""Rows of a partition, int32[6, .]: items (states or transitions) in blocks.

ITEMS: the items, grouped by block. PLACE: the index of each item among the items. OWNER: the block of each item.
FIRST, PAST: the items of block b have the indices `first[b]:past[b]`. MARKED: the first `marked[b]` of them are marked.
"""
PARTITION = 6
SPARE = WORK + 2 * PARTITION + 2
"""The numbers of these rows, and of all rows of the scratch space."""
USELESS = -1
"""In place of a state's block: no final state can be reached from it."""


def tidy(bounds: Int32, classes: Int32, next_: Int32, final: Int32, kinds: int) -> tuple[Int32, Int32, Int32, Int32]:
    """Trim and minimise. States are renumbered breadth-first from the start; equal columns, and then neighbouring
    intervals of one class, are merged.

    Args:
        final: values in `range(kinds)`, 0 for states that do not accept.

    Returns:
        `bounds`, `classes`, `next` and `final`. Characters on which every state dies have class 0. The empty language
        keeps its start state, dead.
    """
    states, width = next_.shape
    size = max(states, int(np.count_nonzero(next_)), kinds, width) + 2
    afford(4 * (SPARE * size + states * width), of=f"an automaton of {states:,} states")
    spare, small = zeros((SPARE, size), np.int32), zeros((states + 1, width), np.int32)
    accepts, intervals = np.zeros(states + 1, np.int32), np.empty((2, len(bounds)), np.int32)
    count, width, kept = _tidy(bounds, classes, next_, final, kinds, spare, small, accepts, intervals)
    bounds, classes = intervals[:, :kept].copy()
    return bounds, classes, small[:count, :width].copy(), accepts[:count]


@kernel
def _tidy(
    bounds: Int32, classes: Int32, next_: Rows[Int32], final: Int32, kinds: int, spare: Rows[Int32],
    small: Rows[Int32], accepts: Int32, intervals: Rows[Int32],
) -> tuple[int, int, int]:  # fmt: skip
    """Fill `small`, `accepts` and `intervals` (bounds and classes) with what `tidy` returns.

    Args:
        spare: int32[SPARE, .], all zero: the rows of `work`, of the partitions of states and of transitions, `order`
            and `merged`.

    Returns:
        The new numbers of states, of classes and of intervals.
    """
    work, blocks, cords = spare[:WORK], spare[WORK : WORK + PARTITION], spare[WORK + PARTITION : SPARE - 2]
    order, merged = spare[SPARE - 2], spare[SPARE - 1]
    useful = _useful(next_, final, work, blocks[OWNER])
    _refine(final, kinds, next_.shape[1], work, useful, blocks, cords)
    count = _renumber(next_, blocks[OWNER], small, order, work[QUEUE])
    for state in range(1, count):
        accepts[state] = final[order[state]]
    width = _merge_columns(small, count, merged)
    kept: int = 0
    for i in range(bounds.size):
        if i == 0 or merged[classes[i]] != intervals[1, kept - 1]:
            intervals[0, kept], intervals[1, kept] = bounds[i], merged[classes[i]]
            kept += 1
    return count, width, kept


@inner_kernel
def _by_head(next_: Rows[Int32], work: Rows[Int32]) -> None:
    """Fill `begin`, `tail` and `letter` of `work`, by a counting sort."""
    states, classes = next_.shape
    begin, tail, letter = work[BEGIN], work[TAIL], work[LETTER]
    # Counted one entry too far: filling then moves `begin[head + 1]` to where the head's transitions end.
    for state in range(1, states):
        for current in range(1, classes):
            begin[next_[state, current] + 2] += 1
    begin[2] = 0
    for head in range(2, states + 2):
        begin[head] += begin[head - 1]
    for current in range(1, classes):
        for state in range(1, states):
            head = next_[state, current]
            if head > 0:
                transition = begin[head + 1]
                begin[head + 1] = transition + 1
                tail[transition] = state
                letter[transition] = current


@inner_kernel
def _useful(next_: Rows[Int32], final: Int32, work: Rows[Int32], block: Int32) -> int:
    """Find the states from which a final one can be reached: a search backwards from the final ones.

    Args:
        work: filled.
        block: filled with 0 for useful states and `USELESS` for others.

    Returns:
        How many states are useful.
    """
    states = next_.shape[0]
    _by_head(next_, work)
    begin, tail, queue = work[BEGIN], work[TAIL], work[QUEUE]
    count = 0
    for state in range(states):
        block[state] = USELESS
        if final[state] and state > 0:
            block[state] = 0
            queue[count] = state
            count += 1
    done = 0
    while done < count:
        head = queue[done]
        done += 1
        for transition in range(begin[head], begin[head + 1]):
            state = tail[transition]
            if block[state] == USELESS:
                block[state] = 0
                queue[count] = state
                count += 1
    for state in range(1, states):
        if block[state] == USELESS:
            for transition in range(begin[state], begin[state + 1]):
                tail[transition] = 0
    return count


@inner_kernel
def _refine(
    final: Int32, kinds: int, classes: int, work: Rows[Int32], useful: int, blocks: Rows[Int32], cords: Rows[Int32]
) -> None:
    """The coarsest partition of the useful states that respects `final` and the transitions.

    The plain loop: while the states of a block differ in the blocks that they lead to, divide it. Valmari and
    Lehtinen's algorithm for partial automata equals it in O(transitions * log states): blocks of states and blocks of
    transitions ("cords") refine each other, and the smaller part of a divided block becomes the new one.

    Args:
        work, useful: what `_useful` filled, and returned; LETTER and QUEUE are used up.
        blocks: of the states.
        cords: of the transitions.

    OWNER of `blocks` then has the block of each state.
    """
    begin, tail, split, queue = work[BEGIN], work[TAIL], work[LETTER], work[QUEUE]
    n_blocks = _group(queue, useful, final, kinds, blocks)
    count = 0
    for transition in range(begin[final.size]):
        if tail[transition]:
            queue[count] = transition
            count += 1
    n_cords = _group(queue, count, work[LETTER], classes, cords)
    block, cord = 1, 0  # the next ones to split by; block 0 needs none: Hopcroft's "all but one"
    while block < n_blocks or cord < n_cords:
        count = 0
        if block < n_blocks:  # a block splits the cords: by the transitions into its states
            for place in range(blocks[FIRST, block], blocks[PAST, block]):
                state = blocks[ITEMS, place]
                for transition in range(begin[state], begin[state + 1]):
                    split[count] = transition
                    count += 1
            block += 1
            touched = _mark(split, count, queue, cords)
            n_cords = _divide(queue, touched, n_cords, cords)
        else:  # a cord splits the blocks: by the states that its transitions leave
            for place in range(cords[FIRST, cord], cords[PAST, cord]):
                split[count] = tail[cords[ITEMS, place]]
                count += 1
            cord += 1
            touched = _mark(split, count, queue, blocks)
            n_blocks = _divide(queue, touched, n_blocks, blocks)


@inner_kernel
def _group(wanted: Int32, count: int, key: Int32, kinds: int, part: Rows[Int32]) -> int:
    """Put the first `count` of the wanted items into a block for each of their keys, by a counting sort.

    Args:
        key: of each item, below `kinds`.
        part: the partition, filled; MARKED is zero, and left so.

    Returns:
        The number of blocks.
    """
    first, past, marked = part[FIRST], part[PAST], part[MARKED]
    for i in range(count):
        marked[key[wanted[i]]] += 1
    blocks, place = 0, 0
    for kind in range(kinds):  # from here on, `marked` of a kind is its block
        if marked[kind] > 0:
            first[blocks] = place
            past[blocks] = place
            place += marked[kind]
            marked[kind] = blocks
            blocks += 1
    for i in range(count):
        item = wanted[i]
        block = marked[key[item]]
        place = past[block]
        past[block] = place + 1
        part[ITEMS, place] = item
        part[PLACE, item] = place
        part[OWNER, item] = block
    for kind in range(kinds):
        marked[kind] = 0
    return blocks


@inner_kernel
def _mark(wanted: Int32, count: int, queue: Int32, part: Rows[Int32]) -> int:
    """Mark the first `count` of the wanted items. Returns the number of blocks that have some; `queue` gets them."""
    touched = 0
    for i in range(count):
        item = wanted[i]
        block, place = part[OWNER, item], part[PLACE, item]
        front = part[FIRST, block] + part[MARKED, block]
        if place >= front:  # else it is marked already
            other = part[ITEMS, front]
            part[ITEMS, place] = other
            part[PLACE, other] = place
            part[ITEMS, front] = item
            part[PLACE, item] = front
            if part[MARKED, block] == 0:
                queue[touched] = block
                touched += 1
            part[MARKED, block] += 1
    return touched


@inner_kernel
def _divide(queue: Int32, touched: int, fresh: int, part: Rows[Int32]) -> int:
    """Divide the touched blocks into marked and unmarked items. The smaller part gets a new number, from `fresh` on;
    returns the next new number."""
    first, past, marked = part[FIRST], part[PAST], part[MARKED]
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
        for place in range(low, high):
            part[OWNER, part[ITEMS, place]] = fresh
        fresh += 1
    return fresh


@inner_kernel
def _renumber(next_: Rows[Int32], block: Int32, small: Rows[Int32], order: Int32, number: Int32) -> int:
    """Write the table of blocks to `small`, breadth-first from the start.

    Args:
        block: per state; `USELESS` for useless ones.
        order: filled with a state of each block, in the order of their new numbers.
        number: scratch, at least as long as there are blocks: the new number of each, 0 for none yet.

    Returns:
        The number of states.
    """
    states, classes = next_.shape
    for old in range(states):
        number[old] = 0
    order[1] = 1
    count = 2
    done = 0
    if block[1] == USELESS:  # the empty language: its dead start state stays, and nothing is looked at
        done = 1
    else:
        number[block[1]] = 1
    while done + 1 < count:
        done += 1
        for current in range(1, classes):
            target = next_[order[done], current]
            if block[target] != USELESS:
                if number[block[target]] == 0:
                    number[block[target]] = count
                    order[count] = target
                    count += 1
                small[done, current] = number[block[target]]
    return count


@inner_kernel
def _merge_columns(small: Rows[Int32], count: int, merged: Int32) -> int:
    """Move the different columns of the first `count` rows to the front; returns their number. `merged` gets the new
    column of each old one. Column 0, all zeros, stays."""
    width = 1
    for current in range(1, small.shape[1]):
        same: int = 0
        while same < width and not _equal_columns(small, count, same, current):
            same += 1
        if same == width:
            for row in range(count):
                small[row, width] = small[row, current]
            width += 1
        merged[current] = same
    return width


@inner_kernel
def _equal_columns(small: Rows[Int32], count: int, one: int, other: int) -> bool:
    """Are the first `count` numbers of two columns equal?"""
    row = 0
    while row < count and small[row, one] == small[row, other]:
        row += 1
    return row == count
