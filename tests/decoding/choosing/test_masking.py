"""Packed masks against plain sets of ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from structgen.decoding.choosing.masking import count, existing, forbid
from structgen.masks.words import bits_of, ids_of, pack
from structgen.vocabulary import Vocabulary


@pytest.mark.parametrize("width", [1, 31, 32, 33, 64, 257, 4096, 5001])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_packing_counting_and_unpacking_agree_with_the_set_of_ids(width, share):
    ids = np.flatnonzero(np.random.default_rng(width).random(width) < share)
    words = pack(ids, width)
    assert words.dtype == np.uint32
    assert len(words) == (width + 31) // 32
    kept = set(ids.tolist())
    assert count(words) == len(ids)
    assert ids_of(words).tolist() == ids.tolist()
    assert np.flatnonzero(bits_of(words, width)).tolist() == ids.tolist()
    assert all(bool(words[i >> 5] >> np.uint32(i & 31) & 1) == (i in kept) for i in range(width))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [31, 257, 5001])
def test_forbidding_leaves_allowed_scores_and_only_those(width, dtype):
    rng = np.random.default_rng(width)
    allowed = rng.random((3, width)) < [[0.01], [0.5], [1.0]]
    words = np.stack([pack(np.flatnonzero(row), width) for row in allowed])
    scores = torch.randn(3, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    masked = forbid(scores, torch.from_numpy(words.view(np.int32)))
    assert masked.dtype == dtype
    assert torch.equal(masked, scores.masked_fill(~torch.from_numpy(allowed), -torch.inf))


def test_existing_tokens_are_all_but_holes_and_padding_rows():
    tokens = [b"a", b"b", None, b"c"]
    assert count(existing(Vocabulary.from_tokens(tokens, end_ids=[2]))) == len(tokens)
    padded = existing(Vocabulary.from_tokens(tokens, end_ids=[2], width=40))
    assert ids_of(padded).tolist() == [0, 1, 2, 3]
