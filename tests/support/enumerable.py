"""Models of few tokens and short texts: every text that they can say is counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

from structgen.models.model import Model
from structgen.testing import ByteTokenizer, ScriptedModel
from structgen.vocabulary import Vocabulary


class Enumerable(ScriptedModel):
    """Logits by the last tokens of the text, drawn anew for each model.

    Args:
        seed: of the logits.
        tokens: of the vocabulary; the end token comes behind them.
        memory: tokens that the logits depend on.
        bias: added to the logits: float[tokens + 1].
        scale: standard deviation of the logits.
    """

    def __init__(
        self, seed: int, tokens: Sequence[bytes], *, memory: int = 16, bias: Sequence[float] = (), scale: float = 1.0
    ) -> None:
        super().__init__("", Vocabulary.from_tokens([*tokens, None], end_ids=[len(tokens)]))
        self.seed, self.memory, self.end, self.scale = seed, memory, len(tokens), scale
        self.bias = np.array([*bias, *[0.0] * (self.end + 1 - len(bias))])
        self.logits = cache(self._drawn)

    def _drawn(self, said: tuple[int, ...]) -> np.ndarray:
        noise = np.random.default_rng([self.seed, *(token + 1 for token in said)]).normal(size=self.end + 1)
        return (self.bias + self.scale * noise).astype(np.float32)

    def _scores(self, row: int, said: Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(self.logits(tuple(said[-self.memory :])).copy())

    def model(self) -> Model:
        """For `generate`; its prompts are lists of ids."""
        return Model(self, ByteTokenizer(), self.vocabulary)

    def law(self, said: tuple[int, ...], temperature: float = 1.0) -> np.ndarray:
        """The probability of each next token."""
        logits = self.logits(said[-self.memory :]).astype(np.float64) / temperature
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    def texts(
        self, length: int, valid: Callable[[str], bool], *, complete: bool, begun: str = ".*"
    ) -> dict[tuple[int, ...], float]:
        """Every valid text with its probability, the end token among its tokens where it has one.

        Args:
            length: tokens at most; where a text has as many, it is over.
            valid: of the whole text.
            complete: texts that are over because of the length count, too, if they are valid.
            begun: a pattern of what valid texts may begin with; others are not followed.
        """
        found, waiting = dict[tuple[int, ...], float](), [((), 1.0)]
        while waiting:
            said, chance = waiting.pop()
            over = bool(said) and said[-1] == self.end
            if over or len(said) == length:
                text = self.vocabulary.decode(said).decode(errors="replace")
                if valid(text) and (over or complete):
                    found[said] = chance
                continue
            if not re.fullmatch(begun, self.vocabulary.decode(said).decode(errors="replace")):
                continue
            each = self.law(said)
            waiting += [((*said, token), chance * each[token]) for token in range(self.end + 1)]
        return found


def chi_square(drawn: Sequence[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """How many standard deviations Pearson's statistic is above what draws of the law have; rare texts are pooled."""
    assert set(drawn) <= law.keys(), set(drawn) - law.keys()
    total, counts = sum(law.values()), Counter(drawn)
    expected = {text: len(drawn) * chance / total for text, chance in law.items()}
    often = [text for text, count in expected.items() if count >= 5]
    cells = [(counts[text], expected[text]) for text in often]
    rest = len(drawn) - sum(count for count, _ in cells), len(drawn) - sum(mean for _, mean in cells)
    cells += [rest] if rest[1] >= 5 else []
    freedom = len(cells) - 1
    return (sum((count - mean) ** 2 / mean for count, mean in cells) - freedom) / (2 * freedom) ** 0.5
