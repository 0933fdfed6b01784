"""States of threads one of which is in free text: what masks must know of them (see `masks.text_walk`)."""

from __future__ import annotations

import numpy as np

from structgen.automaton.table_format import CHARS, FRAME_SHIFT, KIND, TARGET
from structgen.automaton.tables import Tables
from structgen.automaton.writing.text_classes import TEXT_CLASSES
from structgen.automaton.writing.text_loops import BIT_OF, ODD_BIT, WIDE_BITS

_BITS: list[int] = BIT_OF[:128].tolist()


def is_text(tables: Tables, position: int) -> bool:
    """Is a position in free text, in frame 0? Its state must be written."""
    state = position & TARGET
    mode, block = tables.row(state)[KIND] >> 4 & 15, tables.row(state)[KIND] >> 8
    return mode == CHARS and not position >> FRAME_SHIFT and bool(tables.blocks[block, 5])


def leaving(tables: Tables, position: int, state: int, row: list[int], alone: list[bool]) -> int:
    """The buckets of the characters that lead away from `state`.

    Args:
        position: the position of a thread of the state that is in free text.
        row: the edge of each byte.
        alone: for each byte, is this the only thread that takes it? A byte that others take leads away.

    Returns:
        The buckets as bits, including `ODD`; 0 if every character leads away.
    """
    stays = [row[byte] & TARGET == state and alone[byte] for byte in range(128)]
    if not any(stays):
        return 0
    bits = int(ODD_BIT)
    for bucket, stay in zip(_BITS, stays, strict=True):
        if not stay:
            bits |= bucket
    first, _, _, _, _, where = tables.blocks[tables.row(position & TARGET)[KIND] >> 8].tolist()
    own = int(tables.exits[where + (position & TARGET) - first, 0])
    return bits | (own & WIDE_BITS if all(alone[128:]) else WIDE_BITS)


def text_block(tables: Tables, position: int, state: int, leave: int, home: int) -> int:
    """A block for `state` alone.

    Args:
        position: the position of a thread of the state that is in free text.
        leave: the result of `leaving`.
        home: the state to which most characters lead, or 0.
    """
    slack = int(tables.blocks[tables.row(position & TARGET)[KIND] >> 8, 4])
    depths = np.zeros((len(TEXT_CLASSES), 1), np.uint8)
    return tables.block(state, depths, slack, np.array([[leave, -home]], np.int64))
