"""Logits processors of transformers, and of anyone who writes such, among a row's sampling options.

They see what `generate` of transformers shows them: the ids of the prompt and the text, without padding and without
what was taken back, and scores that are `-inf` where the mask forbids. They can forbid more, and they can make a token
more or less likely; what the mask forbids stays forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    MinPLogitsWarper,
    TopHLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from structgen.callbacks import Calling
from structgen.decoding.choosing.sampling import divisor
from structgen.errors import CallbackError, quoted
from structgen.models.transfer import upload_one
from structgen.options import Sampling

WARPERS = (
    TopHLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    MinPLogitsWarper,
    TypicalLogitsWarper,
    EpsilonLogitsWarper,
    EtaLogitsWarper,
)
"""Filters of what a draw may find, by its probability: they see the scores divided by the temperature, and greedy
decoding needs none of them."""


def processed(scores: Tensor, sampling: Sampling, prompt: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """The scores after the row's processors: a new float32[width].

    First those that change scores, in the order given; then the warpers, which only forbid.

    Args:
        scores: float32[width], `-inf` where the mask forbids.
        prompt: token ids before the row's own.

    Raises:
        CallbackError: a processor raised, or gave something else than scores.
    """
    ids = upload_one([[*prompt, *tokens]], scores.device)
    changed = scores.clone()
    for processor in (p for p in sampling.processors if not isinstance(p, WARPERS)):
        changed = _applied(processor, ids, changed)
    forbidden = scores.isneginf()
    if not sampling.greedy:
        warped = changed.masked_fill(forbidden, -torch.inf) / divisor(sampling)
        for processor in (p for p in sampling.processors if isinstance(p, WARPERS)):
            warped = _applied(processor, ids, warped)
        forbidden = forbidden | warped.isneginf()
    return changed.masked_fill(forbidden, -torch.inf)


def _applied(processor: Any, ids: Tensor, scores: Tensor) -> Tensor:
    with (calling := Calling("logits processor", processor)):
        result = processor(ids, scores.unsqueeze(0))
    if not isinstance(result, Tensor) or result.shape != (1, len(scores)):
        shape = getattr(result, "shape", type(result).__name__)
        raise CallbackError(f"{calling.whose} gave {quoted(shape)}, expected scores of shape {(1, len(scores))}")
    return result[0].to(scores.dtype)
