"""From where texts of a grammar can go on in canonical tokens."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from structgen.decoding.choosing.masking import pack
from structgen.errors import DeadEnd
from structgen.masks import Grammar
from structgen.masks import canonical_walk as walk
from structgen.masks.advance import ASKS
from structgen.masks.canonical_walk import DEPTH, WIDE
from structgen.masks.words import Words, ids_of
from structgen.memo import BoundedCache
from structgen.vocabulary.canonical import Canonical, CanonicalState

KNOWN_PLACES = 1 << 16
"""Places of which it is kept whether a text can go on from there."""
KNOWN_MASKS = 1 << 10
"""Places of which it is kept with which tokens; each takes as many bytes as a mask."""
Place = tuple[int, Hashable]
NOT_KNOWN = np.zeros(0, np.uint32)
"""In place of a mask that was not made."""


class Overlap:
    """What two masks have in common; of the last two it is kept, for a step asks twice."""

    def __init__(self) -> None:
        self._last: tuple[Words, Words, Words, int] | None = None

    def __call__(self, words: Words, others: Words) -> tuple[Words, int]:
        """The tokens that both allow, and how many they are; `WIDE + 1` where they are more."""
        last = self._last
        if last is None or last[0] is not words or last[1] is not others:
            left = words & others
            last = self._last = words, others, left, walk.count_few(left)
        return last[2], last[3]


class Continuations:
    """From where texts of one grammar can go on in canonical tokens.

    Kernels tell it of most places (`masks.canonical_walk`). Where they doubt it, each token of the masks is followed.

    Args:
        grammar: of the texts.
        canonical: of the vocabulary.
    """

    def __init__(self, grammar: Grammar, canonical: Canonical) -> None:
        self._grammar, self._canonical = grammar, canonical
        self._known = BoundedCache[Place, bool](KNOWN_PLACES)
        self._live = BoundedCache[Place, Words | None](KNOWN_MASKS)
        self._numbers = np.zeros(walk.NUMBERS, np.int64)
        self._work = int(self._numbers.ctypes.data)

    @classmethod
    def of(cls, grammar: Grammar, canonical: Canonical) -> Continuations:
        """The continuations of a grammar, remembered with it."""
        known: Continuations | None = grammar.derived.get(cls)
        if known is None or known._canonical is not canonical:
            known = grammar.derived[cls] = cls(grammar, canonical)
        return known

    def known_live(self, position: int, state: CanonicalState) -> Words | None:
        """What `live` has found before; None where it was not asked."""
        return self._live.get((position, state.future))

    def live(self, position: int, state: CanonicalState) -> Words | None:
        """uint32[words]: the tokens with which a text can go on from here; None where too many are to be asked about.

        Args:
            position: in the grammar.
            state: of the tokens before it.
        """
        place = position, state.future
        if place in self._live:
            return self._live[place]
        return self._live.keep(place, self._find_live(position, state))

    def _find_live(self, position: int, state: CanonicalState) -> Words | None:
        alive = self._told_live(position, state, NOT_KNOWN)
        if alive is None:
            try:
                words, _, late = self._grammar.mask(position)
            except DeadEnd:
                return np.zeros(self._grammar.vocabulary.words, np.uint32)
            both, count = Overlap()(words, self._canonical.mask(state))
            if late is not None or count > WIDE:  # late: the text itself decides
                return None
            alive = self._told_live(position, state, both)
            if alive is None:
                alive = [token for token in ids_of(both).tolist() if self._alive_behind(position, state, token, DEPTH)]
        return pack(np.array(alive, np.int64), self._grammar.vocabulary.width)

    def _told_live(self, position: int, state: CanonicalState, both: Words) -> list[int] | None:
        """The tokens with which a text can go on, as far as kernels tell them all."""
        if state.packed < 0:
            return None
        tokens = np.empty(WIDE, np.int64)
        place = position, state.packed
        count = self._grammar.answered(walk.live, self._canonical.base, self._work, *place, tokens, both)
        return None if count < 0 else tokens[:count].tolist()

    def alive(self, position: int, state: CanonicalState, depth: int = DEPTH, overlap: Overlap | None = None) -> bool:
        """Can a text go on from here, as far as `depth` tokens tell?

        Args:
            position: in the grammar.
            state: of its tokens.
            depth: tokens to look ahead.
            overlap: where the next step asks for the masks here anyway: what it will ask.
        """
        place = position, state.future
        known = self._known.get(place)
        if known is None:
            known = self._find(position, state, depth, overlap)
            if depth > DEPTH // 2:  # what was seen from close by is no answer for others
                self._known.keep(place, known)
        return known

    def _find(self, position: int, state: CanonicalState, depth: int, overlap: Overlap | None) -> bool:
        both: Words | None = None
        if overlap is not None:
            both, count = self._both(position, state, overlap)
            if not 0 < count <= WIDE:
                return count > 0
        if state.packed >= 0:
            known = NOT_KNOWN if both is None else both
            place = position, state.packed
            told = self._grammar.answered(walk.alive, self._canonical.base, self._work, *place, depth, known)
            if told != walk.DOUBTFUL:
                return told == walk.ALIVE
        if both is None:
            both, count = self._both(position, state, Overlap())
            if depth == 0 or not 0 < count <= WIDE:
                return count > 0
        tokens = sorted(ids_of(both).tolist(), key=self._size, reverse=True)
        return any(self._alive_behind(position, state, token, depth - 1) for token in tokens)

    def _both(self, position: int, state: CanonicalState, overlap: Overlap) -> tuple[Words, int]:
        """The tokens that are allowed and canonical, and how many, see `Overlap`."""
        try:
            words, _, _ = self._grammar.mask(position)  # what the text itself decides may only take more away
        except DeadEnd:
            return NOT_KNOWN, 0
        return overlap(words, self._canonical.mask(state))

    def _alive_behind(self, position: int, state: CanonicalState, token: int, depth: int) -> bool:
        """Can a text go on behind one more token, which is allowed?"""
        if not self._size(token):  # an end, or what begins anew
            return True
        after, following = self._grammar.advance(position, token), self._canonical.advance(state, token)
        if after == ASKS:  # the text itself decides, at the end of a string
            return following is not None
        return after >= 0 and following is not None and self.alive(after, following, depth)

    def _size(self, token: int) -> int:
        return len(self._grammar.vocabulary.token(token))
