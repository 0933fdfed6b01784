"""The random numbers of one row.

Each belongs to a text: it is the n-th draw behind the text. So it does not depend on other draws or on the text's
tokens: tokens that are added without a draw do not shift the others.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

from structgen.options import digest

TAIL = 64
"""A text is identified by its length and so many bytes at its end. Two texts that agree in these share their draws."""

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


class Draws:
    """SplitMix64 (Steele, Lea and Flood, 2014), indexed by number instead of by state."""

    def __init__(self, seed: int) -> None:
        self._key = int.from_bytes(digest(seed, 0), "little")
        self._drawn: Counter[int] = Counter()

    def behind(self, text: bytes | bytearray) -> float:
        """The next draw behind a text, in [0, 1): one of 2**53 numbers."""
        return self._next(len(text) << 32 | crc32(text[-TAIL:]))

    def anywhere(self) -> float:
        """The next draw that belongs to no text."""
        return self._next(-1)

    def _next(self, place: int) -> float:
        self._drawn[place] += 1
        return (_mixed(_mixed(self._key + place) + self._drawn[place] * _STEP) >> 11) * 2.0**-53


def _mixed(number: int) -> int:
    """A hash of 64 bits, each of which depends on the low 64 bits of the number."""
    number &= _WORD
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _WORD
    return number ^ number >> 31
