"""Rollbacks of one row: it goes from a refused text to a place where another text may begin.

`retry_tree` gives the places. To go to one, the row takes back the tokens that are not on the way there and takes those
that are. From a place where nothing is allowed it goes on to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from structgen.decoding.choosing.measure import Ledger, RecentLogits
from structgen.decoding.refusals.allowed import Allowed
from structgen.decoding.refusals.checks import Checks
from structgen.decoding.refusals.retry_tree import Refusal, RetryPlace, RetryTree, exhausted
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd
from structgen.models.row import common
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
class Rollback:
    """Takes one row back."""

    transcript: Transcript
    checks: Checks
    allowed: Allowed
    retries: RetryTree
    recent: RecentLogits
    undone: list[Undone] = field(default_factory=list)  # the texts that were taken back
    ledger: Ledger | None = None  # the batch's measures, if it takes any
    _retry: _Retry | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        """How often the row was sent back."""
        return self.retries.rollbacks + self.retries.refused_values.total()

    def clear(self) -> None:
        """The row is done and will not go back."""
        self._retry = None

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
            if self.allowed.after_rollback().any():
                return
            place.close()
        raise refusal.error()

    def _go_to(self, place: RetryPlace, refusal: Refusal) -> None:
        """Takes back the tokens that are not on the way to a place, and takes those that are."""
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
        """The probability of a token among those that were allowed; None if the model was not asked."""
        entry = self.transcript.entries[index]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self.recent.measured(index, self.transcript.tokens[index])
        return UNKNOWN if choice is None else choice.chance
