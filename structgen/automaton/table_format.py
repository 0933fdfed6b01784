"""The meaning of the tables of a byte automaton: rows, flags, modes, the machine, and packed positions.

A *state* is a row of eight int32:

    KIND   STUB (not expanded yet) or RANGES (edges by byte range, searched in order); `mode << 4` and `aux << 8`
           tell the masks which shortcut fits the state
    START  first edge
    COUNT  number of edges
    MISS   what to do with a byte that no edge takes: nothing (refuse it), GOTO, CALL or POP; with `| EAGER` this
           is done on arrival, before any byte is read; TEST (an eager GOTO) has two targets, see below
    A, B   GOTO: (target, -); CALL: (callee, return state); POP: (outcome, -); TEST: (target of yes, of no)
    LO, HI bounds of the counter, for edges that carry flags; TEST: (1 once it was met, the one met before)

An *edge* is `(lo | hi << 8, target | flags)`. It takes the bytes `lo` to `hi`. The target DEAD refuses the byte even if
MISS would take it. The flags:

    INC    counts one more, which the target's HI must allow
    ROOM   requires the same of HI, but counts nothing: for the first byte of a character that a later byte counts
    NEED   requires that the counter has reached the source's LO
    SPILL  if a bound forbids the edge, MISS decides; without it the byte is refused
    ZERO   sets the counter to 0: nothing is counted from here on

If HI is UNBOUNDED, the counter stops at LO.

A *frame* is `(RETURN, PARENT, COUNTER, ALIKE)`, interned by the first three: equal frames have equal numbers. A
negative return `-k` leads to the state that `returns` has for `k` and the callee's outcome. In this way the callee of a
union tells which alternatives accepted, and a frame of names tells which name came. `returns` is a hash table, since
only few of the many outcomes ever occur.

A *test* is a state that asks a check (see `checks`), such as: is this name new in its object? The machine's `answer`
tells how tests are answered. ASK: the walk stops, and the caller continues where the answer leads. YES: "yes". REFUSE:
the byte is refused. OPEN: "yes"; but if "no" also leads on, any bytes may follow.

Kernels reach the tables through a record, the `Machine`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.kernels import Record, array, inner_kernel, number, numbers


Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Edge = tuple[int, int, int]

STUB, RANGES = 0, 1
KIND, START, COUNT, MISS, A, B, LO, HI = range(8)
"""Columns of `states`."""
SPAN, LEADS = range(2)
"""Columns of `edges`: the bytes that an edge takes; its target with its flags."""
RETURN, PARENT, COUNTER, ALIKE = range(4)
"""Columns of `frames`. ALIKE is the frame that masks take for it (0: unknown; see `masks.alike`)."""
KEY = 0
"""The column of the keys of `returns` and of the cached steps. Column LEADS has the state or position of a key."""
NOTHING, GOTO, CALL, POP, EAGER = 0, 1, 2, 3, 4
ACTION = 3
"""The bits of MISS that hold the action; EAGER is a further bit."""
TEST = GOTO | EAGER
DEAD = -1
TARGET = (1 << 24) - 1
INC, ROOM, NEED, SPILL, ZERO = 1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28
UNBOUNDED = (1 << 31) - 1

PLAIN, FREE, OVERLAY, CHARS, ITEMS, GAP = 0, 1, 2, 3, 4, 5
"""Modes of a state: the shortcut that masks may take there.

PLAIN: none (aux: 1 + the block of free slices, within a character of a free string). FREE: inside a free string (aux:
its block of free slices). OVERLAY: in a free string that must not begin with some literals (aux: 1 between the bytes of
a character). CHARS: in a lifted `CharDfa` (aux: its block). ITEMS: between the items of an array; the counter counts
items. GAP: in white space, of which at most HI characters may come.
"""

BLOCK_FIRST, BLOCK_STATES, BLOCK_DEPTHS, BLOCK_CLASSES, BLOCK_SLACK, BLOCK_EXITS = range(6)
"""Columns of `blocks`: the first state; the number of states; the index of the first text class's alive-depths; the
number of text classes that have alive-depths; the slack (see `Tables.block`); the index of the exits (0: none)."""

DONE = 1
"""The state after the whole text: nothing may follow."""

FRAME_SHIFT, COUNT_SHIFT, FRAME_MASK = 24, 44, (1 << 20) - 1
"""The bits of frame and counter in a packed position."""

MAX_COUNT = (1 << 19) - 1
MAX_FRAMES = 1 << 20
MAX_STATES = 1 << 24

WANT_NOTHING, WANT_STATE, WANT_RETURN, WANT_FRAMES, WANT_ANSWER = range(5)
ASK, YES, REFUSE, OPEN = range(4)

LONGEST_LITERAL = 256
"""The number of bytes that `Tables.literal` reads at once: where a text cannot end, they may go round and round."""
STACK_DEPTH = 256
"""The rows of the stack for walks that each table has. A vocabulary with longer tokens needs a larger one."""


class WrittenRows(NamedTuple):
    """The rows of one table, from the first on, with which other tables begin."""

    states: bytes
    edges: bytes
    blocks: bytes
    depths: bytes


def merged_edges(targets: Iterable[tuple[int, int]]) -> list[Edge]:
    """The edges of a state, from pairs (byte, target) in ascending order (target 0: none): one for each run of equal
    targets."""
    edges: list[Edge] = []
    for byte, target in targets:
        if target and edges and edges[-1][1:] == (byte - 1, target):
            edges[-1] = (edges[-1][0], byte, target)
        elif target:
            edges.append((byte, byte, target))
    return edges


def position(state: int, frame: int = 0, count: int = 0) -> int:
    """Packs a position into one int. Equal ints have equal futures."""
    return state | frame << FRAME_SHIFT | count << COUNT_SHIFT


class Machine(Record):
    """An automaton, for kernels: the arrays of its tables, and what a kernel has to say when it stops."""

    states = array(np.int32, 8)
    edges = array(np.int32, 2)
    frames = array(np.int64, 4)
    buckets = array(np.int32)  # frames by their hash
    returns = array(np.int64, 2)
    blocks = array(np.int32, 6)
    depths = array(np.uint8)  # how far each state of a block is from an end, by text class
    max_frames, n_frames, n_buckets, n_returns = number(), number(), number(), number()
    exits = array(np.int64, 2)
    stack = array(np.int64, 4)  # the positions on the path of a walk over a trie, by depth, and a flag of the walk
    scratch = number()  # the address of what Python has written for the kernel that it calls
    # Why a kernel has stopped: what it wants, of which state or return, for which outcome.
    want, argument, outcome = number(), number(), number()
    # Where the walk for a mask continues after it was stopped; `node` is also the bytes of a token that were read.
    phase, segment, node = number(), number(), number()
    # Tests: how they are answered; the last test that was met; for a test that stops a walk its frame, and whether the
    # byte before it was read; the state from which any bytes may follow.
    answer, met, tested_frame, taken, open_state = number(), number(), number(), number(), number()
    # The last edge from a state to itself that a walk has looked at; the bytes that it takes, and those that any edge
    # of its state takes, with a bit for each byte.
    loop, stays, covered = number(), numbers(4), numbers(4)
    like = number()  # the address of the mask with which a mask begins, uint32[words]; 0: with none
    vocabulary = number()  # the address of `masks.slices.VocabularyTables`


@inner_kernel
def hash_frame(ret: int, parent: int, count: int) -> int:
    """The hash by which frames are interned (small enough not to overflow in int64)."""
    h = (ret * 40503 + parent * 30011 + count * 20011) & 0x7FFFFFFF
    return h ^ h >> 13
