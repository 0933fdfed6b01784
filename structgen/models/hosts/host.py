"""What an engine has to do for our loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary


class NewTokens(NamedTuple):
    """What is read of one sequence.

    Attributes:
        ids: behind what it holds, at least one.
        last: of how many of the last of them the logits are asked for.
    """

    ids: Sequence[int]
    last: int = 1


class Host(ABC):
    """A causal model of text that another engine runs: append, logits, go back.

    Its sequences have places, 0 to `places - 1`. Whoever reads takes places from `free` and gives them back; calls are
    made one at a time, under `lock`.

    Attributes:
        kind: of the engine, see `Stats.cache`.
        vocabulary: its tokens as bytes, as wide as the logits.
        places: how many sequences are kept at once.
        drafts: several tokens are read at hardly more than the price of one, and going back is cheap.
        lock, free: see above.
    """

    kind: str
    drafts: bool = False

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, *, context: int, places: int) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.context, self.places = context, places
        self.lock, self.free = RLock(), list(range(places))[::-1]

    @abstractmethod
    def append(self, new: Mapping[int, NewTokens]) -> list[NDArray[np.float32]]:
        """Reads tokens behind those that the sequences hold.

        Args:
            new: by the sequence's place.

        Returns:
            For each sequence float32[last, width], the logits after each of its last tokens; the caller's own.
        """

    @abstractmethod
    def rewind(self, place: int, length: int) -> int:
        """Has a sequence forget all but its first `length` tokens. How many it still holds: fewer where it must."""

    def copy(self, place: int, to: int) -> bool:
        """Has another place, which is empty, hold the same sequence. False where the engine cannot."""
        return False
