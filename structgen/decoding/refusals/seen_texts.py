"""The same text in other tokens: after a rollback a greedy row does not begin again what it has begun before.

A text of n bytes has up to 2 ** (n - 1) tokenisations. A model that is sure of a refused text says them one after the
other, and each costs forward passes, although it is the text that is refused. But what goes on from a text can be
said behind any of its tokenisations, and the row can go back to those that it has begun. So after a rollback a token
is passed over that only leads to a text begun before: a refused text of n bytes has n beginnings, and each retry comes
to a new one, or completes the refused text at once. The token is not forbidden: it may come where nothing else is
left, because of the budget perhaps. What the model says behind a new text is the model's own.

A row that samples gives each tokenisation its own probability, and passes nothing over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from structgen.decoding.choosing.masking import Words, pack
from structgen.vocabulary import Vocabulary


class SeenTexts:
    """The texts that one row has begun and gone back from."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = set[bytes]()
        self._longest = 0

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Adds the texts of a refused text's first `start + 1`, `start + 2`, ... tokens, but not the whole text."""
        text = self._vocabulary.decode(tokens[:start])
        for token in tokens[start:-1]:
            text += self._vocabulary.token(token)
            self._texts.add(text)
        self._longest = max(self._longest, len(text))

    def again(self, text: bytes | bytearray) -> Words | None:
        """The mask of the tokens with which a row would come to a seen text; None where there are none."""
        if len(text) >= self._longest:
            return None
        prefix, size = bytes(text), len(text)
        rests = {seen[size:] for seen in self._texts if len(seen) > size and seen.startswith(prefix)}
        tokens = {token for rest in rests for token in _tokens_of(self._vocabulary, rest)}
        return pack(np.array(sorted(tokens), np.int64), self._vocabulary.width) if tokens else None


def _tokens_of(vocabulary: Vocabulary, text: bytes) -> Iterator[int]:
    """The tokens whose bytes are this text."""
    trie = vocabulary.trie
    node, stop = int(trie.first[text[0]]), int(trie.first[text[0] + 1])
    while node < stop:
        size = int(trie.depth[node])
        if trie.byte[node] != text[size - 1]:
            node = int(trie.skip[node])
        elif size < len(text):
            node, stop = node + 1, int(trie.skip[node])
        else:
            token = int(trie.token[node])
            while token >= 0:
                yield token
                token = int(trie.twin[token])
            return
