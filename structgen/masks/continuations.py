"""At which positions texts of a grammar can go on in canonical tokens."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from structgen.errors import DeadEnd
from structgen.masks.grammar import Grammar
from structgen.masks import canonical_walk as walk
from structgen.masks.advance import ASKS
from structgen.masks.canonical_walk import DEPTH, WIDE, few
from structgen.masks.words import Words, pack
from structgen.memo import BoundedCache
from structgen.vocabulary.canonical import Canonical, CanonicalState

KNOWN_PLACES = 1 << 16
"""Places for which it is cached whether a text can go on there."""
KNOWN_MASKS = 1 << 10
"""Places for which the mask of the tokens to go on with is cached."""
KNOWN_FEW = 1 << 12
"""Positions for which the tokens are cached, if they are few."""
Tokens = NDArray[np.int64]
NOT_FEW = np.zeros(0, np.int64)
"""Stands for more than `WIDE` tokens, or unknown ones."""

Overlap = tuple[Words, Words, int, Tokens]
"""A mask, its canonical tokens as a mask, their number (`WIDE + 1` if there are more), and the tokens in ascending
order (`NOT_FEW` if there are more)."""
Place = tuple[int, Hashable]


def overlap(canonical: Canonical, words: Words, state: CanonicalState) -> Overlap:
    """The canonical tokens of a mask."""
    both = words & canonical.mask(state)
    tokens = _tokens_of(both)
    return words, both, WIDE + 1 if tokens is NOT_FEW else len(tokens), tokens


def _tokens_of(words: Words) -> Tokens:
    """The tokens of a mask; `NOT_FEW` if there are more than `WIDE`."""
    tokens = np.empty(WIDE, np.int64)
    count = few(words, tokens)
    return NOT_FEW if count > WIDE else tokens[:count]


class Continuations:
    """At which positions texts of one grammar can go on in canonical tokens.

    Kernels decide most cases (`masks.canonical_walk`). In doubtful ones each token of the masks is followed.
    """

    def __init__(self, grammar: Grammar, canonical: Canonical) -> None:
        self._grammar, self._canonical = grammar, canonical
        self._known = BoundedCache[Place, bool](KNOWN_PLACES)
        self._live = BoundedCache[Place, Words | None](KNOWN_MASKS)
        self._few = BoundedCache[int, Tokens](KNOWN_FEW)
        self._numbers = np.zeros(walk.NUMBERS, np.int64)
        self._work = int(self._numbers.ctypes.data)

    @classmethod
    def of(cls, grammar: Grammar, canonical: Canonical) -> Continuations:
        """The continuations of a grammar, cached with it."""
        known: Continuations | None = grammar.derived.get(cls)
        if known is None or known._canonical is not canonical:
            known = grammar.derived[cls] = cls(grammar, canonical)
        return known

    def overlap_at(self, position: int, state: CanonicalState) -> Overlap:
        """The canonical tokens of a position's mask, before checks of the text."""
        try:
            words = self._grammar.mask(position)[0]
        except DeadEnd:
            nothing = np.zeros(self._grammar.vocabulary.words, np.uint32)
            return nothing, nothing, 0, NOT_FEW
        tokens = self._few.kept(position, _tokens_of, words)
        if tokens is not NOT_FEW:
            both = self._canonical.among(state, tokens)
            if both is not None:
                return words, both[0], len(both[1]), both[1]
        return overlap(self._canonical, words, state)

    def known_live(self, position: int, state: CanonicalState) -> Words | None:
        """The cached result of `live`; None if there is none."""
        return self._live.get((position, state.future)) if self._live else None

    def live(self, position: int, state: CanonicalState) -> Words | None:
        """uint32[words]: the tokens with which a text can go on from here; None if they are too many."""
        return self._live.kept((position, state.future), self._find_live, position, state)

    def _find_live(self, position: int, state: CanonicalState) -> Words | None:
        alive = self._live_by_kernel(position, state, NOT_FEW)
        if alive is None:
            _, _, count, tokens = self.overlap_at(position, state)
            known = self._grammar.known(position)
            if count > WIDE or (known is not None and known[2] is not None):  # checks of the text decide
                return None
            alive = self._live_by_kernel(position, state, tokens)
            if alive is None:
                alive = [each for each in tokens.tolist() if self._alive_behind(position, state, each, DEPTH)]
        return pack(np.array(alive, np.int64), self._grammar.vocabulary.width)

    def _live_by_kernel(self, position: int, state: CanonicalState, both: Tokens) -> list[int] | None:
        """The tokens with which a text can go on; None if the kernels do not know them all."""
        if state.packed < 0:
            return None
        tokens = np.empty(WIDE, np.int64)
        place = position, state.packed
        count = self._grammar.answered(walk.live, self._canonical.base, self._work, *place, tokens, both)
        return None if count < 0 else tokens[:count].tolist()

    def alive(self, position: int, state: CanonicalState, depth: int = DEPTH, tokens: Tokens = NOT_FEW) -> bool:
        """Can a text go on from here, looking `depth` tokens ahead?

        Args:
            tokens: the canonical tokens that are allowed here, if known and few.
        """
        place = position, state.future
        known = self._known.get(place)
        if known is None:
            known = self._find(position, state, depth, tokens)
            if depth > DEPTH // 2:  # a shallow search may find less than others need
                self._known.keep(place, known)
        return known

    def _find(self, position: int, state: CanonicalState, depth: int, tokens: Tokens) -> bool:
        if state.packed >= 0:
            place = position, state.packed
            answer = self._grammar.answered(walk.alive, self._canonical.base, self._work, *place, depth, tokens)
            if answer != walk.DOUBTFUL:
                return answer == walk.ALIVE
        if tokens is NOT_FEW:
            _, _, count, tokens = self.overlap_at(position, state)
            if depth == 0 or not 0 < count <= WIDE:
                return count > 0
        longest_first = sorted(tokens.tolist(), key=self._size, reverse=True)
        return any(self._alive_behind(position, state, token, depth - 1) for token in longest_first)

    def _alive_behind(self, position: int, state: CanonicalState, token: int, depth: int) -> bool:
        """Can a text go on behind one more allowed token?"""
        if not self._size(token):  # an end token or a special token
            return True
        after, following = self._grammar.advance(position, token), self._canonical.advance(state, token)
        if after == ASKS:  # a check of the text decides, at the end of a string
            return following is not None
        return after >= 0 and following is not None and self.alive(after, following, depth)

    def _size(self, token: int) -> int:
        return len(self._grammar.vocabulary.token(token))
