"""Masks where tests stand behind the position: the mask for "yes" everywhere, corrected for the text.

`Grammar` caches masks by position, and positions know nothing of the text that a check asks about. So the cached mask
takes every answer for "yes", and a `Late` beside it finds the tokens for which that may be wrong. Each of those is
followed for the text at hand by an exact walk. They are
- the tokens that start with what a check suspects of the string or name that is being read;
- all that pass a test, where a check knows nothing;
- those that hold a whole value or name themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.reading import JsonReading
from structgen.automaton.table_format import OPEN, REFUSE, B
from structgen.errors import DeadEnd
from structgen.masks.string_slices import Uint32
from structgen.masks.transitions import CheckAnswers, Transitions
from structgen.masks.words import allowed_among, ids_of


@dataclass(slots=True, eq=False)
class Snapshot:
    """What was read behind the first `count` tokens of a walk, and the mask there, if it was asked for.

    Attributes:
        before: an earlier snapshot of the same walk.
    """

    count: int
    reading: JsonReading
    before: Snapshot | None
    mask: Uint32 | None = None


class Late:
    """What corrects the mask of one position of a grammar.

    Args:
        tests: the test states that were met when the mask was filled.
        hopeless: nothing at all was allowed then.
    """

    def __init__(self, grammar: Transitions, position: int, tests: Sequence[int], *, hopeless: bool) -> None:
        automaton = grammar.automaton
        self._grammar, self._position, self._hopeless = grammar, position, hopeless
        self._checks = tuple({automaton.checks[test] for test in tests})
        self._branches = bool(automaton.tables.states[list(tests), B].any())
        self._suspicious = grammar.suspicious
        self._whole: list[int] | None = None
        self._always_asked: list[int] | None = None
        self._escaped: list[int] | None = None
        self._passing: list[int] | None = None
        self._asked: Uint32 | None = None
        self._end_asks = True

    def corrected(self, row: Uint32, snapshot: Snapshot) -> Uint32:
        """The mask for the text that was read; `row` is the one for "yes" everywhere. Read-only."""
        if snapshot.mask is None:
            mask = self._correct(row, snapshot.reading)
            if (mask is not row or self._hopeless) and not mask.any():
                rules = "; ".join(sorted({check.rule for check in self._checks}))
                raise DeadEnd(f"no token is left that may come next ({rules})")
            snapshot.mask = mask
        return snapshot.mask

    def _correct(self, row: Uint32, reading: JsonReading) -> Uint32:
        grammar, vocabulary, asked = self._grammar, self._grammar.vocabulary, CheckAnswers(reading)
        changes = [
            token
            for token in set(self._suspects(row, reading))
            if bit(row, token) != (grammar.follow(self._position, token, asked) >= 0)
        ]
        if self._end_asks and bit(row, vocabulary.end_ids[0]) != self._may_end(reading):
            changes += vocabulary.end_ids
        if not changes:
            return row
        mask: Uint32 = row.copy()
        for token in changes:
            mask[token >> 5] ^= np.uint32(1 << (token & 31))
        mask.flags.writeable = False
        return mask

    def _may_end(self, reading: JsonReading) -> bool:
        """May the text end? And does that depend on the text?"""
        asked: list[JsonReading] = []

        def answer() -> JsonReading:
            asked.append(reading)
            return reading

        ends = self._grammar.may_end(self._position, answer)
        self._end_asks = bool(asked)
        return ends

    def _suspects(self, row: Uint32, reading: JsonReading) -> Iterable[int]:
        """The tokens that the mask may be wrong about."""
        rests: list[bytes] = []
        tokens = self._holding_whole(row, reading)
        for check in self._checks:
            more = check.suspects(reading, self._suspicious.heads)
            if more is None:
                return self._passing_any(row)
            if more and check.escapes:
                tokens = [*tokens, *self._passing_escaped(row)]
            rests += more
        if not rests:
            return tokens
        starting = [token for rest in set(rests) for token in self._suspicious.starting(rest)]
        return [*tokens, *self._allowed(row, starting)]

    def _allowed(self, row: Uint32, tokens: Sequence[int]) -> list[int]:
        """The tokens that some answers would allow: all of them where "no" leads on as well."""
        return list(tokens) if self._branches else [token for token in tokens if bit(row, token)]

    def _holding_whole(self, row: Uint32, reading: JsonReading) -> list[int]:
        """The tokens that may hold whole what a test asks about."""
        whole = self._suspicious.whole[reading.begun is not None]
        held: list[bytes] = []
        for check in self._checks:
            more = check.held(reading, whole.texts)
            if more is None:
                if self._whole is None:
                    self._whole = self._that_pass(row, whole.tokens)
                return self._whole
            held += more
        if self._always_asked is None:
            other = any(check.escapes for check in self._checks)
            self._always_asked = self._that_pass(row, whole.several_or_other if other else whole.several)
        return self._always_asked + self._allowed(row, whole.holding(held, reading.begun))

    def _passing_escaped(self, row: Uint32) -> list[int]:
        """The tokens that pass a test, may end a string and have a backslash."""
        if self._escaped is None:
            self._escaped = self._that_pass(row, self._suspicious.escaped)
        return self._escaped

    def _that_pass(self, row: Uint32, tokens: NDArray[np.int64]) -> list[int]:
        """The tokens, among some, that pass a test."""
        if not self._branches:
            tokens = tokens[allowed_among(row, tokens)]
        if not tokens.size:
            return []
        passing: list[int] = tokens[allowed_among(self._passes(row), tokens)].tolist()
        return passing

    def _passing_any(self, row: Uint32) -> list[int]:
        """The tokens that pass a test."""
        if self._passing is None:
            ends = set(self._grammar.vocabulary.end_ids)
            self._passing = [token for token in ids_of(self._passes(row)).tolist() if token not in ends]
        return self._passing

    def _passes(self, row: Uint32) -> Uint32:
        """What the answers to tests decide about, as a mask."""
        if self._asked is None:
            least, widest = np.empty_like(row), row
            self._grammar.fill(self._position, least, REFUSE)
            if self._branches:
                widest = np.empty_like(row)
                self._grammar.fill(self._position, widest, OPEN)
            self._asked = widest & ~least  # whole, even where a fill was interrupted
        return self._asked


def bit(mask: Uint32, token: int) -> bool:
    """The bit of a token."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)
