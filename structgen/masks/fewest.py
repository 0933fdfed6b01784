"""The fewest tokens that a whole text of a grammar needs.

The text of the fewest bytes need not be that of the fewest tokens: a long text may be one token. This is the A*
algorithm over positions, with tokens as edges. A way of so many bytes takes at least so many tokens of the longest
text; and what stands around a value asks for tokens whatever the value is (see `rests`). What a search has found
sharpens the bounds of all positions that it came by, for the next one (Koenig and Likhachev's adaptive A*, 2005).

It is asked only where the shortest text does not fit into a budget, before that is refused. Where the search is given
up, a text is still looked for in a hurry, by what a byte mostly costs; how far it may be from the best is known.
"""

from __future__ import annotations

import math

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from structgen.automaton.frame_search import Exit
from structgen.errors import TokenRejected
from structgen.masks.rests import UNREACHABLE, Rests
from structgen.masks.token_edges import TokenEdges

if TYPE_CHECKING:
    from structgen.masks.grammar import Grammar

MOST_FOLLOWED = 8_000_000
"""Tokens that one search follows: about a second."""
MOST_SECONDS = 4.0
"""Of CPU time, for automata whose states are dear: others come to the end of what may be followed before."""
PLACE = 2_000
"""A new place is as dear as following so many tokens."""
NO_WAY = 100_000
"""And so is one from which the search for an end was given up."""
SHARE = 8
"""What is needed behind one frame may take one part in so many of what is left."""
HURRIES = (1.0, 3), (1.6, 6)
"""Searches in a hurry: the weight of the estimate, and one part in how many of `MOST_FOLLOWED` each may take."""


class Fewest(NamedTuple):
    """What a search has found.

    Attributes:
        tokens: of a text with the fewest that is known; None where none is.
        least: no text has fewer tokens.
    """

    tokens: list[int] | None
    least: int

    @property
    def is_none(self) -> bool:
        """No text at all can be spelled in the vocabulary's tokens, and that is proved."""
        return self.tokens is None and self.least >= UNREACHABLE


class _GivenUp(Exception):
    """More than may be followed."""


class _Tree:
    """The ways that a search has found: of each place the tokens to it, and where its last one came from."""

    def __init__(self, starts: Iterable[int]) -> None:
        self.costs = dict.fromkeys(starts, 0)
        self._came: dict[int, tuple[int, int]] = {}

    def add(self, place: int, cost: int, position: int, token: int) -> None:
        """A way over a position."""
        self.costs[place], self._came[place] = cost, (position, token)

    def back(self, position: int) -> Iterator[tuple[int, int, int]]:
        """The steps to a place, the last one first: from where, by which token, to where."""
        while position in self._came:
            before, token = self._came[position]
            yield before, token, position
            position = before


class TokenSearch:
    """Searches the text of the fewest tokens.

    Args:
        grammar: whose texts.
        end: the shortest way from a position to an end, in bytes; None where none is known.
        leave: the fewest bytes out of a position's frame; None where they are not known.
        known: the tokens of a text, if one is known.
        most: tokens that are followed.
    """

    def __init__(
        self,
        grammar: Grammar,
        end: Callable[[int], Exit | None],
        leave: Callable[[int], bytes | None],
        known: list[int] | None = None,
        most: int = MOST_FOLLOWED,
    ) -> None:
        self._grammar, self._end, self._known = grammar, end, known
        self._most, self._left, self._floor = most, most, 0
        self._longest = max(1, int(np.diff(grammar.vocabulary.offsets).max()))
        self._edges = TokenEdges(grammar, self._spend)
        self._rests = Rests(grammar, self._edges, leave, self._least)
        self._until = 0.0
        self._bounds: dict[int, int] = {}
        self._exact: dict[int, int] = {}
        self._onward: dict[int, tuple[int, int]] = {}

    def run(self) -> Fewest:
        """From the start of a text."""
        start, self._until = self._grammar.start, thread_time() + MOST_SECONDS
        self._prepare(start)
        least, tree, last = self._search([start], self._bound, UNREACHABLE if self._known is None else len(self._known))
        found = None if last is None else self._confirmed(self._way(tree, last))
        if found is None:
            found = self._hurried(start, least)
        return Fewest(found, least)

    def _prepare(self, start: int) -> None:
        """Find what is needed behind the values of the shortest text."""
        way, places = self._end(start), [start]
        try:
            for byte in b"" if way is None else way.text:
                places.append(self._edges.led_by(places[-1], self._edges.single[byte])[0])
            self._rests.prepare(places)
        except (_GivenUp, KeyError, IndexError):
            return

    def _search(
        self, starts: Sequence[int], estimate: Callable[[int, float], float], enough: int = UNREACHABLE
    ) -> tuple[int, _Tree, int | None]:
        """The fewest tokens from one of some places to an end, the ways that were found, and where the best one goes:
        onward from there it is known.

        None instead of that where the search was given up, or `enough` tokens are needed: it is a lower bound then.
        """
        order, tree = count(), _Tree(starts)
        queue = [(0.0, 0, next(order), start) for start in tree.costs]
        least = 0.0
        try:
            while queue and least < enough:
                least, depth, _, position = heappop(queue)
                cost = -depth
                wanted = cost + estimate(position, least - cost)
                if cost > tree.costs[position]:
                    continue
                if wanted > least:
                    heappush(queue, (wanted, depth, next(order), position))
                    continue
                known = self._exact.get(position)
                if known is not None:
                    return cost + known, tree, position
                ends, following = self._edges.after(position)
                if ends:
                    self._exact[position] = 0
                    return cost, tree, position
                for token, place in following:
                    if cost + 1 < tree.costs.get(place, cost + 2):
                        self._spend(PLACE)
                        tree.add(place, cost + 1, position, token)
                        heappush(queue, (least, depth - 1, next(order), place))
            if not queue:
                least = enough
        except _GivenUp:
            pass
        return min(enough, math.ceil(least)), tree, None

    def _least(self, places: Sequence[int]) -> int:
        """So many tokens at least are needed from the best of some places: see `Rests`."""
        floor = self._floor
        self._floor = self._left - (self._left - floor) // SHARE
        try:
            least, tree, last = self._search(places, self._bound)
        finally:
            self._floor = floor
        if self._rests.holds:
            self._learn(least, tree, last)
        return least

    def _learn(self, least: int, tree: _Tree, last: int | None) -> None:
        """Remember what a search has found of the places that it came by."""
        for place, cost in tree.costs.items():
            self._bounds[place] = max(least - cost, self._bounds.get(place, 0))
        for before, token, place in () if last is None else tree.back(last):
            self._exact[before], self._onward[before] = self._exact[place] + 1, (token, place)

    def _way(self, tree: _Tree, last: int) -> list[int]:
        """The tokens of the best way that a search has found."""
        tokens = [token for _, token, _ in tree.back(last)][::-1]
        while last in self._onward:
            token, last = self._onward[last]
            tokens.append(token)
        return tokens

    def _bound(self, position: int, enough: float) -> int:
        """No end is fewer tokens away from a position; where that is more than `enough`, it may be many more."""
        way = self._end(position)
        if way is None:
            self._spend(NO_WAY)
        rough = 0 if way is None else -(-len(way.text) // self._longest)
        known = max(rough, self._bounds.get(position, 0))
        return known if known > enough else max(known, self._rests.bound(position, enough))

    def _hurried(self, start: int, least: int) -> list[int] | None:
        """The tokens of the shortest text that is known, or found by what a byte mostly costs."""
        best, way = self._known, self._end(start)
        if best is None or way is None or not way.text or len(best) <= least or thread_time() > self._until:
            return best
        rate = len(best) / len(way.text)
        for weight, share in HURRIES:
            self._left, self._floor, self._until = self._most // share, 0, thread_time() + MOST_SECONDS / share
            _, tree, last = self._search([start], partial(self._likely, weight * rate))
            found = None if last is None else self._confirmed(self._way(tree, last))
            if found is not None and len(found) < len(best):
                best = found
        return best

    def _likely(self, rate: float, position: int, _: float) -> float:
        """What the tokens to an end may be, at so many for each byte of the shortest."""
        way = self._end(position)
        return UNREACHABLE if way is None else len(way.text) * rate

    def _confirmed(self, tokens: list[int]) -> list[int] | None:
        """The tokens, if all tests that were met agree."""
        if not self._edges.asked:
            return tokens
        walk = self._grammar.matcher()
        try:
            for token in tokens:
                walk.advance(token)
        except TokenRejected:
            return None
        return tokens if walk.can_finish else None

    def _spend(self, tokens: int) -> None:
        self._left -= tokens
        if self._left < self._floor or thread_time() > self._until:
            raise _GivenUp
