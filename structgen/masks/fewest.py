"""The fewest tokens that a whole text of a grammar needs.

The text of the fewest bytes need not be that of the fewest tokens: a long text may be one token. This is the A*
algorithm over positions, with tokens as edges; a way of so many bytes takes at least so many tokens of the longest
text. It is asked only where the shortest text does not fit into a budget, before that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from structgen.automaton.frame_search import Exit
from structgen.automaton.tables import OPEN
from structgen.errors import DeadEnd, TokenRejected
from structgen.masks.advance import ASKS
from structgen.masks.leads import Question

if TYPE_CHECKING:
    from structgen.masks.grammar import Grammar

MOST_FOLLOWED = 4_000_000
"""Tokens that one search follows: half a second."""
PLACE, ASKED = 3_000, 40
"""A new place is as dear as following so many tokens, and one token with a test in its way as so many others."""


class Fewest(NamedTuple):
    """What a search has found.

    Attributes:
        tokens: of a text with the fewest; None where the search was given up, or none is known.
        least: no text has fewer tokens.
    """

    tokens: list[int] | None
    least: int


class _GivenUp(Exception):
    """More than may be followed."""


class TokenSearch:
    """Searches the text of the fewest tokens.

    Args:
        grammar: whose texts.
        end: the shortest way from a position to an end, in bytes; None where none is known.
        most: tokens that are followed.
    """

    def __init__(self, grammar: Grammar, end: Callable[[int], Exit | None], most: int = MOST_FOLLOWED) -> None:
        self._grammar, self._end, self._left = grammar, end, most
        self._longest = max(1, int(np.diff(grammar.vocabulary.offsets).max()))
        self._came: dict[int, tuple[int, int]] = {}
        self._asked = False

    def run(self) -> Fewest:
        """From the start of a text."""
        start, order = self._grammar.start, count()
        costs = {start: 0}
        queue, least = [(self._estimate(start), 0, next(order), start)], 0
        try:
            while queue:
                least, depth, _, position = heappop(queue)
                cost = -depth
                if cost > costs[position]:
                    continue
                ends, following = self._follows(position)
                if ends:
                    return Fewest(self._confirmed(self._way(position)), least)
                for token, after in following:
                    if cost + 1 < costs.get(after, cost + 2):
                        self._spend(PLACE)
                        costs[after], self._came[after] = cost + 1, (position, token)
                        heappush(queue, (cost + 1 + self._estimate(after), -cost - 1, next(order), after))
        except _GivenUp:
            pass
        return Fewest(None, least)

    def _spend(self, tokens: int) -> None:
        self._left -= tokens
        if self._left < 0:
            raise _GivenUp

    def _estimate(self, position: int) -> int:
        way = self._end(position)
        return 0 if way is None else -(-len(way.text) // self._longest)

    def _follows(self, position: int) -> tuple[bool, list[tuple[int, int]]]:
        """May the text end at a position? If not: where tokens lead from it, one for each place."""
        try:
            words, ends, late = self._grammar.mask(position)
        except DeadEnd:
            return False, []
        if late is not None:
            self._asked, words = True, np.empty_like(words)
            self._grammar.fill(position, words, OPEN)
            ends = self._may_end(self._grammar.end_lead(position))
        if ends:
            return True, []
        tokens = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        self._spend(len(tokens))
        after = self._grammar.advance_each(position, tokens)
        positions, first = np.unique(after, return_index=True)
        led = dict(zip(positions.tolist(), tokens[first].tolist(), strict=True))
        for token in tokens[after == ASKS].tolist():
            self._spend(ASKED)
            for place in self._any_answer(self._grammar.lead(position, token), token):
                led.setdefault(place, token)
        return False, [(token, place) for place, token in led.items() if place >= 0]

    def _any_answer(self, lead: int | Question, token: int) -> Iterator[int]:
        """Where a token may lead by any answers."""
        if isinstance(lead, int):
            yield lead
            return
        for resumed in (lead.yes, lead.no):
            if resumed >= 0:
                yield from self._any_answer(self._grammar.lead(resumed, token, lead.taken), token)

    def _may_end(self, lead: bool | Question) -> bool:
        """May the text end by any answers?"""
        if isinstance(lead, bool):
            return lead
        return any(self._may_end(self._grammar.end_lead(each)) for each in (lead.yes, lead.no) if each >= 0)

    def _confirmed(self, tokens: list[int]) -> list[int] | None:
        """The tokens, if all tests that were met agree."""
        walk = self._grammar.matcher()
        try:
            for token in tokens if self._asked else ():
                walk.advance(token)
        except TokenRejected:
            return None
        return tokens if not self._asked or walk.can_finish else None

    def _way(self, position: int) -> list[int]:
        """The tokens to a position that was reached."""
        tokens = []
        while position in self._came:
            position, token = self._came[position]
            tokens.append(token)
        return tokens[::-1]
