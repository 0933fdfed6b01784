"""`CanonicalMatcher`: the masks of the decode loop's canonical rows, token by token, with forks and rollbacks."""

from __future__ import annotations

import random

import numpy as np
import pytest

import structgen as sg
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, OptionError, TokenRejected
from structgen.masks.continuations import WIDE, Continuations
from structgen.masks.words import ids_of
from structgen.models.row import Row
from tests.masks.test_continuations import SCHEMAS, TOKENIZERS, vocabulary_of
from tests.support.small_tokenizers import random_model
from tests.support.thinning import diagonal

PROMPT = [9, 0]
"""Ends with a special token: the text must be canonical from its first token on."""


@pytest.mark.parametrize(("schema", "name"), diagonal(SCHEMAS, TOKENIZERS), ids=lambda value: str(value)[:40])
def test_masks_have_the_tokens_that_the_loop_takes(schema, name):
    vocabulary, rng = vocabulary_of(name), random.Random(7)
    grammar = sg.JsonSchema(schema).compile(vocabulary)
    row = CanonicalRow(vocabulary, Continuations.of(grammar, vocabulary.canonical), strict=False)
    text = Transcript(vocabulary, grammar.matcher(), Row(PROMPT), readers=[row])
    matcher = sg.CanonicalMatcher(grammar, PROMPT)
    for _ in range(60):
        allowed = matcher.allowed_tokens()
        words, state = ids_of(text.matcher.mask()).tolist(), text.state(row).state
        if not matcher.relaxed and len(words) <= WIDE:
            assert allowed == [token for token in words if row.takes(text, token)]
        elif not matcher.relaxed:
            assert allowed == [token for token in words if vocabulary.canonical.advance(state, token) is not None]
        assert np.array_equal(matcher.fork().mask(), matcher.mask())
        tokens = [t for t in allowed if t not in vocabulary.end_ids]
        if not tokens or (text.tokens and rng.random() < 0.2):
            count = rng.randint(0, len(text.tokens))
            matcher.rollback(count)
            text.cut(len(text.tokens) - count)
            continue
        token = rng.choice(tokens)
        matcher.advance(token)
        text.take(token, None)
        assert row.keeps(text)
        assert list(matcher.token_ids) == text.tokens


@pytest.mark.parametrize("name", TOKENIZERS[:2])
def test_a_text_is_what_the_tokenizer_makes_of_it(name):
    vocabulary, rng = vocabulary_of(name), random.Random(3)
    grammar = sg.JsonSchema({"enum": ["human", "humanity", "human rights"]}).compile(vocabulary)
    for _ in range(20):
        matcher = sg.CanonicalMatcher(grammar, PROMPT)
        while not matcher.finished:
            matcher.advance(rng.choice(matcher.allowed_tokens()))
        assert vocabulary.is_canonical(matcher.token_ids)
        assert not matcher.relaxed
        twin = matcher.fork()
        twin.rollback(2)
        assert matcher.finished
        assert not twin.finished
        assert not twin.can_finish


def test_a_token_that_is_not_canonical_is_rejected():
    vocabulary = vocabulary_of("GPT-4o")
    grammar = sg.Choice(["human rights"]).compile(vocabulary)
    matcher = sg.CanonicalMatcher(grammar, PROMPT)
    refused = set(grammar.matcher().allowed_tokens()) - set(matcher.allowed_tokens())
    assert refused
    with pytest.raises(TokenRejected, match="not canonical"):
        matcher.advance(min(refused))
    assert matcher.take([min(refused)]) == 0
    with pytest.raises(TokenRejected, match="not allowed by the grammar"):
        matcher.advance(next(t for t in range(300) if vocabulary.token(t) == b"x"))
    assert matcher.token_ids == ()


def test_where_nothing_canonical_is_left_it_is_relaxed_or_raises():
    """`</s>` is a special token: its letters are never canonical."""
    vocabulary = random_model(["William and Theodore"] * 20).vocabulary
    grammar = sg.Choice(["x</s>y"]).compile(vocabulary)
    matcher = sg.CanonicalMatcher(grammar)
    while not matcher.finished:
        matcher.advance(matcher.allowed_tokens()[0])
    assert matcher.text == b"x</s>y"
    assert matcher.relaxed
    before = len(matcher.relaxed)
    matcher.rollback(len(matcher.token_ids) + 1)
    assert before > len(matcher.relaxed)
    with pytest.raises(DeadEnd, match="no allowed token is canonical"):
        sg.CanonicalMatcher(grammar, strict=True).mask()


def test_a_vocabulary_without_a_tokenizer_is_refused():
    grammar = sg.Choice(["a"]).compile(sg.Vocabulary.from_tokens([b"a", None], end_ids=[1]))
    with pytest.raises(OptionError, match="canonical tokens need a tokenizer"):
        sg.CanonicalMatcher(grammar)
