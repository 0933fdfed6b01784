"""The interface of guards. A guard reads the text as bytes, and may veto it from an earlier byte on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_whole, require
from structgen.vocabulary import Vocabulary

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Veto:
    """A refusal of the text as it is.

    Attributes:
        offset: the byte at which the offence begins, counted from the start of the text. The decoder goes back to the
            token that contains this byte. If it is after the last byte, the veto is against the end of the text.
        reason: a text for messages and traces.
    """

    offset: int
    reason: str

    def __post_init__(self) -> None:
        require(is_whole(self.offset, 0), "Veto(offset)", self.offset, "the offset of a byte in the text, at least 0")
        require(isinstance(self.reason, str), "Veto(reason)", self.reason, "a text")


class Guard(ABC, Generic[S]):
    """Forbids texts that no mask can exclude. Write `start` and `feed`; the other methods have safe defaults.

        class NoTabs(Guard[int]):
            def start(self):
                return 0                                  # the state: how many bytes were read

            def feed(self, state, text):
                at = text.find(b"\t")
                return state + len(text) if at < 0 else Veto(state + at, "a tab")

    A guard must be pure: `feed` does not change the state that it is given, and equal states have equal futures. The
    decoder keeps old states for rollbacks, and asks about tokens that it does not choose. A guard may have a cache, but
    the cache must not change any answer.
    """

    @abstractmethod
    def start(self) -> S:
        """The state before the first byte."""

    @abstractmethod
    def feed(self, state: S, text: bytes) -> S | Veto:
        """The state after further bytes, or a veto. The bytes may begin and end within a character."""

    def finish(self, state: S) -> Veto | None:
        """The veto against an end of the text in this state; None if the text may end."""
        return None

    def begun(self, state: S) -> int:
        """The offset of the first byte that a later veto can reach. 0 is always correct.

        Streams show only the text before this byte.
        """
        return 0

    def suspects(self, state: S, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """The ids of tokens that may be vetoed: by `feed`, or by `finish` after them. None: any token may be.

        Masks ask the guard about these tokens only. The ids may include harmless tokens, but must not miss one that
        would be vetoed.
        """
        return None
