"""The interface of another engine for our loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.models.prefixes import common
from structgen.vocabulary import Vocabulary

CONTEXT = 4096
"""The most tokens of a sequence by default."""
WORTH_KEEPING = 256
"""Tokens that a free place keeps rather than make room for another prompt."""


class NewTokens(NamedTuple):
    """Tokens that one sequence reads.

    Attributes:
        ids: read after what the sequence holds, at least one.
        last: after how many of the last ids the logits are asked for.
    """

    ids: Sequence[int]
    last: int = 1


class Host(ABC):
    """A causal model of text that another engine runs: it appends tokens, gives logits and goes back.

    Its sequences have places, 0 to `places - 1`. A reader takes places with `take` and gives them back with `leave`.
    Calls are made one at a time, under `lock`.

    Attributes:
        free: the places that no reader has, each with the ids that it still holds: prompts often begin alike.
        kind: the engine's name, see `Stats.cache`.
        vocabulary: its tokens as bytes, as wide as the logits.
        places: how many sequences are kept at once.
        drafts: True where going back is cheap, and logits of several tokens are given at once.
        price: see `Forward.price`.
    """

    kind: str
    drafts: bool = False
    price: float = 0.0

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, *, context: int, places: int) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.context, self.places = context, places
        self.lock, self.free = RLock(), dict[int, Sequence[int]](dict.fromkeys(range(places), ()))

    def take(self, ids: Sequence[int]) -> tuple[int, int]:
        """Takes a free place, the one that holds most of these ids. There must be one.

        Of equal ones it is the one left last: what other places hold makes attention slower. A place that would lose
        much stays, and is copied into an empty one.

        Returns:
            The place, and how many of the first ids it holds; never the last one, whose logits are wanted.
        """
        known = {place: common(held, ids[:-1]) for place, held in self.free.items()}
        place = max(reversed(known), key=lambda each: known[each])
        empty = next((each for each, held in self.free.items() if not held), place)
        if len(self.free[place]) - known[place] > WORTH_KEEPING and empty != place:
            del self.free[empty]
            self.rewind(empty, 0)
            return empty, self.rewind(empty, known[place]) if self.copy(place, empty) else 0
        del self.free[place]
        return place, self.rewind(place, known[place])

    def leave(self, place: int, ids: Sequence[int] = ()) -> None:
        """Gives a place back that holds these ids, and maybe more after them."""
        self.free[place] = tuple(ids)

    @abstractmethod
    def append(self, new: Mapping[int, NewTokens]) -> list[NDArray[np.float32]]:
        """Reads tokens after those that the sequences hold.

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
