"""Going back in one row: from a dead end, a guard's veto or a validator's refusal to where something else may be said.

Where that is, `tries` says. Here the row goes there: what is not before the place is taken back, what is before it is
said again, and a place where nothing is allowed after all is left for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.choosing.recent_logits import Recent
from structgen.decoding.refusals.allowed import Allowed
from structgen.decoding.refusals.reserve import Room
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.refusals.tries import Refusal, RetryPlace, Tries, exhausted
from structgen.errors import DeadEnd

UNKNOWN = 0.5
"""What a choice that nobody measured is taken to have had of the probability."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What was said and taken back.

    Attributes:
        tokens: so many were left.
        text: what stood behind them.
        reason: why it could not stay.
        pointer: of the JSON value that its type's validators refused; None for any other reason.
    """

    tokens: int
    text: str
    reason: str
    pointer: str | None = None


class _Way(NamedTuple):
    """Where a row has gone on from.

    Attributes:
        refusal: why it went back.
        place: where it went.
        places: where else it may go.
    """

    refusal: Refusal
    place: RetryPlace
    places: Iterator[RetryPlace]


class Rollback:
    """The ways back of one row. Each goes there, or raises why there is none.

    Args:
        transcript: of the row.
        checks: of the row.
        room: of the row.
        allowed: its masks.
        tries: what was refused of it.
        recent: its last choices.

    Attributes:
        undone: what was said and taken back.
        ledger: where the batch measures its choices, if it does.
    """

    def __init__(
        self,
        transcript: Transcript,
        checks: Checks,
        room: Room,
        *,
        allowed: Allowed,
        tries: Tries,
        recent: Recent,
    ) -> None:
        self.undone: list[Undone] = []
        self.ledger: Ledger | None = None
        self._transcript, self._checks, self._room = transcript, checks, room
        self._allowed, self._tries, self._recent = allowed, tries, recent
        self._way: _Way | None = None

    @property
    def count(self) -> int:
        """How often the row was sent back."""
        return self._tries.rollbacks + self._tries.refused_values.total()

    @property
    def uniform(self) -> float | None:
        """Draws the next token where the row has just gone back to; None where it is chosen as always."""
        if self._way is None or len(self._way.place.path) != len(self._transcript.tokens):
            return None
        return self._way.place.uniform

    def leave(self) -> None:
        """The row is done: none will be needed."""
        self._way = None

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits behind the text: another one is said.

        Raises:
            DeadEnd: there is none.
        """
        self._tries.spend_rollback(why)
        tokens = tuple(self._transcript.tokens)
        depths = self._tries.depths(len(tokens) - 1)
        self.refuse(Refusal(tokens, depths, str(why), lambda: exhausted(str(why), why)))

    def refuse(self, refusal: Refusal) -> None:
        """Goes on from where another text may be said instead of the one that was refused.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        count, entries = len(refusal.tokens), self._transcript.entries
        depth = min(refusal.depths, default=0) if self.ledger else next(iter(refusal.depths), 0)
        chances = [None if entry is None else UNKNOWN for entry in entries[:count]]
        chances[depth:] = [self._chance(at) for at in range(depth, count)]
        self._tries.refuse(refusal.tokens, entries[:count], chances)
        self._allowed.refused(refusal.tokens, next(iter(refusal.depths), 0))
        if refusal.pointer is not None:
            roomier = self._room.made_for(refusal)
            if roomier is not refusal:
                self._tries.prune(refusal.tokens[: roomier.depths[0] + 1])  # nothing behind it has the room
            refusal = roomier
        self._go_to_first(refusal, self._tries.ways(refusal))

    def move_on(self) -> bool:
        """Leaves a place where everything was tried for the next one; False where the row has gone on from it.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        if self._way is None or not self._tries.tried(self._transcript.tokens):
            return False
        self._way.place.close()
        self._go_to_first(self._way.refusal, self._way.places)
        return True

    def _go_to_first(self, refusal: Refusal, places: Iterator[RetryPlace]) -> None:
        """To the first place where something is allowed that was not refused, nor begun in other tokens if may be."""
        begun = list[tuple[RetryPlace, float]]()
        is_new = self._go_to_new(refusal, places, begun)
        for place, left in begun:
            place.node.left = left
        if is_new:
            return
        if not begun:
            raise refusal.error()
        others = iter([place for place, _ in begun])
        place = next(others)
        self._way = _Way(refusal, place, others)
        self._go_to(place, refusal)

    def _go_to_new(self, refusal: Refusal, places: Iterator[RetryPlace], begun: list[tuple[RetryPlace, float]]) -> bool:
        """To the first place where something new is allowed; False where there is none. Closes those before it.

        Args:
            refusal: why.
            places: where the row may go.
            begun: gets those where only what was begun in other tokens is allowed, with what was left there.
        """
        said = self._transcript
        for place in places:
            self._way = _Way(refusal, place, places)
            self._go_to(place, refusal)
            if self._is_open():
                if self._allowed.anything_new(said.tokens, said.said):
                    return True
                begun.append((place, place.node.left))
            place.close()
        return False

    def _is_open(self) -> bool:
        """May anything be said here that was not refused, with room for what comes later?"""
        said = self._transcript
        roomy = not said.tokens or not self._room.kept or self._room.fits(forced=True)
        return roomy and bool(self._allowed.elsewhere(said.tokens, said.said).any())

    def _go_to(self, place: RetryPlace, refusal: Refusal) -> None:
        """Takes back what is not before a place, and says again what is."""
        said = self._transcript
        kept = said.kept(place.tokens)
        if kept < len(said.tokens):
            self.undone.append(Undone(kept, said.cut(kept), refusal.reason, refusal.pointer))
        self._recent.truncate(kept)
        for token, entry in list(zip(place.tokens, place.entries, strict=True))[kept:]:
            said.take(token, entry)
        for check in self._checks.watching:
            check.read(said.tokens, said.said)  # none of them vetoes what was said before

    def _chance(self, at: int) -> float | None:
        """Of a token among those that were allowed; None where the model was not asked."""
        entry = self._transcript.entries[at]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self._recent.measured(at, self._transcript.tokens[at])
        return UNKNOWN if choice is None else choice.chance
