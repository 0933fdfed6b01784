"""Room: where the budget has cut short what a validator refuses, what comes before it is cut sooner.

A budget closes a value in the fewest tokens. If the last of its parts is refused then, others do not fit any more: the
text before it is too long. So the row goes back to the last token behind which more room is left than the refused part
had, twice as much each time, and that room is kept until the part begins. What was said before that token stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from structgen.decoding.measure import Entry
from structgen.decoding.steering import Steering
from structgen.decoding.tries import Refusal
from structgen.masks import Matcher

FIRST = 4
"""Tokens that are kept at first."""


class Room:
    """What one row keeps of its budget for a value to come.

    Args:
        steering: of the row.
    """

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._tokens = self._values = 0

    def kept(self, complete: int) -> int:
        """The tokens that are kept while so many scalar values are complete."""
        return self._tokens if complete < self._values else 0

    def made_for(self, refusal: Refusal, matcher: Matcher, entries: Sequence[Entry | None]) -> Refusal:
        """The refusal, going back further where the budget is to blame and more room can be had.

        Args:
            refusal: a validator's.
            matcher: behind the refused text.
            entries: of its tokens; None where the model was not asked.
        """
        start = refusal.depths[0]
        if not self._steering.cuts_behind(start):
            return refusal
        count = len(matcher.token_ids)
        spare = [self._steering.spare(matcher.earlier(count - at), at) for at in range(start + 1)]
        for wanted in (max(FIRST, 2 * spare[start]), spare[start] + 1):
            at = next((at for at in range(start - 1, -1, -1) if entries[at] and spare[at] >= wanted), None)
            if at is not None:
                self._tokens, self._values = wanted, refusal.values
                return replace(refusal, depths=(at, *(depth for depth in refusal.depths if depth < at)))
        return refusal
