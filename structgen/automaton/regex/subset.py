"""Subset construction: a program for a nondeterministic machine becomes a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.regex import charsets
from structgen.automaton.regex.nodes import Place
from structgen.automaton.regex.program import Assembler, Instruction
from structgen.automaton.rows import find_row, grown_rows, grown_table, kernel

_BEFORE_START, _BEFORE_OTHER, _BEFORE_WORD = 0, 1, 2
_AFTER_END, _AFTER_OTHER, _AFTER_WORD = 0, 1, 2


class Table(NamedTuple):
    """A deterministic automaton over code points, not trimmed; state 0 is dead, state 1 the start.

    Attributes:
        bounds, classes: int32[k], the first code point of each interval and its class; class 0 is never text.
        next: int32[states, classes].
        final: int32[states], 1 where the automaton accepts.
    """

    bounds: NDArray[np.int32]
    classes: NDArray[np.int32]
    next: NDArray[np.int32]
    final: NDArray[np.int32]


def determinise(
    program: list[Instruction], assembler: Assembler, *, trailing: bool, limit: int
) -> Table | None:
    """Run `program` on every string at once; None when more than `limit` states are needed.

    Args:
        trailing: accept whatever follows a match (else the match must end where the string ends).
    """
    bounded = not assembler.places.isdisjoint((Place.BOUNDARY, Place.NO_BOUNDARY))
    word = assembler.char(charsets.WORD)[1] if bounded else -1
    context = 2 if bounded else 1 if assembler.places else 0
    bounds, classes, members = charsets.partition(list(assembler.sets))
    count = max(classes) + 1
    wordly = np.zeros(count, np.int64)
    if bounded:
        wordly[members[word]] = 1
    starts = np.zeros(len(members) + 1, np.int64)
    np.cumsum([len(member) for member in members], out=starts[1:])
    flat = np.array([current for member in members for current in member], np.int64)
    code = np.array(program, np.int64)
    table, final = _subsets(code, flat, starts, wordly, context, trailing, limit)
    if table.shape[0] == 0:
        return None
    return Table(np.array(bounds, np.int32), np.array(classes, np.int32), table, final)


@kernel
def _holds(place: int, before: int, after: int) -> bool:
    """Does an assertion hold between two contexts? (0 edge of the string, 1 other, 2 word character)"""
    if place == 0:
        return before == 0
    if place == 1:
        return after == 0
    return ((before == 2) != (after == 2)) == (place == 2)


@kernel
def _closure(
    code: NDArray[np.int64],
    row: NDArray[np.int64],
    before: int,
    after: int,
    scratch: NDArray[np.int64],
    epoch: int,
) -> int:
    """Follow `row` (a bit set of instructions) without consuming anything.

    Args:
        scratch: `[3, 3 * n + 64]`: the CHAR instructions reached; a stack; the epoch of the last visit.

    Returns:
        How many CHAR instructions were reached, or `-1 - count` when MATCH was, too.
    """
    live, stack, seen = scratch[0], scratch[1], scratch[2]
    top = 0
    for word in range(row.size - 1):
        bits = np.uint64(row[word])
        at = word * 64
        while bits:
            if bits & np.uint64(1):
                stack[top] = at
                top += 1
            bits >>= np.uint64(1)
            at += 1
    count = 0
    found = False
    while top:
        top -= 1
        here = stack[top]
        if seen[here] == epoch:
            continue
        seen[here] = epoch
        operation = code[here, 0]
        if operation == 0:
            live[count] = here
            count += 1
        elif operation == 1:
            stack[top] = here + code[here, 1]
            stack[top + 1] = here + code[here, 2]
            top += 2
        elif operation == 2:
            if _holds(code[here, 1], before, after):
                stack[top] = here + 1
                top += 1
        else:
            found = True
    return -1 - count if found else count


@kernel
def _step(
    code: NDArray[np.int64],
    flat: NDArray[np.int64],
    starts: NDArray[np.int64],
    wordly: NDArray[np.int64],
    live: NDArray[np.int64],
    only: int,
    reached: NDArray[np.int64],
) -> None:
    """Set in `reached[class]` the successors of the `live` instructions, for classes whose context is `only`.

    `only` is -1 for all classes, else the wanted value of `wordly`.
    """
    for here in live:
        target = here + 1
        bit = np.int64(np.uint64(1) << np.uint64(target & 63))
        chars = code[here, 1]
        for at in range(starts[chars], starts[chars + 1]):
            current = flat[at]
            if only < 0 or wordly[current] == only:
                reached[current, target >> 6] |= bit


@kernel
def _subsets(
    code: NDArray[np.int64],
    flat: NDArray[np.int64],
    starts: NDArray[np.int64],
    wordly: NDArray[np.int64],
    context: int,
    trailing: bool,
    limit: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The subset construction: a state is a bit set of instructions and, last, what stood before it.

    Args:
        code: `[n, 3]` instructions.
        flat, starts: the classes of set i are `flat[starts[i]:starts[i + 1]]`.
        wordly: per class, 1 for word characters (used when `context` is 2).
        context: 0 without assertions, 1 with some, 2 with word boundaries.
        trailing: a match decides: whatever follows is accepted.

    Returns:
        `next[states, classes]` and `final[states]`; no rows at all when there are more than `limit` states.
    """
    words = (code.shape[0] + 63) // 64
    classes = wordly.size
    rows = np.zeros((64, words + 1), np.int64)
    rows[1, 0] = 1
    count = 2
    everything = -1
    table = grown_table(rows, 1, count)
    next_ = np.zeros((64, classes), np.int32)
    final = np.zeros(64, np.int32)
    scratch = np.zeros((3, 3 * code.shape[0] + 64), np.int64)
    reached = np.zeros((classes, words + 1), np.int64)
    epoch = 0
    here = 0
    while here + 1 < count:
        here += 1
        if count > limit:
            return next_[:0], final[:0]
        if count + classes + 2 > rows.shape[0]:
            rows = grown_rows(rows, count + classes + 2)
            table = grown_table(rows, 1, count)
            wider = np.zeros((rows.shape[0], classes), np.int32)
            wider[:count] = next_[:count]
            next_ = wider
            longer = np.zeros(rows.shape[0], np.int32)
            longer[:count] = final[:count]
            final = longer
        if here == everything:
            next_[here, 1:] = here
            final[here] = 1
            continue
        before = rows[here, words]
        epoch += 1
        live = _closure(code, rows[here], before, 0, scratch, epoch)
        final[here] = live < 0
        reached[:] = 0
        for after in range(1, max(context, 1) + 1):
            if context:
                epoch += 1
                live = _closure(code, rows[here], before, after, scratch, epoch)
            only = after - 1 if context == 2 else -1
            if live < 0 and trailing:
                if everything < 0:
                    everything = count
                    rows[count, 0] = -1
                    rows[count, words] = -1
                    count += 1
                for current in range(1, classes):
                    if only < 0 or wordly[current] == only:
                        next_[here, current] = everything
            else:
                size = -1 - live if live < 0 else live
                _step(code, flat, starts, wordly, scratch[0, :size], only, reached)
        for current in range(1, classes):
            empty = True
            for word in range(words):
                empty = empty and reached[current, word] == 0
            if empty:
                continue
            if context:
                reached[current, words] = 1 + wordly[current]
            index = find_row(rows, table, reached[current])
            if index < 0:
                rows[count] = reached[current]
                table[-1 - index] = count
                index = count
                count += 1
            next_[here, current] = index
    return next_[:count], final[:count]
