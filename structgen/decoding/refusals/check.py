"""What reads a row's text and may veto it: the row's guards, and its type's validators.

Both give the same kind of value, a `Veto`, and both read token by token, so that each token is either read or has
completed what is vetoed. `RowCheck.refusal` is the one place where a veto becomes a `Refusal`: the tokens up to that
one, and how many of them stay.
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
    """Guards that read one row."""

    def __init__(self, guards: Sequence[Guard[Any]], vocabulary: Vocabulary) -> None:
        self._watch = GuardWatch(guards, vocabulary)
        self._vocabulary = vocabulary

    def read(self, tokens: Sequence[int], said: bytes | bytearray, *, over: bool = False) -> Veto | None:
        """Reads the tokens that are new, as far as they were said: a stop string cuts the text off.

        Args:
            over: the text ends here; that may be vetoed, too.

        Returns:
            The first veto. The token that it is about was not read.
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
        """What `read` has vetoed as a text that must not be said, and where another one may begin.

        Raises:
            RunError: the row may not be sent back any more.
        """

    @abstractmethod
    def at_risk(self, said: bytes | bytearray) -> int:
        """How many bytes at the end of the text are not shown yet, because a veto may take them away."""

    def truncate(self, count: int, said: bytes | bytearray) -> None:
        """Goes back to the first `count` tokens, which spell `said`."""
        self._watch.truncate(count)

    def fork(self) -> Self:
        """The check of another text that begins like this one."""
        twin = copy(self)
        twin._watch = self._watch.fork()
        return twin

    def _vetoed(self, said: Transcript) -> tuple[int, ...]:
        """The tokens up to the one that has completed what is vetoed: all that were read, and the next, if any."""
        return tuple(said.tokens[: self._watch.count + 1])
