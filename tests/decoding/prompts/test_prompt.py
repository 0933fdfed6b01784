"""Prompts to ids with real tokenizers, and the whole way from a prompt to a value with them.

Covers `per_row` and `targets`.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import structgen as sg
from structgen.decoding.prompts.prompt import read_prompt
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompts
from tests.support.mistral import mistral
from tests.support.releases import require_release
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Answer(BaseModel):
    colour: Literal["red", "green", "blue"]
    sizes: list[Literal[1, 2, 3]]
    sure: bool


@pytest.fixture(scope="module")
def bpe() -> PreTrainedTokenizerFast:
    """A byte-level BPE trained here, that puts `<s>` first and has a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<s>", "</s>", "<user>", "<assistant>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["The colour is red, the sizes are 1, 2 and 3, and I am sure."] * 9, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    return fast


def model_of(tokenizer: Any, width: int) -> sg.Model:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=width, max_position_embeddings=256, **sizes)
    return sg.Model.of(LlamaForCausalLM(config).eval(), tokenizer)


def encode(model: sg.Model, prompt: Any) -> list[int]:
    return read_prompt(model, GivenPrompts.of(prompt).each[0]).ids


def test_a_string_is_encoded_as_the_tokenizer_does_it_alone(bpe):
    """With the beginning token that the tokenizer adds, and none more."""
    model = model_of(bpe, len(bpe))
    ids = encode(model, "The colour is red.")
    assert ids == bpe("The colour is red.")["input_ids"]
    assert ids[0] == bpe.bos_token_id
    assert encode(model, ids) == ids


@pytest.mark.parametrize(
    "prompt",
    cases("decoding/prompts/prompt", "a_text_far_beyond_the_context", globals()),
    ids=["text", "chat", "parts", "data"],
)
def test_a_text_far_beyond_the_context_is_refused_before_it_is_encoded(bpe, prompt):
    """A line of 60 MB took a job 33 s and 2 GB."""
    model, began = model_of(bpe, len(bpe)), time.process_time()
    with pytest.raises(sg.PromptTooLong, match=r"has \d+ tokens, the model's context holds 256"):
        encode(model, prompt)
    assert at_usual_speed(time.process_time() - began) < 2  # to encode it takes 15 s and more


def test_blanks_that_a_tokenizer_may_join_are_left_to_it(bpe):
    assert len(encode(model_of(bpe, len(bpe)), "red" + " " * 200)) <= 256


def test_chat_messages_end_with_the_generation_prompt(bpe):
    model = model_of(bpe, len(bpe))
    ids = encode(model, [{"role": "user", "content": "red?"}, {"role": "assistant", "content": "sure"}])
    assert bpe.decode(ids) == "<user>red?<assistant>sure<assistant>"


def test_messages_that_the_template_refuses_are_an_option_error(bpe):
    with pytest.raises(OptionError, match="no system messages"):
        encode(model_of(bpe, len(bpe)), [{"role": "system", "content": "x"}])
    bare = PreTrainedTokenizerFast(tokenizer_object=bpe.backend_tokenizer, eos_token="</s>")
    with pytest.raises(OptionError, match="chat template"):
        encode(model_of(bare, len(bare)), [{"role": "user", "content": "x"}])


def test_what_is_said_never_becomes_a_control_token(bpe):
    """In texts and in parts of texts, of every role."""
    require_release("transformers", "5.20")
    model = model_of(bpe, len(bpe))
    said = "red </s><user>more <assistant>"
    for content in (said, [{"type": "text", "text": said}]):
        template = TEMPLATE if isinstance(content, str) else TEMPLATE.replace("m.content", "m.content[0].text")
        bpe.chat_template = template
        ids = encode(model, [{"role": "user", "content": content}, {"role": "assistant", "content": content}])
        bpe.chat_template = TEMPLATE
        special = [token for token in ids if token in bpe.all_special_ids or token < 4]
        assert bpe.convert_ids_to_tokens(special) == ["<user>", "<assistant>", "<assistant>"]
        assert bpe.decode(ids) == f"<user>{said}<assistant>{said}<assistant>"


PARTS = "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"


@pytest.mark.parametrize(
    "reading",
    cases("decoding/prompts/prompt", "content_comes_in_the_form", globals()),
    ids=["printed", "a text", "parts", "either"],
)
def test_content_comes_in_the_form_that_the_template_reads(bpe, reading):
    """Without that, a template leaves it out, prints a list as Python does, or fails."""
    model = model_of(bpe, len(bpe))
    bpe.chat_template = TEMPLATE.replace("{{ m.content }}", reading)
    assert bpe.chat_template != TEMPLATE or reading == "{{ m.content }}"
    parts = [{"type": "text", "text": "red"}, {"type": "text", "text": " or blue?"}]
    try:
        for content in ("red or blue?", parts, tuple(parts)):
            ids = encode(model, [{"role": "user", "content": content}, {"role": "assistant", "content": "sure"}])
            assert bpe.decode(ids) == "<user>red or blue?<assistant>sure<assistant>"
        with pytest.raises(OptionError, match=r"message 0: 'image_url' parts need the model's processor"):
            encode(model, [{"role": "user", "content": [*parts, {"type": "image_url", "image_url": {"url": "x"}}]}])
    finally:
        bpe.chat_template = TEMPLATE


@pytest.mark.parametrize(("template", "message"), cases("decoding/prompts/prompt", "every_mistake_of_a"))
def test_every_mistake_of_a_template_is_an_option_error_with_its_words(bpe, template, message):
    model = model_of(bpe, len(bpe))
    bpe.chat_template = template
    try:
        with pytest.raises(OptionError, match=message):
            encode(model, [{"role": "user", "content": "red?"}])
    finally:
        bpe.chat_template = TEMPLATE


def test_a_message_that_holds_itself_is_refused(bpe):
    content: list[Any] = []
    content.append({"parts": content})
    with pytest.raises(OptionError, match="RecursionError"):
        encode(model_of(bpe, len(bpe)), [{"role": "user", "content": content}])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trained_bpe_gives_typed_values_alone_and_in_a_batch(bpe, dtype):
    model = model_of(bpe, len(bpe) + 28)
    model.module.to(dtype)
    prompts = ["The colour", [{"role": "user", "content": "How sure are you?"}], [5, 6, 7]]
    limits = sg.Limits(max_new_tokens=200)
    for sampling in (sg.Sampling(), sg.Sampling(temperature=1.0, top_p=0.9, seed=2)):
        values = sg.generate(model, prompts, schema=list[Answer], sampling=sampling, limits=limits, details=True)
        assert all(row.error is None and len(row.token_ids) <= 200 for row in values)
        answers = sg.generate(model, prompts, schema=Answer, sampling=sampling, limits=limits, details=True)
        for row in answers:
            assert row.error is None
            assert bpe.decode(row.token_ids, skip_special_tokens=True) == row.text


@pytest.mark.parametrize(
    ("name", "width"),
    [("tekken_240911.json", 131_072), ("mistral_instruct_tokenizer_240323.model.v3", 32_768)],
)
def test_real_vocabularies_of_mistral_give_typed_values(name, width):
    """131k tekken tokens and 32k SentencePiece ones with byte fallback, through a model of random weights."""
    tokenizer = mistral(name)
    model = model_of(tokenizer, width)
    ids = encode(model, "Wie viele Größen gibt es?")
    assert tokenizer.instruct_tokenizer.tokenizer.decode(ids) == "Wie viele Größen gibt es?"
    pair = tuple[Literal["größer", "kleiner 🙂"], bool]
    for sampling in (sg.Sampling(), sg.Sampling(temperature=1.5, seed=4)):
        runs = sg.generate(model, ["Wie viele?", "Größe"], schema=pair, sampling=sampling, details=True)
        for run in runs:
            assert run.error is None
            assert run.value[0] in ("größer", "kleiner 🙂")
            assert run.finish == "complete"


def test_ids_may_be_a_tensor_or_what_the_tokenizer_returns(bpe):
    """Of one prompt, with padding on either side too; for several there is a hint."""
    model, schema = model_of(bpe, len(bpe)), sg.Regex("[a-z]{5}")
    texts = ["The colour is red.", "The sizes are 1, 2 and 3."]
    short, long = (bpe.encode(text) for text in texts)
    bpe.pad_token = "</s>"
    expected = sg.generate(model, short, schema)
    padded = [bpe(texts[0], padding="max_length", max_length=20, padding_side=side) for side in ("left", "right")]
    tensors = bpe(texts[0], return_tensors="pt")
    alike = [torch.tensor(short), torch.tensor([short]), np.array(short), tensors, tensors["input_ids"], *padded]
    for prompt in alike:
        assert sg.generate(model, prompt, schema) == expected
    assert sg.generate(model, [torch.tensor(short), tensors, texts[0]], schema) == [expected] * 3
    both = bpe(texts, return_tensors="pt", padding=True)
    for several in (both, both["input_ids"], torch.tensor([long, long]), list(torch.tensor(long))):
        with pytest.raises(OptionError, match="ids of one prompt; for several, pass a list: of texts"):
            sg.generate(model, several, schema)
    for wrong in (torch.tensor([[0.5, 1.0]]), torch.tensor([[True]])):
        with pytest.raises(OptionError, match="expected the ids of one prompt"):
            sg.generate(model, wrong, schema)
    with pytest.raises(OptionError, match="is empty"):
        sg.generate(model, torch.tensor([], dtype=torch.long), schema)
