"""Our loop inside `generate` of transformers, held to `structgen.generate`."""

from __future__ import annotations

import pytest
import torch
from pydantic import BaseModel, Field
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.integrations.transformers import ConstrainedOutput, constrained_generate
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
PROMPTS = [
    PROMPT.format("Ada Moreau, 36, lives in Lyon."),
    PROMPT.format("Tom Berg is 51 years old, and he lives in a small house in Oslo."),
]


class Tags(BaseModel):
    name: str
    tags: list[str] = Field(min_length=3)


@pytest.fixture(scope="module")
def demo() -> tuple[PreTrainedModel, object]:
    model, tokenizer = load_demo()
    tokenizer.padding_side = "left"
    return model, tokenizer


def said(demo, prompts, schema, max_new_tokens=80, *, arguments=None, **options):
    """What `generate` of transformers gives: the texts, or its whole output."""
    model, tokenizer = demo
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    decode = constrained_generate(schema, tokenizer, **options)
    output = model.generate(**inputs, max_new_tokens=max_new_tokens, custom_generate=decode, **(arguments or {}))
    if isinstance(output, ConstrainedOutput):
        return output
    assert torch.equal(output[:: len(output) // len(prompts), : inputs["input_ids"].shape[1]], inputs["input_ids"])
    return tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def ours(demo, prompts, schema, **options) -> list[str]:
    model, tokenizer = demo
    return [run.text for run in sg.generate(model, prompts, schema, tokenizer=tokenizer, details=True, **options)]


def test_greedy_texts_are_those_of_our_own_call(demo):
    schemas = [Person, sg.Choice(["Lyon", "Oslo"])]
    for schema in (Person, schemas):
        assert said(demo, PROMPTS, schema) == ours(demo, PROMPTS, schema)


def test_banned_words_send_the_loop_back(demo):
    output = said(demo, PROMPTS, Person, banned=["Lyon", "Oslo"], arguments={"return_dict_in_generate": True})
    for run in output.generations:
        assert "Lyon" not in run.text
        assert "Oslo" not in run.text
        assert run.stats.rollbacks > 0
    assert output.sequences.shape[0] == 2


def test_a_value_is_closed_within_max_new_tokens(demo):
    with pytest.warns(sg.BudgetWarning, match="max_new_tokens=24"):
        texts = said(demo, PROMPTS[:1], Tags, 24)
    Tags.model_validate_json(texts[0])
    with pytest.raises(sg.BudgetExhausted):
        said(demo, PROMPTS[:1], Tags, 24, limits=sg.Limits(strict=True))


def test_forced_text_is_not_asked_for(demo):
    output = said(demo, PROMPTS[:1], Person, arguments={"return_dict_in_generate": True})
    assert output.generations[0].stats.fast_forwarded > 0
    assert isinstance(output.generations[0].value, Person)


def test_torchs_seed_draws_the_same_samples(demo):
    arguments = {"do_sample": True, "temperature": 2.0, "num_return_sequences": 3}
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(said(demo, PROMPTS, Person, arguments=arguments))
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 6
    assert all(Person.model_validate_json(text) for text in drawn[0])
    assert len(set(drawn[0])) > 1


def test_processors_of_the_call_count(demo):
    liked, other = "Oslo", "Lyon"
    vocabulary = sg.Vocabulary.from_tokenizer(demo[1])
    arguments = {"suppress_tokens": [i for i in range(vocabulary.width) if vocabulary.token(i).startswith(b"O")]}
    cities = sg.Choice(["Lyon", "Oslo"])
    assert said(demo, PROMPTS[:1], cities) == [liked]
    assert said(demo, PROMPTS[:1], cities, arguments=arguments) == [other]


def test_beams_are_those_of_our_own_call(demo):
    model, tokenizer = demo
    arguments = {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5}
    texts = said(demo, PROMPTS, Person, arguments=arguments)
    beams = sg.Beams(3, length_penalty=0.5)
    runs = sg.generate(model, PROMPTS, Person, tokenizer=tokenizer, beams=beams, details=True)
    assert texts == [found.text for run in runs for found in run.beams[:2]]
    with pytest.raises(sg.RunError, match="found 1 texts"):
        said(demo, PROMPTS, sg.Choice(["Lyon"]), arguments=arguments)


def test_an_encoder_decoder_model_reads_its_source():
    tokenizer = byte_level_bpe(["abc def", "abc abc"], 280)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, eos_token_id=0,
        pad_token_id=0, decoder_start_token_id=0,
    )  # fmt: skip
    model, pattern = T5ForConditionalGeneration(config).eval(), sg.Regex("[a-f]{3,9}")
    with torch.no_grad():  # what is read counts for more
        for parameter in model.parameters():
            parameter.mul_(5.0) if parameter.dim() > 1 else None
    padded = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    decode = constrained_generate(pattern, tokenizer)
    output = model.generate(input_ids=padded, attention_mask=padded.ne(0).long(), custom_generate=decode, max_length=12)
    texts = tokenizer.batch_decode(output, skip_special_tokens=True)
    limits = sg.Limits(max_new_tokens=11)
    assert texts == sg.generate(sg.Model.of(model, tokenizer), [[5, 6, 7, 8], [9, 10]], pattern, limits=limits)
    assert len(set(texts)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases("integrations/transformers/custom_generate", "what_the_loop_cannot_do_is_refused", globals()),
)
def test_what_the_loop_cannot_do_is_refused(demo, arguments, message):
    with pytest.raises(sg.OptionError, match=message):
        said(demo, PROMPTS[:1], Person, arguments=arguments)


def test_a_failure_says_which_prompt_it_was(demo):
    with pytest.raises(sg.StructgenError, match=r"prompt\[1\]"):
        said(demo, PROMPTS, [sg.Choice(["Lyon"]), Tags], 24, limits=sg.Limits(strict=True))
