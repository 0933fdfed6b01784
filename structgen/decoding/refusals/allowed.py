"""The tokens that one row may take next: the constraint's mask, less what limits, guards and earlier tries forbid."""

from __future__ import annotations

from copy import copy

import numpy as np

from structgen.decoding.refusals.checks import Checks
from structgen.decoding.refusals.guarding import Guarding, conflict
from structgen.decoding.refusals.retry_tree import RetryTree
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, quoted
from structgen.masks.words import Words, pack
from structgen.vocabulary import Vocabulary


class Allowed:
    """The masks of one row.

    Attributes:
        budget: the most tokens of the text; may become smaller.
    """

    def __init__(
        self, vocabulary: Vocabulary, transcript: Transcript, checks: Checks, retries: RetryTree, budget: int
    ) -> None:
        self.budget = budget
        self._vocabulary, self._transcript, self._checks, self._retries = vocabulary, transcript, checks, retries

    def fork(self, transcript: Transcript, checks: Checks) -> Allowed:
        """The masks of another text that begins like this one; refused texts count for both."""
        twin = copy(self)
        twin._transcript, twin._checks = transcript, checks
        return twin

    def exceeded(self, *, forced: bool = False) -> str | None:
        """The name of the limit because of which the row must not go on from here; None if it may.

        Args:
            forced: only the last token was allowed.
        """
        said, steering = self._transcript, self._checks.steering
        if steering is None or said.matcher is None:
            return None
        return steering.exceeded(said.matcher, said, forced=forced)

    @property
    def is_free(self) -> bool:
        """True if nothing but the constraint's own mask counts. It is never empty."""
        steering, guards = self._checks.steering, self._checks.guards
        limited = steering is not None and steering.refuses(len(self._transcript.tokens))
        limited = limited or self._checks.canonical is not None or self._checks.phrases is not None
        return self._retries.is_empty and not limited and (guards is None or not guards.looks_ahead)

    def constrained(self) -> Words | None:
        """The constraint's mask within the limits; None for every token."""
        said, steering = self._transcript, self._checks.steering
        if said.matcher is None:
            return None
        words: Words = said.matcher.mask() if steering is None else steering.mask(said.matcher, said)
        return words

    def left(self, words: Words | None) -> Words | None:
        """A mask without what guards, earlier tries, phrases and canonical tokens forbid. May be empty."""
        tokens, guards = self._transcript.tokens, self._checks.guards
        if guards is not None:
            words = guards.allowed(words, last=len(tokens) + 1 >= self.budget)
        if tried := self._retries.tried(tokens):
            if words is None and guards is not None:
                words = guards.plain  # an id that is no token stays forbidden
            untried = ~pack(np.array(tried), self._vocabulary.width)
            words = untried if words is None else words & untried
        if (phrases := self._checks.phrases) is not None:
            words = phrases.allowed(words, tokens)
        if (canonical := self._checks.canonical) is not None:
            words = canonical.allowed(words, self._transcript.matcher, tokens)
        return words

    def waived(self) -> Words | None:
        """The mask without caps, if caps have left nothing; None if none held. May be empty."""
        steering = self._checks.steering
        if steering is None or not steering.waive(len(self._transcript.tokens)):
            return None
        return self.left(self.constrained())

    def after_rollback(self) -> Words:
        """The mask at the place to which the row has gone back; empty if nothing is left. Caps hold."""
        everything = np.full(self._vocabulary.words, 0xFFFFFFFF, np.uint32)
        try:
            words = self.constrained()
        except DeadEnd:
            return np.zeros_like(everything)
        left = self.left(everything if words is None else words)
        return everything if left is None else left

    def why_nothing(self, words: Words | None) -> str:
        """Why no token is left of a mask."""
        said, guards, steering = self._transcript, self._checks.guards, self._checks.steering
        if guards is not None:
            why = self._nothing_but_vetoes(guards, words, quoted(said.text()))
        else:
            why = f"after {quoted(said.text())} everything that the constraint allows was refused before"
        cut = "" if steering is None else steering.cut
        return f"{why}, and {cut} leaves no room for anything else" if cut else why

    def _nothing_but_vetoes(self, guards: Guarding, words: Words | None, text: str) -> str:
        """Why the guards and the constraint allow no token together."""
        vetoes = guards.vetoes(words)
        if not vetoes:
            return f"after {text} the guards refuse every token that the constraint allows"
        reasons = " and ".join(dict.fromkeys(veto.reason for veto in vetoes))
        why = conflict(vetoes[0], text, self._transcript.matcher, self._transcript.tokens, reasons)
        return f"{why}; the guards refuse every token that the constraint allows there"
