"""Measures of each choice: the token's probability, what the mask took away, and what else was likely."""

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
"""A token's place in the ledger: step and row."""
RECENT = 4
"""The number of choices whose logits are kept, so that a guard or a validator can have one made again."""
ALTERNATIVES = 8
"""The number of most likely allowed tokens that are kept for each choice."""
LEAST_REFUSED = 1e-3
"""The least probability of a refused token that is kept. No token is searched if the mask takes less away."""


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """The measures of one choice, before sampling options and penalties.

    Attributes:
        logprob: natural logarithm of the token's probability before the mask.
        chance: the token's probability among the allowed ones.
        removed: the probability that the mask took away, 0 to 1.
        entropy: of the allowed tokens' distribution, in nats; NaN without a mask.
        alternatives: the most likely allowed tokens with their probability among the allowed, most likely first.
        others: the allowed tokens next to these, likewise, where there are few and the run is on the host; else empty.
        refused: for a trace, the forbidden ones among the most likely of all tokens, with their probability before the
            mask, most likely first.
        allowed: for a trace, the number of tokens that the mask allows; None without a mask.
    """

    logprob: float
    chance: float
    removed: float
    entropy: float
    alternatives: tuple[tuple[int, float], ...]
    refused: tuple[tuple[int, float], ...] = ()
    allowed: int | None = None
    others: tuple[tuple[int, float], ...] = ()


class Ledger:
    """The measures of a run's choices, step by step. On a device they stay there until they are read.

    Args:
        traced: also measure what only a trace needs: refused tokens, counts and times. It may change between steps.

    Attributes:
        steps: the number of steps measured.
        drafted: of a traced run, the entries of tokens that were read along as drafts.
    """

    def __init__(self, *, traced: bool = False) -> None:
        self.steps = 0
        self.traced, self.drafted = traced, set[Entry]()
        self._times: dict[int, float] = {}  # of beginnings, and of each traced step's choice
        self._steps: dict[int, list[ChosenToken | None] | _OnDevice] = {}

    def begin(self) -> None:
        """Rows come whose first choice is that of the next step."""
        self._times.setdefault(self.steps - 1, time.perf_counter())

    def add(self, logits: Tensor, asks: Sequence[Ask], tokens: Sequence[int], masks: Tensor | None = None) -> int:
        """Measures one step, and returns its number. A negative token was no choice.

        Args:
            logits: float[rows, width].
            masks: the rows' masks if the logits are on a device: int32[rows, words].
        """
        step, traced = self.steps, self.traced
        if traced:
            self._times[step] = time.perf_counter()
        if masks is None:
            each = zip(logits.float().numpy(), asks, tokens, strict=True)
            self._steps[step] = [
                None if token < 0 else measured(scores, ask.words, token, traced=traced) for scores, ask, token in each
            ]
        else:
            chosen = upload_one(list(tokens), logits.device)
            numbers = measured_together(logits.float(), masks, chosen, traced=traced)
            counts = [count(ask.words) if traced and ask.words is not None else None for ask in asks]
            self._steps[step] = _OnDevice(numbers, [ask.words is not None for ask in asks], counts, traced)
        self.steps = step + 1
        return step

    def forget(self, before: int) -> None:
        """Forgets the steps before this one."""
        for known, least in ((self._steps, before), (self._times, before - 1)):
            for step in [step for step in known if step < least]:
                known.pop(step)

    def choice(self, step: int, row: int) -> ChosenToken | None:
        """The measures of a choice; None if nothing was chosen."""
        choices = self._steps[step]
        if isinstance(choices, _OnDevice):
            traced = choices.traced
            each = zip(choices.numbers.tolist(), choices.masked, choices.counts, strict=True)
            choices = self._steps[step] = [
                _choice(numbers, allowed, masked=masked, traced=traced) for numbers, masked, allowed in each
            ]
        return choices[row]

    def seconds(self, step: int) -> float | None:
        """The time from the choice before to this one, for all rows; None if it was not measured."""
        before, chosen = self._times.get(step - 1), self._times.get(step)
        return None if before is None or chosen is None else chosen - before


class _OnDevice(NamedTuple):
    """A step's measures that nobody has read yet."""

    numbers: Tensor  # the result of `measured_together`
    masked: list[bool]  # whether each row had a mask
    counts: list[int | None]  # how many tokens each mask allowed
    traced: bool


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
    if mass == 0:  # the allowed probability underflows float32
        return ChosenToken(logprob, 1.0, 1.0, 0.0, ((token, 1.0),))
    top = _highest(kept) if ids is None else np.argsort(-kept, kind="stable")
    chances = kept / np.float32(mass)
    entropy = -float(np.dot(chances, np.log(np.maximum(chances, np.finfo(np.float32).tiny))))
    top = top[kept[top] > 0]
    likely = tuple(zip((top if ids is None else ids[top]).tolist(), chances[top].tolist(), strict=True))
    removed = max(0.0, 1 - mass / total)
    choice = ChosenToken(
        logprob, float(weights[token]) / mass, removed, max(0.0, entropy), likely[:ALTERNATIVES],
        others=likely[ALTERNATIVES:],
    )  # fmt: skip
    return replace(choice, allowed=allowed, refused=_refused(weights, total, removed, words)) if traced else choice


def _refused(weights: Scores, total: float, removed: float, words: Words) -> tuple[tuple[int, float], ...]:
    """The forbidden tokens among the most likely of all."""
    if removed < LEAST_REFUSED:
        return ()
    top = [(int(i), float(weights[i]) / total) for i in _highest(weights)]
    return tuple((i, p) for i, p in top if p >= LEAST_REFUSED and not words[i >> 5] >> (i & 31) & 1)


def _highest(kept: Scores) -> Columns:
    """The columns of the highest weights, highest first. Looks only into the blocks with the highest maxima."""
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
        masks: int32[rows, words], the allowed tokens.
        chosen: int64[rows], the chosen tokens; negative if there is none.

    Returns:
        float32[rows, 4 + 2 * ALTERNATIVES]: log-probability (NaN if nothing was chosen), chance, removed, entropy, ids,
        probabilities; if traced, also ids and probabilities of the most likely refused tokens.
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

    length: int  # the number of tokens before it
    logits: Tensor  # float[rows, width]
    row: int  # of the logits
    words: Words | None  # the allowed tokens; None for every token


class RecentLogits:
    """The last choices of one row, in the order of their lengths: the fields of `KnownLogits`, as cheap tuples."""

    def __init__(self, count: int) -> None:
        self._known: deque[tuple[int, Tensor, int, Words | None]] = deque(maxlen=count)

    def add(self, length: int, logits: Tensor, row: int, words: Words | None) -> None:
        """Adds a choice, in place of earlier ones at its length and beyond."""
        before = self._known
        while before and before[-1][0] >= length:
            before.pop()
        before.append((length, logits, row, words))

    def at(self, length: int) -> KnownLogits | None:
        """The logits after `length` tokens; None if they are not kept any more."""
        return next((KnownLogits(*known) for known in reversed(self._known) if known[0] == length), None)

    def scores(self, length: int) -> Tensor | None:
        """The logits after `length` tokens: float[width]; None if they are not those of the last choice."""
        last, logits, row, _ = self._known[-1] if self._known else (-1, None, 0, None)
        return None if logits is None or last != length else logits[row]

    def measured(self, length: int, token: int) -> ChosenToken | None:
        """The measures of a token after `length` others; None if the logits are not kept any more."""
        known = self.at(length)
        return None if known is None else measured(known.logits[known.row].float().cpu().numpy(), known.words, token)

    def truncate(self, length: int) -> None:
        """The row goes back to its first `length` tokens."""
        while self._known and self._known[-1][0] > length:
            self._known.pop()

    def clear(self) -> None:
        """Forgets all choices."""
        self._known.clear()
