"""Whether what follows a forced text can belong to the tokens that the text ends with.

A token *straddles* the end of the text when it starts inside the text and goes on beyond it. Where the grammar allows
none that the tokenizer would choose, whatever may follow starts a token of its own, and the last tokens are as sure as
the others. The tokenizer itself is asked: about each straddling token, and about one character of each kind that may
follow, since some tokenizers look ahead before they split.
"""

from __future__ import annotations

import numpy as np

from structgen.decoding.choosing.masking import Words, count, ids_of
from structgen.errors import DeadEnd
from structgen.masks import Grammar
from structgen.vocabulary import Vocabulary

MOST_TOKENS = 64
"""Where a mask allows more tokens, too many may straddle."""

MOST_PROBES = 24
"""The tokenizer is asked about no more straddling tokens."""

KINDS = '07aZ"\\ \n.,:-_/{}[]('
"""Characters that tokenizers treat differently."""


class TokenBoundaries:
    """Where the last tokens of the forced texts of one grammar end.

    Args:
        vocabulary: that the grammar was compiled for.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        single = np.flatnonzero(np.diff(vocabulary.offsets) == 1)
        self._spells = {vocabulary.token(int(i))[0]: int(i) for i in single}
        self._probes: dict[tuple[int, bytes, int], list[bytes] | None] = {}

    def probes(self, grammar: Grammar, position: int, text: bytes, ends: int) -> list[bytes] | None:
        """The texts that the tokenizer must be asked about: the forced text, each time with another one behind it.

        Args:
            grammar, position: where the forced text stands.
            text: the forced text.
            ends: how many bytes at its end may belong to straddling tokens.

        Returns:
            None where there are too many, or they are not known.
        """
        key = position, text, ends
        if key not in self._probes:
            self._probes[key] = self._find(grammar, position, text, ends)
        return self._probes[key]

    def _find(self, grammar: Grammar, position: int, text: bytes, ends: int) -> list[bytes] | None:
        probes: list[bytes] = []
        for offset, byte in enumerate(text):
            if offset >= len(text) - ends:
                words = self._words(grammar, position)
                if words is None or count(words) > MOST_TOKENS:
                    return None
                tokens = (self._vocabulary.token(i) for i in ids_of(words).tolist())
                rest = text[offset:]
                probes += [text[:offset] + t for t in tokens if len(t) > len(rest) and t.startswith(rest)]
                if len(probes) > MOST_PROBES:
                    return None
            position = grammar.advance(position, self._spells[byte]) if byte in self._spells else -1
            if position < 0:
                return None
        words = self._words(grammar, position)
        return None if words is None else probes + [text + kind for kind in self._kinds(words)]

    def _words(self, grammar: Grammar, position: int) -> Words | None:
        """The mask at a position; None where it depends on what was said."""
        try:
            words, _, late = grammar.mask(position)
        except DeadEnd:
            return None
        return None if late is not None else words

    def _kinds(self, words: Words) -> list[bytes]:
        spelled = ((kind, self._spells.get(ord(kind))) for kind in KINDS)
        allowed = [kind.encode() for kind, i in spelled if i is not None and words[i >> 5] >> (i & 31) & 1]
        lead = self._spells.get("é".encode()[0])
        return [*allowed, "é".encode()] if lead is not None and words[lead >> 5] >> (lead & 31) & 1 else allowed
