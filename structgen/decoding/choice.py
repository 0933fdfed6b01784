"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.masking import FEW, Words, bits_of, count, existing, forbid, ids_of
from structgen.options import Sampling
from structgen.search.penalties import penalised
from structgen.search.sampling import NOTHING, UNDECIDED, Sampler, Scores, pick
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Ask:
    """What one row wants of its logits.

    Attributes:
        words: the allowed tokens, uint32[words]; None allows every token that exists.
        way: the row's sampling options.
        uniform: its next random number in [0, 1); 0 for greedy rows.
        prompt: token ids before the row's own, for the penalty on repetition.
        tokens: the row's own, for all penalties.
    """

    words: Words | None
    way: Sampling
    uniform: float = 0.0
    prompt: Sequence[int] = ()
    tokens: Sequence[int] = ()


class Chooser(Protocol):
    """Applies each row's penalties and mask to its logits and draws its token."""

    def choose(self, logits: Tensor, asks: Sequence[Ask]) -> list[int]:
        """The chosen token of each row, or `NOTHING` where no allowed token has a finite logit.

        Args:
            logits: float[rows, width] of any dtype; columns beyond the vocabulary's are left out already.
            asks: one per row.
        """


def chooser_for(vocabulary: Vocabulary, device: torch.device) -> Chooser:
    """The way for the device that the logits are on."""
    return HostChooser(vocabulary) if device.type == "cpu" else DeviceChooser(vocabulary, device)


class HostChooser:
    """For logits in the host's memory: row by row in numpy, each by its cheapest way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._existing = existing(vocabulary)

    def choose(self, logits: Tensor, asks: Sequence[Ask]) -> list[int]:
        """See `Chooser`."""
        scores = _penalised(logits.float(), asks).numpy()
        return [self._choose(row, ask) for row, ask in zip(scores, asks, strict=True)]

    def _choose(self, scores: Scores, ask: Ask) -> int:
        words, way, uniform = self._existing if ask.words is None else ask.words, ask.way, ask.uniform
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

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._device = device
        self._words = vocabulary.words
        self._existing = existing(vocabulary)
        self._packed = self._buffer(0)
        self._sampler = Sampler([], device)

    def choose(self, logits: Tensor, asks: Sequence[Ask]) -> list[int]:
        """See `Chooser`. One copy from the device, the chosen ids."""
        scores = self._masked(_penalised(logits.float(), asks), [ask.words for ask in asks])
        ways = [ask.way for ask in asks]
        if ways != self._sampler.rows:
            self._sampler = Sampler(ways, self._device)
        tokens: list[int] = self._sampler.draw(scores, [ask.uniform for ask in asks]).tolist()
        for row in (row for row, token in enumerate(tokens) if token == UNDECIDED):
            tokens[row] = pick(scores[row].cpu().numpy(), asks[row].way, asks[row].uniform)
        return tokens

    def _masked(self, scores: Tensor, masks: Sequence[Words | None]) -> Tensor:
        words = [self._existing if mask is None else mask for mask in masks]
        if all(row is None for row in words):
            return scores
        if len(words) > len(self._packed):
            self._packed = self._buffer(len(words))
        packed = self._packed.numpy()
        for row, mask in enumerate(words):
            packed[row] = -1 if mask is None else mask.view(np.int32)
        return forbid(scores, self._packed[: len(words)].to(scores.device, non_blocking=True))

    def _buffer(self, rows: int) -> Tensor:
        return torch.empty((rows, self._words), dtype=torch.int32, pin_memory=self._device.type == "cuda")


def _penalised(scores: Tensor, asks: Sequence[Ask]) -> Tensor:
    """The scores after each row's penalties; the same tensor where there are none."""
    rows = [row for row, ask in enumerate(asks) if ask.way.penalises]
    if not rows:
        return scores
    scores = scores.clone()
    for row in rows:
        penalised(scores[row], asks[row].way, asks[row].prompt, asks[row].tokens)
    return scores
