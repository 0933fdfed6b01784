"""What a matcher allows, in the forms that a loop of one's own takes.

Covers `vocabulary.packed`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from structgen.constraints.basic import Regex
from structgen.errors import DeadEnd, OptionError
from structgen.masks import Matcher
from structgen.masks.words import bits_of, ids_of, only_token
from structgen.vocabulary import Vocabulary

WIDTH = 300  # more columns than tokens
VOCABULARY = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + [None], end_ids=[256], width=WIDTH)


@pytest.fixture
def matcher() -> Matcher:
    """May go on with b or c, or end."""
    walk = Regex("a[bc]*").compile(VOCABULARY).matcher()
    walk.advance(ord("a"))
    return walk


def test_ids_and_truth_values_say_what_the_packed_mask_says(matcher):
    words = matcher.mask()
    assert matcher.allowed_tokens() == [ord("b"), ord("c"), 256] == ids_of(words).tolist()
    assert all(type(token) is int for token in matcher.allowed_tokens())
    assert np.flatnonzero(matcher.bool_mask()).tolist() == matcher.allowed_tokens()
    assert bits_of(words, WIDTH).shape == matcher.bool_mask().shape == (WIDTH,)


def test_a_mask_of_truth_values_is_the_callers_own(matcher):
    matcher.bool_mask()[:] = True
    assert matcher.allowed_tokens() == [ord("b"), ord("c"), 256]


@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (WIDTH + 20,), (1, WIDTH + 20)])
@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_logits_are_forbidden_in_place(matcher, make, shape):
    logits = make(shape)
    assert matcher.apply(logits) is logits
    row = np.asarray(logits).reshape(-1)
    assert np.flatnonzero(row == 0).tolist() == matcher.allowed_tokens()
    assert np.isneginf(np.delete(row, matcher.allowed_tokens())).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_values(matcher, dtype):
    logits = torch.randn(WIDTH).to(dtype)
    before = logits.clone()
    allowed = matcher.allowed_tokens()
    assert torch.equal(matcher.apply(logits)[allowed], before[allowed])


@pytest.mark.parametrize("shape", [(WIDTH - 1,), (2, WIDTH), (1, 1, WIDTH), ()])
def test_logits_of_other_shapes_are_refused(matcher, shape):
    with pytest.raises(OptionError, match=r"expected the logits of one text, float\[300\]"):
        matcher.apply(np.zeros(shape))


def test_what_is_no_array_is_refused(matcher):
    with pytest.raises(OptionError, match="logits of type list"):
        matcher.apply([0.0] * WIDTH)


def test_behind_the_end_nothing_is_allowed(matcher):
    matcher.advance(256)
    for ask in (matcher.bool_mask, matcher.allowed_tokens, lambda: matcher.apply(np.zeros(WIDTH))):
        with pytest.raises(DeadEnd, match="the text has ended"):
            ask()


def test_only_token_sees_one_bit_in_any_word() -> None:
    """None for none and for several, wherever the bits are."""
    mask = np.zeros(4, np.uint32)
    assert only_token(mask) is None
    for token in (0, 31, 32, 127):
        mask[:] = 0
        mask[token >> 5] = 1 << (token & 31)
        assert only_token(mask) == token
        mask[2] |= 6
        assert only_token(mask) is None
