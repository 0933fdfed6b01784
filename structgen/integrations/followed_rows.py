"""Rows of a loop that is not ours, followed by the ids that it has chosen."""

from __future__ import annotations

import numpy as np

from structgen.errors import DeadEnd, StructgenError, TokenRejected
from structgen.masks import Grammar
from structgen.masks.words import Words
from structgen.models.row import common


class FollowedRow:
    """One row of a loop that is not ours: where its text stands in its constraint.

    Attributes:
        matcher: None for plain text.
        error: why nothing may follow; None where something may.
    """

    def __init__(self, grammar: Grammar | None) -> None:
        self.matcher = None if grammar is None else grammar.matcher()
        self.error: StructgenError | None = None
        self._taken: list[int] = []

    @property
    def asks(self) -> bool:
        """Does a mask say what may come next? Not behind an end token, where the loop pads."""
        return self.matcher is not None and self.error is None and not self.matcher.finished

    def go_to(self, ids: list[int]) -> None:
        """Stands behind these ids: goes back where they differ from those before, then on."""
        matcher, taken = self.matcher, self._taken
        if matcher is None:
            return
        same = len(taken) if ids[: len(taken)] == taken else common(taken, ids)
        matcher.rollback(len(taken) - same)
        del taken[same:]
        self.error = None
        for token in ids[same:]:
            if matcher.finished:
                break
            try:
                matcher.advance(token)
            except TokenRejected as error:
                self.error = error
                break
            taken.append(token)

    def words(self, count: int) -> Words:
        """The mask: uint32[count]."""
        if self.asks and self.matcher is not None:
            try:
                return self.matcher.mask()
            except DeadEnd as error:
                self.error = error
        return np.full(count, 0 if self.error else 0xFFFFFFFF, np.uint32)
