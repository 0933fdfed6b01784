"""Tokens in reserve: where the budget has cut short what a validator refuses, the text before it is cut sooner.

A budget closes a value in the fewest tokens. If its last part is refused then, other parts do not fit any more: the
text before it is too long. So the row goes back to the last token behind which more tokens are left than the refused
part had, twice as many each time, and these are kept in reserve until the part begins. The text before that token
stays.
"""

from __future__ import annotations

from dataclasses import replace

from structgen.decoding.refusals.retry_tree import Refusal
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript

FIRST = 4
"""Tokens that are kept at first."""


class Reserve:
    """What one row keeps of its budget for a value to come."""

    def __init__(self, transcript: Transcript, checks: Checks) -> None:
        self._transcript, self._steering, self._validating = transcript, checks.steering, checks.validating
        self._kept = self._values = 0

    @property
    def tokens(self) -> int:
        """The tokens that are kept for a value to come."""
        if self._kept == 0 or self._validating is None or self._validating.complete >= self._values:
            return 0
        return self._kept

    def fits(self, *, forced: bool = False) -> bool:
        """May the row go on from here, as far as its limits tell?

        Args:
            forced: nothing but the last token was allowed.
        """
        said = self._transcript
        if self._steering is None or said.matcher is None:
            return True
        return self._steering.fits(said.matcher, said, forced=forced, reserve=self.tokens)

    def enlarge(self, refusal: Refusal) -> Refusal:
        """A validator's refusal that goes back further, where the budget is to blame and more can be kept."""
        start, steering, matcher = refusal.depths[0], self._steering, self._transcript.matcher
        if steering is None or matcher is None or not steering.cuts_behind(start):
            return refusal
        count, entries = len(matcher.token_ids), self._transcript.entries
        spare = [steering.spare(matcher.earlier(count - depth), depth) for depth in range(start + 1)]
        for wanted in (max(FIRST, 2 * spare[start]), spare[start] + 1):
            depth = next((depth for depth in range(start - 1, -1, -1) if entries[depth] and spare[depth] >= wanted), -1)
            if depth >= 0:
                self._kept, self._values = wanted, refusal.values
                return replace(refusal, depths=(depth, *(other for other in refusal.depths if other < depth)))
        return refusal
