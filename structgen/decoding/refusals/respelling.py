"""The same text in other tokens: where a greedy row has gone back to, it begins nothing again that it has begun.

A text of n bytes has up to 2 ** (n - 1) tokenisations. A model that is sure of a refused text says them one after the
other, and each costs forward passes, although it is the text that is refused. But what goes on from a text can be
said behind any of its tokenisations, and those that were begun are places to go back to. So at such a place a token
is passed over that only leads to what was begun in other tokens: a refused text of n bytes has n beginnings, and each
try comes to a new one, or completes at once what is refused. It is not forbidden: where nothing else is left, because
of the budget perhaps, it may come. Nor does it change how a text goes on that is new: that is the model's.

A row that samples gives each tokenisation its own probability, and nothing is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from structgen.decoding.choosing.masking import Words, pack
from structgen.vocabulary import Vocabulary


class Begun:
    """The texts that one row has begun and gone back from.

    Args:
        vocabulary: of the model.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = set[bytes]()
        self._longest = 0

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Adds what was begun with each token of a refused text but the last, from the token number `start` on."""
        text = self._vocabulary.decode(tokens[:start])
        for token in tokens[start:-1]:
            text += self._vocabulary.token(token)
            self._texts.add(text)
        self._longest = max(self._longest, len(text))

    def again(self, said: bytes | bytearray) -> Words | None:
        """The tokens that would begin one of the texts again behind what was said; None where there are none."""
        if len(said) >= self._longest:
            return None
        begun, size = bytes(said), len(said)
        rests = {text[size:] for text in self._texts if len(text) > size and text.startswith(begun)}
        found = {token for rest in rests for token in _spelling(self._vocabulary, rest)}
        return pack(np.array(sorted(found), np.int64), self._vocabulary.width) if found else None


def _spelling(vocabulary: Vocabulary, text: bytes) -> Iterator[int]:
    """The tokens whose bytes are this text."""
    trie = vocabulary.trie
    at, stop = int(trie.first[text[0]]), int(trie.first[text[0] + 1])
    while at < stop:
        size = int(trie.depth[at])
        if trie.byte[at] != text[size - 1]:
            at = int(trie.skip[at])
        elif size < len(text):
            at, stop = at + 1, int(trie.skip[at])
        else:
            token = int(trie.token[at])
            while token >= 0:
                yield token
                token = int(trie.twin[token])
            return
