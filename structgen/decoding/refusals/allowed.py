"""What one row may say next: the constraint's mask within the limits, without what guards and earlier tries forbid."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from structgen.decoding.choosing.masking import Words, pack
from structgen.decoding.refusals.budget import Steering
from structgen.decoding.refusals.conflicts import conflict
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.respelling import Begun
from structgen.decoding.refusals.tries import Tries
from structgen.errors import DeadEnd, quoted
from structgen.masks import Matcher
from structgen.vocabulary import Vocabulary


class Allowed:
    """The masks of one row.

    Args:
        vocabulary: of the model.
        budget: tokens in all.
        matcher: where the row stands in its constraint; None for plain text.
        steering: keeps it within its limits.
        guards: of the row.
        tries: what was refused of it.

    Attributes:
        budget: see above.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        budget: int,
        matcher: Matcher | None,
        steering: Steering | None,
        guards: Guarding | None,
        tries: Tries,
    ) -> None:
        self._vocabulary, self.budget, self._matcher = vocabulary, budget, matcher
        self._steering, self._guards, self._tries = steering, guards, tries
        self._begun = Begun(vocabulary) if tries.is_greedy else None

    def fork(self, matcher: Matcher | None, steering: Steering | None, guards: Guarding | None) -> Allowed:
        """Of another text that begins like this one, with its own walk and checks; tries are of both."""
        twin = copy(self)
        twin._matcher, twin._steering, twin._guards = matcher, steering, guards
        return twin

    def constrained(self, tokens: Sequence[int], said: bytearray) -> Words | None:
        """The constraint's mask, as far as the limits allow; None where every token may come.

        Raises:
            DeadEnd: nothing is allowed.
        """
        if self._matcher is None:
            return None
        if self._steering is None:
            words: Words = self._matcher.mask()
            return words
        return self._steering.mask(self._matcher, len(tokens), said)

    def is_free(self, count: int) -> bool:
        """Is the constraint's mask behind the first `count` tokens all there is to it, and so never empty?"""
        steering, guards = self._steering, self._guards
        refuses = self._tries.any or (steering is not None and steering.refuses(count))
        return not refuses and (guards is None or not guards.looks_ahead)

    def left(self, words: Words | None, tokens: Sequence[int], said: bytearray) -> Words | None:
        """What is left of the constraint's mask. May be empty."""
        return self._new(self._unrefused(words, tokens), tokens, said)

    def waived(self, tokens: Sequence[int], said: bytearray) -> Words | None:
        """The same with the caps let go, where they have left nothing; None where none held. May be empty, too."""
        if self._steering is None or not self._steering.waive(len(tokens)):
            return None
        return self.left(self.constrained(tokens, said), tokens, said)

    def elsewhere(self, tokens: Sequence[int], said: bytearray) -> Words:
        """The mask where a row has gone back to; empty where nothing is left. Caps hold."""
        everything = np.full(self._vocabulary.words, 0xFFFFFFFF, np.uint32)
        try:
            words = self.constrained(tokens, said)
        except DeadEnd:
            return np.zeros_like(everything)
        left = self._new(self._unrefused(everything if words is None else words, tokens), tokens, said)
        return everything if left is None else left

    def refused(self, tokens: Sequence[int], start: int) -> None:
        """Notes a refused text, whose tokens from the one with the number `start` on may be spelled in other ways."""
        if self._begun is not None:
            self._begun.add(tokens, start)

    def anything_new(self, tokens: Sequence[int], said: bytearray) -> bool:
        """May anything come where a row has gone back to that was not begun there in other tokens?"""
        again = self._begun_again(tokens, said)
        return again is None or bool((self.elsewhere(tokens, said) & ~again).any())

    def _begun_again(self, tokens: Sequence[int], said: bytearray) -> Words | None:
        """The tokens that begin again what was begun in others, where the row has gone back to."""
        return self._begun.again(said) if self._begun is not None and self._tries.tried(tokens) else None

    def _new(self, words: Words | None, tokens: Sequence[int], said: bytearray) -> Words | None:
        """A mask without what begins again what was begun in other tokens, where there is something else."""
        again = self._begun_again(tokens, said)
        if words is None or again is None:  # what was tried is forbidden in a mask
            return words
        new = words & ~again
        return new if new.any() else words

    def _unrefused(self, words: Words | None, tokens: Sequence[int]) -> Words | None:
        """The mask without bans, and without what guards refuse that look ahead."""
        if self._guards is not None:
            words = self._guards.allowed(words, last=len(tokens) + 1 >= self.budget)
        tried = self._tries.tried(tokens)
        if not tried:
            return words
        if words is None and self._guards is not None:
            words = self._guards.plain  # no ban makes a token of an id that is none
        banned = pack(np.array(tried), self._vocabulary.width)
        return ~banned if words is None else words & ~banned

    def why_nothing(self, words: Words | None, tokens: Sequence[int], text: str) -> str:
        """Why no token is left of those that the constraint and the budget allow.

        Args:
            words: the constraint's mask.
            tokens: of the text.
            text: that was said.
        """
        if self._guards is not None:
            told = self._nothing_but_offences(self._guards, words, tokens, quoted(text))
        else:
            told = f"after {quoted(text)} everything that the constraint allows was refused before"
        cut = "" if self._steering is None else self._steering.cut
        return f"{told}, and {cut} leaves no room for anything else" if cut else told

    def _nothing_but_offences(self, guards: Guarding, words: Words | None, tokens: Sequence[int], said: str) -> str:
        """Why the guards' masks and the constraint's leave nothing together."""
        vetoes = guards.vetoes(words)
        if not vetoes:
            return f"after {said} the guards refuse every token that the constraint allows"
        reasons = " and ".join(dict.fromkeys(veto.reason for veto in vetoes))
        told = conflict(vetoes[0], said, self._matcher, tokens, reasons)
        return f"{told}; the guards refuse every token that the constraint allows there"
