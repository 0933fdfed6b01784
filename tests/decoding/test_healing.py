"""Token healing: the prompt's last token and the beginning of the answer are chosen together."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import torch

import structgen as sg
from structgen.constraints.basic import JsonSchema
from structgen.decoding.healing import continuing
from structgen.errors import OptionError
from structgen.models.model import Model
from structgen.vocabulary import Vocabulary
from tests.support.small_tokenizers import random_model
from tests.support.tables import cases

WORDS = cases("decoding/healing", "WORDS", globals())
CITIES = sg.Regex("(Paris|Madrid|Lisbon)( and (Paris|Madrid))?")
SCHEMAS: list[Any] = cases("decoding/healing", "SCHEMAS", globals())


model_of = cache(lambda: random_model(WORDS * 20))


def encoded(model: Model, text: str) -> list[int]:
    ids: list[int] = model.tokenizer.encode(text, add_special_tokens=False)
    return ids


def prompts(count: int) -> list[str]:
    """Texts that end anywhere, every other one with a blank."""
    draw = random.Random(1)
    cut = [(text := draw.choice(WORDS))[: draw.randint(4, len(text))] for _ in range(count)]
    return [text.rstrip() + " " * (index % 2) for index, text in enumerate(cut)]


def sequence(model: Model, prompt: str, run: sg.Generation[Any]) -> list[int]:
    """All that the model has read and said, without an end token."""
    said = [token for token in run.token_ids if token not in model.vocabulary.end_ids]
    return encoded(model, prompt)[: run.prompt_tokens] + said


@pytest.mark.parametrize("schema", SCHEMAS, ids=["text", "regex", "choice", "json"])
def test_prompt_and_answer_are_encoded_as_if_they_were_one_text(schema: Any) -> None:
    model, healed, spoiled = model_of(), 0, 0
    for seed, prompt in enumerate(prompts(8)):
        options = {"sampling": sg.Sampling(temperature=1.0, seed=seed), "limits": sg.Limits(max_new_tokens=60)}
        run = sg.generate(model, prompt, schema, canonical=True, details=True, **options)
        assert run.stats.canonical_relaxed == 0 or run.caps
        if not run.caps:
            assert sequence(model, prompt, run) == encoded(model, prompt + run.text), (prompt, run.text)
        assert len(run.logprobs) == len(run.token_ids)
        healed += bool(run.healed)
        free = sg.generate(model, prompt, schema, canonical=True, token_healing=False, details=True, **options)
        assert free.healed == ""
        spoiled += sequence(model, prompt, free) != encoded(model, prompt + free.text)
    assert healed > 1
    assert spoiled > 0


def test_without_canonical_tokens_the_answer_still_begins_where_the_prompt_ends() -> None:
    model = model_of()
    for seed, prompt in enumerate(prompts(20)):
        run = sg.generate(
            model,
            prompt,
            CITIES,
            token_healing=True,
            details=True,
            sampling=sg.Sampling(temperature=1.0, seed=seed),
        )
        assert run.value == run.text
        assert run.text.startswith(("Paris", "Madrid", "Lisbon"))
        vocabulary = model.vocabulary
        whole = vocabulary.decode(token for token in sequence(model, prompt, run))
        assert whole.decode() == prompt + run.text
        if run.healed:
            assert prompt.endswith(run.healed)
            assert vocabulary.token(run.token_ids[0]).startswith(run.healed.encode())


def test_off_by_default_and_never_behind_a_line() -> None:
    model = model_of()
    assert sg.generate(model, "The capital is ", CITIES, details=True).healed == ""
    assert sg.generate(model, "The capital?\n", CITIES, details=True, canonical=True).healed == ""


def test_a_ban_of_what_the_healed_token_says_is_kept() -> None:
    """The row goes back behind the prompt as it was."""
    model = model_of()
    for seed in range(15):
        run = sg.generate(
            model, "The capital is ", sg.Regex("(Paris|Madrid|Lisbon)"), token_healing=True, details=True,
            banned=["Paris", "Madrid"], sampling=sg.Sampling(temperature=1.0, seed=seed),
        )  # fmt: skip
        assert run.text == "Lisbon"
        assert model.vocabulary.decode(sequence(model, "The capital is ", run)).decode() == "The capital is Lisbon"


def test_batches_and_streams_say_the_same() -> None:
    model, asked = model_of(), prompts(6)
    options: dict[str, Any] = {"canonical": True, "limits": sg.Limits(max_new_tokens=60)}
    single = [sg.generate(model, prompt, CITIES, details=True, **options) for prompt in asked]
    together = sg.generate(model, asked, CITIES, details=True, **options)
    assert [run.token_ids for run in together] == [run.token_ids for run in single]
    for prompt, run in zip(asked, single, strict=True):
        events = list(sg.stream(model, prompt, CITIES, **options))
        assert "".join(event.text for event in events) == run.text
        assert events[-1].result.token_ids == run.token_ids


def test_the_law_of_the_first_token_is_the_models() -> None:
    """Of the tokens that continue the prompt's end, each comes as often as the model says."""
    model, prompt = model_of(), "The capital is "
    ids = encoded(model, prompt)
    words = sg.Regex("(Paris|Madrid)")
    tokens = list(continuing(model.vocabulary, words.compile(model.vocabulary), b" "))
    with torch.inference_mode():
        logits = model.module(torch.tensor([ids[:-1]])).logits[0, -1]
    chances = dict(zip(tokens, torch.softmax(logits[tokens].double(), 0).tolist(), strict=True))
    sampling = sg.Sampling(temperature=1.0, seed=3).several(400)
    runs = sg.generate(model, [prompt] * 400, words, token_healing=True, details=True, sampling=sampling)
    counted = dict.fromkeys(tokens, 0)
    for run in runs:
        counted[run.token_ids[0] if run.healed else ids[-1]] += 1
    assert sum((counted[t] - 400 * chances[t]) ** 2 / (400 * chances[t]) for t in tokens) < 3 * len(tokens) + 10


@pytest.mark.parametrize(
    ("options", "says"), [({"beams": 2}, "beams="), ({"thinking": True}, "thinking="), ({}, "expected True or False")]
)
def test_what_it_does_not_go_with_is_told(options: dict[str, Any], says: str) -> None:
    wanted: Any = True if options else "yes"
    with pytest.raises(OptionError, match=says):
        sg.generate(model_of(), "The capital is ", CITIES, token_healing=wanted, **options)


def test_only_tokens_that_the_constraint_goes_on_with_are_asked_about() -> None:
    tokens = [b" ", b" a", b" b", b" ab", b" {", b'{"', b"a", b"b", b"{", b' {"', b'"', b"x"]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [12])
    spelled = lambda ids: {tokens[i] for i in ids}  # noqa: E731
    assert spelled(continuing(vocabulary, None, b" ")) == {b" ", b" a", b" b", b" ab", b" {", b' {"'}
    letters = sg.Regex("ab?").compile(vocabulary)
    assert spelled(continuing(vocabulary, letters, b" ")) == {b" ", b" a", b" ab"}
    anything = JsonSchema({"type": "object"}).compile(vocabulary)
    assert spelled(continuing(vocabulary, anything, b" ")) == {b" ", b" {", b' {"'}


@pytest.mark.parametrize("mode", ["prefer", "strict"])
def test_a_text_that_goes_back_to_its_beginning_chooses_the_seam_again(mode: str) -> None:
    """Bans send rows back behind what was healed; prompt and text are still the tokenizer's own tokens together."""
    model, again = model_of(), 0
    for seed, prompt in enumerate(prompts(30)):
        draw = random.Random(seed)
        run = sg.generate(
            model, prompt, SCHEMAS[0], canonical=mode, banned=draw.sample("aeiotr1", 4), details=True,
            sampling=sg.Sampling(temperature=1.0, seed=seed), limits=sg.Limits(20),
        )  # fmt: skip
        assert run.stats.canonical_relaxed == 0
        assert sequence(model, prompt, run) == encoded(model, prompt + run.text), (seed, prompt, run.text)
        again += any(undone.tokens == 0 for undone in run.trace)
    assert again > 10
