"""What one row may take next, and where it goes on when its text is refused.

The masks are the constraint's, less what limits, guards, phrases, canonical tokens and earlier tries forbid.
`retry_tree` gives the places to go back to. To go to one, the row takes back the tokens that are not on the way there
and takes those that are. From a place where nothing is allowed it goes on to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from structgen.decoding.choosing.measure import Ledger, RecentLogits
from structgen.decoding.refusals.checks import Checks
from structgen.decoding.refusals.guarding import conflict
from structgen.decoding.refusals.retry_tree import Refusal, RetryPlace, RetryTree, exhausted
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, quoted
from structgen.masks.words import Words, pack
from structgen.models.prefixes import common
from structgen.telemetry import rollbacks
from structgen.trace.records import Undone
from structgen.vocabulary import Vocabulary

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

    vocabulary: Vocabulary
    transcript: Transcript
    checks: Checks
    retries: RetryTree
    recent: RecentLogits
    undone: list[Undone] = field(default_factory=list)  # the texts that were taken back
    ledger: Ledger | None = None  # the batch's measures, if it takes any
    _retry: _Retry | None = field(default=None, init=False)

    @property
    def is_free(self) -> bool:
        """True if nothing but the constraint's own mask counts. It is never empty."""
        checks = self.checks
        if not checks.keeping and not checks.watching:
            return self.retries.is_empty
        if checks.canonical is not None or checks.phrases is not None or not self.retries.is_empty:
            return False
        if checks.absence is not None and len(self.transcript.tokens) in checks.absence.decided:
            return False
        if checks.steering is not None and checks.steering.refuses(len(self.transcript.tokens)):
            return False
        return checks.guards is None or not checks.guards.looks_ahead

    def constrained(self) -> Words | None:
        """The constraint's mask within the limits; None for every token."""
        matcher, steering = self.transcript.matcher, self.checks.steering
        words: Words | None = None if matcher is None else matcher.mask()
        return words if steering is None else steering.allowed(words, self.transcript)

    def left(self, words: Words | None) -> Words | None:
        """A mask without what guards, earlier tries, phrases and canonical tokens forbid. May be empty."""
        text, checks = self.transcript, self.checks
        if checks.guards is not None:
            words = checks.guards.allowed(words, text)
        if tried := self.retries.tried(text.tokens):
            if words is None and checks.guards is not None:
                words = checks.guards.plain  # an id that is no token stays forbidden
            untried = ~pack(np.array(tried), self.vocabulary.width)
            words = untried if words is None else words & untried
        if checks.absence is not None:
            words = checks.absence.allowed(words, text)
        if checks.phrases is not None:
            words = checks.phrases.allowed(words, text)
        return words if checks.canonical is None else checks.canonical.allowed(words, text)

    def waived(self) -> Words | None:
        """The mask without caps, if caps have left nothing; None if none held. May be empty."""
        steering = self.checks.steering
        if steering is None or not steering.waive(len(self.transcript.tokens)):
            return None
        return self.left(self.constrained())

    def after_rollback(self) -> Words:
        """The mask at the place to which the row has gone back; empty if nothing is left. Caps hold."""
        everything = np.full(self.vocabulary.words, 0xFFFFFFFF, np.uint32)
        try:
            words = self.constrained()
        except DeadEnd:
            return np.zeros_like(everything)
        left = self.left(everything if words is None else words)
        return everything if left is None else left

    def why_nothing(self, words: Words | None) -> str:
        """Why no token is left of a mask."""
        text, guards, cut = self.transcript, self.checks.guards, self.checks.cut
        shown, vetoes = quoted(text.text()), [] if guards is None else guards.vetoes(words)
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
        return self.retries.rollbacks + self.retries.refused_values.total()

    def clear(self) -> None:
        """The row is done and will not go back."""
        self._retry = None
        self.recent.clear()

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits behind the text: goes on with another one."""
        self.retries.spend_rollback(why)
        tokens = tuple(self.transcript.tokens)
        depths = self.retries.depths(len(tokens) - 1)
        self.refuse(Refusal(tokens, depths, why.message, lambda: exhausted(why)))

    def refuse(self, refusal: Refusal) -> None:
        """Goes to a place where another text may be said instead of the refused one.

        Raises:
            StructgenError: the refusal's error, if there is none.
        """
        count, entries, nearest = len(refusal.tokens), self.transcript.entries, next(iter(refusal.depths), 0)
        measured = min(refusal.depths, default=0) if self.ledger else nearest
        chances = [None if entry is None else UNKNOWN for entry in entries[:count]]
        chances[measured:] = [self._chance(index) for index in range(measured, count)]
        chances = [None if index in refusal.idle else chance for index, chance in enumerate(chances)]
        self.retries.add(refusal.tokens, entries[:count], chances)
        self._go_to_first(refusal, self.retries.places(refusal))

    def move_on(self) -> bool:
        """Leaves a place where everything was tried for the next one; False if the row has gone on since.

        Raises:
            StructgenError: the refusal's error, if there is no other place.
        """
        if self._retry is None or not self.retries.tried(self.transcript.tokens):
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
        text = self.transcript
        kept = common(place.tokens, text.tokens)
        if kept < len(text.tokens):
            count = len(text.tokens) - kept
            undone = Undone(kept, text.cut(kept), refusal.reason, refusal.pointer, count)
            self.undone.append(undone)
            rollbacks.debug("%d tokens taken back to token %d: %r: %s", count, kept, undone.text, undone.reason)
        self.recent.truncate(kept)
        for token, node in place.path[kept:]:
            text.take(token, node.entry)
        for check in self.checks.watching:
            check.read(text.tokens, text.said)  # none of them vetoes a text that they have read before

    def _chance(self, index: int) -> float | None:
        """The probability of a token among those that were allowed; None if the model was not asked."""
        entry = self.transcript.entries[index]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self.recent.measured(index, self.transcript.tokens[index])
        return UNKNOWN if choice is None else choice.chance
