"""Texts that Unicode's normal form C does not change, read piece by piece.

A tokenizer that normalises texts before it encodes them never writes other ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import chain, takewhile
from typing import Final
from unicodedata import combining, decomposition, is_normalized

import numpy as np

from structgen.memo import cached_up_to
from structgen.vocabulary.packed import Words, packed

FORM: Final = "NFC"


@cache
def _joining() -> frozenset[str]:
    """The characters that normalisation may compose with characters before them, or swap with them."""
    joining = set[str]()
    for code in range(0x110000):
        character = chr(code)
        if combining(character):
            joining.add(character)
        parts = decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            joining.add(chr(int(parts[1], 16)))
    jamo = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul is composed by rule
    return frozenset(joining | set(map(chr, jamo)))


class UnicodeForm:
    """Keeps texts in normal form C.

    Args:
        texts: the bytes of each token by id.

    Attributes:
        touchy: the tokens that normalisation changes, alone or perhaps behind other text.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        decoded = [(i, text.decode(errors="ignore")) for i, text in enumerate(texts) if not text.isascii()]
        joining = _joining()
        self._changed = [i for i, text in decoded if not is_normalized(FORM, text)]
        beginnings = defaultdict[str, list[int]](list)
        for i, text in decoded:
            if text[:1] in joining:
                beginnings["".join(takewhile(joining.__contains__, text))].append(i)
        self._joining = dict(beginnings)
        self.touchy = {*self._changed, *chain.from_iterable(self._joining.values())}
        self._count = len(texts)

    def after(self, tail: str, text: str) -> str | None:
        """The tail behind more text: the end of a text that further text may change; None where the text is changed.

        It is the last character, if there is one, with the joining characters behind it.

        Args:
            tail: the tail before.
            text: the new text.
        """
        joined = tail + text
        if joined.isascii():
            return joined[-1:]
        if not is_normalized(FORM, joined):
            return None
        joining, start = _joining(), len(joined) - 1
        while start > 0 and joined[start] in joining:
            start -= 1
        return joined[start:]

    @cached_up_to(256)
    def kept(self, tail: str) -> Words:
        """uint32[words]: the tokens behind which the text is still in normal form."""
        flags = np.ones(self._count, np.bool_)
        flags[self._changed] = False
        for beginning, tokens in self._joining.items():
            if not is_normalized(FORM, tail + beginning):
                flags[tokens] = False
        return packed(flags)
