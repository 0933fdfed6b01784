"""Prompt lookup: what stands behind the same words elsewhere, in the prompt or in what was said, may come here, too.

Extracted values, names and numbers are copied token by token; so they can be foretold (Saxena 2023, "Prompt Lookup
Decoding"). It is bytes that are compared, for the same word has other tokens behind a quote than behind a blank.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from structgen.vocabulary import Vocabulary

LONGEST = 32
"""Bytes that are compared at most, from the end of the text."""

MOST_PLACES = 4
"""So many places where the same bytes stand are looked at: a token must end there."""

STRICTEST = 64
"""Where wrong guesses have made this many equal bytes necessary, nothing is guessed any more."""

_WORDS = re.compile(rb'[^"{}\[\]:,]*\Z')
"""The end of a text in which nothing is but words: what stands before has other reasons than the prompt's."""


class Lookup:
    """The text of one row, prompt included, as a source of guesses.

    A guess needs some equal bytes before it: more, the more often the last ones were wrong.

    Args:
        vocabulary: of the row's ids.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids: list[int] = []
        self._text = bytearray()
        self._ends: list[int] = []
        self._least = 1

    def after(self, ids: Sequence[int], most: int) -> list[int]:
        """The tokens that may follow, at most so many; none where nothing alike is known.

        Args:
            ids: the prompt and what was said.
            most: tokens.
        """
        self._follow(ids)
        word = self._word()
        last = self._ends[-1] - (self._ends[-2] if len(self._ends) > 1 else 0) if self._ends else 0
        least = max(self._least, min(last, len(word)), 1)
        length = min(len(word), LONGEST)
        while length >= least:
            for start in _beginnings(word) if length == len(word) else [word[-length:]]:
                at = self._place(start)
                if at is not None:
                    return self._ids[at : at + most]
            length = max(length // 2, least) if length > least else 0
        return []

    def learn(self, *, right: bool) -> None:
        """The first token of a guess was what the row has said, or was not."""
        self._least = max(self._least // 2, 1) if right else min(self._least * 2, STRICTEST)

    def _follow(self, ids: Sequence[int]) -> None:
        """The row has gone on, or has gone back and on."""
        known = self._ids
        if list(ids[: len(known)]) != known:
            pairs = enumerate(zip(known, ids, strict=False))
            kept = next((i for i, (a, b) in pairs if a != b), min(len(known), len(ids)))
            del known[kept:], self._ends[kept:]
            del self._text[self._ends[-1] if self._ends else 0 :]
        for token in ids[len(known) :]:
            self._text += self._vocabulary.token(token)
            self._ends.append(len(self._text))
            known.append(token)

    def _word(self) -> bytes:
        found = _WORDS.search(self._text, max(0, len(self._text) - LONGEST))
        return b"" if found is None else found.group().lstrip()

    def _place(self, start: bytes) -> int | None:
        """The token behind the last place, before the end, where a token ends with these bytes."""
        end = len(self._text) - 1
        for _ in range(MOST_PLACES):
            at = self._text.rfind(start, 0, end)
            if at < 0:
                return None
            end = at + len(start)
            token = bisect_left(self._ends, end)
            if self._ends[token] == end:
                return token + 1
            end -= 1
        return None


def _beginnings(word: bytes) -> list[bytes]:
    """Where a word may stand: behind a blank, or within another, where it is more than a letter."""
    return [b" " + word, word] if len(word) > 1 else [b" " + word]
