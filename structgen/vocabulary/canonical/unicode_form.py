"""Texts that Unicode's normal form C leaves as they are, read one piece after the other.

A tokenizer that normalises a text before it encodes it never writes a text that this changes.
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
from structgen.vocabulary.canonical.merges import Words, packed

FORM: Final = "NFC"


@cache
def _joining() -> frozenset[str]:
    """The characters that may become one with those before them, or change places with them."""
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
        touchy: the tokens that are changed by themselves, or perhaps by what stands before them.
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
        """What more text may change of a text, which is none or its last character with what joins that.

        Args:
            tail: the same of the text before.
            text: what is new.

        Returns:
            None where the text is changed.
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
        """uint32[words]: the tokens with which the text stays as it is."""
        flags = np.ones(self._count, np.bool_)
        flags[self._changed] = False
        for beginning, tokens in self._joining.items():
            if not is_normalized(FORM, tail + beginning):
                flags[tokens] = False
        return packed(flags)
