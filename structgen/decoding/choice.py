"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.masking import FEW, Words, count, existing, forbid, ids_of
from structgen.options import Sampling
from structgen.search.sampling import NOTHING, UNDECIDED, Sampler
from structgen.vocabulary import Vocabulary


class Chooser:
    """Applies each row's mask and draws each row's token.

    On a CPU rows are taken one by one, each by its cheapest way; on other devices all at once, with one copy
    from the device per step: the chosen ids.

    Args:
        rows: the sampling options of each row.
        vocabulary: gives the width; logits beyond it are padding and never chosen.
        device: where the logits are.
        record: keep the log-probabilities that the model gave to what was chosen, before masks and sampling.
    """

    def __init__(
        self, rows: Sequence[Sampling], vocabulary: Vocabulary, device: torch.device, *, record: bool = False
    ) -> None:
        self._sampler = Sampler(rows, device)
        self._width = vocabulary.width
        self._on_host = device.type == "cpu"
        self._existing = existing(vocabulary)
        self._rows = torch.arange(len(rows), device=device)
        self._packed = torch.empty(
            (len(rows), vocabulary.words), dtype=torch.int32, pin_memory=device.type == "cuda"
        )
        self._record = record
        self._logprobs: list[Tensor] = []

    def choose(self, logits: Tensor, masks: Sequence[Words | None]) -> list[int]:
        """The chosen token of each row, or `NOTHING` where no allowed token has a finite logit.

        Args:
            logits: float[rows, >= width].
            masks: uint32[words] of each row; None allows every token that exists.
        """
        scores = logits[:, : self._width].float()
        masks = [self._existing if mask is None else mask for mask in masks]
        uniforms = self._sampler.uniforms()
        if self._on_host:
            tokens = [
                self._choose_row(row, scores[row : row + 1], mask, uniforms) for row, mask in enumerate(masks)
            ]
        else:
            tokens = self._choose_all(scores, masks, uniforms)
        if self._record:
            picked = torch.tensor(tokens, device=scores.device).clamp_(min=0).unsqueeze(1)
            self._logprobs.append(scores.gather(1, picked).squeeze(1) - scores.logsumexp(dim=-1))
        return tokens

    def logprobs(self) -> list[list[float]]:
        """Of each row, the log-probability of every token chosen; empty unless recorded. One copy for all."""
        if not self._logprobs:
            return [[] for _ in range(len(self._packed))]
        by_row: list[list[float]] = torch.stack(self._logprobs, dim=1).tolist()
        return by_row

    def _choose_row(self, row: int, scores: Tensor, words: Words | None, uniforms: Tensor | None) -> int:
        if words is None:
            return self._draw(scores, row, uniforms)
        if count(words) <= FEW:
            ids = torch.from_numpy(ids_of(words))
            column = self._draw(scores[:, ids], row, uniforms) if len(ids) else NOTHING
            return int(ids[column]) if column >= 0 else column
        if self._sampler.greedy[row]:
            token = self._draw(scores, row, None)
            if token < 0 or words[token >> 5] >> (token & 31) & 1:
                return token
        return self._draw(forbid(scores, torch.from_numpy(words.view(np.int32)).unsqueeze(0)), row, uniforms)

    def _choose_all(
        self, scores: Tensor, masks: Sequence[Words | None], uniforms: Tensor | None
    ) -> list[int]:
        if any(mask is not None for mask in masks):
            packed = self._packed.numpy()
            for row, mask in enumerate(masks):
                packed[row] = -1 if mask is None else mask.view(np.int32)
            scores = forbid(scores, self._packed.to(scores.device, non_blocking=True))
        tokens: list[int] = self._sampler.draw(scores, self._rows, uniforms).tolist()  # the one copy
        return [
            self._draw(scores[row : row + 1], row, uniforms) if token == UNDECIDED else token
            for row, token in enumerate(tokens)
        ]

    def _draw(self, scores: Tensor, row: int, uniforms: Tensor | None) -> int:
        """One row's column; among all columns where the likeliest do not decide."""
        own = None if self._sampler.greedy[row] else uniforms
        rows = self._rows[row : row + 1]
        column = int(self._sampler.draw(scores, rows, own))
        if column == UNDECIDED:
            column = int(self._sampler.draw(scores, rows, own, keep=scores.shape[1]))
        return column
