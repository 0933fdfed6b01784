"""Going back: what is refused at which prefix, and how often a row may still be sent back.

A ban belongs to a prefix: the token that stood behind the first `n` tokens is refused there, and only there. Whoever
goes back further forgets it, for the text beyond is another one. So the search is depth first, and it finds a text
where there is one, within the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structgen.decoding.masking import Words, pack
from structgen.errors import DeadEnd


@dataclass(frozen=True, slots=True)
class Undone:
    """What was said and taken back.

    Attributes:
        tokens: so many were left.
        text: what stood behind them.
        reason: why it could not stay.
        pointer: of the JSON value that its type's validators refused; None for any other reason.
    """

    tokens: int
    text: str
    reason: str
    pointer: str | None = None


class Undo:
    """The bans of one row.

    Args:
        width: of the logits.
        budget: times that the row may be sent back.

    Attributes:
        used: times that it was.
    """

    def __init__(self, width: int, budget: int) -> None:
        self.used = 0
        self._width = width
        self._budget = budget
        self._bans: dict[int, list[int]] = {}

    @property
    def spent(self) -> bool:
        """True when the row may not be sent back any more."""
        return self.used >= self._budget

    def spend(self, why: DeadEnd) -> None:
        """Counts one going back.

        Raises:
            DeadEnd: the budget is spent; `why` says what was wanted.
        """
        if self.spent:
            raise DeadEnd(f"{why}; rollbacks={self._budget} are spent: Limits(rollbacks=...) allows more") from why
        self.used += 1

    def refuse(self, length: int, token: int) -> None:
        """Bans a token behind the first `length` tokens; longer prefixes are forgotten."""
        self.forget(length)
        self._bans.setdefault(length, []).append(token)

    def forget(self, length: int) -> None:
        """What stands behind the first `length` tokens is another text now."""
        self._bans = {at: tokens for at, tokens in self._bans.items() if at <= length}

    def allowed(self, words: Words | None, length: int) -> Words | None:
        """The mask behind the first `length` tokens without what is banned there; None for no mask."""
        banned = self._bans.get(length)
        if not banned:
            return words
        refused = pack(np.array(banned), self._width)
        return ~refused if words is None else words & ~refused
