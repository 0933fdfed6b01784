"""At which places the texts of a grammar can go on in canonical tokens.

A place is a position of the grammar and a canonical state. A text can go on from it if it may end there, if more than
`WIDE` tokens are allowed, or if it can go on after one of them. So `{` leads nowhere where only `{"` may come, which is
one token.
"""

from __future__ import annotations

import numpy as np

from structgen.errors import DeadEnd
from structgen.masks.advance import ASKS
from structgen.masks.grammar import Grammar
from structgen.masks.words import Words, ids_of, pack
from structgen.memo import BoundedCache
from structgen.vocabulary.canonical import Canonical, CanonicalState

DEPTH = 12
"""The number of tokens to look ahead. In 373 schemas, looking 12 tokens ahead missed no dead end; looking two tokens
ahead missed one in 10 of 1,000 steps."""
WIDE = 64
"""If more tokens than this are allowed at a place, the text can go on, as far as is looked."""
KNOWN_PLACES = 1 << 16
"""Places for which it is cached whether a text can go on there."""
KNOWN_MASKS = 1 << 10
"""Places for which the mask of the tokens to go on with is cached."""
KNOWN_FEW = 1 << 12
"""Positions for which the tokens are cached, if they are few."""

TextPlace = tuple[int, CanonicalState]


class Continuations:
    """At which places texts of one grammar can go on in canonical tokens."""

    def __init__(self, grammar: Grammar, canonical: Canonical) -> None:
        self._grammar, self._canonical = grammar, canonical
        self._known = BoundedCache[TextPlace, bool](KNOWN_PLACES)
        self._live = BoundedCache[TextPlace, Words | None](KNOWN_MASKS)
        self._few = BoundedCache[int, list[int] | None](KNOWN_FEW)

    @classmethod
    def of(cls, grammar: Grammar, canonical: Canonical) -> Continuations:
        """The continuations of a grammar, cached with it."""
        known: Continuations | None = grammar.derived.get(cls)
        if known is None or known._canonical is not canonical:
            known = grammar.derived[cls] = cls(grammar, canonical)
        return known

    def live(self, position: int, state: CanonicalState) -> Words | None:
        """uint32[words]: the tokens with which a text can go on; None if more than `WIDE` are allowed."""
        return self._live.kept((position, state), self._find_live, position, state)

    def _find_live(self, position: int, state: CanonicalState) -> Words | None:
        tokens = self.few(position)
        if tokens is None:
            return None
        live = [token for token in tokens if self.leads_on(position, state, token)]
        return pack(np.array(live, np.int64), self._grammar.vocabulary.width)

    def leads_on(self, position: int, state: CanonicalState, token: int, depth: int = DEPTH) -> bool:
        """Is an allowed token canonical, and can the text go on after it?"""
        after = self._canonical.advance(state, token)
        if after is None or not self._grammar.vocabulary.token(token):  # an end token or a special token
            return after is not None
        target = self._grammar.advance(position, token)
        return target == ASKS or (target >= 0 and self.alive(target, after, depth))  # a check of the text decides

    def alive(self, position: int, state: CanonicalState, depth: int = DEPTH) -> bool:
        """Can a text go on from here, looking `depth` tokens ahead?"""
        tokens = self.few(position)
        if tokens is None:
            return True
        known = self._known.get((position, state))
        if known is None:
            known = any(self.leads_on(position, state, token, depth - 1) for token in tokens) if depth else bool(tokens)
            if known or depth > DEPTH // 2:  # a shallow search may find less than others need
                self._known.keep((position, state), known)
        return known

    def few(self, position: int) -> list[int] | None:
        """The allowed tokens, the longest first, before checks of the text; None if they are more than `WIDE`."""
        return self._few.kept(position, self._find_few, position)

    def _find_few(self, position: int) -> list[int] | None:
        try:
            words = self._grammar.mask(position)[0]
        except DeadEnd:
            return []
        if np.bitwise_count(words).sum() > WIDE:
            return None
        return sorted(ids_of(words).tolist(), key=self._size, reverse=True)

    def _size(self, token: int) -> int:
        return len(self._grammar.vocabulary.token(token))
