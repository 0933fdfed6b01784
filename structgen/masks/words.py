"""Packed masks: their words, and the tokens that they allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError, quoted
from structgen.vocabulary.packed import Words as Words, packed

_DTYPES = np.dtype(np.uint32), np.dtype(np.int32)


def pack(ids: NDArray[np.int64], width: int) -> Words:
    """The mask, uint32[ceil(width / 32)], that allows exactly `ids`."""
    bits = np.zeros((width + 31) // 32 * 32, np.bool_)
    bits[ids] = True
    return packed(bits)


def ids_of(words: Words) -> NDArray[np.int64]:
    """The allowed ids in ascending order. This is fast if few words are not zero."""
    filled = np.flatnonzero(words)
    bits = np.flatnonzero(np.unpackbits(words[filled].view(np.uint8), bitorder="little"))
    ids: NDArray[np.int64] = filled[bits >> 5] * 32 + (bits & 31)
    return ids


def allowed_among(words: Words, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[len(ids)]: is the token allowed?"""
    allowed: NDArray[np.bool_] = (words[ids >> 5] >> (ids & 31).astype(np.uint32) & 1).astype(np.bool_)
    return allowed


def bits_of(words: Words, width: int) -> NDArray[np.bool_]:
    """The mask unpacked: bool[width]."""
    return np.unpackbits(words.view(np.uint8), count=width, bitorder="little").view(np.bool_)


def written(row: Words, out: Words) -> Words:
    """Copies a mask into `out`, and returns `out`.

    Raises:
        OptionError: `out` is not an array of as many words.
    """
    if getattr(out, "shape", None) != row.shape or (isinstance(out, np.ndarray) and out.dtype not in _DTYPES):
        allowed = f"uint32[{len(row)}]: one bit for each row of the logits"
        raise OptionError(f"out={quoted(out)}: expected {allowed}")
    out[:] = row
    return out


def only_token(mask: Words) -> int | None:
    """The one token that a mask allows; None if it allows none or several."""
    words = np.flatnonzero(mask)
    if len(words) != 1:
        return None
    bits = int(mask[words[0]])
    return int(words[0]) * 32 + bits.bit_length() - 1 if bits & (bits - 1) == 0 else None
