"""The protocol of all that may refuse a row's text: budget and caps, canonical tokens, phrases, guards, validators.

A rule refuses in up to three ways, the cheapest first:

1. `allowed` takes a token out of the mask, before one is chosen.
2. `keeps` rolls back the chosen token before the model reads it. Another one is drawn from the same logits.
3. `read` vetoes the text from an earlier byte on. The row goes back to a place that `refusal` names.

`Steering`, `CanonicalRow` and `PhraseRow` refuse in the first two ways; `Validating` in the third; `Guarding` in the
third, and in the first once the rollbacks are spent; `AbsenceRow` in all.

What a rule has read of a text is a value that the text keeps (`Transcript.states`), and so is which single tokens it
has refused (`RetryTree.refused`). So a rule never goes back, and all hypotheses of a search have the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from structgen.decoding.refusals.retry_tree import Refusal
from structgen.decoding.refusals.transcript import Transcript
from structgen.guards import Guard, Veto
from structgen.guards.lookahead import GuardSet, States
from structgen.masks.words import Words
from structgen.patience import check_patience


class RowRule(ABC):
    """What may refuse the text of one row.

    Attributes:
        option: where it comes from, for messages.
    """

    option: ClassVar[str]

    @abstractmethod
    def start(self, prompt: Sequence[int]) -> Any:
        """The state before the first token of a text after a prompt."""

    def allowed(self, words: Words | None, text: Transcript) -> Words | None:
        """A mask without the tokens that are refused after the text; may be empty. None stands for every token.

        Raises:
            DeadEnd: the text cannot continue.
        """
        return words

    def keeps(self, text: Transcript) -> bool:
        """May the row continue after its last token? If not, the token is not allowed there again."""
        return True


class RowCheck(RowRule):
    """A rule that may veto the text."""

    @abstractmethod
    def read(self, text: Transcript, *, over: bool = False) -> Veto | None:
        """Reads the new tokens, up to a stop string, which cuts the text off.

        Args:
            over: the text ends here. That may be vetoed, too.

        Returns:
            The first veto. Its token was not read.
        """

    @abstractmethod
    def refusal(self, veto: Veto, text: Transcript, cut: str) -> Refusal:
        """The text that `read` has vetoed, and how many of its tokens to keep.

        Args:
            cut: for messages, the budget that has changed the text; empty if none has.

        Raises:
            RunError: the row may not be sent back any more.
        """

    @abstractmethod
    def at_risk(self, text: Transcript) -> int:
        """The number of bytes at the end of the text that a veto may still take away, so they are not shown yet."""


class Heard(NamedTuple):
    """What guards have read of a text."""

    states: States
    length: int  # the number of bytes


class GuardCheck(RowCheck):
    """Guards or validators. They read token by token: each token is either read or has completed the offence."""

    def __init__(self, guards: Sequence[Guard[Any]]) -> None:
        self.guards = GuardSet(guards)

    def start(self, prompt: Sequence[int]) -> Heard:
        return Heard(self.guards.start(), 0)

    def heard(self, text: Transcript) -> tuple[int, Heard]:
        """The number of tokens that were read, and the state after them."""
        known = text.states[self]
        count = next(reversed(known))
        return count, known[count]

    def read(self, text: Transcript, *, over: bool = False) -> Veto | None:
        known, said = text.states[self], text.said
        while known[next(reversed(known))].length > len(said):  # a stop string has cut off what was read
            known.popitem()
        count, (states, length) = self.heard(text)
        for number in range(count, len(text.tokens)):
            piece = text.vocabulary.token(text.tokens[number])
            if length + len(piece) > len(said):
                piece = bytes(said[length:])
            after = self._fed(text, number, states, piece)
            if isinstance(after, Veto):
                return after
            states, length = after, length + len(piece)
            known[number + 1] = Heard(states, length)
            check_patience()
        return self.guards.finish(states) if over else None

    def _fed(self, text: Transcript, number: int, states: States, piece: bytes) -> States | Veto:
        """The states after the text of a token, or a veto."""
        return self.guards.feed(states, piece) if piece else states

    def token_at(self, text: Transcript, offset: int) -> int:
        """The index of the token that contains a byte; for later bytes, the index of the next token."""
        return max(0, bisect_right(list(text.states[self].values()), offset, key=lambda each: each.length) - 1)

    def vetoed(self, text: Transcript) -> tuple[int, ...]:
        """The tokens that were read, and the next one, which completed the offence, if any."""
        return tuple(text.tokens[: self.heard(text)[0] + 1])
