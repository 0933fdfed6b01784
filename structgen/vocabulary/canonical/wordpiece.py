"""WordPiece encodings: of each word the longest piece that fits, then the longest of the rest, and so on.

So tokens are canonical if none of them could be longer: no piece begins where one of them begins, and ends behind it
within the word.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from structgen.memo import cached_up_to
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.words import WordCanonical
from structgen.vocabulary.packed import Words

BEHIND = b"\xff"
"""Behind a text, more than all that may stand there."""


class WordPieceCanonical(WordCanonical):
    """For WordPiece encodings.

    Args:
        texts: the bytes of each token by id, as the decoder writes it; empty where no text is encoded to it.
        pieces: each token as the vocabulary writes it, in bytes.
        prefix: of the pieces that continue a word.
        starting: the tokens that may begin a word.
        open_: the tokens behind which a word may go on.
        longest: the characters of the longest word that is encoded.
        outer, contents: see `WordCanonical`.
    """

    def __init__(
        self, texts: Sequence[bytes], pieces: Sequence[bytes], prefix: bytes, starting: Iterable[int],
        open_: Iterable[int], longest: int, outer: Iterable[int], contents: AddedContents,
    ) -> None:  # fmt: skip
        super().__init__(texts, outer, contents, (False, False), None)
        self._pieces, self._prefix, self._longest = pieces, prefix, longest
        self._known, self._sorted = frozenset(pieces), sorted({*pieces} - {b""})
        self._starts, self._open = frozenset(starting), frozenset(open_)
        self._starting = self._flagged(self._starts)
        inside = sorted((pieces[i][len(prefix) :], i) for i in self._open - self._starts)
        self._rests, self._ids = [rest for rest, _ in inside], np.array([i for _, i in inside], np.int64)
        self._sizes = np.array([len(rest.decode()) for rest in self._rests])

    def _read(self, word: bytes, token: int) -> bytes | None:
        piece = self._pieces[token]
        if token in self._starts:
            return piece if token in self._open else b""
        if not word or token not in self._open:
            return None
        after = word + piece[len(self._prefix) :]
        fits = len(after.decode()) <= self._longest and self._cuts(after) == (*self._cuts(word), len(word))
        return after if fits else None

    @cached_up_to(1 << 12)
    def _cuts(self, word: bytes) -> tuple[int, ...]:
        """Where the pieces of a word begin."""
        cuts, start = [], 0
        while start < len(word):
            cuts.append(start)
            prefix = self._prefix if start else b""
            start = next(
                (end for end in range(len(word), start, -1) if prefix + word[start:end] in self._known), len(word)
            )
        return tuple(cuts)

    def _continuing(self, word: bytes) -> Words:
        if not word:
            return self._starting
        fits = self._sizes <= self._longest - len(word.decode())
        for start in self._cuts(word):
            for rest in self._completing((self._prefix if start else b"") + word[start:]):
                fits[bisect_left(self._rests, rest) : bisect_left(self._rests, rest + BEHIND)] = False
        return self._starting | self._flagged(self._ids[fits].tolist())

    def _completing(self, begun: bytes) -> Iterable[bytes]:
        """The shortest texts that make a piece of a text that is longer than that text."""
        last = BEHIND
        for i in range(bisect_left(self._sorted, begun + b"\0"), bisect_left(self._sorted, begun + BEHIND)):
            rest = self._sorted[i][len(begun) :]
            if not rest.startswith(last):
                last = rest
                yield rest
