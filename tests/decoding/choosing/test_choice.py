"""Masks and options to tokens: the host's way and the device's, held to each other and to plain loops.

Covers `scores`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from structgen.decoding.choosing.choice import Ask, DeviceChooser, HostChooser
from structgen.decoding.choosing.masking import FEW
from structgen.decoding.choosing.sampling import NOTHING
from structgen.decoding.choosing.scores import penalise, penalties
from structgen.masks.words import pack
from structgen.options import Sampling
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases

WIDTH = 3000
CPU = torch.device("cpu")
WAYS = cases("decoding/choosing/choice", "WAYS", globals())
SAID = [3, 17, 17, 5]
SHARES = [0.005, 0.04, 0.2, 0.9, 0.3, 0.02, 1.0]  # few tokens and many, around the border between the host's ways


@pytest.fixture(scope="module")
def vocabulary():
    tokens = [bytes([i % 256, i // 256]) for i in range(WIDTH - 20)] + [None]
    return Vocabulary.from_tokens(tokens, end_ids=[WIDTH - 20], width=WIDTH)


def asks(masks, ways, uniforms=None):
    points = [0.0] * len(ways) if uniforms is None else uniforms
    return [Ask(mask, way, point, [1, 2], SAID) for mask, way, point in zip(masks, ways, points, strict=True)]


def masks_of(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [pack(np.flatnonzero(rng.random(WIDTH) < share), WIDTH) for share in SHARES]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_host_and_device_choose_the_same_allowed_tokens(vocabulary, dtype):
    """Forty steps of a batch with different options and masks by row: the two ways agree token for token."""
    host, device = HostChooser(vocabulary), DeviceChooser(vocabulary, CPU)
    generator = torch.Generator().manual_seed(4)
    for step in range(40):
        logits = (5 * torch.randn(7, WIDTH, generator=generator)).to(dtype)
        masks = masks_of(step)[step % 7 :] + masks_of(step)[: step % 7]
        before = logits.clone()
        wishes = asks(masks, WAYS, torch.rand(7, generator=generator).tolist())
        tokens = host.draw(logits, wishes).tokens()
        assert tokens == device.draw(logits, wishes).tokens()
        assert torch.equal(logits, before)
        for token, mask in zip(tokens, masks, strict=True):
            assert mask[token >> 5] >> np.uint32(token & 31) & 1


def test_the_host_decides_once_where_few_columns_were_sorted(vocabulary):
    """Flat logits: top-p needs more than the sorted ones, then 16 times as many are sorted, at last all."""
    host, device = HostChooser(vocabulary), DeviceChooser(vocabulary, CPU)
    generator, by_host = torch.Generator().manual_seed(4), []
    ways = [Sampling(temperature=1.0, top_p=0.9, seed=1), Sampling(temperature=1.0, top_p=0.7, typical_p=0.9, seed=2)]
    for step in range(6):
        logits = 0.1 * torch.randn(2, WIDTH, generator=generator)
        wishes = asks(
            [None, None], ways[: 2 - step % 2] + ways[: step % 2], torch.rand(2, generator=generator).tolist()
        )
        drawn = device.draw(logits, wishes)
        assert drawn.tokens() == host.draw(logits, wishes).tokens()
        by_host.append(len(drawn.by_host))
    assert by_host == [2, 0, 0, 0, 0, 0]


def test_greedy_takes_the_likeliest_allowed_token_at_every_size_of_mask(vocabulary):
    chooser = HostChooser(vocabulary)
    for allowed in (1, 2, FEW, FEW + 1, WIDTH // 2, WIDTH):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            ids = np.sort(rng.choice(WIDTH, allowed, replace=False))
            logits = torch.from_numpy(rng.standard_normal((1, WIDTH)).astype(np.float32))
            (token,) = chooser.draw(logits, asks([pack(ids, WIDTH)], [Sampling()])).tokens()
            assert token == ids[logits[0, ids].argmax()]


@pytest.mark.parametrize("make", [HostChooser, lambda *a: DeviceChooser(*a, CPU)], ids=["host", "device"])
def test_an_empty_mask_is_nothing_for_its_row_and_leaves_the_others(vocabulary, make):
    logits = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
    masks = [pack(np.array([7]), WIDTH), pack(np.array([], np.int64), WIDTH), None]
    for ways in ([Sampling()] * 3, [Sampling(temperature=1.0)] * 3):
        first, second, third = make(vocabulary).draw(logits, asks(masks, ways)).tokens()
        assert (first, second) == (7, NOTHING)
        assert 0 <= third <= WIDTH - 20


@pytest.mark.parametrize("make", [HostChooser, lambda *a: DeviceChooser(*a, CPU)], ids=["host", "device"])
def test_without_a_mask_padding_rows_are_still_forbidden(vocabulary, make):
    logits = torch.zeros(2, WIDTH)
    logits[:, WIDTH - 19 :] = 50.0  # what is beyond the end token does not exist
    logits[:, 5] = 20.0
    ways = [Sampling(), Sampling(temperature=1.0)]
    assert make(vocabulary).draw(logits, asks([None, None], ways, [0.3, 0.3])).tokens() == [5, 5]


def test_penalties_are_those_of_transformers_and_of_the_openai_interface():
    """Repetition divides or multiplies once per token of prompt and text; the others count the text alone."""
    from transformers import RepetitionPenaltyLogitsProcessor

    scores = torch.randn(1, 40, generator=torch.Generator().manual_seed(0))
    ours = scores.clone()
    said = penalties([Sampling(repetition_penalty=1.7)], [([1, 2, 3, 999], SAID)], 40)
    penalise(ours, *map(torch.from_numpy, said))
    theirs = RepetitionPenaltyLogitsProcessor(1.7)(torch.tensor([[1, 2, 3, *SAID]]), scores.clone())
    assert torch.allclose(ours, theirs)
    ours = scores.clone()
    said = penalties([Sampling(frequency_penalty=0.5, presence_penalty=0.25)], [([1, 2], SAID)], 40)
    penalise(ours, *map(torch.from_numpy, said))
    expected = scores.clone()
    expected[0, [3, 5]] -= 0.75
    expected[0, 17] -= 1.25
    assert torch.allclose(ours, expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_draws_on_the_device_what_it_draws_alone_whoever_stands_beside_it(vocabulary, seed):
    """The same logits, options and random number: the same token, in batches of any size and order."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(len(WAYS), WIDTH, generator=generator)
    wishes = asks(masks_of(seed), WAYS, rng.random(len(WAYS)).tolist())
    device = DeviceChooser(vocabulary, CPU)
    alone = [DeviceChooser(vocabulary, CPU).draw(logits[i : i + 1], wishes[i : i + 1]).tokens()[0] for i in range(7)]
    for _ in range(12):
        rows = rng.integers(0, len(WAYS), rng.integers(1, 20)).tolist()
        assert device.draw(logits[rows], [wishes[i] for i in rows]).tokens() == [alone[i] for i in rows]
