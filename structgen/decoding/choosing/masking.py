"""Masks as `uint32` words, and how they become `-inf` in the scores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from structgen.masks.words import Words, pack
from structgen.vocabulary import Vocabulary

FEW = 256
"""A mask of at most so many tokens is turned into a list of candidates: nothing of the vocabulary's width is read."""


def existing(vocabulary: Vocabulary) -> Words:
    """The mask of every id that is a token, special ones included."""
    is_token = np.diff(vocabulary.offsets) > 0
    is_token[list(vocabulary.special_ids)] = True
    return pack(np.flatnonzero(is_token), vocabulary.width)


def count(words: Words) -> int:
    """The number of tokens that a mask allows."""
    return int(np.bitwise_count(words.view(np.uint64) if len(words) % 2 == 0 else words).sum())


def forbid(scores: Tensor, words: Tensor) -> Tensor:
    """The scores, with `-inf` where the mask's bit is not set.

    Args:
        scores: float[rows, width].
        words: masks on the same device, int32[rows, ceil(width / 32)].
    """
    if words.device.type == "cpu":
        bits = np.unpackbits(words.contiguous().numpy().view(np.uint8), axis=1, bitorder="little")
        return scores.masked_fill(torch.from_numpy(bits)[:, : scores.shape[1]] == 0, -torch.inf)
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    allowed = (words.unsqueeze(-1) >> shifts) & 1  # [rows, words, 32]
    return scores.masked_fill(allowed.flatten(1)[:, : scores.shape[1]] == 0, -torch.inf)
