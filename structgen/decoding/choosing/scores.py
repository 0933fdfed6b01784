"""What changes scores before a draw: penalties on tokens of the text, and logits processors.

Logits processors, of transformers or of the user, get what `generate` of transformers gives them: the ids of the prompt
and the text, without padding and without taken-back tokens, and scores, `-inf` for forbidden tokens. They can forbid
more tokens, and make tokens more or less likely. What the mask forbids stays forbidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
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


class Penalties(NamedTuple):
    """An entry for each penalised score: it is divided by a factor if positive, else multiplied, and then lowered."""

    rows: NDArray[np.int64]  # int64[entries]; a row has no token twice
    tokens: NDArray[np.int64]  # int64[entries]
    factors: NDArray[np.float32]  # float32[entries], for repetition; 1 changes nothing
    amounts: NDArray[np.float32]  # float32[entries], for frequency and presence together; 0 changes nothing


def penalties(
    rows: Sequence[Sampling], counted: Sequence[tuple[Sequence[int], Sequence[int]]], width: int
) -> Penalties:
    """The penalties of each row after its prompt and text.

    The repetition penalty applies once to each token of the prompt or the text, as in transformers. The frequency
    penalty counts each time that a token is in the text, the presence penalty only the first, as in OpenAI's API.

    Args:
        counted: of each row, the token ids before its own and its own; ids from `width` on have no score.
    """
    entries: list[tuple[int, int, float, float]] = []
    for row, (sampling, (prompt, text)) in enumerate(zip(rows, counted, strict=True)):
        if not sampling.penalises:
            continue
        times = Counter(text)
        penalised = {*prompt, *times} if sampling.repetition_penalty != 1 else times.keys()
        for token in sorted(token for token in penalised if token < width):
            amount = sampling.presence_penalty + sampling.frequency_penalty * times[token] if token in times else 0.0
            entries.append((row, token, sampling.repetition_penalty, amount))
    numbers, tokens, factors, amounts = zip(*entries, strict=True) if entries else ((), (), (), ())
    where = np.array(numbers, np.int64), np.array(tokens, np.int64)
    return Penalties(*where, np.array(factors, np.float32), np.array(amounts, np.float32))


def penalise(scores: Tensor, rows: Tensor, tokens: Tensor, factors: Tensor, amounts: Tensor) -> None:
    """Applies `Penalties` to the scores, float32[rows, width], in place, on one device and without waiting for it."""
    old = scores[rows, tokens]
    scores[rows, tokens] = torch.where(old > 0, old / factors, old * factors) - amounts
