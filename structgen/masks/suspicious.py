"""The tokens of a vocabulary that a check may have to be asked about. They are found once per vocabulary."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.masks.words import pack
from structgen.vocabulary import Vocabulary

_NO_STRING = rb"[0-9][],} \n\t\r]|true|false|null|\[.*\]|\{.*\}"
"""Matches in each token that contains a whole value other than a string. A number counts with the byte that ends it."""
_WHOLE = re.compile(rb'"[^"]*"|' + _NO_STRING, re.DOTALL)
"""Matches in each token that contains a whole value or name."""
_NO_PLAIN_STRING = re.compile(rb"\\|" + _NO_STRING, re.DOTALL)
"""Matches in each token that contains a whole value other than a string without escapes."""
_CLOSES, _DIGIT, _ENDS_NUMBER = 1, 2, 4
_KINDS = np.zeros(256, np.uint8)
for _kind, _bytes in ((_CLOSES, b'"]}'), (_DIGIT, b"0123456789"), (_ENDS_NUMBER, b"],} \n\t\r")):
    _KINDS[list(_bytes)] |= _kind


def _hints(vocabulary: Vocabulary) -> list[int]:
    """The tokens that contain a quote, and all other tokens in which `_WHOLE` may match."""
    kinds = _KINDS[vocabulary.data]
    closes = np.flatnonzero((kinds & _CLOSES).view(np.bool_))
    numbers = np.flatnonzero(((kinds[:-1] & _DIGIT) & (kinds[1:] >> 1)) != 0)
    data = vocabulary.data.tobytes()
    words = [match.start() for word in (b"true", b"false", b"null") for match in re.finditer(word, data)]
    places = np.concatenate([closes, numbers, np.array(words, np.int64)])
    tokens: list[int] = np.unique(np.searchsorted(vocabulary.offsets, places, side="right") - 1).tolist()
    return tokens


class WholeValues:
    """Tokens that hold whole values or names.

    Attributes:
        tokens: int64[.], all of them.
        mask: uint32[words], the same as a packed mask.
        several: int64[.], those that may hold several strings.
        several_or_other: int64[.], `several`, and all that may hold another value than a string without escapes.
        texts: what is between quotes in the tokens.
    """

    def __init__(self, tokens: list[tuple[bytes, int]], width: int) -> None:
        self._by_text: dict[bytes, list[int]] = {}
        self._again: dict[bytes, list[int]] = {}
        for token, i in tokens:
            parts = token.split(b'"')
            for a in range(1, len(parts) - 1):
                for b in range(a + 1, len(parts)):
                    text = b'"'.join(parts[a:b])
                    self._by_text.setdefault(text, []).append(i)
                    if text.endswith(parts[0]):
                        self._again.setdefault(text[: len(text) - len(parts[0])], []).append(i)
        self.texts = self._by_text.keys()
        self.tokens = _array([i for _, i in tokens])
        self.mask = pack(self.tokens, width)
        several = {i for token, i in tokens if token.count(b'"') > 3}
        other = {i for token, i in tokens if _NO_PLAIN_STRING.search(token)}
        self.several, self.several_or_other = _array(sorted(several)), _array(sorted(several | other))

    def holding(self, texts: Iterable[bytes], started: bytes | None) -> list[int]:
        """The tokens that hold one of these texts between quotes.

        Args:
            started: the part of a name or string that was read, if one is open. Tokens that end it and then hold the
                same name or string again are among the result.
        """
        tokens = [token for text in texts for token in self._by_text.get(text, ())]
        return tokens + self._again.get(started, []) if started is not None else tokens


class Suspicious:
    """The tokens of a vocabulary that a check may be asked about.

    Attributes:
        heads: what is before the first quote in the tokens that have a quote.
        escaped: int64[.], the tokens that have a quote and a backslash.
        whole: the tokens that hold a whole value or name; those that do so after their first quote.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = [(vocabulary.token(i), i) for i in _hints(vocabulary)]
        ordered = sorted((text, i) for text, i in tokens if b'"' in text)
        self._closing, self._ids = [text for text, _ in ordered], [i for _, i in ordered]
        self._heads = frozenset(text[: text.index(b'"')] for text in self._closing)
        self.heads = sorted(self._heads)
        self.escaped = _array([i for text, i in ordered if b"\\" in text])
        outside = [(text, i) for text, i in tokens if _WHOLE.search(text)]
        inside = [(text, i) for text, i in ordered if _WHOLE.search(text, text.index(b'"') + 1)]
        self.whole = WholeValues(outside, vocabulary.width), WholeValues(inside, vocabulary.width)

    def starting(self, rest: bytes) -> Sequence[int]:
        """The tokens that start with a text that ends in a quote."""
        if rest[: rest.index(b'"')] not in self._heads:
            return ()
        return self._ids[starting_with(self._closing, rest)]


def starting_with(ordered: Sequence[bytes], start: bytes) -> slice:
    """Where the texts that begin with `start` are among sorted texts."""
    return slice(bisect_left(ordered, start), bisect_right(ordered, start, key=lambda text: text[: len(start)]))


def _array(ids: list[int]) -> NDArray[np.int64]:
    return np.array(ids, np.int64)
