"""The sampler against a plain inverse transform in float64, and its independence of batch and path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from structgen.options import Sampling
from structgen.search.sampling import NOTHING, UNDECIDED, Sampler

CPU = torch.device("cpu")
WAYS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.3),
    Sampling(temperature=2.5, top_k=7),
    Sampling(temperature=1.0, top_p=0.8),
    Sampling(temperature=1.3, top_p=0.95, min_p=0.02),
    Sampling(temperature=1.0, min_p=0.1),
    Sampling(temperature=0.9, top_k=40, top_p=0.7, min_p=0.01),
    Sampling(temperature=1.0, top_k=10_000),
]


def kept_weights(scores: np.ndarray, way: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """Columns from the likeliest down and their probabilities after all filters, in float64: the plain loop."""
    order = np.lexsort((np.arange(len(scores)), -scores.astype(np.float64)))
    weights = np.exp((scores[order].astype(np.float64) - scores.max()) / way.temperature)
    if way.top_k:
        weights[way.top_k :] = 0
    weights /= weights.sum()
    before = np.cumsum(weights) - weights
    if way.top_p < 1:
        weights[before >= way.top_p] = 0
    weights[weights < way.min_p * weights[0]] = 0
    return order, weights / weights.sum()


def draw(scores, ways, uniforms, **options):
    sampler = Sampler(ways, CPU)
    return sampler.draw(
        scores, torch.arange(len(ways)), torch.tensor(uniforms).unsqueeze(1), **options
    ).tolist()


@pytest.mark.parametrize("width", [5, 300, 5000])
@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_a_draw_is_the_inverse_transform_of_the_filtered_distribution(way, width):
    """For a sweep of uniform numbers the column is the one that the float64 reference points to."""
    rng = np.random.default_rng(width)
    wrong = 0
    for scale in (0.5, 3.0):
        scores = (scale * rng.standard_normal(width)).astype(np.float32)
        scores[rng.random(width) < 0.3] = -np.inf
        order, weights = kept_weights(scores, way)
        cumulated = np.cumsum(weights)
        for u in np.linspace(0, 1, 41, endpoint=False, dtype=np.float32):
            (column,) = draw(torch.tensor(scores)[None], [way], [u], keep=width)
            expected = order[np.searchsorted(cumulated, u, side="right")]
            wrong += column != expected and np.abs(cumulated - u).min() > 1e-5
    assert wrong == 0


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_the_short_path_agrees_with_the_full_sort_or_says_that_it_cannot_tell(way):
    """With 64 sorted columns of 4,000, ties of equal logits included, a decided draw is the full sort's draw."""
    generator = torch.Generator().manual_seed(1)
    scores = (4 * torch.randn(200, 4000, generator=generator)).bfloat16().float()  # bf16: many equal logits
    uniforms = torch.rand(200, generator=generator).tolist()
    short = draw(scores, [way] * 200, uniforms, keep=64)
    full = draw(scores, [way] * 200, uniforms, keep=4000)
    assert UNDECIDED not in full
    assert [a for a, b in zip(short, full, strict=True) if a not in (b, UNDECIDED)] == []
    assert way.top_k > 64 or short.count(UNDECIDED) < 100


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_what_is_kept_is_what_the_warpers_of_transformers_keep(way):
    """Over many draws exactly the tokens that transformers' chain leaves are seen, in its proportions."""
    scores = 2 * torch.randn(1, 30, generator=torch.Generator().manual_seed(5))
    chain = [TemperatureLogitsWarper(way.temperature)]
    chain += [TopKLogitsWarper(way.top_k)] if way.top_k else []
    chain += [TopPLogitsWarper(way.top_p)] if way.top_p < 1 else []
    chain += [MinPLogitsWarper(way.min_p)] if way.min_p else []
    warped = scores.clone()
    for warper in chain:
        warped = warper(None, warped)
    expected = warped.softmax(-1)[0]
    n = 20_000
    uniforms = (torch.arange(n) + 0.5) / n
    columns = draw(scores.expand(n, -1), [way] * n, uniforms.tolist())
    seen = torch.bincount(torch.tensor(columns), minlength=30) / n
    assert (seen - expected).abs().max() < 1e-3


def test_a_row_draws_the_same_whatever_its_neighbours():
    """The stream of tokens of a seeded row is the same alone, in a batch, and among greedy rows."""
    scores = 3 * torch.randn(20, 1000, generator=torch.Generator().manual_seed(2))
    way = Sampling(temperature=1.0, top_p=0.9, seed=11)

    def stream(ways, row):
        sampler = Sampler(ways, CPU)
        rows = torch.arange(len(ways))
        return [
            sampler.draw(step.expand(len(ways), -1), rows, sampler.uniforms())[row].item() for step in scores
        ]

    alone = stream([way], 0)
    assert stream([Sampling(temperature=2.0), Sampling(), way, Sampling(temperature=1.0, seed=3)], 2) == alone
    assert stream([Sampling(temperature=1.0, top_p=0.9, seed=12)], 0) != alone
    assert len(set(alone)) > 5


def test_greedy_rows_take_the_lowest_of_the_highest_logits():
    scores = torch.tensor([[1.0, 5.0, 5.0, -torch.inf], [2.0, 0.0, -torch.inf, 1.0]])
    assert Sampler([Sampling()] * 2, CPU).draw(scores, torch.arange(2), None).tolist() == [1, 0]
    mixed = Sampler([Sampling(temperature=9.0, seed=1), Sampling()], CPU)
    assert all(mixed.draw(scores, torch.arange(2), mixed.uniforms())[1] == 0 for _ in range(50))


@pytest.mark.parametrize("bad", [-torch.inf, torch.nan])
@pytest.mark.parametrize("way", [Sampling(), Sampling(temperature=1.0, top_p=0.9)])
def test_a_row_with_nothing_left_says_so_and_its_neighbour_goes_on(bad, way):
    scores = torch.tensor([[bad] * 4, [0.0, -torch.inf, -torch.inf, -torch.inf]])
    sampler = Sampler([way] * 2, CPU)
    assert sampler.draw(scores, torch.arange(2), sampler.uniforms()).tolist() == [NOTHING, 0]


def test_a_forbidden_token_is_never_drawn_at_either_end_of_the_unit_interval():
    scores = torch.full((1, 500), -torch.inf)
    scores[0, [3, 400]] = 0.0
    below_one = np.nextafter(np.float32(1), np.float32(0)).item()
    for u in (0.0, 0.25, 0.5, 0.75, below_one):
        assert draw(scores, [Sampling(temperature=1.0)], [u])[0] in (3, 400)
