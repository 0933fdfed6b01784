"""Packed masks: a bit for each token, in words of 32 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
"""A mask: bit `i % 32` of word `i // 32` tells whether token `i` is allowed."""


def packed(allowed: NDArray[np.bool_]) -> Words:
    """Packs bool[width] to the mask uint32[ceil(width / 32)]."""
    words = np.zeros((len(allowed) + 31) // 32, np.uint32)
    octets = np.packbits(allowed, bitorder="little")
    words.view(np.uint8)[: len(octets)] = octets
    return words
