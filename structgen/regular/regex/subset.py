"""Subset construction: a syntax tree becomes the table of a deterministic automaton.

Where the table would be too big, its states are made when a text reaches them, in a cache of limited size, as in RE2
(R. Cox, *Regular Expression Matching in the Wild*, 2010): see `LazyTable`.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate, chain
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Rows, inner_kernel, kernel
from structgen.memory import afford, affordable
from structgen.regular.regex import charsets
from structgen.regular.regex.nodes import Anchor, PatternNode
from structgen.regular.regex.program import ASSERT, CHAR, SPLIT, Assembler, without_anchors
from structgen.regular.interning import FIRST_ROWS, POSITIVE, empty_table, grown_rows, intern
from structgen.errors import LimitExceeded, quoted
from structgen.memo import BoundedCache

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

START, END, BOUNDARY = int(Anchor.START), int(Anchor.END), int(Anchor.BOUNDARY)
LIVE, STACK, SEEN = range(3)
"""Rows of the scratch space of `_closure`."""
DONE, COUNT = range(2)
"""What `progress` holds: the last state that is expanded, and the number of states."""
EDGE, OTHER, WORD = range(3)
"""What is before or after a place: the edge of the string, a character of no word, a word character."""
NO_CONTEXT, EDGES, WORDS = range(3)
"""Contexts: a program without assertions, with assertions about edges, with assertions about word boundaries. Each
is also the last of `EDGE`, `OTHER`, `WORD` that must be tried as what comes after a state."""
ANY_CLASS = -1
"""In place of 0 or 1, classes of no words or of words: all classes."""
KERNEL_SECONDS = 0.02
"""A kernel works about so long before somebody looks at the time."""
LEAST_STEP = 64
"""The fewest states that a kernel makes at once."""
MAX_INSTRUCTIONS = 80_000
"""A pattern with more would take a gigabyte before it is seen to have too many states."""
MAX_CACHED = 1 << 26
"""The size of the cached states of one `LazyTable`, in bytes."""


class SubsetMachine:
    """A syntax tree as arrays for the kernels, over classes of code points.

    Args:
        pattern: for error messages.
        anchored: must the whole text match?

    Attributes:
        bounds, classes: the first code point of each interval and its class; class 0 is never text.
        count: the number of classes.
        code: int64[n, 3], the instructions.
        flat, starts: the classes of set i are `flat[starts[i]:starts[i + 1]]`.
        wordly: per class, 1 for word characters (used in the context WORDS).
        context: NO_CONTEXT, EDGES or WORDS.
        trailing: whatever follows a match is accepted (else a match must end where the text ends).
        width: words of a state: a bit for each instruction and, last, what was before it.

    Raises:
        PatternUnsupported: look-around, a back-reference or an atomic group is in the tree.
        LimitExceeded: written out, the pattern is too long.
    """

    def __init__(self, pattern: str, tree: PatternNode, *, anchored: bool) -> None:
        tree, leading, self.trailing = without_anchors(tree, anchored=anchored)
        assembler = Assembler(pattern)
        program = assembler.search(tree, leading=leading, trailing=self.trailing)
        bounded = not assembler.places.isdisjoint((Anchor.BOUNDARY, Anchor.NO_BOUNDARY))
        word = assembler.char(charsets.WORD)[1] if bounded else -1
        self.context = WORDS if bounded else EDGES if assembler.places else NO_CONTEXT
        self.bounds, self.classes, members = charsets.partition(list(assembler.sets))
        self.count = max(self.classes) + 1
        self.wordly = np.zeros(self.count, np.int64)
        if bounded:
            self.wordly[members[word]] = 1
        self.starts = np.fromiter(accumulate(map(len, members), initial=0), np.int64, len(members) + 1)
        self.flat = np.array([current for member in members for current in member], np.int64)
        self.code = np.fromiter(chain.from_iterable(program), np.int64, 3 * len(program)).reshape(-1, 3)
        self.width = (len(self.code) + 63) // 64 + 1

    @property
    def start(self) -> bytes:
        """The first state, as `after` takes it."""
        row = np.zeros(self.width, np.int64)
        row[0] = 1
        return row.tobytes()

    def after(self, state: bytes) -> tuple[bool, list[bytes]]:
        """Whether a state accepts, and the state after each class (empty: none)."""
        rows = grown_rows(np.zeros((2, self.width), np.int64), self.count + 3)
        rows[1] = np.frombuffer(state, np.int64)
        next_, final = np.zeros((len(rows), self.count), np.int32), np.zeros(len(rows), np.int32)
        progress = np.array((0, 2), np.int64)
        self._expand(2, rows, next_, final, progress)
        keys = [b"", state, *(row.tobytes() for row in rows[2 : progress[COUNT]])]
        return bool(final[1]), [keys[target] for target in next_[1].tolist()]

    def subsets(self, limit: int) -> tuple[Int32, Int32] | None:
        """The subset construction: `next[states, classes]` and `final[states]`; None beyond `limit` states."""
        rows = np.zeros((FIRST_ROWS, self.width), np.int64)
        rows[1, 0] = 1
        next_, final = np.zeros((FIRST_ROWS, self.count), np.int32), np.zeros(FIRST_ROWS, np.int32)
        progress, step = np.array((0, 2), np.int64), FIRST_ROWS
        while True:
            afford(rows.nbytes + next_.nbytes)
            needed = int(progress[COUNT]) + self.count + 1
            if len(rows) < needed:
                rows, next_, final = grown_rows(rows, needed), grown_rows(next_, needed), grown_rows(final, needed)
            began = time.perf_counter()
            self._expand(limit, rows, next_, final, progress, step)
            late = time.perf_counter() - began > KERNEL_SECONDS
            step = max(LEAST_STEP, int(progress[COUNT]) // 8, step // 2) if late else step * 2  # each hashes all rows
            done, count = progress.tolist()
            if count > limit:
                return None
            if done + 1 == count:
                return next_[:count], final[:count]

    def _expand(
        self, limit: int, rows: Int64, next_: Int32, final: Int32, progress: Int64, step: int = FIRST_ROWS
    ) -> None:
        """Expands states until there are some `step` more."""
        room = int(progress[COUNT]) + self.count + 1 + step
        scratch = np.zeros((3, 3 * len(self.code) + 64), np.int64)
        reached = np.zeros((self.count, self.width), np.int64)
        _expand(
            self.code, self.flat, self.starts, self.wordly, self.context, self.trailing, limit,
            rows[:room], empty_table(rows), next_, final, scratch, reached, progress,
        )  # fmt: skip


def determinise(
    pattern: str, tree: PatternNode, *, anchored: bool, limit: int
) -> tuple[Int32, Int32, Int32, list[int]]:
    """A syntax tree as a deterministic automaton, not trimmed: the arguments of `chardfa.tidied`.

    Raises:
        PatternUnsupported: as `SubsetMachine`.
        LimitExceeded: it takes more than `MAX_INSTRUCTIONS`, `limit` states, or more memory than there is.
    """
    machine = SubsetMachine(pattern, tree, anchored=anchored)
    within = min(limit, affordable() // (8 * machine.width + 4 * machine.count))
    subsets = machine.subsets(within) if len(machine.code) <= MAX_INSTRUCTIONS else None
    if subsets is None:
        raise LimitExceeded(
            f"pattern {quoted(pattern)} takes more than {limit:,} automaton states; use smaller bounds in {{m,n}}"
        )
    next_, final = subsets
    return np.array(machine.bounds, np.int32), np.array(machine.classes, np.int32), next_, final.tolist()


class _LazyState(NamedTuple):
    """Whether the state accepts, and the key of the next state for each class; empty: none."""

    final: bool
    next: list[bytes]


class LazyTable:
    """Answers whether a pattern matches somewhere in a text, in time proportional to the text, whatever the pattern.

    The states serve no masks: only whole texts are matched.

    Raises:
        PatternUnsupported: look-around, a back-reference or an atomic group is in the tree.
        LimitExceeded: written out, the pattern is too long.
    """

    def __init__(self, pattern: str, tree: PatternNode) -> None:
        self._machine = SubsetMachine(pattern, tree, anchored=False)
        self._bounds, self._classes = self._machine.bounds, self._machine.classes
        self._rows = BoundedCache[bytes, _LazyState](MAX_CACHED, lambda row: sum(map(len, row.next)))
        self._last = "", [self._machine.start]
        self._lock = Lock()

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`. The prefix shared with the last text is not read again."""
        with self._lock:
            last, states = self._last
            shared, step = min(len(text), len(states) - 1), 1
            while text[:shared] != last[:shared]:
                shared, step = max(0, shared - step), 2 * step
            states = states[: shared + 1]
            for char in text[shared:]:
                states.append(self._after(states[-1], char))
            self._last = text, states
            return self._row(states[-1]).final

    def _after(self, state: bytes, char: str) -> bytes:
        return self._row(state).next[self._classes[bisect_right(self._bounds, ord(char)) - 1]]

    def _row(self, state: bytes) -> _LazyState:
        row = self._rows.get(state)
        if row is None:
            row = _LazyState(*self._machine.after(state)) if state else _LazyState(False, [b""] * self._machine.count)
            self._rows.keep(state, row)
        return row


@inner_kernel
def holds(place: int, before: int, after: int) -> bool:
    """Does an assertion hold between what is before and after it: EDGE, OTHER or WORD?"""
    if place == START:
        return before == EDGE
    if place == END:
        return after == EDGE
    boundary = (before == WORD) != (after == WORD)
    return boundary == (place == BOUNDARY)


@inner_kernel
def _push_members(row: Int64, words: int, stack: Int64) -> int:
    """Put the members of a bit set of `words` words on the stack; returns its height."""
    top = 0
    for word in range(words):
        bits = row[word]
        member = word * 64
        while bits:
            if bits & 1:
                stack[top] = member
                top += 1
            bits = bits >> 1 & POSITIVE
            member += 1
    return top


@inner_kernel
def _closure(code: Rows[Int64], rows: Rows[Int64], state: int, after: int, scratch: Rows[Int64]) -> tuple[int, bool]:
    """The CHAR and MATCH instructions that `rows[state]`, a bit set, reaches without a character.

    The plain loop: while an instruction of the set is a SPLIT, or an ASSERT that holds, add those it leads to.

    Args:
        after: what comes after the state: EDGE, OTHER or WORD.
        scratch: `[3, 3 * n + 64]`: the CHAR instructions reached; a stack; the visit at which each was last seen.

    Returns:
        The number of CHAR instructions, and whether MATCH is reached.
    """
    words = rows.shape[1] - 1
    before = rows[state, words]
    visit = 3 * state + after  # another number for each call, so that what was seen need not be cleared; above 0
    live, stack, seen = scratch[LIVE], scratch[STACK], scratch[SEEN]
    top = _push_members(rows[state], words, stack)
    count = 0
    matched = False
    while top:
        top -= 1
        here = stack[top]
        if seen[here] == visit:
            continue
        seen[here] = visit
        operation, operand = code[here, 0], code[here, 1]
        if operation == CHAR:
            live[count] = here
            count += 1
        elif operation == SPLIT:
            stack[top] = here + operand
            stack[top + 1] = here + code[here, 2]
            top += 2
        elif operation == ASSERT:
            if holds(operand, before, after):
                stack[top] = here + 1
                top += 1
        else:
            matched = True
    return count, matched


@inner_kernel
def _reach(
    code: Rows[Int64], flat: Int64, starts: Int64, wordly: Int64, only: int, live: Int64, count: int,
    reached: Rows[Int64],
) -> None:  # fmt: skip
    """Add the targets of the first `count` CHAR instructions in `live` to `reached`, for the classes whose `wordly` is
    `only` (`ANY_CLASS`: for all)."""
    for i in range(count):
        target = live[i] + 1
        bit = 1 << (target & 63)
        chars = code[target - 1, 1]
        for member in range(starts[chars], starts[chars + 1]):
            current = flat[member]
            if only == ANY_CLASS or wordly[current] == only:
                reached[current, target >> 6] |= bit


@inner_kernel
def _intern_reached(
    wordly: Int64, context: int, rows: Rows[Int64], table: Int64, next_: Rows[Int32], reached: Rows[Int64],
    state: int, count: int,
) -> int:  # fmt: skip
    """Make the rows of `reached` states, with edges from `state`, and clear them. Returns the number of states."""
    classes, words = reached.shape
    words -= 1
    for current in range(1, classes):
        alive = 0
        for word in range(words):
            alive |= reached[current, word]
            rows[count, word] = reached[current, word]
            reached[current, word] = 0
        if alive:
            rows[count, words] = OTHER + wordly[current] if context else EDGE
            index = intern(rows, table, count)
            count += index == count
            next_[state, current] = index
    return count


@kernel
def _expand(
    code: Rows[Int64], flat: Int64, starts: Int64, wordly: Int64, context: int, trailing: bool, limit: int,
    rows: Rows[Int64], table: Int64, next_: Rows[Int32], final: Int32, scratch: Rows[Int64], reached: Rows[Int64],
    progress: Int64,
) -> None:  # fmt: skip
    """Expand states until all are, the limit is passed, or there is no room for one more.

    The plain loop: for each state and class, the set of instructions after a character of the class is a state.

    Args:
        code, flat, starts, wordly, context, trailing: see `SubsetMachine`; the last instruction is the MATCH.
        rows: `[capacity, words + 1]`: a bit for each instruction a state is at and, last, what came before it.
        table: for `intern`; empty: the rows there are are interned first.
        next_, final: `[capacity, classes]` and `[capacity]`, see `SubsetMachine.subsets`.
        scratch: see `_closure`.
        reached: `[classes, words + 1]`, all zero, and left so: the row that each class leads to.
        progress: `DONE` and `COUNT`, read and written.
    """
    classes, last = reached.shape[0], code.shape[0] - 1
    state, count = progress[DONE], progress[COUNT]
    for index in range(1, count):
        intern(rows, table, index)
    while state + 1 < count and count <= limit and count + classes + 1 <= rows.shape[0]:
        state += 1
        for after in range(context + 1):
            live, matched = _closure(code, rows, state, after, scratch)
            if after == EDGE:  # also the only round of a program without assertions
                final[state] = matched
                if context != NO_CONTEXT:
                    continue
            only = after - OTHER if context == WORDS else ANY_CLASS
            if matched and trailing:  # the state that is at the MATCH alone accepts whatever follows
                for current in range(1, classes):
                    if only == ANY_CLASS or wordly[current] == only:
                        reached[current, last >> 6] = 1 << (last & 63)
            else:
                _reach(code, flat, starts, wordly, only, scratch[LIVE], live, reached)
        count = _intern_reached(wordly, context, rows, table, next_, reached, state, count)
    progress[DONE], progress[COUNT] = state, count
