"""The checks and limits of one row, beside its constraint."""

from __future__ import annotations

from dataclasses import dataclass

from structgen.decoding.refusals.budget import Steering
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.check import RowCheck
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.transcript import Follower
from structgen.decoding.refusals.validating import Validating


@dataclass(frozen=True, slots=True)
class Checks:
    """The objects that may refuse a row's text; None for those that the row does not have. Each belongs to one row.

    Attributes:
        guards: read every token.
        validating: judges the values; needs a batch that measures the row's choices.
        steering: keeps a constrained row within its limits; without it the row may end in `BudgetExhausted`.
        canonical: keeps the row's tokens canonical.
        phrases: keeps the row from ending before it has said them.
    """

    guards: Guarding | None = None
    validating: Validating | None = None
    steering: Steering | None = None
    canonical: CanonicalRow | None = None
    phrases: PhraseRow | None = None

    @property
    def watching(self) -> list[RowCheck]:
        """The guards and the validators, if there are any."""
        return [check for check in (self.guards, self.validating) if check is not None]

    @property
    def followers(self) -> list[Follower]:
        """What goes back with the row: the `truncate` of each check."""
        each = (*self.watching, self.steering, self.canonical, self.phrases)
        return [check.truncate for check in each if check is not None]

    def fork(self) -> Checks:
        """The checks of another text that begins like this one."""
        guards = None if self.guards is None else self.guards.fork()
        phrases = None if self.phrases is None else self.phrases.fork()
        steering = None if self.steering is None else self.steering.fork(guards, phrases)
        canonical = None if self.canonical is None else self.canonical.fork()
        validating = None if self.validating is None else self.validating.fork(steering)
        return Checks(guards, validating, steering, canonical, phrases)
