"""The values that a text has begun and not ended, each with the schemas that it is read against.

The first state of each value tells what the value is read against (`Context.choices`). Later states may be shared by
values of several places, so the text is followed from its beginning: the values whose frames are still open at its end
are the ones wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from structgen.automaton.table_format import ACTION, CALL, FRAME_MASK, FRAME_SHIFT, GOTO, MISS, TARGET, A
from structgen.automaton.tables import Tables
from structgen.values.lockstep import Lockstep


class Begun(NamedTuple):
    """A value that has begun.

    Attributes:
        start: the offset of its first byte.
        frames: how many frames were open when it began.
        choice: the nodes that it is read against.
    """

    start: int
    frames: int
    choice: Lockstep


def begun_values(tables: Tables, choices: Mapping[int, Lockstep], positions: Sequence[int], text: bytes) -> list[Begun]:
    """The values that are open behind a walk, outermost first. The value that is the whole text stays open.

    Args:
        positions: the position in front of each byte that was taken, and the one behind the last.
        text: these bytes, and the byte that was refused, if any.
    """
    depths = {0: 0}
    values: list[Begun] = []
    for i, position in enumerate(positions):
        state, frame = position & TARGET, position >> FRAME_SHIFT & FRAME_MASK
        moves = i + 1 == len(positions) or positions[i + 1] >> FRAME_SHIFT & FRAME_MASK != frame
        if not moves and state not in choices:
            continue
        depth = _depth(tables, frame, depths)
        while values and values[-1].frames > depth:
            values.pop()
        for entered, frames in _entered(tables, state, depth, text[i : i + 1]):
            if entered in choices:
                while values and values[-1].frames >= frames:
                    values.pop()
                values.append(Begun(i, frames, choices[entered]))
    return values


def _depth(tables: Tables, frame: int, depths: dict[int, int]) -> int:
    """How many frames are open, this one included."""
    chain = []
    while frame not in depths:
        chain.append(frame)
        frame = int(tables.frames[frame, 1])
    depth = depths[frame]
    for each in reversed(chain):
        depth += 1
        depths[each] = depth
    return depth


def _entered(tables: Tables, state: int, depth: int, byte: bytes) -> Iterator[tuple[int, int]]:
    """A state, and the states entered from it before the byte is taken, each with the number of open frames."""
    while True:
        yield state, depth
        if not byte or tables.is_stub(state):
            return
        if any(low <= byte[0] <= high for low, high, _ in tables.edges_of(state)):
            return
        row = tables.row(state)
        if row[MISS] & ACTION == CALL:
            depth += 1
        elif row[MISS] != GOTO:  # eager, it is a test
            return
        state = row[A]
