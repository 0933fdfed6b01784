"""The processor in transformers' own loop, held to structgen's loop without forced text."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import LogitsProcessor, PreTrainedModel

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.integrations.transformers import ConstraintLogitsProcessor
from tests.support.small_tokenizers import random_model

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
TEXTS = [
    "Ada Moreau, 36, lives in Lyon.",
    "Tom Berg is 51 years old, and he lives in a small house in Oslo.",
    "Zoe, 9, Rome.",
]
PROMPTS = [PROMPT.format(text) for text in TEXTS]
CITY = sg.Choice(["Lyon", "Oslo", "Rome"])


@pytest.fixture(scope="module")
def demo() -> tuple[PreTrainedModel, object]:
    model, tokenizer = load_demo()
    tokenizer.padding_side = "left"
    return model, tokenizer


def said(demo, schema, prompts, **options) -> list[str]:
    """The texts that `generate` of transformers gives."""
    model, tokenizer = demo
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    processor = ConstraintLogitsProcessor(schema, model, tokenizer)
    ids = model.generate(**inputs, max_new_tokens=80, logits_processor=[processor], **options)
    return tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def ours(demo, schema, prompts) -> list[str]:
    model, tokenizer = demo
    runs = sg.generate(model, prompts, schema, tokenizer=tokenizer, fast_forward=False, details=True)
    return [run.text for run in runs]


def test_prompts_of_different_length_padded_on_the_left(demo):
    assert said(demo, Person, PROMPTS) == ours(demo, Person, PROMPTS)


def test_canonical_masks_are_those_of_our_loop():
    """Also with beams, which change places. Random weights: their own choice is rarely canonical."""
    model = random_model(["William and Theodore are the names of the theory"] * 20)
    schema = {"type": "object", "properties": {"name": {"enum": ["William", "Theodore"]}, "n": {"enum": [7, 77]}}}
    schema |= {"required": ["name", "n"], "additionalProperties": False}
    prompt = model.tokenizer("Hello\n", return_tensors="pt")
    start = prompt["input_ids"].shape[1]
    for canonical, beams in [("off", 1), ("strict", 1), ("strict", 3)]:
        processor = ConstraintLogitsProcessor(schema, model, canonical=canonical)
        ids = model.module.generate(**prompt, max_new_tokens=120, num_beams=beams, logits_processor=[processor])
        tokens = [i for i in ids[0, start:].tolist() if i not in model.vocabulary.end_ids]
        assert model.vocabulary.is_canonical(tokens) == (canonical == "strict")
        if beams == 1:
            run = sg.generate(
                model, "Hello\n", schema, canonical=canonical, fast_forward=False, token_healing=False, details=True,
                limits=sg.Limits(max_new_tokens=120),
            )  # fmt: skip
            assert tokens == [i for i in run.token_ids if i not in model.vocabulary.end_ids]


def test_each_prompt_has_its_schema_and_none_is_plain_text(demo):
    schemas = [Person, CITY, None]
    with_mask = said(demo, schemas, PROMPTS)
    assert with_mask[:2] == ours(demo, schemas, PROMPTS)[:2]
    model, tokenizer = demo
    inputs = tokenizer([PROMPTS[2]], return_tensors="pt")
    free = model.generate(**inputs, max_new_tokens=80)[:, inputs["input_ids"].shape[1] :]
    assert with_mask[2] == tokenizer.decode(free[0], skip_special_tokens=True)


def test_samples_of_several_sequences_are_valid(demo):
    torch.manual_seed(0)
    texts = said(demo, [Person, CITY], PROMPTS[:2], do_sample=True, temperature=2.0, num_return_sequences=4)
    people, cities = texts[:4], texts[4:]
    assert len(set(people)) > 1
    assert all(Person.model_validate_json(text) for text in people)
    assert set(cities) <= {"Lyon", "Oslo", "Rome"}


@pytest.mark.parametrize("beams", [2, 5])
def test_beams_change_places_and_stay_valid(demo, beams):
    texts = said(demo, Person, PROMPTS, num_beams=beams, num_return_sequences=2)
    assert len(texts) == 6
    assert all(Person.model_validate_json(text) for text in texts)
    assert all(texts[i] != texts[i + 1] for i in (0, 2, 4))


def test_more_beams_than_texts(demo):
    """Two beams out of three have nothing left to say: they go on with scores of minus infinity."""
    assert said(demo, sg.Choice(["Lyon"]), PROMPTS[:1], num_beams=3) == ["Lyon"]


def test_prompt_lookup_goes_back_behind_wrong_guesses(demo):
    assert said(demo, Person, PROMPTS[:1], prompt_lookup_num_tokens=4) == ours(demo, Person, PROMPTS[:1])


def test_an_assistant_guesses(demo):
    assert said(demo, Person, PROMPTS[:1], assistant_model=load_demo()[0]) == ours(demo, Person, PROMPTS[:1])


def test_columns_beyond_the_vocabulary_are_forbidden(demo):
    model, tokenizer = demo
    processor = ConstraintLogitsProcessor(CITY, model, tokenizer)
    width = sg.Vocabulary.from_tokenizer(tokenizer).width
    scores = processor(torch.tensor([[5, 6]]), torch.zeros(1, width + 7))
    assert scores.shape == (1, width + 7)
    allowed = CITY.compile(sg.Vocabulary.from_tokenizer(tokenizer)).matcher().allowed_tokens()
    assert torch.isfinite(scores[0]).nonzero()[:, 0].tolist() == allowed


class _PutsUp(LogitsProcessor):
    """Allows one token again, whatever came before."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores[:, 5] = 1e9
        return scores


def test_a_row_that_left_its_constraint_is_an_error(demo):
    model, tokenizer = demo
    inputs = tokenizer(PROMPTS[:1], return_tensors="pt")
    processor = ConstraintLogitsProcessor(CITY, model, tokenizer)
    with pytest.raises(sg.TokenRejected, match="token 5"):
        model.generate(**inputs, max_new_tokens=9, logits_processor=[processor, _PutsUp()])


def test_a_processor_is_for_one_call(demo):
    model, tokenizer = demo
    processor = ConstraintLogitsProcessor(CITY, model, tokenizer)
    for prompt in PROMPTS[:2]:
        inputs = tokenizer([prompt], return_tensors="pt")
        if prompt == PROMPTS[1]:
            with pytest.raises(sg.OptionError, match="make another"):
                model.generate(**inputs, max_new_tokens=9, logits_processor=[processor])
        else:
            model.generate(**inputs, max_new_tokens=9, logits_processor=[processor])


def test_schemas_that_are_not_one_for_each_prompt_are_refused(demo):
    with pytest.raises(sg.OptionError, match="2 schemas for 3 rows"):
        said(demo, [CITY, CITY], PROMPTS)
    with pytest.raises(sg.OptionError, match="one for each prompt"):
        said(demo, [], PROMPTS)


def test_json_schemas_take_whitespace_and_order(demo):
    model, tokenizer = demo
    schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a", "b"]}
    inputs = tokenizer(PROMPTS[:1], return_tensors="pt")
    processor = ConstraintLogitsProcessor(
        schema | {"additionalProperties": False}, model, tokenizer, whitespace=sg.Whitespace.COMPACT, order=["b", "a"]
    )
    ids = model.generate(**inputs, max_new_tokens=40, logits_processor=[processor])
    text = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert text == '{"b":null,"a":null}'
    assert list(json.loads(text)) == ["b", "a"]
