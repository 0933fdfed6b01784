"""The interface of another engine for our loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

CONTEXT = 4096
"""The most tokens of a sequence by default."""


class NewTokens(NamedTuple):
    """Tokens that one sequence reads.

    Attributes:
        ids: read behind what the sequence holds, at least one.
        last: after how many of the last ids the logits are asked for.
    """

    ids: Sequence[int]
    last: int = 1


class Host(ABC):
    """A causal model of text that another engine runs: it appends tokens, gives logits and goes back.

    Its sequences have places, 0 to `places - 1`. A reader takes places from `free` and gives them back. Calls are made
    one at a time, under `lock`.

    Attributes:
        kind: the engine's name, see `Stats.cache`.
        vocabulary: its tokens as bytes, as wide as the logits.
        places: how many sequences are kept at once.
        drafts: True where several tokens cost hardly more than one, and going back is cheap.
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
            For each sequence float32[last, width], the logits after each of its last tokens. The caller may keep them.
        """

    @abstractmethod
    def rewind(self, place: int, length: int) -> int:
        """Makes a sequence forget all but its first `length` tokens. Returns how many it still holds, maybe fewer."""

    def copy(self, place: int, to: int) -> bool:
        """Copies a sequence to another place, which is empty. False where the engine cannot."""
        return False
