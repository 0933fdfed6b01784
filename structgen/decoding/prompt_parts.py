"""Prompts in parts: while other rows decode, a step reads only so much of a long prompt that they hardly wait for it.

As Sarathi-Serve does it (arXiv 2403.02310). A part takes a forward pass of its own, so a long prompt takes longer than
at once. A prompt is read at once where no row decodes, or where it is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from structgen.decoding.session import Session
from structgen.models.grouping import SHORT
from structgen.models.row import Forward

PART = 1.0
"""How long a part of a prompt takes, in steps of rows that decode, next to the forward pass itself. So a step with a
part takes three times as long as one without."""
WHOLE = 8.0
"""How long whole prompts that are read at once may take, in such steps. Parts of them would not be worth their cost."""
LEAST, MOST = 128, 2048
"""The fewest and the most tokens of a part. On a CPU 16 take as long as 128: 1,024 tokens of SmolLM2 took 6 times the
time of a prompt alone in parts of 16 to 30, and 1.2 times in parts of 128, with equal gaps in the other streams."""
FEW = 12
"""The fewest where each token has its price, as in llama.cpp, whose passes cost little next to their tokens."""
FIRST_WHOLE = 4
"""How many of the smallest parts are read at once as long as nothing is measured."""
NEWEST = 0.3
"""How much the newest step counts in what is known of earlier ones."""


class PromptParts:
    """Chooses what a step reads of new prompts, by the time that earlier steps took."""

    def __init__(self) -> None:
        self._usual: float | None = None  # seconds of a step without prompts
        self._each: float | None = None  # seconds of each token of a prompt, next to those of a forward pass
        self._passes = 2  # in the time of a step with a part: its own costs little where each token has its price
        self._tokens: int | None = None  # of prompts, in this step; None where nothing can be learnt from it
        self._passed_over = False  # did the last step read other prompts only, while a long one waited?
        self._pending: WeakKeyDictionary[Session, int] = WeakKeyDictionary()  # of prompts that have not started

    def read(self, forward: Forward, sessions: Sequence[Session]) -> frozenset[Session]:
        """Reads a part of a prompt where all would take too long. Returns the sessions that this step must not read."""
        self._passes = 1 if forward.price else 2
        long = [session for session in sessions if len(session.row.ids) - session.row.valid > SHORT]
        self._tokens = None if len(long) == len(sessions) else 0
        if not long or self._tokens is None:
            return frozenset()
        pending = {session: self._count(forward, session) for session in long}
        least = _least(forward)
        room, held = self._tokens_in(WHOLE, FIRST_WHOLE * least), []
        for session in sorted(long, key=lambda each: pending[each]):
            apart = session.row.valid or self._tokens + pending[session] > room  # what is left of a long one, too
            if forward.reads_parts and session.row.inputs is None and apart:
                held.append(session)
            else:
                self._tokens += pending[session]
        self._passed_over = bool(held) and self._tokens > 0 and not self._passed_over
        if held and not self._passed_over:
            first = next(session for session in long if session in held)
            most = self._tokens_in(PART * len(held), least)  # where many wait, what each pass costs counts more
            read = forward.read_part(first.row, min(max(most, least), MOST))
            if not read:  # what is left of it is no longer than a part: the step reads it
                held.remove(first)
                read = len(first.row.ids) - first.row.valid
            self._tokens += read
            self._pending.pop(first, None)  # more may be remembered by now
        return frozenset(held)

    def ended(self, seconds: float) -> None:
        """Learns from the time of the step."""
        if self._tokens == 0:
            self._usual = _mean(self._usual, seconds)
        elif self._tokens and self._usual is not None:
            self._each = _mean(self._each, max(seconds / self._usual - self._passes, 0.1) * self._usual / self._tokens)

    def _tokens_in(self, steps: float, first: int) -> int:
        """How many tokens of prompts are read in the time of this many steps."""
        return first if self._usual is None or self._each is None else int(steps * self._usual / self._each)

    def _count(self, forward: Forward, session: Session) -> int:
        """How many tokens of a prompt are still to be read."""
        row = session.row
        if row.valid:
            return len(row.ids) - row.valid
        return self._pending.setdefault(session, len(row.ids) - forward.remembers(row))


def _least(forward: Forward) -> int:
    """The fewest tokens of a part: those that cost as much as the pass that reads them."""
    return min(max(round(1 / forward.price), FEW), LEAST) if forward.price else LEAST


def _mean(known: float | None, new: float) -> float:
    return new if known is None else (1 - NEWEST) * known + NEWEST * new
