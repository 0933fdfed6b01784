"""Measures of each choice: how likely the token was, what the mask took away, what else was likely."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.masking import FEW, count, forbid
from structgen.decoding.choosing.sampling import Columns, Scores
from structgen.masks.words import Words, bits_of, ids_of
from structgen.models.transfer import upload_one

Entry = tuple[int, int]
"""Where a token's measures stand in the ledger: step and row."""
RECENT = 4
"""How many choices keep their logits where a guard or a validator may want one of them made again."""
ALTERNATIVES = 8
"""How many of the likeliest allowed tokens are kept for each choice."""
LEAST_REFUSED = 1e-3
"""The probability from which a refused token is told of: where a mask takes less away, nobody looks for one."""


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """One token that the model chose, before sampling options and penalties.

    Attributes:
        logprob: natural logarithm of the token's probability before the mask.
        chance: the token's probability among the allowed ones.
        removed: the probability that the mask took away, 0 to 1.
        entropy: of the allowed tokens' distribution, in nats; not a number where there was no mask.
        alternatives: the likeliest allowed tokens with their probability among the allowed, likeliest first.
        refused: for a trace, the tokens among the likeliest of all that the mask forbids, with their probability before
            the mask, likeliest first.
        allowed: for a trace, how many tokens the mask allows; None where there was none, or nobody counted.
    """

    logprob: float
    chance: float
    removed: float
    entropy: float
    alternatives: tuple[tuple[int, float], ...]
    refused: tuple[tuple[int, float], ...] = ()
    allowed: int | None = None


class Ledger:
    """Measures the choices of a run, step by step. On a device they stay there until the run is over.

    Args:
        traced: measure what only a trace tells of, too: refused tokens, counts and times.

    Attributes:
        steps: steps that were measured, which is the next one's number.
        drafted: of a traced run, where tokens are measured that were read along as drafts.
    """

    def __init__(self, *, traced: bool = False) -> None:
        self.steps = 0
        self.traced, self.drafted = traced, set[Entry]()
        self._times = [time.perf_counter()] if traced else []  # when it began, and when each step was chosen
        self._steps: dict[int, list[ChosenToken | None] | _OnDevice] = {}

    def add(self, logits: Tensor, asks: Sequence[Ask], tokens: Sequence[int], masks: Tensor | None = None) -> int:
        """Measures one step; a negative token was no choice. The step's number.

        Args:
            logits: float[rows, width].
            masks: of logits on a device, the rows' masks there: int32[rows, words].
        """
        step, traced = self.steps, self.traced
        if traced:
            self._times.append(time.perf_counter())
        if masks is None:
            each = zip(logits.float().numpy(), asks, tokens, strict=True)
            self._steps[step] = [
                None if token < 0 else measured(scores, ask.words, token, traced=traced) for scores, ask, token in each
            ]
        else:
            chosen = upload_one(list(tokens), logits.device)
            numbers = measured_together(logits.float(), masks, chosen, traced=traced)
            counts = [count(ask.words) if traced and ask.words is not None else None for ask in asks]
            self._steps[step] = _OnDevice(numbers, [ask.words is not None for ask in asks], counts)
        self.steps = step + 1
        return step

    def forget(self, before: int) -> None:
        """Lets go of the steps before this one."""
        for step in [step for step in self._steps if step < before]:
            del self._steps[step]

    def choice(self, step: int, row: int) -> ChosenToken | None:
        """What was measured; None where nothing was chosen."""
        choices = self._steps[step]
        if isinstance(choices, _OnDevice):
            each = zip(choices.numbers.tolist(), choices.masked, choices.counts, strict=True)
            choices = self._steps[step] = [
                _choice(numbers, allowed, masked=masked, traced=self.traced) for numbers, masked, allowed in each
            ]
        return choices[row]

    def seconds(self, step: int) -> float | None:
        """From the choice before to this one, for all rows together; None where that was not measured."""
        return self._times[step + 1] - self._times[step] if 0 <= step < len(self._times) - 1 else None


class _OnDevice(NamedTuple):
    """A step's measures that nobody has asked for yet."""

    numbers: Tensor  # the result of `measured_together`
    masked: list[bool]  # whether each row had a mask
    counts: list[int | None]  # how many tokens it allowed


def measured(scores: Scores, words: Words | None, token: int, *, traced: bool = False) -> ChosenToken:
    """One row's choice, from its float32[width] logits."""
    best = scores.max()
    weights = np.exp(scores - best)
    total = float(weights.sum(dtype=np.float64))
    logprob = float(scores[token] - best) - math.log(total)
    if words is None:
        likely = tuple((int(i), float(weights[i]) / total) for i in _highest(weights) if weights[i] > 0)
        return ChosenToken(logprob, math.exp(logprob), 0.0, math.nan, likely)
    allowed = count(words)
    few = allowed <= FEW
    ids = ids_of(words) if few else None
    kept = weights[ids] if few else weights * bits_of(words, len(weights))
    mass = float(kept.sum(dtype=np.float64))
    if mass == 0:  # what is allowed is beyond float32: nothing can be said of it but that
        return ChosenToken(logprob, 1.0, 1.0, 0.0, ((token, 1.0),))
    top = np.argsort(-kept, kind="stable")[:ALTERNATIVES] if ids is not None else _highest(kept)
    named = top if ids is None else ids[top]
    chances = kept / np.float32(mass)
    entropy = -float(np.dot(chances, np.log(np.maximum(chances, np.finfo(np.float32).tiny))))
    likely = tuple((int(i), float(chances[c])) for i, c in zip(named, top, strict=True) if kept[c] > 0)
    removed = max(0.0, 1 - mass / total)
    choice = ChosenToken(logprob, float(weights[token]) / mass, removed, max(0.0, entropy), likely)
    return replace(choice, allowed=allowed, refused=_refused(weights, total, removed, words)) if traced else choice


def _refused(weights: Scores, total: float, removed: float, words: Words) -> tuple[tuple[int, float], ...]:
    """The likeliest tokens of all that the mask forbids."""
    if removed < LEAST_REFUSED:
        return ()
    top = [(int(i), float(weights[i]) / total) for i in _highest(weights)]
    return tuple((i, p) for i, p in top if p >= LEAST_REFUSED and not words[i >> 5] >> (i & 31) & 1)


def _highest(kept: Scores) -> Columns:
    """The columns of the highest weights, highest first, by few passes: blocks by their maximum, then these."""
    if len(kept) <= 64 * ALTERNATIVES:
        return np.argsort(-kept, kind="stable")[:ALTERNATIVES]
    block = 64
    whole = len(kept) // block * block
    peaks = kept[:whole].reshape(-1, block).max(axis=1)
    blocks = np.argpartition(peaks, -ALTERNATIVES)[-ALTERNATIVES:]
    columns = np.concatenate([(blocks[:, None] * block + np.arange(block)).ravel(), np.arange(whole, len(kept))])
    ranked: Columns = columns[np.argsort(-kept[columns], kind="stable")[:ALTERNATIVES]]
    return ranked


def measured_together(scores: Tensor, masks: Tensor, chosen: Tensor, *, traced: bool = False) -> Tensor:
    """All rows' choices, without waiting for the device.

    Args:
        scores: float32[rows, width].
        masks: int32[rows, words], the tokens that were allowed.
        chosen: int64[rows], the tokens that were chosen; negative where none was.

    Returns:
        float32[rows, 4 + 2 * ALTERNATIVES]: log-probability (not a number where nothing was chosen), chance, removed,
        entropy, ids, probabilities; traced, behind them, ids and probabilities of the likeliest refused tokens.
    """
    chosen = chosen.unsqueeze(1)
    total = scores.logsumexp(dim=-1, keepdim=True)
    masked = forbid(scores, masks)
    mass = masked.logsumexp(dim=-1, keepdim=True)
    logs = masked - mass
    chances = logs.exp()
    entropy = -(chances * logs.clamp(min=-100)).sum(dim=-1, keepdim=True)
    top = chances.topk(min(ALTERNATIVES, scores.shape[1]), dim=-1)
    logprob = scores.gather(1, chosen.clamp(min=0)) - total
    logprob = logprob.masked_fill(chosen < 0, torch.nan)
    removed = (1 - (mass - total).exp()).clamp(min=0)
    chance = chances.gather(1, chosen.clamp(min=0))
    numbers = [logprob, chance, removed, entropy, top.indices, top.values]
    if traced:
        refused = (scores.masked_fill(masked > -torch.inf, -torch.inf) - total).exp().topk(top.values.shape[1], dim=-1)
        numbers += [refused.indices, refused.values]
    return torch.cat(numbers, dim=1)


def _choice(numbers: Sequence[float], allowed: int | None, *, masked: bool, traced: bool) -> ChosenToken | None:
    logprob, chance, removed, entropy, *rest = numbers
    if logprob != logprob:
        return None
    kept = len(rest) // (4 if traced else 2)
    ids, chances, refused_ids, refused_chances = (rest[i * kept : (i + 1) * kept] for i in range(4))
    likely = tuple((int(i), p) for i, p in zip(ids, chances, strict=True) if p > 0)
    if not masked:
        return ChosenToken(logprob, math.exp(logprob), 0.0, math.nan, likely)
    refused = tuple((int(i), p) for i, p in zip(refused_ids, refused_chances, strict=True) if p >= LEAST_REFUSED)
    return ChosenToken(logprob, chance, removed, max(0.0, entropy), likely, refused, allowed)


class KnownLogits(NamedTuple):
    """The logits of a choice."""

    length: int  # tokens before it
    logits: Tensor  # float[rows, width]
    row: int  # its row of the logits
    words: Words | None  # the tokens that were allowed; None for every one


class RecentLogits:
    """The last choices of one row, each behind more tokens than the one before it."""

    def __init__(self, count: int) -> None:
        self._known: deque[KnownLogits] = deque(maxlen=count)

    def add(self, known: KnownLogits) -> None:
        """Adds a choice, in place of what was chosen there before."""
        self.truncate(known.length - 1)
        self._known.append(known)

    def scores(self, length: int) -> Tensor | None:
        """The logits behind `length` tokens: float[width]; None where the last choice was another one."""
        last = self._known[-1] if self._known else None
        return None if last is None or last.length != length else last.logits[last.row]

    def measured(self, length: int, token: int) -> ChosenToken | None:
        """What a token had behind `length` others; None where that is not known any more."""
        for known in self._known:
            if known.length == length:
                return measured(known.logits[known.row].float().cpu().numpy(), known.words, token)
        return None

    def truncate(self, length: int) -> None:
        """The row goes back to its first `length` tokens."""
        while self._known and self._known[-1].length > length:
            self._known.pop()

    def clear(self) -> None:
        """No choice will be made again."""
        self._known.clear()
