"""Masks replayed over texts: the law under them is the one that has drawn the texts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import structgen as sg
from structgen.demo.tasks import Person
from structgen.integrations.transformers import ConstraintLogitsProcessor
from structgen.masks.words import bits_of

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
TOKENS = [b"a", b"b", b"ab", b"c", b"}"]
END = len(TOKENS)
PATTERN = sg.Regex(r"(a|b){1,3}c?")


@pytest.fixture(scope="module")
def toy() -> sg.engine.Grammar:
    return PATTERN.compile(sg.engine.Vocabulary.from_tokens([*TOKENS, None], end_ids=[END]))


def texts_of(grammar: sg.engine.Grammar) -> list[list[int]]:
    """All sequences of tokens that the grammar has, with their end token."""
    found = list[list[int]]()
    for length in range(1, 6):
        for ids in itertools.product(range(END), repeat=length - 1):
            matcher = grammar.matcher()
            try:
                for token in (*ids, END):
                    matcher.advance(token)
            except sg.errors.TokenRejected:
                continue
            found.append([*ids, END])
    return found


def test_the_gradient_is_that_of_enumeration(toy: sg.engine.Grammar) -> None:
    """The expected reward, by the law computed by hand, has the gradient that the replayed log-probabilities give."""
    torch.manual_seed(3)
    weights = torch.randn(5, END + 1, dtype=torch.float64, requires_grad=True)
    texts = texts_of(toy)
    reward = {tuple(ids): float(len(ids) ** 2 + ids[0]) for ids in texts}
    expected = torch.zeros((), dtype=torch.float64)
    for ids in texts:
        chance = torch.ones((), dtype=torch.float64)
        for place, token in enumerate(ids):
            allowed = sorted({other[place] for other in texts if other[:place] == ids[:place]})
            chance = chance * weights[place, token].exp() / weights[place, allowed].exp().sum()
        expected = expected + chance * reward[tuple(ids)]
    (wanted,) = torch.autograd.grad(expected, weights)

    logs = {tuple(ids): sg.replay(toy, ids).logprobs(weights[: len(ids)]).sum() for ids in texts}
    assert sum(float(each.detach().exp()) for each in logs.values()) == pytest.approx(1, abs=1e-12)
    surrogate = sum(each.exp().detach() * reward[ids] * each for ids, each in logs.items())
    assert isinstance(surrogate, torch.Tensor)
    (got,) = torch.autograd.grad(surrogate, weights)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
    unmasked = {ids: weights[: len(ids)].log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum() for ids in logs}
    wrong = sum(logs[ids].exp().detach() * reward[ids] * each for ids, each in unmasked.items())
    assert isinstance(wrong, torch.Tensor)
    assert not torch.allclose(torch.autograd.grad(wrong, weights)[0], wanted, atol=1e-2)


def test_what_the_loop_has_drawn_has_the_ratio_one() -> None:
    """The probabilities that were drawn, and those of another forward pass over the text: equal, forced tokens too."""
    model = sg.load("demo")
    grammar = sg.JsonSchema(Person).compile(model.vocabulary)
    prompt = model.tokenizer(PROMPT)["input_ids"]
    for seed in range(3):
        options = sg.Sampling(temperature=1.5, seed=seed)
        run = sg.generate(model, PROMPT, schema=Person, sampling=options, details=True)
        tokens, ids = run.trace.tokens, list(run.token_ids)
        replayed = sg.replay(grammar, ids, forced=[token.forced for token in tokens])
        with torch.no_grad():
            logits = model.module(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        logs, masses = replayed.logprobs(logits / 1.5), replayed.log_masses(logits)
        asked = 0
        for token, log, mass, mask in zip(tokens, logs.tolist(), masses.tolist(), replayed.masks, strict=True):
            if token.chance is None or token.removed is None:
                assert token.forced
                assert log == 0
            else:
                asked += 1
                assert bits_of(mask, replayed.width).sum() == token.allowed
                assert math.exp(mass) == pytest.approx(1 - token.removed, abs=1e-5)
        assert asked >= 8
        assert len(replayed.distinct) < len(ids)


def test_rollouts_of_transformers_have_the_ratio_one() -> None:
    """Sampled by `generate` of transformers under the masks: the probabilities are those of the scores it drew from."""
    model = sg.load("demo")
    grammar = sg.JsonSchema(Person).compile(model.vocabulary)
    inputs = model.tokenizer(PROMPT, return_tensors="pt")
    torch.manual_seed(0)
    drawn = model.module.generate(
        **inputs, do_sample=True, top_k=0, max_new_tokens=60, return_dict_in_generate=True, output_scores=True,
        output_logits=True, logits_processor=[ConstraintLogitsProcessor(Person, model)],
    )  # fmt: skip
    ids = drawn.sequences[0, inputs["input_ids"].shape[1] :]
    scores = torch.cat(drawn.scores).log_softmax(-1).gather(1, ids[:, None]).squeeze(1)
    replayed = sg.replay(grammar, ids.tolist())
    ratio = (replayed.logprobs(torch.cat(drawn.logits)) - scores).exp()
    assert float((ratio - 1).abs().max()) < 1e-6
    law = torch.cat(drawn.scores).softmax(-1)
    entropies = torch.special.entr(law).sum(-1)
    torch.testing.assert_close(replayed.entropies(torch.cat(drawn.logits)), entropies, rtol=1e-5, atol=1e-6)


def test_a_text_of_another_grammar_is_refused(toy: sg.engine.Grammar) -> None:
    """By the place of its first wrong token; and nothing comes after an end."""
    with pytest.raises(sg.errors.TokenRejected, match="at byte 2"):
        sg.replay(toy, [0, 1, 4])
    with pytest.raises(sg.errors.TokenRejected, match="after the end"):
        sg.replay(toy, [0, END, END])
    with pytest.raises(sg.OptionError, match="a bool for each of 2 tokens"):
        sg.replay(toy, [0, END], forced=[True])
    with pytest.raises(sg.OptionError, match=r"expected float\[2, 6\]"):
        sg.replay(toy, [0, END]).logprobs(torch.zeros(3, 6))
    assert sg.replay(toy, []).masks.shape == (0, 1)


def test_a_matcher_says_where_the_text_begins(toy: sg.engine.Grammar) -> None:
    """What comes before it is not replayed, and it does not move."""
    matcher = toy.matcher()
    matcher.advance(2)
    replayed = sg.replay(matcher, [3, END])
    assert matcher.token_ids == (2,)
    assert [bits_of(mask, END + 1).nonzero()[0].tolist() for mask in replayed.masks] == [[0, 1, 3, END], [END]]
