"""The likeliest next tokens of each row of a beam search, and the measures of those that are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.policy import ScoredToken
from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.masking import Words, forbid
from structgen.decoding.choosing.measure import Entry, Ledger
from structgen.models.transfer import Download, upload, upload_one
from structgen.options import Sampling

UNSAMPLED = Sampling()


class StepLogits:
    """The logits of one step.

    A token's score is its log-probability among all tokens: a mask says which tokens are candidates, and changes no
    score.

    Args:
        logits: float[rows, width], of which columns beyond the vocabulary's are left out already.
        everything: the mask of all tokens that exist.
        ledger: where the tokens that are tried are measured; None where they are not.
    """

    def __init__(self, logits: Tensor, everything: Words, ledger: Ledger | None) -> None:
        self._logits, self._everything, self._ledger = logits.float(), everything, ledger
        self._broken: set[int] = set()
        self._tried: list[tuple[int, Words | None, int]] = []

    def likeliest(self, first: int, masks: Sequence[Words | None], limit: int) -> list[list[ScoredToken]]:
        """The likeliest allowed tokens of some rows, best first; one copy from the device.

        Args:
            first: the number of the first row.
            masks: of this row and those behind it; None allows every token.
            limit: tokens of a row.
        """
        scores = self._logits[first : first + len(masks)]
        width = min(limit, scores.shape[1])
        top = forbid(scores, self._on_device(masks)).topk(width)
        total = scores.logsumexp(dim=-1, keepdim=True)
        rows = Download(torch.cat([total, top.values, top.indices.float()], dim=1)).numbers()
        self._broken |= {first + i for i, row in enumerate(rows) if math.isnan(row[0]) or row[0] == math.inf}
        return [_ranked(row[0], row[1 : 1 + width], row[1 + width :]) for row in rows]

    def require_numbers(self, row: int, text: Hypothesis) -> None:
        """Raises the error of a text behind which the probabilities of a row are not numbers.

        Raises:
            LogitsError: see above.
        """
        if row in self._broken:
            error = text.logits_error(self._logits[row], None)
            assert error is not None, "the sum of finite logits is finite"
            raise error

    def entry(self, row: int, words: Words | None, token: int) -> Entry:
        """Where a token that is tried behind a row will be measured, if it is."""
        self._tried.append((row, words, token))
        return 0 if self._ledger is None else self._ledger.steps, len(self._tried) - 1

    def measure(self) -> None:
        """Measures all tokens that were tried."""
        if self._ledger is None or not self._tried:
            return
        rows, masks, tokens = zip(*self._tried, strict=True)
        logits = self._logits.index_select(0, upload_one(list(rows), self._logits.device))
        asks = [Ask(words, UNSAMPLED) for words in masks]
        self._ledger.add(logits, asks, tokens, None if logits.device.type == "cpu" else self._on_device(masks))

    def _on_device(self, masks: Sequence[Words | None]) -> Tensor:
        """Packed: int32[masks, words]."""
        packed = np.array([self._everything if words is None else words for words in masks])
        return upload([packed.view(np.int32)], self._logits.device)[0]


def _ranked(total: float, scores: Sequence[float], tokens: Sequence[float]) -> list[ScoredToken]:
    """The possible tokens; of equal scores the lowest token first, as in greedy decoding."""
    ranked = sorted((-score, int(token)) for score, token in zip(scores, tokens, strict=True) if abs(score) < np.inf)
    return [(token, -negative - total) for negative, token in ranked]
