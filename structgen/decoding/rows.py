"""The sequence that a model has to have read, and how much of it it has."""

from __future__ import annotations

from collections.abc import Sequence


class Row:
    """One sequence of a batch. Prefill, step, fast-forward and rollback are all the same: read what is pending.

    Args:
        ids: what the model reads before its first own token, at least one id.
        source: what the encoder of an encoder-decoder model reads.

    Attributes:
        ids: all that the model must have read.
        valid: so many of them are in its cache; what is there beyond them is void.
        given: how many of the first ids were not generated.
        source: see above.
    """

    __slots__ = ("given", "ids", "source", "valid")

    def __init__(self, ids: Sequence[int], source: Sequence[int] | None = None) -> None:
        self.ids = list(ids)
        self.given = len(self.ids)
        self.source = source
        self.valid = 0

    @property
    def pending(self) -> list[int]:
        """What the model has still to read: never empty when there is something to ask it."""
        return self.ids[self.valid :]

    def truncate(self, length: int) -> None:
        """Goes back to the first `length` ids."""
        del self.ids[length:]
        self.valid = min(self.valid, length)

    def reread(self) -> None:
        """The last id is pending again: what the model said after it is forgotten."""
        self.valid = min(self.valid, len(self.ids) - 1)
