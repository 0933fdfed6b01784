"""How the tables of a byte automaton are to be read: rows, flags, modes, registers, and packed positions.

A *state* is a row of eight int32:

    KIND   STUB (not expanded yet) or RANGES (edges by byte range, searched in order); `mode << 4` and `aux << 8`
           tell the masks which shortcut fits the state
    START  first edge
    COUNT  number of edges
    MISS   what to do with a byte that no edge takes: nothing (dead), GOTO, CALL or POP; `| EAGER` when it is
           done on arrival, before any byte is seen; TEST (an eager GOTO) goes one of two ways, see below
    A, B   GOTO: (target, -); CALL: (callee, return state); POP: (outcome, -); TEST: (target of yes, of no)
    LO, HI bounds of the counter, for edges that carry flags; TEST: (1 once it was met, the one met before)

An *edge* is `(lo | hi << 8, target | flags)`; target DEAD refuses the byte even where MISS would take it. The flags:
INC counts one more, which the target's HI must allow; ROOM asks for that too, but counts nothing (the first byte of
what will count); NEED asks for the source's LO to be reached. Where HI is UNBOUNDED the counter stops at LO. A byte of
which a bound is not met is refused; with SPILL, MISS is asked instead. Behind ZERO nothing is counted any more.

A *frame* is `(return, parent, counter, alike)`, interned by the first three: equal frames have equal numbers. A
negative return `-k` leads where `returns` says for `k` and the callee's outcome: that is how a union's callee tells
which alternatives accepted, and a frame of names which name came. `returns` is a hash table, since few of the many
outcomes are ever met.

A *test* is a state that asks what no byte automaton can know (see `checks`): is this name new in its object? The
register R_ANSWER says how tests are answered: ASK stops the walk, and the caller goes on where the answer leads; YES
answers yes; REFUSE refuses the byte; OPEN answers yes, and where "no" leads on as well, lets any bytes follow.

All kernels find all of this through `registers`, int64, which hold the arrays' addresses, sizes and counters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Edge = tuple[int, int, int]

STUB, RANGES = 0, 1
KIND, START, COUNT, MISS, A, B, LO, HI = range(8)
NOTHING, GOTO, CALL, POP, EAGER = 0, 1, 2, 3, 4
ACTION = 3
"""The bits of MISS that say what is done; EAGER is another."""
TEST = GOTO | EAGER
DEAD = -1
TARGET = (1 << 24) - 1
INC, ROOM, NEED, SPILL, ZERO = 1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28
UNBOUNDED = (1 << 31) - 1

PLAIN, FREE, OVERLAY, CHARS, ITEMS, GAP = 0, 1, 2, 3, 4, 5
"""Modes of a state: which shortcut the masks may take there.

PLAIN: none. FREE: inside a free string (aux: which block of free slices). OVERLAY: in a free string that must not begin
with some prefixes (aux: 1 between the bytes of a character). CHARS: in a lifted `CharDfa` (aux: its block). ITEMS:
between the items of an array, where the counter counts items. GAP: in white space, as many characters of which as HI
says may follow.
"""

BLOCK_FIRST, BLOCK_STATES, BLOCK_DEPTHS, BLOCK_CLASSES, BLOCK_SLACK, BLOCK_EXITS = range(6)
"""Columns of `blocks`: the first state, how many there are, where the alive-depths of the first text class begin, how
many text classes have them, see `Tables.block` for the slack, and where the exits begin (0: there are none)."""

DONE = 1
"""The state after the whole text: nothing may follow."""

FRAME_SHIFT, COUNT_SHIFT, FRAME_MASK = 24, 44, (1 << 20) - 1
"""Where frame and counter stand in a packed position."""

MAX_COUNT = (1 << 19) - 1
MAX_FRAMES = 1 << 20
MAX_STATES = 1 << 24

# Registers: addresses of the arrays, then sizes and counters, then what a kernel wants when it stops.
R_STATES, R_EDGES, R_FRAMES, R_BUCKETS, R_RETURNS, R_BLOCKS, R_DEPTHS = range(7)
R_CAP_FRAMES, R_N_FRAMES, R_CAP_BUCKETS, R_CAP_RETURNS, R_EXITS = range(7, 12)
R_WANT, R_ARGUMENT, R_OUTCOME = range(12, 15)
R_PHASE, R_SEGMENT, R_NODE = range(15, 18)
# Tests: how they are answered; the last one met; the frame of one that stops a walk, and whether its byte was taken.
R_ANSWER, R_MET, R_FRAME, R_TAKEN, R_OPEN = range(18, 23)
R_SCRATCH = 23
R_VOCABULARY = 24
"""First of the registers that the masks use for the vocabulary's arrays."""
R_KEPT, R_PURE = 72, 73
"""R_KEPT: the address of the kept steps (see `step.kept_step`), 0 where none are kept. R_PURE: 1 as long as no test was
met since it was set."""
R_LOOP, R_STAYS, R_COVERED = 74, 75, 79
"""The edge from a state to itself that `masks.walk` has looked at last, and int64[4] each, a bit for a byte: those that
this edge takes, and those that any edge of the state takes."""
N_REGISTERS = 88

WANT_NOTHING, WANT_STATE, WANT_RETURN, WANT_FRAMES, WANT_ANSWER = range(5)
ASK, YES, REFUSE, OPEN = range(4)

STEPS_KEPT = 2048
STACK_DEPTH = 256
"""Rows of the stack for walks that every table has; a vocabulary with longer tokens needs one of its own."""


class WrittenRows(NamedTuple):
    """The rows of one table, from its first on, for other tables to begin with."""

    states: bytes
    edges: bytes
    blocks: bytes
    depths: bytes


def merged_edges(targets: Iterable[tuple[int, int]]) -> list[Edge]:
    """The edges of a state from which bytes, ascending, lead to targets (0: nowhere): one for each run of equals."""
    edges: list[Edge] = []
    for byte, target in targets:
        if target and edges and edges[-1][1:] == (byte - 1, target):
            edges[-1] = (edges[-1][0], byte, target)
        elif target:
            edges.append((byte, byte, target))
    return edges


def position(state: int, frame: int = 0, count: int = 0) -> int:
    """Pack a position into one int: equal ints, equal futures."""
    return state | frame << FRAME_SHIFT | count << COUNT_SHIFT


def hash_frame(ret: int, parent: int, count: int) -> int:
    """The hash by which frames are interned (small enough not to overflow in int64)."""
    h = (ret * 40503 + parent * 30011 + count * 20011) & 0x7FFFFFFF
    return h ^ h >> 13
