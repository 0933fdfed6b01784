"""Room: where the budget has cut short what a validator refuses, what comes before it is cut sooner.

A budget closes a value in the fewest tokens. If the last of its parts is refused then, others do not fit any more: the
text before it is too long. So the row goes back to the last token behind which more room is left than the refused part
had, twice as much each time, and that room is kept until the part begins. What was said before that token stays.
"""

from __future__ import annotations

from dataclasses import replace

from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.refusals.tries import Refusal

FIRST = 4
"""Tokens that are kept at first."""


class Room:
    """What one row has left of its limits, and what it keeps of them for a value to come.

    Args:
        transcript: of the row.
        checks: of the row.
    """

    def __init__(self, transcript: Transcript, checks: Checks) -> None:
        self._transcript, self._steering, self._validating = transcript, checks.steering, checks.validating
        self._tokens = self._values = 0

    @property
    def kept(self) -> int:
        """The tokens that are kept for a value to come."""
        return 0 if self._validating is None or self._validating.complete >= self._values else self._tokens

    def fits(self, *, forced: bool = False) -> bool:
        """May the row go on from here, as far as its limits tell?

        Args:
            forced: nothing but the last token was allowed.
        """
        said = self._transcript
        if self._steering is None or said.matcher is None:
            return True
        reserve = self.kept if self._tokens else 0
        return self._steering.fits(said.matcher, said.tokens, said.said, forced=forced, reserve=reserve)

    def made_for(self, refusal: Refusal) -> Refusal:
        """A validator's refusal, going back further where the budget is to blame and more room can be had."""
        start, steering, matcher = refusal.depths[0], self._steering, self._transcript.matcher
        if steering is None or matcher is None or not steering.cuts_behind(start):
            return refusal
        count, entries = len(matcher.token_ids), self._transcript.entries
        spare = [steering.spare(matcher.earlier(count - at), at) for at in range(start + 1)]
        for wanted in (max(FIRST, 2 * spare[start]), spare[start] + 1):
            at = next((at for at in range(start - 1, -1, -1) if entries[at] and spare[at] >= wanted), None)
            if at is not None:
                self._tokens, self._values = wanted, refusal.values
                return replace(refusal, depths=(at, *(depth for depth in refusal.depths if depth < at)))
        return refusal
