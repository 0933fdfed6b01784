"""Going back: what was taken back, and how often a row may still be sent back."""

from __future__ import annotations

from dataclasses import dataclass

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
    """The budget of one row.

    Args:
        budget: times that the row may be sent back.

    Attributes:
        used: times that it was.
    """

    def __init__(self, budget: int) -> None:
        self.used = 0
        self._budget = budget

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
