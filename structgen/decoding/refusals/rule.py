"""The protocol of all that may refuse a row's text: budget and caps, canonical tokens, phrases, guards, validators.

A rule refuses in up to three ways, the cheapest first:

1. `allowed` takes a token out of the mask, before one is chosen.
2. `keeps` takes back the chosen token before the model reads it. Another one is drawn from the same logits.
3. `read` vetoes the text from an earlier byte on. The row goes back to a place that `refusal` names.

`Steering`, `CanonicalRow` and `PhraseRow` refuse in the first two ways; `Validating` in the third; `Guarding` in the
third, and in the first once the rollbacks are spent; `AbsenceRow` in all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

from typing_extensions import Self

from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.transcript import Transcript
from structgen.guards import Guard, Veto
from structgen.guards.lookahead import GuardWatch
from structgen.masks.words import Words
from structgen.patience import check_patience
from structgen.vocabulary import Vocabulary


class RowRule(ABC):
    """What may refuse the text of one row.

    Attributes:
        option: where it comes from, for messages.
    """

    option: ClassVar[str]

    def allowed(self, words: Words | None, text: Transcript) -> Words | None:
        """A mask without the tokens that are refused behind the text; may be empty. None stands for every token.

        Raises:
            DeadEnd: the text cannot go on.
        """
        return words

    def keeps(self, text: Transcript) -> bool:
        """May the row go on behind its last token? If not, the token is not allowed there again."""
        return True

    @abstractmethod
    def truncate(self, count: int, said: bytes | bytearray) -> None:
        """The row goes back to its first `count` tokens, which spell `said`."""


class RowCheck(RowRule):
    """Guards or validators, which read one row and may veto its text.

    They read token by token: each token is either read or has completed the offence.
    """

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
            check_patience()
        return watch.finish() if over else None

    @abstractmethod
    def refusal(self, veto: Veto, text: Transcript, retries: RetryTree, cut: str) -> Refusal:
        """The text that `read` has vetoed, and how many of its tokens to keep.

        Args:
            cut: for messages, the budget that has changed the text; empty if none has.

        Raises:
            RunError: the row may not be sent back any more.
        """

    @abstractmethod
    def at_risk(self, said: bytes | bytearray) -> int:
        """The number of bytes at the end of the text that a veto may still take away, so they are not shown yet."""

    def truncate(self, count: int, said: bytes | bytearray) -> None:
        self._watch.truncate(count)

    def fork(self) -> Self:
        """The check of another text that begins like this one."""
        twin = copy(self)
        twin._watch = self._watch.fork()
        return twin

    def _vetoed(self, text: Transcript) -> tuple[int, ...]:
        """The tokens that were read, and the next one, which completed the offence, if any."""
        return tuple(text.tokens[: self._watch.count + 1])
