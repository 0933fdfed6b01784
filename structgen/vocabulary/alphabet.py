"""The alphabet of byte-level BPE: every byte written as one visible character (GPT-2's table)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = sorted(set(range(256)) - set(_VISIBLE))
CODE_POINTS: dict[int, int] = {b: b for b in _VISIBLE} | {0x100 + k: b for k, b in enumerate(_HIDDEN)}
"""Code point -> byte. A visible Latin-1 character stands for itself, the other bytes for U+0100 on."""


def _lookup() -> NDArray[np.int16]:
    table = np.full(max(CODE_POINTS) + 2, -1, np.int16)
    table[list(CODE_POINTS)] = list(CODE_POINTS.values())
    return table


_BYTE_OF = _lookup()


def byte_level(pieces: Sequence[str]) -> list[bytes]:
    """The bytes of each piece; one with a character outside the alphabet stands for itself in UTF-8.

    That exception is what the ByteLevel decoder does with added tokens such as `<|im end|>`.
    """
    codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
    values = _BYTE_OF[np.minimum(codes, len(_BYTE_OF) - 1)]
    data = values.astype(np.uint8).tobytes()
    ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
    starts = [0, *ends.tolist()]
    tokens = [data[a:b] for a, b in pairwise(starts)]
    for k in np.unique(np.searchsorted(ends, np.flatnonzero(values < 0), side="right")).tolist():
        tokens[k] = pieces[k].encode()
    return tokens
