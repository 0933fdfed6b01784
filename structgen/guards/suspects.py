"""The tokens that could complete a banned word, without reading the whole vocabulary at each step."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from structgen.guards.folding import BROKEN, Fold, FoldState, begun_character
from structgen.guards.patterns import PatternSearch
from structgen.guards.words import WordSearch
from structgen.memo import cached_method
from structgen.vocabulary import Vocabulary

FEW = 200
"""Up to this many words are looked for one by one in all tokens at once."""


class WordTokens:
    """The tokens of a vocabulary in the order of their units behind a character of some kind, as if the text ended.

    Args:
        last: what the character before the token is.
    """

    def __init__(self, vocabulary: Vocabulary, search: WordSearch, last: int) -> None:
        self._search = search
        self._units, self._ids = _sorted(vocabulary, search.fold, last)
        self._longest = max(map(len, self._units), default=0)
        self._hits = self._ids[self._with_words()]

    def _with_words(self) -> NDArray[np.int64]:
        """The indexes of the tokens that have a word in them."""
        words = self._search.units
        if len(words) > FEW:
            hits = [index for index, units in enumerate(self._units) if self._search.contains(units)]
            return np.array(hits, np.int64)
        text = BROKEN.join(self._units)
        starts = np.cumsum([0, *(len(units) + 1 for units in self._units)])
        places = [match.start() for word in words for match in re.finditer(b"(?=%b)" % re.escape(word), text)]
        return np.unique(np.searchsorted(starts, np.array(places, np.int64), side="right") - 1)

    def suspects(self, node: int) -> NDArray[np.int64]:
        """The tokens that have a word in them, or start with what completes one that has begun."""
        suspects = [self._hits]
        for rest in set(self._search.rests(node, self._longest)):
            first = bisect_left(self._units, rest)
            last = first
            while last < len(self._units) and self._units[last].startswith(rest):
                last += 1
            if last > first:
                suspects.append(self._ids[first:last])
        return np.unique(np.concatenate(suspects))


class PatternTokens:
    """The tokens of a vocabulary as the characters that a pattern tells apart."""

    def __init__(self, vocabulary: Vocabulary, search: PatternSearch) -> None:
        language = search.language
        self._next, self._final = language.next, np.array(language.final, bool)
        self._ids, columns = _columns(vocabulary)
        ranges = [np.searchsorted(language.bounds, codes, side="right") - 1 for codes in columns]
        self._columns = [language.classes[each] for each in ranges]

    @cached_method
    def suspects(self, state: int) -> NDArray[np.int64]:
        """The tokens behind which a match stands in the text, or would if it ended."""
        states = np.full(len(self._ids), state, np.int64)
        for classes in self._columns:
            states[: len(classes)] = self._next[states[: len(classes)], classes]
        suspects: NDArray[np.int64] = self._ids[self._final[states]]
        return suspects


@lru_cache(maxsize=16)
def _columns(vocabulary: Vocabulary) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The ids of all tokens, longest first, and of those that have one their first character, their second, ...

    Bytes that belong to no character are U+FFFD; a character that is not whole at the end is left out.
    """
    texts = [(i, _shown(text)) for i in range(vocabulary.width) if (text := vocabulary.token(i))]
    texts.sort(key=lambda pair: -len(pair[1]))
    columns, left = list[NDArray[np.int64]](), [text for _, text in texts]
    while left := [text for text in left if len(text) > len(columns)]:
        columns.append(np.array([ord(text[len(columns)]) for text in left], np.int64))
    return np.array([i for i, _ in texts], np.int64), columns


def _shown(text: bytes) -> str:
    whole = text[: len(text) - begun_character(text)].decode("utf-8", errors="surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in whole)


@lru_cache(maxsize=16)
def _sorted(vocabulary: Vocabulary, fold: Fold, last: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """The units of all tokens in order, each with the end of a word behind it where it ends one, and their ids."""
    begun, pairs = FoldState(b"", last), []
    for i in range(vocabulary.width):
        if text := vocabulary.token(i):
            after, units, _ = fold.feed(begun, text)
            pairs.append((units + fold.finish(after), i))
    pairs.sort()
    return [units for units, _ in pairs], np.array([i for _, i in pairs], np.int64)


@lru_cache(maxsize=16)
def unsettled(vocabulary: Vocabulary, *, is_json: bool) -> NDArray[np.int64]:
    """Tokens that start within a character; of JSON, those that have a string's end or beginning in them, too."""
    ids = []
    for i in range(vocabulary.width):
        text = vocabulary.token(i)
        if text and (0x80 <= text[0] < 0xC0 or (is_json and (b'"' in text or b"\\" in text))):
            ids.append(i)
    return np.array(ids, np.int64)


@lru_cache(maxsize=64)
def holding(vocabulary: Vocabulary, signs: bytes) -> NDArray[np.int64]:
    """Tokens that have one of these bytes in them."""
    before = np.concatenate([[0], np.cumsum(np.isin(vocabulary.data, list(signs)))])
    return np.flatnonzero(np.diff(before[vocabulary.offsets]))
