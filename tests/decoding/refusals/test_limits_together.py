"""Validators and guards beside the budget and the caps: a retry stays within what is left, or the error says why.

Covers `guarding`, `row_refusals`.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, model_validator

import structgen as sg
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.budget import Steering
from structgen.decoding.refusals.caps import CapReader
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.validating import Validating
from structgen.decoding.session import Session
from structgen.demo import load_demo
from structgen.schema.python.validators import validators_of
from structgen.testing import scripted
from structgen.vocabulary import Vocabulary

ENDLESS = '{"name": "' + "la" * 400


class City(BaseModel):
    name: str
    n: int

    @model_validator(mode="after")
    def is_large(self) -> City:
        if self.n < 10:
            raise ValueError("n is too small")
        return self


class Distant(City):
    @model_validator(mode="after")
    def is_large(self) -> Distant:
        if self.n != 790_141:  # that no text suggests
            raise ValueError("n is too small")
        return self


def test_the_error_names_the_reason_and_the_budget():
    for limits in (sg.Limits(20), sg.Limits(max_new_tokens=300, validations=1, max_repeated=None)):
        told = rf"n is too small.*max_new_tokens={limits.max_new_tokens} cut the text short"
        with pytest.raises(sg.ValidationFailed, match=told):
            sg.generate(scripted(ENDLESS), "x", Distant, limits=limits)


def test_a_text_that_may_end_ends_where_nothing_else_fits():
    limits = sg.Limits(max_new_tokens=7)
    run = sg.generate(scripted("a" * 50), "x", sg.Regex("([a-z]{5})*"), limits=limits, details=True)
    assert (run.text, run.finish) == ("aaaaa", "closed_by_budget")


def test_validators_beside_caps():
    limits = sg.Limits(max_new_tokens=300, max_characters=50, max_digits=6)
    run = sg.generate(scripted(ENDLESS), "x", City, limits=limits, details=True)
    assert run.value.n >= 10
    assert len(run.value.name) <= 50


def large(n: int) -> int:
    if n < 10:
        raise ValueError("n is too small")
    return n


class Parts(BaseModel):
    names: list[Annotated[str, Field(max_length=9)]]
    n: Annotated[int, AfterValidator(large)]


@given(
    script=st.text('al1,"[]{}: ', max_size=30),
    banned=st.lists(st.sampled_from(["a", "la", "l1", "al", "1", "0", "]"]), max_size=2, unique=True),
    budget=st.integers(22, 60),
    seed=st.none() | st.integers(0, 3),
    rollbacks=st.sampled_from([0, 2, 256]),
    characters=st.sampled_from([None, 3]),
)
@settings(deadline=None, max_examples=30)
def test_whatever_stands_in_the_way_the_value_is_right_or_the_error_says_it(
    script, banned, budget, seed, rollbacks, characters
):
    """No mask without a token is ever chosen from: the sampler never has to say that nothing is left."""
    limits = sg.Limits(budget, rollbacks=rollbacks, validations=12, max_characters=characters, max_digits=5)
    sampling = sg.Sampling() if seed is None else sg.Sampling(temperature=1.0, seed=seed)
    model = scripted(['{"names": ["' + script] * 2)
    given = {"banned": banned, "limits": limits, "sampling": sampling, "details": True}
    for run in sg.generate(model, ["x", "y"], Parts, **given):
        assert len(run.token_ids) <= budget
        if run.error is None:
            assert run.value.n >= 10
            assert not any(word in name for word in banned for name in run.value.names)
        else:
            assert isinstance(run.error, sg.RunError)
            assert "logits" not in str(run.error)
            assert "everything that the constraint allows was refused" not in str(run.error)


@pytest.mark.parametrize("seed", [None, 1])
def test_both_loops_retry_alike(seed):
    """A trained model under a tight budget, with guards: the overlapped loop says what the plain one does."""
    module, tokenizer = load_demo()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    grammar = sg.JsonSchema(City).compile(vocabulary)
    way = sg.Sampling() if seed is None else sg.Sampling(temperature=1.0, seed=seed)

    def said(*, overlap: bool) -> list[Any]:
        sessions = []
        for prompt, budget in (("Paris has 2100001 people.", 12), ("Rome", 13), ("Prague has many.", 16)):
            limits = sg.Limits(max_new_tokens=budget)
            guards = Guarding([sg.BannedWords(["e"], scope="strings")], vocabulary)
            steering = Steering(grammar, "max_new_tokens", budget, guards=guards, cap_reader=CapReader(limits))
            rules = Rules(guards, Validating(validators_of(City), limits.validations), steering)
            ids = Prompt(tokenizer.encode(prompt))
            matcher = grammar.matcher()
            sessions.append(Session(ids, vocabulary, matcher=matcher, sampling=way, limits=limits, rules=rules))
        decode(module, vocabulary, sessions, execution=Execution(overlap=overlap))
        return [(session.text(), session.undone, str(session.error)) for session in sessions]

    plain = said(overlap=False)
    assert said(overlap=True) == plain
    assert any(undone for _, undone, _ in plain)
    for text, _, error in plain:
        assert "logits" not in error
        assert error != "None" or City.model_validate_json(text).n >= 10


class Pair(BaseModel):
    n: int
    s: str


def test_a_banned_word_near_the_budget_behind_a_capped_number():
    """The cap is not blamed for what the guards refuse, which would forbid nothing and choose the same for ever."""
    limits = sg.Limits(60, max_digits=4)
    run = sg.generate(scripted('{"n": 12345lalala"}'), "x", Pair, banned=["la"], limits=limits, details=True)
    assert run.value.n == 1234
    assert "la" not in run.value.s
