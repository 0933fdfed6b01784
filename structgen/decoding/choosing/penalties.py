"""Penalties on tokens of the text: for repetition, frequency and presence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.options import Sampling


class Penalties(NamedTuple):
    """An entry for each penalised score: it is divided by a factor if positive, else multiplied, and then lowered."""

    rows: NDArray[np.int64]  # int64[entries]; a row has no token twice
    tokens: NDArray[np.int64]  # int64[entries]
    factors: NDArray[np.float32]  # float32[entries], for repetition; 1 changes nothing
    amounts: NDArray[np.float32]  # float32[entries], for frequency and presence together; 0 changes nothing


def penalties(
    rows: Sequence[Sampling], prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]], width: int
) -> Penalties:
    """The penalties of each row behind its prompt and text.

    The repetition penalty applies once to each token of the prompt or the text, as in transformers. The frequency
    penalty counts each time that a token stands in the text, the presence penalty only the first, as in OpenAI's API.

    Args:
        prompts: token ids before each row's own; ids from `width` on have no score.
    """
    entries: list[tuple[int, int, float, float]] = []
    for row, (sampling, prompt, text) in enumerate(zip(rows, prompts, texts, strict=True)):
        if not sampling.penalises:
            continue
        times = Counter(text)
        said = {*prompt, *times} if sampling.repetition_penalty != 1 else times.keys()
        for token in sorted(token for token in said if token < width):
            amount = sampling.presence_penalty + sampling.frequency_penalty * times[token] if token in times else 0.0
            entries.append((row, token, sampling.repetition_penalty, amount))
    numbers, tokens, factors, amounts = zip(*entries, strict=True) if entries else ((), (), (), ())
    where = np.array(numbers, np.int64), np.array(tokens, np.int64)
    return Penalties(*where, np.array(factors, np.float32), np.array(amounts, np.float32))


def penalise(scores: Tensor, rows: Tensor, tokens: Tensor, factors: Tensor, amounts: Tensor) -> None:
    """Applies `Penalties` to the scores, float32[rows, width], in place, on one device and without waiting for it."""
    old = scores[rows, tokens]
    scores[rows, tokens] = torch.where(old > 0, old / factors, old * factors) - amounts
