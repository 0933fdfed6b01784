"""Subset construction: a program for a nondeterministic machine becomes a table."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.regular.regex import charsets
from structgen.regular.regex.nodes import Place
from structgen.regular.regex.program import Assembler, Instruction
from structgen.regular.interning import FIRST_ROWS, empty_table, grown_rows, intern
from structgen.kernels import inner_kernel, kernel

LIVE, STACK, SEEN = range(3)
HERE, COUNT, EVERYTHING = range(3)
_EVERYTHING = b"all"
"""The state that accepts everything."""
MOST_BYTES = 1 << 28
"""What the bit sets of all states of a table may take while it is made."""
MOST_CELLS = 1 << 24
"""States times classes of a table."""


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


class Machine:
    """A program as arrays for the kernels, over classes of code points.

    Attributes:
        bounds, classes: the first code point of each interval and its class; class 0 is never text.
        count: how many classes there are.
        code: int64[n, 3], the instructions.
        flat, starts: the classes of set i are `flat[starts[i]:starts[i + 1]]`.
        wordly: per class, 1 for word characters (used when `context` is 2).
        context: 0 without assertions, 1 with some, 2 with word boundaries.
        trailing: a match decides: whatever follows is accepted (else a match must end where the text ends).
    """

    def __init__(self, program: list[Instruction], assembler: Assembler, trailing: bool) -> None:
        bounded = not assembler.places.isdisjoint((Place.BOUNDARY, Place.NO_BOUNDARY))
        word = assembler.char(charsets.WORD)[1] if bounded else -1
        self.context = 2 if bounded else 1 if assembler.places else 0
        self.bounds, self.classes, members = charsets.partition(list(assembler.sets))
        self.count = max(self.classes) + 1
        self.wordly = np.zeros(self.count, np.int64)
        if bounded:
            self.wordly[members[word]] = 1
        self.starts = np.fromiter(accumulate(map(len, members), initial=0), np.int64, len(members) + 1)
        self.flat = np.array([current for member in members for current in member], np.int64)
        self.code = np.fromiter(chain.from_iterable(program), np.int64, 3 * len(program)).reshape(-1, 3)
        self.trailing = trailing

    @property
    def width(self) -> int:
        """Words of a state: a bit for each instruction and, last, what stood before it."""
        return (len(self.code) + 63) // 64 + 1

    @property
    def start(self) -> bytes:
        """The first state, as `after` takes it."""
        row = np.zeros(self.width, np.int64)
        row[0] = 1
        return row.tobytes()

    def expand(
        self,
        limit: int,
        rows: NDArray[np.int64],
        next_: NDArray[np.int32],
        final: NDArray[np.int32],
        progress: NDArray[np.int64],
    ) -> None:
        """See `_expand`."""
        scratch = np.zeros((3, 3 * len(self.code) + 64), np.int64)
        reached = np.zeros((self.count, self.width), np.int64)
        _expand(
            self.code, self.flat, self.starts, self.wordly, self.context, self.trailing, limit,
            rows, empty_table(rows), next_, final, scratch, reached, progress,
        )  # fmt: skip


def determinise(program: list[Instruction], assembler: Assembler, *, trailing: bool, limit: int) -> Table | None:
    """Run `program` on every string at once; None where more is needed than `limit` states, or our limits.

    Args:
        trailing: accept whatever follows a match (else the match must end where the string ends).
    """
    machine = Machine(program, assembler, trailing)
    subsets = _subsets(machine, min(limit, MOST_BYTES // (8 * machine.width), MOST_CELLS // machine.count))
    if subsets is None:
        return None
    return Table(np.array(machine.bounds, np.int32), np.array(machine.classes, np.int32), *subsets)


def after(machine: Machine, state: bytes) -> tuple[bool, list[bytes]]:
    """Whether a state accepts, and the state behind each class (empty: none)."""
    if state == _EVERYTHING:
        return True, [b""] + [_EVERYTHING] * (machine.count - 1)
    rows = grown_rows(np.zeros((2, machine.width), np.int64), machine.count + 4)
    rows[1] = np.frombuffer(state, np.int64)
    next_, final = np.zeros((len(rows), machine.count), np.int32), np.zeros(len(rows), np.int32)
    progress = np.array((0, 2, -1), np.int64)
    machine.expand(2, rows, next_, final, progress)
    keys = [b"", state, *(row.tobytes() for row in rows[2 : progress[COUNT]])]
    if progress[EVERYTHING] > 0:
        keys[progress[EVERYTHING]] = _EVERYTHING
    return bool(final[1]), [keys[target] for target in next_[1].tolist()]


def _subsets(machine: Machine, limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """The subset construction: `next[states, classes]` and `final[states]`; None beyond `limit` states."""
    rows = np.zeros((FIRST_ROWS, machine.width), np.int64)
    rows[1, 0] = 1
    next_, final = np.zeros((FIRST_ROWS, machine.count), np.int32), np.zeros(FIRST_ROWS, np.int32)
    progress = np.array((0, 2, -1), np.int64)
    while True:
        needed = int(progress[COUNT]) + machine.count + 2
        if len(rows) < needed:
            rows, next_, final = grown_rows(rows, needed), grown_rows(next_, needed), grown_rows(final, needed)
        machine.expand(limit, rows, next_, final, progress)
        here, count, _ = progress.tolist()
        if count > limit:
            return None
        if here + 1 == count:
            return next_[:count], final[:count]


@inner_kernel
def _closure(
    code: NDArray[np.int64],
    rows: NDArray[np.int64],
    here: int,
    after: int,
    scratch: NDArray[np.int64],
) -> int:
    """Follow `rows[here]` (a bit set of instructions) without consuming anything.

    Args:
        scratch: `[3, 3 * n + 64]`: the CHAR instructions reached; a stack; the visit at which each was last seen.

    Returns:
        How many CHAR instructions were reached, or `-1 - count` when MATCH was, too.
    """
    words = rows.shape[1] - 1
    before = rows[here, words]
    visit = 3 * here + after
    top = 0
    for word in range(words):
        bits = np.uint64(rows[here, word])
        at = word * 64
        while bits:
            if bits & np.uint64(1):
                scratch[STACK, top] = at
                top += 1
            bits >>= np.uint64(1)
            at += 1
    count = 0
    found = False
    while top:
        top -= 1
        at = scratch[STACK, top]
        if scratch[SEEN, at] == visit:
            continue
        scratch[SEEN, at] = visit
        operation, operand = code[at, 0], code[at, 1]
        if operation == 0:
            scratch[LIVE, count] = at
            count += 1
        elif operation == 1:
            scratch[STACK, top] = at + operand
            scratch[STACK, top + 1] = at + code[at, 2]
            top += 2
        elif operation == 2:
            # The edge of the string is 0, a word character 2, any other 1; an operand is a `Place`.
            edge = before if operand == 0 else after
            if edge == 0 if operand < 2 else ((before == 2) != (after == 2)) == (operand == 2):
                scratch[STACK, top] = at + 1
                top += 1
        else:
            found = True
    return -1 - count if found else count


@inner_kernel
def _everything(rows: NDArray[np.int64], new: int) -> None:
    """Make row `new` that of the state that accepts everything, which no other row equals."""
    words = rows.shape[1] - 1
    for word in range(words + 1):
        rows[new, word] = 0
    rows[new, 0] = -1
    rows[new, words] = -1


@inner_kernel
def _reach(
    code: NDArray[np.int64],
    flat: NDArray[np.int64],
    starts: NDArray[np.int64],
    wordly: NDArray[np.int64],
    only: int,
    scratch: NDArray[np.int64],
    live: int,
    reached: NDArray[np.int64],
) -> None:
    """Add to `reached` where the `live` instructions in `scratch` lead, on classes that are `only` wordly (-1: all)."""
    for at in range(live):
        target = scratch[LIVE, at] + 1
        bit = np.int64(np.uint64(1) << np.uint64(target & 63))
        chars = code[target - 1, 1]
        for member in range(starts[chars], starts[chars + 1]):
            current = flat[member]
            if only < 0 or wordly[current] == only:
                reached[current, target >> 6] |= bit


@inner_kernel
def _intern_reached(
    wordly: NDArray[np.int64],
    context: int,
    rows: NDArray[np.int64],
    table: NDArray[np.int64],
    next_: NDArray[np.int32],
    reached: NDArray[np.int64],
    here: int,
    count: int,
) -> int:
    """Make states of what was reached from `here`, and edges to them; `reached` is zero again. The number of states."""
    classes, words = reached.shape
    words -= 1
    for current in range(1, classes):
        alive = np.int64(0)
        for word in range(words):
            alive |= reached[current, word]
            rows[count, word] = reached[current, word]
            reached[current, word] = 0
        if alive:
            rows[count, words] = 1 + wordly[current] if context else 0
            index = intern(rows, table, count)
            count += index == count
            next_[here, current] = index
    return count


@kernel
def _expand(
    code: NDArray[np.int64],
    flat: NDArray[np.int64],
    starts: NDArray[np.int64],
    wordly: NDArray[np.int64],
    context: int,
    trailing: bool,
    limit: int,
    rows: NDArray[np.int64],
    table: NDArray[np.int64],
    next_: NDArray[np.int32],
    final: NDArray[np.int32],
    scratch: NDArray[np.int64],
    reached: NDArray[np.int64],
    progress: NDArray[np.int64],
) -> None:
    """Expand the states of `_subsets` until all are, the limit is passed, or there is no room for one more.

    Args:
        table: empty; the rows there are are interned first.
        reached: `[classes, words + 1]`, all zero, and left so: the row that each class leads to.
        progress: the last state expanded, the number of states, the state that accepts everything (-1: none yet).
    """
    classes, words = reached.shape
    words -= 1
    here, count, everything = progress[HERE], progress[COUNT], progress[EVERYTHING]
    for index in range(1, count):
        intern(rows, table, index)
    while here + 1 < count and count <= limit and count + classes + 2 <= rows.shape[0]:
        here += 1
        if here == everything:
            for current in range(1, classes):
                next_[here, current] = here
            final[here] = 1
            continue
        for after in range(context + 1):
            live = _closure(code, rows, here, after, scratch)
            if after == 0:
                final[here] = live < 0
                if context:
                    continue
            only = after - 1 if context == 2 else -1
            if live < 0 and trailing:
                if everything < 0:
                    everything = count
                    _everything(rows, count)
                    count += 1
                for current in range(1, classes):
                    if only < 0 or wordly[current] == only:
                        next_[here, current] = everything
                continue
            _reach(code, flat, starts, wordly, only, scratch, -1 - live if live < 0 else live, reached)
        count = _intern_reached(wordly, context, rows, table, next_, reached, here, count)
    progress[HERE], progress[COUNT], progress[EVERYTHING] = here, count, everything
