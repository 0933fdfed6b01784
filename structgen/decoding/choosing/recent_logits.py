"""The logits of a row's last choices, for when one of them is made again."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from torch import Tensor

from structgen.decoding.choosing.masking import Words
from structgen.decoding.choosing.measure import ChosenToken, measured

RECENT = 4
"""How many choices keep their logits where a guard or a validator may want one of them made again."""


class KnownLogits(NamedTuple):
    """The logits of a choice.

    Attributes:
        length: tokens before it.
        logits: float[rows, width].
        row: its row of the logits.
        words: the tokens that were allowed; None for every one.
    """

    length: int
    logits: Tensor
    row: int
    words: Words | None


class RecentLogits:
    """The last choices of one row, each behind more tokens than the one before it.

    Args:
        count: how many are kept.
    """

    def __init__(self, count: int) -> None:
        self._known: deque[KnownLogits] = deque(maxlen=count)

    def add(self, known: KnownLogits) -> None:
        """Adds a choice, in place of what was chosen there before."""
        self.truncate(known.length - 1)
        self._known.append(known)

    def scores(self, length: int) -> Tensor | None:
        """The logits behind `length` tokens: float[width]; None where the last choice was another one."""
        last = self._known[-1] if self._known else None
        return None if last is None or last.length != length else last.logits[last.row]

    def measured(self, length: int, token: int) -> ChosenToken | None:
        """What a token had behind `length` others; None where that is not known any more."""
        for known in self._known:
            if known.length == length:
                return measured(known.logits[known.row].float().cpu().numpy(), known.words, token)
        return None

    def truncate(self, length: int) -> None:
        """The row goes back to its first `length` tokens."""
        while self._known and self._known[-1].length > length:
            self._known.pop()

    def clear(self) -> None:
        """No choice will be made again."""
        self._known.clear()
