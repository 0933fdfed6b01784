"""What one row may take next, and where it continues when its text is refused.

The masks are the constraint's, less what limits, guards, phrases, canonical tokens and earlier tries forbid.
`retry_tree` gives the places to go back to. To go to one, the row rolls back the tokens that are not on the way there
and takes those that are. From a place where nothing is allowed it continues to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from structgen.decoding.choosing.measure import Ledger, RecentLogits
from structgen.decoding.refusals.guarding import conflict
from structgen.decoding.refusals.retry_tree import Refusal, RetryPlace, exhausted
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, quoted
from structgen.masks.words import Words, pack
from structgen.models.prefixes import common
from structgen.telemetry import rollbacks
from structgen.trace.records import Undone

UNKNOWN = 0.5
"""Stands for the probability of a choice that was not measured."""


class _Retry(NamedTuple):
    """The last rollback."""

    refusal: Refusal  # why it went back
    place: RetryPlace  # where it went
    others: Iterator[RetryPlace]  # the places to go to next


@dataclass(eq=False)
class RowRefusals:
    """What the rules of one row refuse, and where the row goes then."""

    text: Transcript
    rules: Rules
    recent: RecentLogits
    undone: list[Undone] = field(default_factory=list)  # the texts that were rolled back
    ledger: Ledger | None = None  # the batch's measures, if it takes any
    _retry: _Retry | None = field(default=None, init=False)

    def constrained(self) -> Words | None:
        """The constraint's mask within the limits; None for every token."""
        if (seam := self.text.at_seam) is not None:
            return seam.left
        matcher, steering = self.text.matcher, self.rules.steering
        words: Words | None = None if matcher is None else matcher.mask()
        return words if steering is None else steering.allowed(words, self.text)

    def left(self, words: Words | None) -> Words | None:
        """A mask without what earlier tries, guards, absence, phrases and canonical tokens forbid. May be empty."""
        if self.text.at_seam is not None:
            return words
        if tried := self.text.retries.tried(self.text.tokens):
            vocabulary = self.text.vocabulary
            untried = ~pack(np.array(tried), vocabulary.width)
            words = (vocabulary.existing if words is None else words) & untried
        for rule in self.rules.masking:
            words = rule.allowed(words, self.text)
        return words

    def waived(self) -> Words | None:
        """The mask without caps, if caps have left nothing; None if none held. May be empty."""
        steering = self.rules.steering
        if steering is None or not steering.waive(self.text):
            return None
        return self.left(self.constrained())

    def after_rollback(self) -> Words:
        """The mask at the place to which the row has gone back; empty if nothing is left. Caps hold."""
        everything = np.full(self.text.vocabulary.words, 0xFFFFFFFF, np.uint32)
        try:
            words = self.constrained()
        except DeadEnd:
            return np.zeros_like(everything)
        left = self.left(everything if words is None else words)
        return everything if left is None else left

    def why_nothing(self, words: Words | None) -> str:
        """Why no token is left of a mask."""
        text, guards, cut = self.text, self.rules.guards, self.rules.cut(self.text)
        shown, vetoes = quoted(text.text()), [] if guards is None else guards.vetoes(words, text)
        if guards is None:
            why = f"after {shown} everything that the constraint allows was refused before"
        elif not vetoes:
            why = f"after {shown} the guards refuse every token that the constraint allows"
        else:
            reasons = " and ".join(dict.fromkeys(veto.reason for veto in vetoes))
            why = conflict(vetoes[0], shown, text.matcher, text.tokens, reasons)
            why = f"{why}; the guards refuse every token that the constraint allows there"
        return f"{why}, and {cut} leaves no room for anything else" if cut else why

    @property
    def count(self) -> int:
        """How often the row was sent back."""
        return self.text.retries.rollbacks + self.text.retries.refused_values.total()

    def clear(self) -> None:
        """The row is done and will not go back."""
        self._retry = None
        self.recent.clear()

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits after the text: continues with another one."""
        self.text.retries.spend_rollback(why)
        tokens = tuple(self.text.tokens)
        depths = self.text.retries.depths(len(tokens) - 1)
        self.refuse(Refusal(tokens, depths, why.message, lambda: exhausted(why)))

    def refuse(self, refusal: Refusal) -> None:
        """Goes to a place where another text may be said instead of the refused one.

        Raises:
            StructgenError: the refusal's error, if there is none.
        """
        count, entries, nearest = len(refusal.tokens), self.text.entries, next(iter(refusal.depths), 0)
        measured = min(refusal.depths, default=0) if self.ledger else nearest
        chances = [None if entry is None else UNKNOWN for entry in entries[:count]]
        chances[measured:] = [self._chance(index) for index in range(measured, count)]
        chances = [None if index in refusal.idle else chance for index, chance in enumerate(chances)]
        chances[1 : self.text.healed] = [None] * max(0, min(self.text.healed, count) - 1)  # one choice for all of them
        self.text.retries.add(refusal.tokens, entries[:count], chances)
        self._go_to_first(refusal, self.text.retries.places(refusal))

    def move_on(self) -> bool:
        """Leaves a place where everything was tried for the next one; False if the row has continued since.

        Raises:
            StructgenError: the refusal's error, if there is no other place.
        """
        if self._retry is None or not self.text.retries.tried(self.text.tokens):
            return False
        self._retry.place.close()
        self._go_to_first(self._retry.refusal, self._retry.others)
        return True

    def _go_to_first(self, refusal: Refusal, places: Iterator[RetryPlace]) -> None:
        """Goes to the first place where an untried token is allowed, and closes those before it."""
        for place in places:
            self._retry = _Retry(refusal, place, places)
            self._go_to(place, refusal)
            if self.after_rollback().any():
                return
            place.close()
        raise refusal.error()

    def _go_to(self, place: RetryPlace, refusal: Refusal) -> None:
        """Takes back the tokens that are not on the way to a place, and takes those that are."""
        text = self.text
        kept = common(place.tokens, text.tokens)
        if kept < text.healed:
            kept = 0
        if kept < len(text.tokens):
            count = len(text.tokens) - kept
            undone = Undone(kept, text.cut(kept), refusal.reason, refusal.pointer, count)
            self.undone.append(undone)
            rollbacks.debug("%d tokens taken back to token %d: %r: %s", count, kept, undone.text, undone.reason)
        self.recent.truncate(kept)
        begun = text.at_seam and text.at_seam.begins(place.tokens)
        if begun:
            text.heal(*begun)
            self.rules.heal(text)
            kept = text.healed
        if text.at_seam is None:
            for token, node in place.path[kept:]:
                text.take(token, node.entry)
        for check in self.rules.watching:
            check.read(text)  # none of them vetoes a text that they have read before

    def _chance(self, index: int) -> float | None:
        """The probability of a token among those that were allowed; None if the model was not asked."""
        entry = self.text.entries[index]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self.recent.measured(index, self.text.tokens[index])
        return UNKNOWN if choice is None else choice.chance
