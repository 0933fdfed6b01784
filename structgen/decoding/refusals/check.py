"""Checks that read a row's text and may veto it: the row's guards, and its type's validators.

Both give a `Veto`, and both read token by token: each token is either read or has completed the offence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any

from typing_extensions import Self

from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.transcript import Transcript
from structgen.guards import Guard, Veto
from structgen.guards.lookahead import GuardWatch
from structgen.vocabulary import Vocabulary


class RowCheck(ABC):
    """Guards or validators that read one row."""

    def __init__(self, guards: Sequence[Guard[Any]], vocabulary: Vocabulary) -> None:
        self._watch = GuardWatch(guards, vocabulary)
        self._vocabulary = vocabulary

    def read(self, tokens: Sequence[int], said: bytes | bytearray, *, over: bool = False) -> Veto | None:
        """Reads the new tokens, up to a stop string, which cuts the text off.

        Args:
            over: the text ends here. That may be vetoed, too.

        Returns:
            The first veto. Its token was not read.
        """
        watch, length = self._watch, self._watch.length
        if length > len(said):
            watch.truncate(watch.token_at(len(said)))
            length = watch.length
        for token in tokens[watch.count :]:
            text = self._vocabulary.token(token)
            length += len(text)
            veto = watch.feed(text if length <= len(said) else bytes(said[watch.length :]))
            if veto is not None:
                return veto
        return watch.finish() if over else None

    @abstractmethod
    def refusal(self, veto: Veto, said: Transcript, retries: RetryTree) -> Refusal:
        """The text that `read` has vetoed, and how many of its tokens to keep.

        Raises:
            RunError: the row may not be sent back any more.
        """

    @abstractmethod
    def at_risk(self, said: bytes | bytearray) -> int:
        """The number of bytes at the end of the text that a veto may still take away, so they are not shown yet."""

    def truncate(self, count: int, said: bytes | bytearray) -> None:
        """Goes back to the first `count` tokens."""
        self._watch.truncate(count)

    def fork(self) -> Self:
        """The check of another text that begins like this one."""
        twin = copy(self)
        twin._watch = self._watch.fork()
        return twin

    def _vetoed(self, said: Transcript) -> tuple[int, ...]:
        """The tokens that were read, and the next one, which completed the offence, if any."""
        return tuple(said.tokens[: self._watch.count + 1])
