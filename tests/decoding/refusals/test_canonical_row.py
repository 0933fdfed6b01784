"""`generate(canonical=...)`: the tokens of a result are those that the tokenizer makes of its text."""

from __future__ import annotations

import gc
import math
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import structgen as sg
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.transcript import Transcript
from structgen.demo import load_demo
from structgen.errors import DeadEnd, OptionError
from structgen.masks.continuations import Continuations
from structgen.masks.words import ids_of
from structgen.models.model import Model
from structgen.models.row import Row
from tests.support.enumerable import chi_square
from tests.support.small_tokenizers import random_model
from tests.support.tables import cases

WORDS = cases("decoding/refusals/canonical_row", "WORDS")
SCHEMA = cases("decoding/refusals/canonical_row", "SCHEMA")


model_of = cache(lambda: random_model(WORDS * 20))


def text_ids(run: sg.Generation[Any], model: Model) -> list[int]:
    return [i for i in run.token_ids if i not in model.vocabulary.end_ids]


def drawn(model: Model, seed: int, **options: Any) -> sg.Generation[Any]:
    sampling = sg.Sampling(temperature=1.0, seed=seed)
    run = sg.generate(model, "Hello\n", SCHEMA, sampling=sampling, details=True, **options)
    assert isinstance(run, sg.Generation)
    return run


@pytest.mark.parametrize("mode", ["prefer", "strict", True])
def test_the_tokens_are_what_the_tokenizer_makes_of_the_text(mode: Any):
    model, spoiled = model_of(), 0
    for seed in range(12):
        run = drawn(model, seed, canonical=mode)
        ids = text_ids(run, model)
        assert model.tokenizer.encode(run.text) == ids
        assert model.vocabulary.is_canonical(ids)
        assert run.stats.canonical_relaxed == 0
        free = drawn(model, seed)
        spoiled += model.tokenizer.encode(free.text) != text_ids(free, model)
    assert spoiled > 6  # without it, this model's tokens are seldom the tokenizer's own


def canonical_law(model: Model, prompt: list[int], constraint: sg.Choice) -> dict[tuple[int, ...], float]:
    """Every text of a constraint with its probability, each step renormalised to what is allowed and canonical."""
    vocabulary, law = model.vocabulary, {}
    grammar = constraint.compile(vocabulary)
    row = CanonicalRow(vocabulary, Continuations.of(grammar, vocabulary.canonical), strict=True)
    waiting = [(Transcript(vocabulary, grammar.matcher(), Row(prompt), readers=[row]), 1.0)]
    while waiting:
        text, chance = waiting.pop()
        matcher, said = text.matcher, tuple(text.tokens)
        assert matcher is not None
        if matcher.can_finish:
            law[said] = chance
            continue
        tokens = [token for token in ids_of(matcher.mask()).tolist() if row.takes(text, token)]
        with torch.inference_mode():
            logits = model.module(torch.tensor([[*prompt, *said]])).logits[0, -1, tokens].double()
        for token, each in zip(tokens, torch.softmax(logits, 0).tolist(), strict=True):
            twin = text.fork()
            twin.take(token, None)
            waiting.append((twin, chance * each))
    return law


def test_drafts_keep_the_law_of_canonical_draws():
    begun, ends = (
        ["William and ", "Theodore and "],
        ["Theodore are the names", "the theory of Theodore", "the names of"],
    )
    model, names = model_of(), sg.Choice([start + end for start in begun for end in ends])
    prompt = model.tokenizer.encode("William and Theodore are the names of the theory of Theodore and the names\n")
    law = canonical_law(model, prompt, names)
    assert len(law) == 6
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-6)
    sampling = sg.Sampling(temperature=1.0, seed=5).several(400)
    runs = sg.generate(model, [prompt] * 400, names, sampling=sampling, canonical="strict", details=True, batch_size=1)
    assert isinstance(runs, list)
    assert chi_square([run.token_ids for run in runs], law) < 4.5
    assert sum(run.stats.drafted for run in runs) > 40


def test_forced_text_and_drafts_change_nothing():
    model = model_of()
    for seed in range(8):
        quick, slow = (drawn(model, seed, canonical=True, fast_forward=on) for on in (True, False))
        assert quick.token_ids == slow.token_ids
        assert slow.stats.fast_forwarded == 0
        assert quick.stats.forwards < slow.stats.forwards


def test_each_row_of_a_batch_is_as_alone():
    model = model_of()
    runs = sg.generate(model, ["Hello\n", "Hi\n", "Hello\n"], SCHEMA, canonical=True, details=True)
    alone = [sg.generate(model, prompt, SCHEMA, canonical=True, details=True) for prompt in ("Hello\n", "Hi\n")]
    assert [run.text for run in runs] == [alone[0].text, alone[1].text, alone[0].text]
    assert all(model.vocabulary.is_canonical(text_ids(run, model)) for run in runs)


@pytest.mark.parametrize(
    "options", [{"beams": 3}, {"banned": ["a"]}, {"thinking": True}, {"whitespace": sg.Whitespace.COMPACT}]
)
def test_it_goes_with_other_options(options: dict[str, Any]):
    model = model_of()
    run = sg.generate(model, "Hello\n", SCHEMA, canonical=True, details=True, **options)
    assert model.vocabulary.is_canonical(text_ids(run, model))


class ByTable:
    """A model's next token by a table of probabilities, whatever it was asked."""

    def __init__(self, table: dict[int, float]) -> None:
        self._table = table

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = torch.full_like(scores, -20.0)
        for token, chance in self._table.items():
            scores[:, token] = torch.tensor(chance).log()
        return scores


def test_a_beginning_that_is_no_token_of_the_text_is_not_taken_for_it():
    """A model that is about to say "The ..." does not mean Theodore, whose name is one token."""
    model = model_of()
    ids = {word: model.tokenizer.encode(word) for word in ("William", "Theodore", "The")}
    assert all(len(tokens) == 1 for tokens in ids.values())
    sampling = sg.Sampling(processors=[ByTable({ids["The"][0]: 0.6, ids["William"][0]: 0.3, ids["Theodore"][0]: 0.05})])
    asked = {"schema": sg.Choice(["William", "Theodore"]), "sampling": sampling}
    assert sg.generate(model, "Hello\n", **asked) == "Theodore"
    assert sg.generate(model, "Hello\n", **asked, canonical=True) == "William"


def test_where_nothing_is_canonical_the_step_is_relaxed_or_the_row_fails():
    """`</s>` is the end token to the tokenizer: its letters are never canonical."""
    model, schema = model_of(), sg.Choice(["x</s>y"])
    run = sg.generate(model, "Hello\n", schema, canonical="prefer", details=True)
    assert run.text == "x</s>y"
    assert run.stats.canonical_relaxed > 0
    with pytest.raises(DeadEnd, match='canonical="prefer" relaxes such a step'):
        sg.generate(model, "Hello\n", schema, canonical="strict")


def test_plain_text_is_canonical_too():
    model = model_of()
    for seed in range(4):
        run = sg.generate(
            model, "Hello\n", canonical=True, details=True, sampling=sg.Sampling(temperature=1.0, seed=seed),
            limits=sg.Limits(max_new_tokens=40),
        )  # fmt: skip
        ids = text_ids(run, model)
        while ids and not model.vocabulary.is_canonical(ids):  # cut off by the budget within a character
            ids.pop()
        assert len(ids) > 30


def test_the_demo_model_says_the_same_sure_things():
    model = Model.of(*load_demo())
    prompt = "Mary Shelley published The Last Man in 1826; my copy has 479 pages."
    schema = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
    run = sg.generate(model, prompt, schema, canonical="strict", details=True)
    assert model.vocabulary.is_canonical(text_ids(run, model))


def test_a_trained_model_of_stories_with_sentencepiece(data_folder: Path):
    model = sg.load(data_folder / "stories260k")
    names = sg.Choice([" Lily", " Tim", " a big dog named Max", " the little girl"])
    for seed in range(6):
        sampling = sg.Sampling(temperature=1.0, seed=seed)
        run = sg.generate(
            model, "Once upon a time there was", names, canonical="strict", sampling=sampling, details=True
        )
        assert model.vocabulary.is_canonical(text_ids(run, model))


@pytest.mark.parametrize("wrong", ["always", 1, "Strict"])
def test_a_wrong_mode_is_refused(wrong: Any):
    with pytest.raises(OptionError, match="canonical"):
        sg.generate(model_of(), "Hello\n", SCHEMA, canonical=wrong)


def test_what_is_known_of_a_grammar_goes_with_it():
    vocabulary = model_of().vocabulary
    grammar = sg.Choice(["William", "Theodore"]).compile(vocabulary)
    known = Continuations.of(grammar, vocabulary.canonical)
    assert Continuations.of(grammar, vocabulary.canonical) is known
    left = weakref.ref(grammar)
    del grammar, known
    gc.collect()
    assert left() is None


def test_a_token_that_was_refused_is_not_chosen_again() -> None:
    """A mask of few continuations may hold a token from which the row cannot go on: the rows went in a circle."""
    model = Model.of(*load_demo())
    members = {"x": {"type": ["string", "null"]}, "y": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}}
    schema = {"type": "object", "properties": members, "required": ["x"]}
    prompt = "Extract the person: name, age, city.\nText: Kim, 51, lives in Oslo.\nJSON: "
    runs = sg.generate(
        model, [[{"role": "user", "content": prompt}]] * 3, schema,
        sampling=sg.Sampling(1.2, min_p=0.05, typical_p=0.8, seed=221), limits=sg.Limits(48, max_items=2),
        banned=["Ada", "the"], canonical=True, prompt_schema=False, batch_size=2, details=True,
    )  # fmt: skip
    assert [run.finish for run in runs] == ["complete"] * 3
    assert all(run.stats.forwards < 100 for run in runs)
