"""Masks where tests stand behind the position: the mask for "yes" everywhere, corrected for the text.

`Grammar` caches masks by position, and positions know nothing of the text that a check asks about. So the cached mask
takes every answer for yes, and a `Late` beside it finds the tokens for which that may be wrong; those are followed for
the text at hand, each by an exact walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from structgen.automaton.reading import JsonReading
from structgen.automaton.tables import OPEN, REFUSE
from structgen.errors import DeadEnd
from structgen.masks.slices import Uint32

if TYPE_CHECKING:
    from structgen.masks.grammar import Grammar


@dataclass(slots=True, eq=False)
class Snapshot:
    """What was read behind the first `count` tokens of a walk, and the mask there, if it was asked for.

    Attributes:
        before: an earlier snapshot of the same walk.
    """

    count: int
    reading: JsonReading
    before: Snapshot | None
    mask: Uint32 | None = None


class Late:
    """What corrects the mask of one position of a grammar."""

    def __init__(self, grammar: Grammar, position: int) -> None:
        self._grammar, self._position = grammar, position
        grammar.automaton.tables.met_tests()

    def corrected(self, row: Uint32, snapshot: Snapshot) -> Uint32:
        """The mask for the text that was read; `row` is the one for "yes" everywhere. Read-only.

        Raises:
            DeadEnd: nothing is allowed.
        """
        if snapshot.mask is None:
            snapshot.mask = self._correct(row, snapshot.reading)
        if not snapshot.mask.any():
            raise DeadEnd("no token of the vocabulary spells what must come next")
        return snapshot.mask

    def _correct(self, row: Uint32, reading: JsonReading) -> Uint32:
        grammar, vocabulary = self._grammar, self._grammar.vocabulary
        least, most = np.empty_like(row), np.empty_like(row)
        grammar.fill(self._position, least, REFUSE)
        grammar.fill(self._position, most, OPEN)
        passing = np.flatnonzero(np.unpackbits((most & ~least).view(np.uint8), bitorder="little"))
        ends = list(vocabulary.end_ids)
        mask = least
        for token in passing.tolist():
            if token not in ends and grammar.follow(self._position, token, reading) >= 0:
                mask[token >> 5] |= np.uint32(1 << (token & 31))
        for token in ends:
            mask[token >> 5] &= ~np.uint32(1 << (token & 31))
            if grammar.may_end(self._position, lambda: reading):
                mask[token >> 5] |= np.uint32(1 << (token & 31))
        mask.flags.writeable = False
        return mask
