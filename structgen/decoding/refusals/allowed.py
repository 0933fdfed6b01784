"""The tokens that one row may take next: the constraint's mask, less what limits, guards and earlier tries forbid.

A greedy row does not begin a text twice in other tokens. A text of n bytes has up to 2 ** (n - 1) tokenisations. A
model that is sure of a refused text would say them one after the other, and each costs forward passes, although the
text itself is refused. So after a rollback the row passes over each token that only leads to a text it has begun
before: a refused text of n bytes has n beginnings, and each retry reaches a new one. Such a token is not forbidden: it
may come if nothing else is left. A row that samples passes over nothing, since each tokenisation has its own
probability. (`benchmarks/validators.py` solves 270 of 288 so, 257 without.)

A budget closes a value in the fewest tokens. If a validator refuses the last part then, other parts do not fit, because
the text before is too long. So the row goes back to the last token that leaves more tokens than the refused part had,
twice as many each time, and keeps them in *reserve* until the part begins. The text before that token stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from structgen.decoding.refusals.guarding import Guarding, conflict
from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, quoted
from structgen.masks.words import Words, pack
from structgen.vocabulary import Vocabulary

FIRST_RESERVE = 4
"""The least reserve, in tokens."""


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
        self._seen = SeenTexts(vocabulary) if retries.is_greedy else None
        self._kept = self._values = 0  # tokens in reserve, until so many scalar values are complete

    def fork(self, transcript: Transcript, checks: Checks) -> Allowed:
        """The masks of another text that begins like this one; refused texts count for both."""
        twin = copy(self)
        twin._transcript, twin._checks = transcript, checks
        twin._kept = twin._values = 0
        return twin

    @property
    def reserve(self) -> int:
        """The tokens of the budget that are kept for a later value."""
        validating = self._checks.validating
        return self._kept if self._kept and validating is not None and validating.complete < self._values else 0

    def exceeded(self, *, forced: bool = False) -> str | None:
        """The name of the limit because of which the row must not go on from here; None if it may.

        Args:
            forced: only the last token was allowed.
        """
        said, steering = self._transcript, self._checks.steering
        if steering is None or said.matcher is None:
            return None
        return steering.exceeded(said.matcher, said, forced=forced, reserve=self.reserve)

    def with_reserve(self, refusal: Refusal) -> Refusal:
        """A validator's refusal; if the budget cut the value short, one that goes back to where more can be kept."""
        start, steering, matcher = refusal.depths[0], self._checks.steering, self._transcript.matcher
        if steering is None or matcher is None or not steering.cuts_behind(start):
            return refusal
        count, entries = len(matcher.token_ids), self._transcript.entries
        spare = [steering.spare(matcher.earlier(count - depth), depth) for depth in range(start + 1)]
        for wanted in (max(FIRST_RESERVE, 2 * spare[start]), spare[start] + 1):
            depth = next((depth for depth in range(start - 1, -1, -1) if entries[depth] and spare[depth] >= wanted), -1)
            if depth >= 0:
                self._kept, self._values = wanted, refusal.values
                return replace(refusal, depths=(depth, *(other for other in refusal.depths if other < depth)))
        return refusal

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
        again = self._begun_again()
        if words is None or again is None:  # what was tried is forbidden in a mask
            return words
        new = words & ~again
        return new if new.any() else words

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

    def note_refused(self, tokens: Sequence[int], start: int) -> None:
        """Notes a refused text, whose tokens from number `start` on may be spelled in other ways."""
        if self._seen is not None:
            self._seen.add(tokens, start)

    def anything_new(self) -> bool:
        """True if a token is allowed at the place the row has gone back to that begins no text again."""
        again = self._begun_again()
        return again is None or bool((self.after_rollback() & ~again).any())

    def _begun_again(self) -> Words | None:
        """After a rollback, the tokens that only begin a seen text again; None if there are none."""
        said = self._transcript
        return self._seen.again(said.said) if self._seen is not None and self._retries.tried(said.tokens) else None

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


class SeenTexts:
    """The texts that one row has begun before it went back."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = set[bytes]()

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Adds the texts of a refused text's first `start + 1`, `start + 2`, ... tokens, except the whole text."""
        text = self._vocabulary.decode(tokens[:start])
        for token in tokens[start:-1]:
            text += self._vocabulary.token(token)
            self._texts.add(text)

    def again(self, text: bytes | bytearray) -> Words | None:
        """The mask of the tokens with which a text becomes a seen one; None if there are none."""
        prefix, size = bytes(text), len(text)
        rests = {seen[size:] for seen in self._texts if len(seen) > size and seen.startswith(prefix)}
        tokens = {token for rest in rests for token in self._vocabulary.trie.tokens_of(rest)}
        return pack(np.array(sorted(tokens), np.int64), self._vocabulary.width) if tokens else None
