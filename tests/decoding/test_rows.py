"""From the options of a call to a session for each row."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pytest

import structgen as sg
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.call_options import CallOptions
from structgen.decoding.rows import RowBuilder
from structgen.given_prompts import GivenPrompt, GivenPrompts
from structgen.models.model import Model
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.mixed_rows import llama


def builder(context=None, **options):
    model = Model(llama(), ByteTokenizer(), byte_vocabulary())
    if context is not None:
        model.module.config.max_position_embeddings = context
    return RowBuilder(model, CallOptions(**options))


def prompts(*texts: str) -> Sequence[GivenPrompt]:
    return GivenPrompts.of(list(texts)).each


def test_each_row_has_its_own_options_and_those_given_once():
    sampling = [sg.Sampling(), sg.Sampling(seed=4)]
    targets, sessions = builder(sampling=sampling, limits=sg.Limits(7)).rows(prompts("a", "bc"), [None, sg.Regex("x+")])
    assert [target.constraint for target in targets] == [None, sg.Regex("x+")]
    assert [session.sampling for session in sessions] == sampling
    assert [session.budget for session in sessions] == [7, 7]
    assert [session.matcher is None for session in sessions] == [True, False]


def test_a_budget_ends_with_the_context_and_the_error_says_which():
    """The last token is not read: of ten places behind six ids five tokens come."""
    assert [s.budget for s in builder(10).rows(prompts("123456", "1"), [None, None])[1]] == [5, 10]
    with pytest.raises(sg.OptionError, match="context"):
        builder(10).rows(prompts("123456"), [sg.Regex("x{9}")])
    with pytest.raises(sg.OptionError, match="max_new_tokens=5"):
        builder(limits=sg.Limits(5)).rows(prompts("123456"), [sg.Regex("x{9}")])


def test_beams_are_searched_from_hypotheses():
    rows = builder(beams=3)
    assert rows.beams == sg.Beams(3)
    assert [type(session) for session in rows.rows(prompts("a"), [None])[1]] == [Hypothesis]
    assert builder().beams is None
    with pytest.raises(sg.OptionError, match="beams="):
        builder(beams=3, sampling=sg.Sampling(temperature=1.0)).rows(prompts("a"), [None])


def test_a_tokenizer_is_freed_with_its_model():
    """Grammars are kept for the next model with this vocabulary; what they know of a tokenizer is not."""
    model = Model(llama(), ByteTokenizer(), byte_vocabulary())
    sg.generate(model, "x", {"enum": ["ab", "b"]}, limits=sg.Limits(20))
    tokenizer = weakref.ref(model.tokenizer)
    del model
    gc.collect()
    assert tokenizer() is None
