"""Drafts: the tokens that a row will probably take next are read together with those that it has taken.

This is speculative decoding without a second model. A draft is forced text whose end fast-forward leaves to the model,
because something else may follow, and after it a guess of `lookup`. The row then chooses token by token as ever, from
the logits after the token before. As long as it chooses drafted tokens, these logits are known without a forward pass.
Tokens drafted in vain lie in cache slots that nobody sees. So drafts save forward passes and change no choice: each
token is drawn from the same logits by the same random number.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import neg
from typing import Any

import torch
from torch import Tensor

from structgen.decoding.ahead.lookup import Lookup
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.session import Session
from structgen.errors import StructgenError
from structgen.models.prefixes import common
from structgen.models.row import Forward, Row
from structgen.vocabulary import Vocabulary

LONGEST = 8
"""The most tokens of a draft."""


RIGHT = 0.86, 0.62, 0.51, 0.32, 0.19, 0.14, 0.10, 0.08
"""How often the first, the first two, ... tokens of a guess are right: 79 guesses of `python -m benchmarks quality`."""


class DraftReader:
    """Keeps the logits after drafted tokens, for the rows that then take these."""

    def __init__(self) -> None:
        self._known: dict[Row, tuple[list[int], int, Tensor]] = {}  # ids with the draft; how many before it; logits

    def keep(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]], logits: Tensor) -> None:
        """Notes what was read of each row, see `Forward.read_drafted`."""
        for row, draft, read in zip(rows, drafts, logits, strict=True):
            self._known[row] = [*row.ids, *draft], len(row.ids), read[-1 - len(draft) :]

    def confirm(self, rows: Sequence[Row]) -> dict[Row, Tensor]:
        """Marks the drafted tokens that rows have taken as read.

        Returns:
            The logits after the last token of each row that has taken only drafted tokens. All others are forgotten.
        """
        known, self._known, confirmed = self._known, {}, dict[Row, Tensor]()
        for row in rows if known else ():
            ids, start, logits = known.get(row, ([], sys.maxsize, None))
            if logits is not None and row.valid >= start and row.ids[:start] == ids[:start]:
                taken = common(row.ids[start:], ids[start:])
                row.valid = start + taken
                if row.valid == len(row.ids):
                    confirmed[row], self._known[row] = logits[taken], known[row]
        return confirmed


@dataclass(frozen=True, slots=True)
class Draft:
    """The tokens that a row may take next."""

    session: Session  # the row's
    start: int  # how many ids the row had before them
    tokens: list[int]  # the draft
    forced: int  # how many of its first tokens are forced text; the others are a guess of the lookup
    position: int = -1  # in the constraint, before the draft; negative without one

    @property
    def taken(self) -> int:
        """How many of the tokens, from the first, the row has taken; negative if it has gone back before them all."""
        row = self.session.row
        return -1 if row.valid < self.start else common(row.ids[self.start :], self.tokens)


class Drafts(DraftReader):
    """The drafts of a batch's sessions.

    Args:
        accepted: is told of each session how many tokens needed no forward pass because they were drafted.
    """

    def __init__(self, forward: Forward, vocabulary: Vocabulary, accepted: Counter[Any]) -> None:
        super().__init__()
        self._forward, self._vocabulary, self._accepted = forward, vocabulary, accepted
        self._lookups: dict[Session, Lookup] = {}
        self._drafts: list[Draft] = []

    def of(self, sessions: Sequence[Session], columns: int) -> Sequence[Sequence[int]]:
        """What is worth to be read after each session's pending tokens, of which a forward pass has `columns`."""
        self._learn()
        self._drafts, some = [], False
        for session in sessions if columns else ():
            self._drafts.append(draft := self._draft(session, columns))
            some = some or bool(draft.tokens)
        self._drafts = [] if not some else self._drafts if len(sessions) == 1 else worthwhile(self._drafts)
        tokens = [draft.tokens for draft in self._drafts]
        self._drafts = self._drafts if any(tokens) else []
        return tokens or [()] * len(sessions)

    def confirmed(self, ledger: Ledger | None) -> tuple[list[Session], Tensor | None]:
        """The sessions that have taken only drafted tokens, and the logits after these.

        Args:
            ledger: is told which tokens were drafted; None if nobody asks.
        """
        if not self._drafts:
            self._known = {}  # the cache goes on to hold other tokens
            return [], None
        read = dict[Session, int]()
        for draft in self._drafts:
            if draft.session.finish is None:
                read[draft.session] = draft.session.row.valid
        known, sessions = self.confirm([session.row for session in read]), list[Session]()
        for session, before in read.items():
            self._accepted[session] += session.row.valid - before
            if ledger is not None:
                ledger.drafted.update(session.entries_between(before, session.row.valid))
            sessions += [session] if session.row in known else []
        return sessions, torch.stack([*known.values()]) if sessions else None

    def forget(self, session: Session) -> None:
        """The session is over."""
        self._lookups.pop(session, None)

    def _draft(self, session: Session, columns: int) -> Draft:
        """The draft that fits into the columns after a row's pending tokens, and into its budget: forced tokens, and
        after these a guess of the lookup."""
        row = session.row
        room = min(columns - len(row.ids) + row.valid, LONGEST, session.budget - len(session.tokens) - 1)
        if room <= 0 or row.is_cut or not session.has_room:
            return Draft(session, len(row.ids), [], 0)
        lookup = self._lookups.get(session)
        if lookup is None:
            lookup = self._lookups[session] = Lookup(self._vocabulary)
        worth = bisect_right(RIGHT, -self._forward.price, key=neg)
        matcher, forced = session.matcher, list[int]()
        position = -1 if matcher is None else matcher.position
        try:
            if matcher is not None and session.spans is not None:
                forced = session.spans.probable(matcher, session.tokens)[:room]
            if forced and matcher is not None:
                matcher = matcher.fork()
                forced = forced[: matcher.take(forced)]
            guess = [] if len(forced) == room else lookup.after([*row.ids, *forced], min(room - len(forced), worth))
            if guess and matcher is not None:
                guess = guess[: (matcher if forced else matcher.fork()).take(guess)]
        except StructgenError:  # raised again when the row itself comes there
            return Draft(session, len(row.ids), [], 0)
        return Draft(session, len(row.ids), forced + guess, len(forced), position)

    def _learn(self) -> None:
        """Tells the lookups and spans which of their guesses were right."""
        for draft in self._drafts:
            taken = -1 if draft.session.finish is not None else draft.taken
            if taken >= draft.forced < len(draft.tokens):
                self._lookups[draft.session].learn(right=taken > draft.forced)
            if 0 <= taken and draft.forced and draft.session.spans is not None:
                draft.session.spans.learn(draft.position, right=taken >= draft.forced)


def worthwhile(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, cut to the columns that at least half of the rows fill: padding has its price.

    Columns that pending tokens need are there in any case.
    """
    pending = [draft.start - draft.session.row.valid for draft in drafts]
    lengths = sorted((count + len(draft.tokens) for count, draft in zip(pending, drafts, strict=True)), reverse=True)
    width = max(*pending, lengths[(len(lengths) - 1) // 2])
    return [
        replace(draft, tokens=draft.tokens[: width - count], forced=min(draft.forced, width - count))
        for count, draft in zip(pending, drafts, strict=True)
    ]
