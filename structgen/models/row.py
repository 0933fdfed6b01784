"""The sequence that a model has to have read, and how much of it it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from structgen.errors import StructgenError


class Row:
    """One sequence of a batch. Prefill, step, fast-forward and rollback are all the same: read what is pending.

    Args:
        ids: what the model reads before its first own token, at least one id.
        source: what the encoder of an encoder-decoder model reads.
        inputs: what is read with the prompt: images, sounds, embeddings.

    Attributes:
        ids: all that the model must have read.
        valid: how many of them are in its cache; what is there beyond them is void.
        given: how many of the first ids were not generated.
        encoded: what the encoder made of them, once it has.
        shift: positions of generated tokens are so much further on than their places: images count in their own way.
        error: the model refuses to read the row; what it gives for it is no logits.
    """

    __slots__ = ("encoded", "error", "given", "ids", "inputs", "shift", "source", "valid")

    def __init__(
        self, ids: Sequence[int], source: Sequence[int] | None = None, inputs: Mapping[str, Tensor] | None = None
    ) -> None:
        self.ids = list(ids)
        self.given = len(self.ids)
        self.source, self.inputs = source, inputs
        self.valid = self.shift = 0
        self.encoded: Any = None
        self.error: StructgenError | None = None

    @property
    def pending(self) -> list[int]:
        """What the model has still to read: never empty when there is something to ask it."""
        return self.ids[self.valid :]

    @property
    def is_read(self) -> bool:
        """Is nothing pending?"""
        return self.valid == len(self.ids)

    def truncate(self, length: int) -> None:
        """Goes back to the first `length` ids."""
        del self.ids[length:]
        self.valid = min(self.valid, length)

    def follow(self, row: Row) -> int:
        """Stands where another row of the same prompt does. How many ids it had read before that the other has, too."""
        same = common(self.ids[: self.valid], row.ids[: row.valid])
        self.ids, self.valid = list(row.ids), row.valid
        self.given, self.shift, self.encoded, self.error = row.given, row.shift, row.encoded, row.error
        return same

    def reread(self) -> None:
        """The last id is pending again: what came after it is forgotten. A prompt with inputs is, as a whole."""
        last = len(self.ids) - 1
        self.valid = 0 if self.inputs is not None and last < self.given else min(self.valid, last)


def common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items at the start of both are the same."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (mine, its) in enumerate(pairs) if mine != its), min(len(one), len(other)))


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The next ids of some rows, which the device knows and the host does not yet.

    Attributes:
        ids: int64[.] on the device; negative where a row turns out to have none.
        places: where in `ids` each row's is.
    """

    ids: Tensor
    places: Mapping[Row, int]

    @contextmanager
    def pending(self) -> Iterator[None]:
        """Room for the ids in the rows, for as long as the model is told to read them.

        Afterwards each row counts as read up to an id that is still to be added. A row that goes on otherwise is
        truncated, as in any rollback.
        """
        for row in self.places:
            row.ids.append(0)
        try:
            yield
        finally:
            for row in self.places:
                row.ids.pop()
