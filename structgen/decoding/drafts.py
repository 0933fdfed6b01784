"""Drafts: tokens that a row will probably say next are read along with those that it has said.

Speculative decoding without a second model. The draft is the tokens of forced text whose end fast-forward leaves to the
model, because something else may follow, else what `lookup` finds. The row then chooses token by token as ever, from
the logits after the one before; as long as it chooses drafted tokens, these logits are known without a forward pass.
Tokens drafted in vain lie in slots that nobody sees. So drafts save forward passes and change no choice: with or
without them each token is drawn from the same logits by the same random number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from structgen.decoding.ahead.lookup import Lookup
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.session import Session
from structgen.errors import StructgenError, TokenRejected
from structgen.masks import Matcher
from structgen.models.row import Forward, common
from structgen.models.transfer import upload_one
from structgen.vocabulary import Vocabulary

LONGEST = 8
"""Tokens of a draft at most."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The tokens that a row may say next."""

    session: Session  # the row's
    start: int  # how many ids the row had before them
    tokens: list[int]  # the draft
    forced: int  # how many of the first were forced text; the others are a guess of the lookup
    position: int = -1  # in the constraint, where they begin; negative without one

    @property
    def taken(self) -> int:
        """How many of the tokens, from the first, the row has said; negative where it went back behind them all."""
        row = self.session.row
        return -1 if row.valid < self.start else common(row.ids[self.start :], self.tokens)


class Drafts:
    """The drafts of a batch's rows.

    Args:
        ledger: where the run measures its choices; None where it does not.

    Attributes:
        accepted: of each session, how many of its tokens needed no forward pass because they were drafted.
    """

    def __init__(self, forward: Forward, vocabulary: Vocabulary, ledger: Ledger | None = None) -> None:
        self._forward, self._vocabulary = forward, vocabulary
        self._ledger = ledger if ledger is not None and ledger.traced else None
        self._lookups: dict[Session, Lookup] = {}
        self._drafts: list[Draft] = []
        self._logits: Tensor | None = None
        self.accepted: Counter[Session] = Counter()

    def read(self, sessions: Sequence[Session]) -> Tensor:
        """Reads what is pending, and drafts where they are worth it: float[rows, width], after what was pending."""
        self._learn()
        self._drafts, self._logits = [], None
        rows = [session.row for session in sessions]
        columns = self._forward.columns_for(rows)
        drafts = worthwhile([self._draft(session, columns) for session in sessions]) if columns else []
        if not any(draft.tokens for draft in drafts):
            return self._forward.read(rows)
        self._drafts = drafts
        self._logits = self._forward.read_drafted(rows, [draft.tokens for draft in drafts])
        return self._behind([(i, 0) for i in range(len(drafts))])

    def confirmed(self) -> tuple[list[Session], Tensor | None]:
        """The sessions that have said drafted tokens only, and the logits behind these."""
        sessions, places = [], []
        for i, draft in enumerate(self._drafts):
            session, taken = draft.session, draft.taken
            if taken < 0 or session.done:
                continue
            valid = draft.start + taken
            self.accepted[session] += max(0, valid - session.row.valid)
            if self._ledger is not None:
                self._ledger.drafted.update(session.entries_between(session.row.valid, valid))
            session.row.valid = valid
            if valid == len(session.row.ids):
                sessions.append(session)
                places.append((i, taken))
        return sessions, self._behind(places) if places else None

    def forget(self, session: Session) -> None:
        """The session is over; nothing is kept of it but what is in `accepted`."""
        self._lookups.pop(session, None)

    def _behind(self, places: Sequence[tuple[int, int]]) -> Tensor:
        """The logits behind the first tokens of drafts: float[places, width]. A place is a draft and a count."""
        assert self._logits is not None
        last = self._logits.shape[1] - 1
        cells = [(i, last - len(self._drafts[i].tokens) + count) for i, count in places]
        if len(cells) == len(self._drafts) and len({column for _, column in cells}) == 1:
            return self._logits[:, cells[0][1]]
        rows, columns = upload_one([list(side) for side in zip(*cells, strict=True)], self._logits.device)
        return self._logits[rows, columns]

    def _draft(self, session: Session, columns: int) -> Draft:
        """The draft that fits into the columns behind a row's pending tokens, and into its budget."""
        row, draft = session.row, Draft(session, len(session.row.ids), [], 0)
        room = min(columns - len(row.ids) + row.valid, LONGEST, session.budget - len(session.tokens) - 1)
        if room < 1:
            return draft
        try:
            return self._guessed(draft, room)
        except StructgenError:  # a limit, or code of the caller's: raised again where the row itself comes there
            return draft

    def _guessed(self, draft: Draft, room: int) -> Draft:
        """A draft with at most `room` tokens: forced ones, and behind these a guess of the lookup."""
        session = draft.session
        matcher = None if session.matcher is None else session.matcher.fork()
        position = -1 if matcher is None else matcher.position
        forced: list[int] = []
        if matcher is not None and session.spans is not None:
            forced = _allowed(matcher, session.spans.probable(matcher, session.tokens)[:room])
        lookup = self._lookups.setdefault(session, Lookup(self._vocabulary))
        guess = [] if len(forced) == room else lookup.after([*session.row.ids, *forced], room - len(forced))
        return replace(draft, tokens=forced + _allowed(matcher, guess), forced=len(forced), position=position)

    def _learn(self) -> None:
        """Tells the lookups which of their guesses were right."""
        for draft in self._drafts:
            taken = draft.taken
            if draft.session.done:
                continue
            if taken >= draft.forced < len(draft.tokens):
                self._lookups[draft.session].learn(right=taken > draft.forced)
            if 0 <= taken and draft.forced and draft.session.spans is not None:
                draft.session.spans.learn(draft.position, right=taken >= draft.forced)


def worthwhile(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts as far as a column is filled by half of the rows at least: padding has its price.

    Columns that pending tokens need are there in any case.
    """
    pending = [draft.start - draft.session.row.valid for draft in drafts]
    lengths = sorted((count + len(draft.tokens) for count, draft in zip(pending, drafts, strict=True)), reverse=True)
    width = max(*pending, lengths[(len(lengths) - 1) // 2])
    return [
        replace(draft, tokens=draft.tokens[: width - count], forced=min(draft.forced, width - count))
        for count, draft in zip(pending, drafts, strict=True)
    ]


def _allowed(matcher: Matcher | None, tokens: Sequence[int]) -> list[int]:
    """The first of the tokens, as far as a constraint allows them; its matcher takes these."""
    if matcher is None:
        return list(tokens)
    allowed = []
    for token in tokens:
        try:
            matcher.advance(token)
        except TokenRejected:
            break
        allowed.append(token)
    return allowed
