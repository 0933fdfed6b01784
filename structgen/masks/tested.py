"""Masks at positions that tests follow: the mask with every test answered "yes", corrected for the text.

`Grammar` caches masks by position, and a position does not know the text that a check asks about. So the cached mask
takes every answer for "yes", and a `TestedMask` next to it finds the tokens for which that may be wrong. An exact walk
follows each of them for the text at hand. These tokens are
- those that start with what a check suspects of the string or name that is being read;
- all that pass a test, where a check suspects everything;
- those that hold a whole value or name themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from structgen.json_text.reading import JsonReading
from structgen.automaton.table_format import OPEN, REFUSE, B
from structgen.errors import DeadEnd
from structgen.masks.string_slices import Uint32
from structgen.masks.suspicious import WholeValues
from structgen.masks.transitions import CheckAnswers, Transitions
from structgen.masks.words import allowed_among, ids_of
from structgen.memo import cached_method


@dataclass(slots=True, eq=False)
class Snapshot:
    """What was read up to the first `count` tokens of a walk."""

    count: int
    reading: JsonReading
    before: Snapshot | None  # an earlier snapshot of the same walk
    mask: Uint32 | None = None  # the mask after these tokens, once it was computed


class TestedMask:
    """The mask of one position of a grammar, which depends on the text.

    Args:
        row: the mask that assumes "yes" from each test.
        tests: the test states that were met when `row` was filled.
        hopeless: does `row` allow nothing?

    Attributes:
        deep: the tokens that lead too deep; None for none.
    """

    def __init__(
        self, grammar: Transitions, position: int, row: Uint32, tests: Sequence[int], *, hopeless: bool
    ) -> None:
        automaton = grammar.automaton
        self._grammar, self._position, self._row, self._hopeless = grammar, position, row, hopeless
        self._checks = tuple({automaton.checks[test] for test in tests})
        self._branches = bool(automaton.tables.states[list(tests), B].any())  # does "no" lead on as well?
        self._suspicious = grammar.suspicious
        self._end_asks = True
        self.deep: Uint32 | None = None
        # Plain attributes: a cached property takes a lock, at every position.
        self._holds_whole: bool | None = None
        self._several: list[int] | None = None
        self._asked: Uint32 | None = None

    def corrected(self, snapshot: Snapshot) -> Uint32:
        """The mask for the text that was read; read-only.

        Raises:
            DeadEnd: the corrected mask allows nothing.
        """
        if snapshot.mask is None:
            mask = self._correct(snapshot.reading)
            if self.deep is not None and (mask & ~self.deep).any():
                mask = mask & ~self.deep
            if (mask is not self._row or self._hopeless) and not mask.any():
                rules = "; ".join(sorted({check.rule for check in self._checks}))
                raise DeadEnd(f"no token is left that may come next ({rules})")
            snapshot.mask = mask
        return snapshot.mask

    def _correct(self, reading: JsonReading) -> Uint32:
        row, grammar, vocabulary, asked = self._row, self._grammar, self._grammar.vocabulary, CheckAnswers(reading)
        changes = [
            token
            for token in set(self._suspects(reading))
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
        """May the text end? Sets `_end_asks` to whether the answer depends on the text."""
        left = [reading]  # emptied when a test asks for it
        ends = self._grammar.may_end(self._position, lambda: left.pop() if left else reading)
        self._end_asks = not left
        return ends

    def _suspects(self, reading: JsonReading) -> Iterable[int]:
        """The tokens for which `row` may be wrong."""
        starts: list[bytes] = []
        tokens = self._holding_whole(reading)
        for check in self._checks:
            more = check.suspects(reading, self._suspicious.heads)
            if more is None:
                return self._all_passing
            if more and check.escapes:
                tokens = [*tokens, *self._escaped_passing]
            starts += more
        return [*tokens, *self._allowed([i for start in set(starts) for i in self._suspicious.starting(start)])]

    def _allowed(self, tokens: Sequence[int]) -> Sequence[int]:
        """Those of the tokens that at least one answer allows."""
        return tokens if self._branches else [token for token in tokens if bit(self._row, token)]

    def _holding_whole(self, reading: JsonReading) -> list[int]:
        """The tokens that may hold the whole value or name that a test asks about."""
        whole = self._suspicious.whole[reading.open_string is not None]
        if self._holds_whole is None:
            self._holds_whole = self._branches or bool((self._row & whole.mask).any())
        if not self._holds_whole:
            return []
        held: list[bytes] = []
        for check in self._checks:
            more = check.held(reading, whole.texts)
            if more is None:
                return self._whole_passing(whole)
            held += more
        if self._several is None:  # of the values in these tokens a look-up by text would miss some
            other = any(check.escapes for check in self._checks)
            self._several = self._that_pass(whole.several_or_other if other else whole.several)
        return [*self._several, *self._allowed(whole.holding(held, reading.open_string))]

    @cached_method
    def _whole_passing(self, whole: WholeValues) -> list[int]:
        """The tokens that contain a whole value or name and pass a test."""
        return self._that_pass(whole.tokens)

    @cached_property
    def _escaped_passing(self) -> list[int]:
        """The tokens that pass a test, may end a string and have a backslash."""
        return self._that_pass(self._suspicious.escaped)

    @cached_property
    def _all_passing(self) -> list[int]:
        """The text tokens that pass a test."""
        ends = set(self._grammar.vocabulary.end_ids)
        return [token for token in ids_of(self._passes()).tolist() if token not in ends]

    def _that_pass(self, tokens: NDArray[np.int64]) -> list[int]:
        """Those of the tokens that pass a test."""
        if not self._branches:
            tokens = tokens[allowed_among(self._row, tokens)]
        if not tokens.size:
            return []
        passing: list[int] = tokens[allowed_among(self._passes(), tokens)].tolist()
        return passing

    def _passes(self) -> Uint32:
        """The tokens whose bits depend on the answers to tests, as a mask."""
        if self._asked is None:
            least, widest = np.empty_like(self._row), self._row
            self._grammar.fill(self._position, least, REFUSE)
            if self._branches:
                widest = np.empty_like(self._row)
                self._grammar.fill(self._position, widest, OPEN)
            self._asked = widest & ~least
        return self._asked


def bit(mask: Uint32, token: int) -> bool:
    """The bit of a token."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)
