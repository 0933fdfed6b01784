"""Logits processors, of transformers or of the user, among a row's sampling options.

They get what `generate` of transformers gives them: the ids of the prompt and the text, without padding and without
taken-back tokens, and scores, `-inf` for forbidden tokens. They can forbid more tokens, and make tokens more or less
likely. What the mask forbids stays forbidden.
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
"""Filters of tokens by probability: they get the scores divided by the temperature. Greedy decoding skips them."""


def processed(scores: Tensor, sampling: Sampling, prompt: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """The scores after the row's processors: a new float32[width].

    Processors that change scores come first, in the given order; then the warpers, which only forbid.

    Args:
        scores: float32[width], `-inf` where the mask forbids.
        prompt: token ids before the row's own.

    Raises:
        CallbackError: a processor raised, or did not return scores.
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
