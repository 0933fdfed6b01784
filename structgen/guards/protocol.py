"""What a guard is: it reads the text as bytes and may veto it, from an earlier byte on."""

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
    """The text must not stay as it is.

    Attributes:
        offset: of the byte with which the offence begins, counted from the start of the text. The decoder goes back
            to the token that holds it. An offset behind the text's last byte refuses the end of the text there.
        reason: for messages and traces.
    """

    offset: int
    reason: str

    def __post_init__(self) -> None:
        require(is_whole(self.offset, 0), "Veto(offset)", self.offset, "a byte's place in the text, at least 0")
        require(isinstance(self.reason, str), "Veto(reason)", self.reason, "a text")


class Guard(ABC, Generic[S]):
    """Forbids texts that no mask knows of. Write `start` and `feed`; the rest has answers that are never wrong.

        class NoTabs(Guard[int]):
            def start(self):
                return 0                                  # the state: how many bytes were read

            def feed(self, state, text):
                at = text.find(b"\t")
                return state + len(text) if at < 0 else Veto(state + at, "a tab")

    A guard is pure: a state is a value that `feed` leaves as it was, and equal states have equal futures. So the
    decoder may keep old states to go back to, and ask about tokens that it does not take. What the guard keeps
    besides, such as tables, must not change any answer.
    """

    @abstractmethod
    def start(self) -> S:
        """The state before the first byte."""

    @abstractmethod
    def feed(self, state: S, text: bytes) -> S | Veto:
        """The state after more bytes, or a veto. They need not be whole characters."""

    def finish(self, state: S) -> Veto | None:
        """May the text end here? None when it may."""
        return None

    def begun(self, state: S) -> int:
        """The first byte, counted from the start of the text, that a later veto can reach. 0 is always right.

        Streams show only what stands before it.
        """
        return 0

    def suspects(self, state: S, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Ids of tokens among which are all that `feed` would veto or behind which `finish` would; None when it may be
        any. For masks.
        """
        return None
