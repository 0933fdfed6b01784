"""Penalties on tokens that were said already: of repetition, frequency and presence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from structgen.options import Sampling


def penalised(scores: Tensor, way: Sampling, prompt: Sequence[int], tokens: Sequence[int]) -> None:
    """Lowers the scores, float32[width], of what was said; in place.

    The penalty on repetition divides a positive score and multiplies a negative one, once per token of the prompt or
    the text, as transformers does. Those on frequency and presence are subtracted, for every time and for the first
    time that a token stands in the text, as the OpenAI interface does.
    """
    if way.repetition_penalty != 1:
        said = torch.tensor(sorted({*prompt, *tokens}), device=scores.device)
        said = said[said < len(scores)]  # a prompt may hold ids that have no logits
        old = scores[said]
        scores[said] = torch.where(old > 0, old / way.repetition_penalty, old * way.repetition_penalty)
    if tokens and (way.frequency_penalty or way.presence_penalty):
        times = Counter(tokens)
        amounts = [way.presence_penalty + way.frequency_penalty * count for count in times.values()]
        scores[torch.tensor(list(times), device=scores.device)] -= torch.tensor(amounts, device=scores.device)
