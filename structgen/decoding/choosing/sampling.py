"""Temperature, top-k, top-p, min-p and typical-p in one pass, with parameters and randomness of each row's own.

A draw is inverse transform sampling: the kept tokens lie side by side by ascending id, each as wide as its
probability, and one uniform number per row points to one of them. So a row's token depends only on its own scores and
its own random number, never on other rows.

The filters' order is temperature, top-k, top-p (of what top-k left), min-p, typical-p. Equal logits rank by ascending
id. Forbidden tokens have the score `-inf`.

`pick` is for one row on the host, and exact for every option. `Sampler` is for a batch on a device. It never waits for
the device, and gives `UNDECIDED` if top-p needs more columns than it has sorted; from then on it sorts more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.options import Sampling, digest

NOTHING = -2
"""Stands for a token if the row has no finite score: everything is forbidden, or the logits are not numbers."""

UNDECIDED = -1
"""Stands for a token if a device's draw needs more sorted columns: ask `pick`."""

KEEP = 256
"""The number of most likely columns that a device sorts at first."""

WIDER = 16
"""The factor by which the number grows if it was too small."""

EXACT = 1 << 24
"""The whole numbers up to this are exact in float32."""

COLDEST, HOTTEST = 1e-30, 1e30
"""Temperatures beyond these divide to NaN. At the first only the most likely tokens are left, at the other all allowed
tokens are equally likely."""

TAIL = 64
"""A text is identified by its length and so many bytes at its end. Two texts that agree in these share their draws."""

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15

Scores = NDArray[np.float32]
Columns = NDArray[np.int64]


def pick(scores: Scores, options: Sampling, uniform: float) -> int:
    """The chosen column, or `NOTHING`.

    Args:
        scores: float32[columns], by ascending token id, `-inf` where forbidden.
        uniform: a random number in [0, 1); not used by greedy decoding.
    """
    best = int(scores.argmax())  # the first NaN, if there is one
    if not np.isfinite(scores[best]):
        return NOTHING
    if options.temperature == 0:
        return best
    with np.errstate(over="ignore"):
        weights = np.exp((scores - scores[best]) / np.float32(divisor(options)))
    kept = _kept(weights, options)
    return _locate(weights, uniform) if kept is None else int(kept[_locate(weights[kept], uniform)])


def distribution(scores: Scores, options: Sampling) -> tuple[Columns, NDArray[np.float64]] | None:
    """The columns that a draw may give, ascending, and their probabilities; None if `pick` gives `NOTHING`."""
    best = scores.max()
    if not np.isfinite(best):
        return None
    with np.errstate(over="ignore"):
        weights = np.exp((scores - best) / np.float32(divisor(options)))
    kept = _kept(weights, options)
    columns = np.flatnonzero(weights) if kept is None else kept[weights[kept] > 0]
    chances = weights[columns].astype(np.float64)
    return columns, chances / chances.sum()


def divisor(row: Sampling) -> float:
    """The temperature of a row that is drawn, within what float32 can divide by."""
    return min(max(row.temperature, COLDEST), HOTTEST)


def _kept(weights: Scores, options: Sampling) -> Columns | None:
    """The columns that all filters leave, ascending; None for every column."""
    columns = None
    if 0 < options.top_k < len(weights):
        columns = _highest(weights, options.top_k)
    if options.top_p < 1:
        among = weights if columns is None else weights[columns]
        nucleus = _nucleus(among, options.top_p)
        columns = nucleus if columns is None else columns[nucleus]
    if options.min_p > 0:
        likely = weights >= options.min_p if columns is None else weights[columns] >= options.min_p
        columns = np.flatnonzero(likely) if columns is None else columns[likely]
    if options.typical_p < 1:
        columns = np.flatnonzero(weights) if columns is None else columns
        columns = columns[_typical(weights[columns], options.typical_p)]
    return columns


def _highest(weights: Scores, k: int) -> Columns:
    """The columns of the `k` highest weights; of equal ones at the edge the lowest columns."""
    edge = np.partition(weights, len(weights) - k)[len(weights) - k]
    above = np.flatnonzero(weights > edge)
    at_edge = np.flatnonzero(weights == edge)[: k - len(above)]
    return np.sort(np.concatenate([above, at_edge]))


def _nucleus(weights: Scores, top_p: float) -> Columns:
    """The columns of the smallest set of highest weights that has `top_p` of the mass.

    Columns of at most `(1 - top_p) * total / n` have at most `(1 - top_p) * total` together, so the columns
    above it have `top_p` of the mass already: only those need sorting.
    """
    total = weights.sum(dtype=np.float64)
    candidates = np.flatnonzero(weights > (1 - top_p) * total / len(weights))
    ranked = candidates[np.argsort(-weights[candidates], kind="stable")]
    before = np.cumsum(weights[ranked], dtype=np.float64) - weights[ranked]
    return np.sort(ranked[before < top_p * total])


def _typical(weights: Scores, typical_p: float) -> Columns:
    """The columns of the smallest set with `typical_p` of the mass whose surprise is nearest to the mean surprise.

    Locally typical sampling, Meister et al. 2022.
    """
    chances = weights.astype(np.float64) / weights.sum(dtype=np.float64)
    surprise = -np.log(np.maximum(chances, np.finfo(np.float64).tiny))
    ranked = np.argsort(np.abs(surprise - (chances * surprise).sum()), kind="stable")
    before = np.cumsum(chances[ranked]) - chances[ranked]
    return np.sort(ranked[before < typical_p])


def _locate(weights: Scores, uniform: float, block: int = 512) -> int:
    """The first column whose cumulated weight exceeds `uniform * total`."""
    whole = len(weights) // block * block
    sums = weights[:whole].reshape(-1, block).sum(axis=1, dtype=np.float64)
    ends = np.append(sums, weights[whole:].sum(dtype=np.float64)).cumsum()
    target = uniform * ends[-1]
    number = min(int(ends.searchsorted(target, side="right")), int(np.flatnonzero(np.diff(ends, prepend=0.0))[-1]))
    inside = weights[number * block : (number + 1) * block]
    rest = target - (ends[number - 1] if number else 0.0)
    offset = int(inside.cumsum(dtype=np.float64).searchsorted(rest, side="right"))
    return number * block + min(offset, int(np.flatnonzero(inside)[-1]))


class Sampler:
    """Draws for all rows of a batch at once, on the device of their scores.

    Args:
        keep: the number of most likely columns that are sorted for top-p; `widen` raises it.

    Attributes:
        draws: some row is not greedy.
        table: float32[rows, options], with the columns of `_Columns`: `draw` needs it on the device.
    """

    def __init__(self, rows: Sequence[Sampling], keep: int = KEEP) -> None:
        self.rows = list(rows)
        self.keep = keep
        drawing = [row for row in rows if not row.greedy]
        self.draws = bool(drawing)
        ranked = [row for row in drawing if row.top_k or row.top_p < 1]
        self._any_ranked, self._all_ranked = bool(ranked), len(ranked) == len(drawing)
        self._any_greedy = len(drawing) < len(self.rows)
        self._any_min_p = any(row.min_p > 0 for row in drawing)
        self._any_typical = any(row.typical_p < 1 for row in drawing)
        self._top_k = max((row.top_k for row in drawing), default=0)
        self.table = np.array([_numbers(row) for row in rows], np.float32).reshape(-1, len(_Columns._fields))

    def widen(self) -> None:
        """Sorts more columns from now on."""
        self.keep *= WIDER

    def draw(self, scores: Tensor, points: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """The chosen column of each row, or `NOTHING`, or `UNDECIDED`: int64[rows], still on the device.

        Args:
            scores: float32[rows, columns], by ascending token id, `-inf` where forbidden.
            points: float64[rows], a random number in [0, 1) per row; float32 if the device has no other. Not needed if
                no row `draws`.
            table: `self.table` on the scores' device. Not needed if no row `draws`.
        """
        best, likeliest = scores.max(dim=-1)
        if points is not None and table is not None:
            columns = _Columns(*table.unsqueeze(-1).unbind(1))
            drawn = self._drawn(scores, best.unsqueeze(1), points.unsqueeze(1), columns)
            likeliest = torch.where(table[:, 0] > 0, likeliest, drawn) if self._any_greedy else drawn
        return torch.where(best.abs() < torch.inf, likeliest, NOTHING)

    def _drawn(self, scores: Tensor, best: Tensor, points: Tensor, options: _Columns) -> Tensor:
        weights = ((scores - best) / options.temperature).exp()
        columns: Tensor | None = None
        unsure: Tensor | None = None
        if self._any_ranked:
            keep = min(max(self.keep, self._top_k), scores.shape[-1])
            ranked, likely, unsure = _only_ranked(weights, options, keep, points.dtype, any_top_k=self._top_k > 0)
            if self._all_ranked:  # nothing of the vocabulary's width is read any more
                weights, columns = ranked, likely
            else:
                of_rank = options.ranked > 0
                weights = torch.where(of_rank, torch.zeros_like(weights).scatter(1, likely, ranked), weights)
                unsure = unsure & of_rank
        if self._any_min_p:
            weights = weights.where(weights >= options.min_p, 0.0)
        if self._any_typical:
            weights = torch.where(
                options.typical_p < 1, _only_typical(weights, options.typical_p, points.dtype), weights
            )
        cumulated = weights.cumsum(dim=-1, dtype=points.dtype)  # in float32 the batch's size would round differently
        found = torch.searchsorted(cumulated, points * cumulated[:, -1:], right=True)
        inside = found.clamp(max=weights.shape[-1] - 1)
        missed = (found != inside) | (weights.gather(1, inside) == 0)  # rounding at the very end
        unsure = missed if unsure is None else missed | unsure
        inside = inside if columns is None else columns.gather(1, inside)
        return inside.masked_fill(unsure, UNDECIDED).squeeze(1)


class _Columns(NamedTuple):
    """A sampler's table by columns, each float32[rows, 1] on the device."""

    greedy: Tensor
    ranked: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    typical_p: Tensor


def _numbers(row: Sampling) -> tuple[float, ...]:
    """A row of a sampler's table."""
    ranked = bool(row.top_k) or row.top_p < 1
    top_p = row.top_p if row.top_p < 1 else math.inf
    return row.greedy, ranked, divisor(row), min(row.top_k, EXACT), top_p, row.min_p, row.typical_p


def _only_ranked(
    weights: Tensor, options: _Columns, keep: int, precise: torch.dtype, *, any_top_k: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The `keep` highest weights by ascending column, 0 outside of top-k and top-p: float32[rows, keep]; their columns;
    and which rows are undecided."""
    columns = weights.topk(keep, dim=-1, sorted=False).indices.sort(dim=-1).values
    likely = weights.gather(1, columns)
    values, order = likely.sort(dim=-1, descending=True, stable=True)  # of equal ones the lower column first
    cumulated = values.cumsum(dim=-1, dtype=precise)
    mass = weights.sum(dim=-1, keepdim=True, dtype=precise)
    if any_top_k:
        top_k = options.top_k.long()
        in_top_k = (top_k > 0) & (top_k <= keep)
        mass = torch.where(in_top_k, cumulated.gather(1, top_k.clamp(1, keep) - 1), mass)
    kept = cumulated - values < options.top_p * mass
    if any_top_k:
        kept &= ~in_top_k | (torch.arange(keep, device=weights.device) < top_k)
    last = kept.sum(dim=-1, keepdim=True).clamp(min=1) - 1  # both filters keep a prefix
    floor = values[:, -1:]  # no weight beyond the sorted columns is higher
    unsure = (values.gather(1, last) == floor) & (floor > 0) & (floor >= options.min_p)
    if keep == weights.shape[-1]:
        unsure = torch.zeros_like(unsure)
    return torch.zeros_like(likely).scatter(1, order, values.where(kept, 0.0)), columns, unsure


def _only_typical(weights: Tensor, typical_p: Tensor, precise: torch.dtype) -> Tensor:
    """The weights, 0 outside of the typical columns, see `_typical`: float32[rows, columns]."""
    chances = weights.to(precise) / weights.sum(dim=-1, keepdim=True, dtype=precise)
    surprise = -chances.clamp(min=torch.finfo(precise).tiny).log()
    distance = (surprise - (chances * surprise).sum(dim=-1, keepdim=True)).abs()
    order = distance.masked_fill(weights == 0, torch.inf).sort(dim=-1, stable=True).indices
    ranked = chances.gather(1, order)
    kept = ranked.cumsum(dim=-1) - ranked < typical_p
    return torch.zeros_like(weights).scatter(1, order, weights.gather(1, order).where(kept, 0.0))


class Draws:
    """The random numbers of one row: SplitMix64 (Steele, Lea and Flood, 2014), indexed by number instead of by state.

    Each belongs to a text: it is the n-th draw after the text. So it does not depend on other draws or on the text's
    tokens: tokens that are added without a draw do not shift the others.
    """

    def __init__(self, seed: int) -> None:
        self._key = int.from_bytes(digest(seed, 0), "little")
        self._drawn: Counter[int] = Counter()

    def behind(self, text: bytes | bytearray) -> float:
        """The next draw after a text, in [0, 1): one of 2**53 numbers."""
        return self._next(len(text) << 32 | crc32(text[-TAIL:]))

    def anywhere(self) -> float:
        """The next draw that belongs to no text."""
        return self._next(-1)

    def _next(self, place: int) -> float:
        self._drawn[place] += 1
        return (_mixed(_mixed(self._key + place) + self._drawn[place] * _STEP) >> 11) * 2.0**-53


def _mixed(number: int) -> int:
    """A hash of 64 bits, each of which depends on the low 64 bits of the number."""
    number &= _WORD
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _WORD
    return number ^ number >> 31
