"""The sampler against a plain inverse transform in float64, and its independence of batch and path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from structgen.decoding.choosing.sampling import KEEP, NOTHING, TAIL, UNDECIDED, Draws, Sampler, pick
from structgen.options import Sampling
from tests.support.tables import cases
from tests.support.thinning import thinned

WAYS = cases("decoding/choosing/sampling", "WAYS", globals())


def drawn(ways, scores: torch.Tensor, uniforms, keep: int = KEEP) -> list[int]:
    sampler = Sampler(ways, keep)
    return sampler.draw(scores, torch.tensor(uniforms, dtype=torch.float64), torch.from_numpy(sampler.table)).tolist()


def kept_weights(scores: np.ndarray, way: Sampling) -> np.ndarray:
    """Every column's probability after all filters, in float64, by one sort of everything."""
    order = np.lexsort((np.arange(len(scores)), -scores.astype(np.float64)))
    weights = np.exp((scores[order].astype(np.float64) - scores.max()) / way.temperature)
    if way.top_k:
        weights[way.top_k :] = 0
    weights /= weights.sum()
    before = np.cumsum(weights) - weights
    if way.top_p < 1:
        weights[before >= way.top_p] = 0
    weights[weights < way.min_p * weights[0]] = 0
    by_column = np.empty_like(weights)
    by_column[order] = weights / weights.sum()
    return by_column


@pytest.mark.parametrize("width", [5, 300, 5000])
@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_a_draw_is_the_inverse_transform_of_the_filtered_distribution(way, width):
    """For a sweep of uniform numbers the column is the one that the float64 reference points to."""
    rng = np.random.default_rng(width)
    wrong = 0
    for scale in (0.5, 3.0):
        scores = (scale * rng.standard_normal(width)).astype(np.float32)
        scores[rng.random(width) < 0.3] = -np.inf
        weights = kept_weights(scores, way)
        cumulated = np.cumsum(weights)
        for u in np.linspace(0, 1, 41, endpoint=False):
            expected = np.searchsorted(cumulated, u, side="right")
            wrong += pick(scores, way, u) != expected and np.abs(cumulated - u).min() > 1e-5
    assert wrong == 0


TYPICAL = [Sampling(temperature=1.0, typical_p=0.6), Sampling(temperature=0.8, top_k=20, typical_p=0.9)]
FLAT = [Sampling(temperature=9.0, top_p=0.9), Sampling(temperature=9.0, top_k=900, top_p=0.8, typical_p=0.7)]


@pytest.mark.parametrize("way", thinned([*WAYS, *TYPICAL, *FLAT], 2), ids=repr)
def test_a_device_draws_what_the_host_picks_or_says_that_it_cannot_tell(way):
    """Rows of 4,000 columns with many equal logits; what it cannot tell of few sorted columns it can of all."""
    generator = torch.Generator().manual_seed(1)
    scores = (4 * torch.randn(200, 4000, generator=generator)).bfloat16().float()  # bf16: many equal logits
    uniforms = torch.rand(200, generator=generator).tolist()
    host = [pick(row, way, u) for row, u in zip(scores.numpy(), uniforms, strict=True)]
    batch = drawn([way] * 200, scores, uniforms)
    decided = [(a, b) for a, b in zip(batch, host, strict=True) if a != UNDECIDED]
    assert sum(a != b for a, b in decided) <= 1  # float32 here, float64 there: a number on the border
    assert len(decided) > 150 or way.temperature == 9
    wide = drawn([way] * 200, scores, uniforms, keep=4000)
    assert UNDECIDED not in wide
    assert sum(a != b for a, b in zip(wide, host, strict=True)) <= 1


def test_a_row_draws_the_same_whatever_its_neighbours_ask_for():
    """Rows that all have top-k or top-p read fewer columns than rows of which some have neither."""
    ways = [Sampling(), *WAYS, *TYPICAL, *FLAT] * 10
    generator = torch.Generator().manual_seed(2)
    scores = (4 * torch.randn(len(ways), 4000, generator=generator)).bfloat16().float()
    uniforms = torch.rand(len(ways), generator=generator).tolist()
    alone = [drawn([way], scores[i : i + 1], [uniforms[i]])[0] for i, way in enumerate(ways)]
    pairs = list(zip(alone, drawn(ways, scores, uniforms), strict=True))
    assert all(one == other for one, other in pairs if UNDECIDED not in (one, other))
    assert sum(UNDECIDED not in pair for pair in pairs) > 100


@pytest.mark.parametrize("way", thinned([*WAYS, *TYPICAL], 2, 1), ids=repr)
def test_what_is_kept_is_what_the_warpers_of_transformers_keep(way):
    """Over many draws exactly the tokens that transformers' chain leaves are seen, in its proportions."""
    scores = 2 * torch.randn(1, 30, generator=torch.Generator().manual_seed(5))
    chain = [TemperatureLogitsWarper(way.temperature)]
    chain += [TopKLogitsWarper(way.top_k)] if way.top_k else []
    chain += [TopPLogitsWarper(way.top_p)] if way.top_p < 1 else []
    chain += [MinPLogitsWarper(way.min_p)] if way.min_p else []
    chain += [TypicalLogitsWarper(way.typical_p)] if way.typical_p < 1 else []
    warped = scores.clone()
    for warper in chain:
        warped = warper(None, warped)
    expected = warped.softmax(-1)[0]
    n = 4_000
    uniforms = (torch.arange(n) + 0.5) / n
    columns = [pick(scores[0].numpy(), way, u) for u in uniforms.tolist()]
    seen = torch.bincount(torch.tensor(columns), minlength=30) / n
    assert (seen - expected).abs().max() < 1e-3


def test_greedy_rows_take_the_lowest_of_the_highest_logits():
    scores = torch.tensor([[1.0, 5.0, 5.0, -torch.inf], [2.0, 0.0, -torch.inf, 1.0]])
    assert [pick(row, Sampling(), 0.9) for row in scores.numpy()] == [1, 0]
    mixed = [Sampling(temperature=9.0, seed=1), Sampling()]
    assert all(drawn(mixed, scores, [u / 50, u / 50])[1] == 0 for u in range(50))


@pytest.mark.parametrize("bad", [-torch.inf, torch.nan])
@pytest.mark.parametrize("way", [Sampling(), Sampling(temperature=1.0), Sampling(temperature=1.0, top_p=0.9)])
def test_a_row_with_nothing_left_says_so_and_its_neighbour_goes_on(bad, way):
    scores = torch.tensor([[bad] * 4, [0.0, -torch.inf, -torch.inf, -torch.inf]])
    assert drawn([way] * 2, scores, [0.5, 0.5]) == [NOTHING, 0]
    assert [pick(row, way, 0.5) for row in scores.numpy()] == [NOTHING, 0]


@pytest.mark.parametrize(
    "way", [*WAYS, Sampling(temperature=1e-40), Sampling(temperature=1e9), Sampling(temperature=1e300)], ids=repr
)
def test_a_forbidden_token_is_never_drawn_at_either_end_of_the_unit_interval(way):
    scores = np.full(1500, -np.inf, np.float32)
    scores[[3, 400]] = 1.0
    for u in (0.0, 0.25, 0.5, 0.75, np.nextafter(1.0, 0.0)):
        assert pick(scores, way, u) in (3, 400)
        assert drawn([way], torch.tensor(scores)[None], [u])[0] in (3, 400, UNDECIDED)


def test_a_draw_belongs_to_its_text_whatever_else_was_drawn():
    """Behind a text that comes again, the next one of that text."""
    text = bytes(range(97, 123)) * 4
    places = range(0, len(text), 3)
    straight, winding = Draws(7), Draws(7)
    expected = [straight.behind(text[:n]) for n in range(len(text))]
    found = [winding.behind(text[:n]) for n in places]
    assert found == expected[::3]
    winding.behind(text[:5])
    winding.anywhere()
    again = [winding.behind(bytearray(text[:n])) for n in places]
    assert again == [straight.behind(text[:n]) for n in places]
    assert not set(again) & set(expected)


def test_texts_that_end_alike_have_draws_of_their_own_as_far_as_they_are_told_apart():
    draws = Draws(1)
    tail = b"x" * TAIL
    found = {draws.behind(text) for text in (tail, b"a" + tail, b"b" + tail, b"b" + tail, b"ab" + tail)}
    assert len(found) == 5


def test_draws_are_even_and_seeds_and_places_tell_nothing_of_each_other():
    """Mean, variance, sixteenths by chi-square, and the correlation of neighbours in seed, place and number."""
    text = b'{"name": "Ada", "age": 36}' * 8
    rows = [Draws(seed) for seed in range(200)]
    first = np.array([[row.behind(text[:n]) for n in range(200)] for row in rows])
    second = np.array([[row.behind(text[:n]) for n in range(200)] for row in rows])
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.005
    assert abs(first.var() - 1 / 12) < 0.002
    counts = np.bincount((first.ravel() * 16).astype(int), minlength=16)
    assert ((counts - first.size / 16) ** 2 / (first.size / 16)).sum() < 45
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
