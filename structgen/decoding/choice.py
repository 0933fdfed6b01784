"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.masking import FEW, Words, bits_of, count, existing, forbid, ids_of
from structgen.options import Sampling
from structgen.search.sampling import NOTHING, UNDECIDED, Sampler, Scores, Uniforms, pick
from structgen.vocabulary import Vocabulary


class Chooser(Protocol):
    """Applies each row's mask to its logits and draws its token."""

    def choose(self, logits: Tensor, masks: Sequence[Words | None]) -> list[int]:
        """The chosen token of each row, or `NOTHING` where no allowed token has a finite logit.

        Args:
            logits: float[rows, width] of any dtype; columns beyond the vocabulary's are left out already.
            masks: uint32[words] of each row; None allows every token that exists.
        """


def chooser_for(rows: Sequence[Sampling], vocabulary: Vocabulary, device: torch.device) -> Chooser:
    """The way for the device that the logits are on."""
    if device.type == "cpu":
        return HostChooser(rows, vocabulary)
    return DeviceChooser(rows, vocabulary, device)


class HostChooser:
    """For logits in the host's memory: row by row in numpy, each by its cheapest way."""

    def __init__(self, rows: Sequence[Sampling], vocabulary: Vocabulary) -> None:
        self._rows = rows
        self._uniforms = Uniforms(rows)
        self._existing = existing(vocabulary)

    def choose(self, logits: Tensor, masks: Sequence[Words | None]) -> list[int]:
        """See `Chooser`."""
        each = zip(logits.float().numpy(), masks, self._rows, self._uniforms.next(), strict=True)
        return [
            self._choose(scores, self._existing if mask is None else mask, way, uniform)
            for scores, mask, way, uniform in each
        ]

    def _choose(self, scores: Scores, words: Words | None, way: Sampling, uniform: float) -> int:
        if words is None:
            return pick(scores, way, uniform)
        if count(words) <= FEW:  # the vocabulary's width is not touched again
            ids = ids_of(words)
            column = pick(scores[ids], way, uniform) if len(ids) else NOTHING
            return int(ids[column]) if column >= 0 else column
        if way.greedy:
            likeliest = pick(scores, way, uniform)
            if likeliest < 0 or words[likeliest >> 5] >> np.uint32(likeliest & 31) & 1:
                return likeliest
        return pick(np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf)), way, uniform)


class DeviceChooser:
    """For logits on an accelerator: all rows at once, packed masks up, chosen ids down."""

    def __init__(self, rows: Sequence[Sampling], vocabulary: Vocabulary, device: torch.device) -> None:
        self._rows = rows
        self._uniforms = Uniforms(rows)
        self._sampler = Sampler(rows, device)
        self._existing = existing(vocabulary)
        shape = (len(rows), vocabulary.words)
        self._packed = torch.empty(shape, dtype=torch.int32, pin_memory=device.type == "cuda")

    def choose(self, logits: Tensor, masks: Sequence[Words | None]) -> list[int]:
        """See `Chooser`. One copy from the device, the chosen ids."""
        scores, uniforms = self._masked(logits.float(), masks), self._uniforms.next()
        tokens: list[int] = self._sampler.draw(scores, uniforms).tolist()
        for row in (row for row, token in enumerate(tokens) if token == UNDECIDED):
            tokens[row] = pick(scores[row].cpu().numpy(), self._rows[row], uniforms[row])
        return tokens

    def _masked(self, scores: Tensor, masks: Sequence[Words | None]) -> Tensor:
        words = [self._existing if mask is None else mask for mask in masks]
        if all(row is None for row in words):
            return scores
        packed = self._packed.numpy()
        for row, mask in enumerate(words):
            packed[row] = -1 if mask is None else mask.view(np.int32)
        return forbid(scores, self._packed.to(scores.device, non_blocking=True))
