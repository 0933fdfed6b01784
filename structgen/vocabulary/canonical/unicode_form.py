"""Texts that a normalizer, such as Unicode's normal form C, does not change, read piece by piece.

A tokenizer that normalises texts before it encodes them never writes other ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, takewhile
from typing import Final
from unicodedata import combining, decomposition, is_normalized

import numpy as np

from structgen.memo import cached_up_to
from structgen.vocabulary.packed import Words, packed

FORM: Final = "NFC"
ASKED_AT_ONCE = 64
"""Tokens that a normalizer is asked about together. Most of them it leaves alone."""


@cache
def _joining() -> frozenset[str]:
    """The characters that normalisation may compose with characters before them, or swap with them."""
    joining = set[str]()
    for code in range(0x20000):  # higher planes have none
        character = chr(code)
        if combining(character):
            joining.add(character)
        parts = decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            joining.add(chr(int(parts[1], 16)))
    jamo = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul is composed by rule
    return frozenset(joining | set(map(chr, jamo)))


class UnicodeForm:
    """Keeps texts as a normalizer leaves them.

    Args:
        texts: the bytes of each token by id.
        unchanged: tells of a text, which begins anywhere, whether the normalizer leaves it alone; by default one that
            makes form C.

    Attributes:
        touchy: the tokens that normalisation changes, alone or perhaps behind other text.
    """

    def __init__(self, texts: Sequence[bytes], unchanged: Callable[[str], bool] | None = None) -> None:
        self._unchanged, self._ascii_stays = unchanged or partial(is_normalized, FORM), unchanged is None
        self._joining = _joining() if unchanged is None else _joining() | {" "}  # some make one space of two
        decoded = [
            (i, text.decode(errors="ignore"))
            for i, text in enumerate(texts)
            if text and not (self._ascii_stays and text.isascii())
        ]
        self._changed = [
            i
            for k in range(0, len(decoded), ASKED_AT_ONCE)
            for i in self._changed_among(decoded[k : k + ASKED_AT_ONCE])
        ]
        beginnings = defaultdict[str, list[int]](list)
        for i, text in decoded:
            if text[:1] in self._joining:
                beginnings["".join(takewhile(self._joining.__contains__, text))].append(i)
        self._behind = dict(beginnings)
        self.touchy = {*self._changed, *chain.from_iterable(self._behind.values())}
        self._count = len(texts)

    def _changed_among(self, decoded: Sequence[tuple[int, str]]) -> Iterator[int]:
        if not self._unchanged("x".join(text for _, text in decoded)):
            yield from (i for i, text in decoded if not self._unchanged(text))

    def after(self, tail: str, text: str) -> str | None:
        """The tail behind more text: the end of a text that further text may change; None where the text is changed.

        It is the last character, if there is one, with the joining characters behind it.

        Args:
            tail: the tail before.
            text: the new text.
        """
        joined = tail + text
        if self._ascii_stays and joined.isascii():
            return joined[-1:]
        if not self._unchanged(joined):
            return None
        start = len(joined) - 1
        while start > 0 and joined[start] in self._joining:
            start -= 1
        return joined[start:]

    @cached_up_to(256)
    def kept(self, tail: str) -> Words:
        """uint32[words]: the tokens behind which the text is still in normal form."""
        flags = np.ones(self._count, np.bool_)
        flags[self._changed] = False
        for beginning, tokens in self._behind.items():
            if not self._unchanged(tail + beginning):
                flags[tokens] = False
        return packed(flags)
