"""One sequence's walk through a grammar."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

import numpy as np

from structgen.arguments import is_whole
from structgen.automaton.reading import JsonReading
from structgen.errors import DeadEnd, OptionError, TokenRejected, quoted
from structgen.masks.advance import ASKS
from structgen.masks.late import Asked, Snapshot
from structgen.masks.string_slices import Uint32

if TYPE_CHECKING:
    from structgen.masks.grammar import Grammar

_WORDS = np.dtype(np.uint32), np.dtype(np.int32)


class Matcher:
    """One sequence's walk through a grammar.

    Attributes:
        grammar: what is walked.
        finished: True once an end token was taken.
    """

    __slots__ = ("_positions", "_snapshot", "_tokens", "finished", "grammar")

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.finished = False
        # One position more than tokens. The positions say how many tokens count: an exception may leave one too many.
        self._positions = [grammar.start]
        self._tokens: list[int] = []
        self._snapshot: Snapshot | None = None

    @property
    def position(self) -> int:
        """Where the walk stands; equal positions have equal futures."""
        return self._positions[-1]

    def earlier(self, count: int) -> int:
        """The position before the last `count` tokens."""
        return self._positions[-1 - count]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens taken so far, without an end token."""
        return tuple(self._tokens[: self._count])

    @property
    def _count(self) -> int:
        return len(self._positions) - 1

    @property
    def text(self) -> bytes:
        """The bytes of the tokens taken so far."""
        return self.grammar.vocabulary.decode(self.token_ids)

    @property
    def can_finish(self) -> bool:
        """May the text end here?"""
        known = self.grammar._rows.get(self._positions[-1])
        if known is not None and known[2] is None:
            return self.finished or known[1]
        return self.finished or self.grammar.may_end(self._positions[-1], self.reading)

    def reading(self) -> JsonReading:
        """What was read so far, for checks (only where the text is JSON)."""
        return self._read().reading

    def _read(self) -> Snapshot:
        """The snapshot of all tokens, from the last one that was made."""
        last, count = self._snapshot, self._count
        if last is None:
            last = Snapshot(0, self.grammar.automaton.reading(), None)
        if last.count < count:
            text = self.grammar.vocabulary.decode(self._tokens[last.count : count])
            last = Snapshot(count, last.reading.feed(text), last)
        self._snapshot = last
        return last

    def mask(self, out: Uint32 | None = None) -> Uint32:
        """The tokens allowed next: uint32[ceil(width / 32)], bit `i % 32` of word `i // 32` for token `i`.

        Args:
            out: written to, where given. Otherwise the result is a read-only view of the grammar's cache.

        Raises:
            OptionError: `out` is no such array.
            DeadEnd: no token is allowed, the end tokens included (after the end, or when the vocabulary cannot
                spell what must come next).
        """
        if self.finished:
            raise DeadEnd("the text has ended: an end token was taken")
        known = self.grammar._rows.get(self._positions[-1])
        if known is not None and known[2] is None and out is None:
            return known[0]
        try:
            row, _, late = self.grammar.mask(self._positions[-1])
            if late is not None:
                row = late.corrected(row, self._read())
        except DeadEnd as error:
            raise DeadEnd(f"at byte {len(self.text)}, after {quoted(self.text[-20:])}: {error}") from None
        if out is None:
            return row
        return written(row, out)

    def advance(self, token_id: int) -> None:
        """Take a token.

        Raises:
            TokenRejected: the token is not allowed; nothing has moved.
            OptionError: it is no whole number.
        """
        grammar = self.grammar
        try:
            token_id = index(token_id)
        except TypeError:
            raise OptionError(f"token_id={quoted(token_id)}: expected a token's id, a whole number") from None
        if not self.finished and 0 <= token_id < grammar.vocabulary.width:
            position = grammar.advance(self._positions[-1], token_id)
            if position >= 0:
                self._take(token_id, position)
                return
            if position == ASKS and self._follow(token_id):
                return
            if token_id in grammar.vocabulary.end_ids and self.can_finish:
                self.finished = True
                return
        raise TokenRejected(self._why_not(token_id))

    def _follow(self, token_id: int) -> bool:
        """Take a token that passes a test, if it may."""
        position = self.grammar.follow(self._positions[-1], token_id, Asked(self.reading()))
        if position >= 0:
            self._take(token_id, position)
        return position >= 0

    def _take(self, token_id: int, position: int) -> None:
        self._tokens[len(self._positions) - 1 :] = [token_id]
        self._positions.append(position)

    def _why_not(self, token_id: int) -> str:
        vocabulary, at = self.grammar.vocabulary, len(self.text)
        if self.finished:
            return f"token {token_id} after the end of the text at byte {at}"
        if not 0 <= token_id < vocabulary.width:
            return f"token {token_id} at byte {at}: the logits have {vocabulary.width} rows"
        if token_id in vocabulary.end_ids:
            return f"end token {token_id} at byte {at}: the text is not complete"
        text = vocabulary.token(token_id)
        return (
            f"token {token_id} {quoted(text)} at byte {at}, after {quoted(self.text[-20:])}: not allowed by the grammar"
        )

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, as long as exactly one is allowed; may be empty."""
        forced: list[int] = []
        walk = self.fork()
        while not walk.finished:
            only = only_token(walk.mask())
            if only is None:
                break
            walk.advance(only)
            forced.append(only)
        return forced

    def closing_tokens(self) -> list[int] | None:
        """The fewest tokens known behind which the text may end, by the shortest text; None where no end is known."""
        return [] if self.finished else self.grammar.closing.tokens(self)

    def fork(self) -> Matcher:
        """A second walk that starts where this one stands."""
        twin = Matcher(self.grammar)
        twin._positions, twin._tokens, twin.finished = self._positions[:], self._tokens[:], self.finished
        twin._snapshot = self._snapshot
        return twin

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens; the end token counts as one.

        Raises:
            OptionError: fewer tokens were taken.
        """
        taken = self._count + self.finished
        if not is_whole(count, 0, taken):
            raise OptionError(f"rollback({quoted(count)}): {taken} tokens were taken; expected a count up to that")
        if count and self.finished:
            self.finished = False
            count -= 1
        if count:
            left = self._count - count
            while self._snapshot is not None and self._snapshot.count > left:
                self._snapshot = self._snapshot.before
            del self._positions[left + 1 :]
            del self._tokens[left:]


def written(row: Uint32, out: Uint32) -> Uint32:
    """`out`, with the mask in it.

    Raises:
        OptionError: it is no array of as many words.
    """
    if getattr(out, "shape", None) != row.shape or (isinstance(out, np.ndarray) and out.dtype not in _WORDS):
        allowed = f"uint32[{len(row)}]: one bit for each row of the logits"
        raise OptionError(f"out={quoted(out)}: expected {allowed}")
    out[:] = row
    return out


def only_token(mask: Uint32) -> int | None:
    """The one token that a mask allows; None when it allows none or several."""
    words = np.flatnonzero(mask)
    if len(words) != 1:
        return None
    bits = int(mask[words[0]])
    return int(words[0]) * 32 + bits.bit_length() - 1 if bits & (bits - 1) == 0 else None
