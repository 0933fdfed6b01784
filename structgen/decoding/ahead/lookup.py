"""Prompt lookup: the text that follows the same words in the prompt, or earlier in the answer, may follow here, too.

Extracted values, names and numbers are copied token by token, so they can be guessed (Saxena 2023, "Prompt Lookup
Decoding"). Bytes are compared, since a word has other tokens after a quote than after a blank.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from structgen.models.prefixes import common
from structgen.vocabulary import Vocabulary

LONGEST = 32
"""The most bytes that are compared, from the end of the text."""

MAX_PLACES = 4
"""The most places of the same bytes that are tried: a token must end there."""

STRICTEST = 64
"""If wrong guesses have raised the required number of equal bytes to this, no guess is made any more."""

_WORDS = re.compile(rb'[^"{}\[\]:,]*\Z')
"""The words at the end of a text. The JSON structure before them does not come from the prompt."""


class Lookup:
    """The text of one row, prompt included, as a source of guesses.

    A guess needs equal bytes before it: more of them after wrong guesses.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids: list[int] = []
        self._text = bytearray()
        self._ends: list[int] = []
        self._least = 1

    def after(self, ids: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that may follow the prompt and the answer so far; none if no place is alike."""
        self._follow(ids)
        match = _WORDS.search(self._text, max(0, len(self._text) - LONGEST))
        word = b"" if match is None else match.group().lstrip()
        last = self._ends[-1] - (self._ends[-2] if len(self._ends) > 1 else 0) if self._ends else 0
        least = max(self._least, min(last, len(word)), 1)
        length = min(len(word), LONGEST)
        while length >= least:
            starts = [b" " + word, word] if length > 1 else [b" " + word]  # a letter may also be within a word
            for start in starts if length == len(word) else [word[-length:]]:
                index = self._place(start)
                if index is not None:
                    return self._ids[index : index + limit]
            length = max(length // 2, least) if length > least else 0
        return []

    def learn(self, *, right: bool) -> None:
        """Notes whether the row has said the first token of a guess."""
        self._least = max(self._least // 2, 1) if right else min(self._least * 2, STRICTEST)

    def _follow(self, ids: Sequence[int]) -> None:
        """Follows the row to its ids."""
        known = self._ids
        if list(ids[: len(known)]) != known:
            kept = common(known, ids)
            del known[kept:], self._ends[kept:]
            del self._text[self._ends[-1] if self._ends else 0 :]
        for token, piece in zip(new := ids[len(known) :], self._vocabulary.pieces(new), strict=True):
            self._text += piece
            self._ends.append(len(self._text))
            known.append(token)

    def _place(self, start: bytes) -> int | None:
        """The index of the token after the last place before the end where a token ends with these bytes."""
        end = len(self._text) - 1
        for _ in range(MAX_PLACES):
            offset = self._text.rfind(start, 0, end)
            if offset < 0:
                return None
            end = offset + len(start)
            token = bisect_left(self._ends, end)
            if self._ends[token] == end:
                return token + 1
            end -= 1
        return None
