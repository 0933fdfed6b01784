"""Rollbacks of one row: from a refused text to where another one may be said.

`retry_tree` says which places there are. Here the row goes there: it takes back the tokens that are not before the
place, says those before it again, and leaves a place where nothing is allowed for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from structgen.decoding.choosing.measure import Ledger, RecentLogits
from structgen.decoding.refusals.allowed import Allowed
from structgen.decoding.refusals.retry_tree import Refusal, RetryPlace, RetryTree, exhausted
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd
from structgen.models.row import common
from structgen.telemetry import rollbacks
from structgen.trace.records import Undone

UNKNOWN = 0.5
"""The probability that counts for a choice that nobody measured."""


class _Retry(NamedTuple):
    """Where a row has gone on from."""

    refusal: Refusal  # why it went back
    place: RetryPlace  # where it went
    others: Iterator[RetryPlace]  # where else it may go


@dataclass(eq=False)
class Rollback:
    """Takes one row back."""

    transcript: Transcript
    checks: Checks
    allowed: Allowed
    retries: RetryTree
    recent: RecentLogits
    undone: list[Undone] = field(default_factory=list)  # what was said and taken back
    ledger: Ledger | None = None  # where the batch measures its choices, if it does
    _retry: _Retry | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        """How often the row was sent back."""
        return self.retries.rollbacks + self.retries.refused_values.total()

    @property
    def uniform(self) -> float | None:
        """Draws the next token where the row has just gone back to; None where it is chosen as always."""
        if self._retry is None or len(self._retry.place.path) != len(self.transcript.tokens):
            return None
        return self._retry.place.uniform

    def clear(self) -> None:
        """The row is done, and goes back no more."""
        self._retry = None

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits behind the text: another one is said."""
        self.retries.spend_rollback(why)
        tokens = tuple(self.transcript.tokens)
        self.refuse(Refusal(tokens, range(len(tokens) - 1, -1, -1), why.message, lambda: exhausted(why)))

    def refuse(self, refusal: Refusal) -> None:
        """Goes on from where another text may be said instead of the one that was refused.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        count, entries, nearest = len(refusal.tokens), self.transcript.entries, next(iter(refusal.depths), 0)
        measured = min(refusal.depths, default=0) if self.ledger else nearest
        chances = [None if entry is None else UNKNOWN for entry in entries[:count]]
        chances[measured:] = [self._chance(index) for index in range(measured, count)]
        self.retries.add(refusal.tokens, entries[:count], chances)
        self.allowed.note_refused(refusal.tokens, nearest)
        if refusal.pointer is not None:
            earlier = self.allowed.with_reserve(refusal)
            if earlier is not refusal:
                self.retries.prune(refusal.tokens[: earlier.depths[0] + 1])  # nothing behind it leaves the reserve
            refusal = earlier
        self._go_to_first(refusal, self.retries.places(refusal))

    def move_on(self) -> bool:
        """Leaves a place where everything was tried for the next one; False where the row has gone on from it.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        if self._retry is None or not self.retries.tried(self.transcript.tokens):
            return False
        self._retry.place.close()
        self._go_to_first(self._retry.refusal, self._retry.others)
        return True

    def _go_to_first(self, refusal: Refusal, places: Iterator[RetryPlace]) -> None:
        """To the first place where a token is allowed that was not tried, and begins no text again if possible."""
        again = list[tuple[RetryPlace, float]]()  # only texts that were begun are allowed there; what was left
        is_new = self._go_to_new(refusal, places, again)
        for place, left in again:
            place.node.left = left
        if is_new:
            return
        if not again:
            raise refusal.error()
        others = iter([place for place, _ in again])
        place = next(others)
        self._retry = _Retry(refusal, place, others)
        self._go_to(place, refusal)

    def _go_to_new(self, refusal: Refusal, places: Iterator[RetryPlace], again: list[tuple[RetryPlace, float]]) -> bool:
        """To the first place where something new is allowed; False where there is none. Closes those before it."""
        for place in places:
            self._retry = _Retry(refusal, place, places)
            self._go_to(place, refusal)
            if self._is_open():
                if self.allowed.anything_new():
                    return True
                again.append((place, place.node.left))
            place.close()
        return False

    def _is_open(self) -> bool:
        """May a token come here that was not tried, with the reserve for what comes later?"""
        has_room = not self.transcript.tokens or not self.allowed.reserve or self.allowed.fits(forced=True)
        return has_room and bool(self.allowed.after_rollback().any())

    def _go_to(self, place: RetryPlace, refusal: Refusal) -> None:
        """Takes back the tokens that are not before a place, and says those before it again."""
        said = self.transcript
        kept = common(place.tokens, said.tokens)
        if kept < len(said.tokens):
            count = len(said.tokens) - kept
            undone = Undone(kept, said.cut(kept), refusal.reason, refusal.pointer, count)
            self.undone.append(undone)
            rollbacks.debug("%d tokens taken back to token %d: %r: %s", count, kept, undone.text, undone.reason)
        self.recent.truncate(kept)
        for token, node in place.path[kept:]:
            said.take(token, node.entry)
        for check in self.checks.watching:
            check.read(said.tokens, said.said)  # none of them vetoes what was said before

    def _chance(self, index: int) -> float | None:
        """The probability of a token among those that were allowed; None where the model was not asked."""
        entry = self.transcript.entries[index]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self.recent.measured(index, self.transcript.tokens[index])
        return UNKNOWN if choice is None else choice.chance
