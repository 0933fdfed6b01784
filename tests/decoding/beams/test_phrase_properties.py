"""Schema, phrases and banned words at once: random ones of each, over random models of real tokenizers.

Covers `phrases.progress` and `decoding.refusals.phrase_row` together with guards and budgets.
"""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
import transformers as hf

import structgen as sg
from benchmarks.report import unpacked
from structgen.models.model import Model

TOKENIZERS = ["gpt-2-tokenizer", "llama-spm-tokenizer", "qwen2-tokenizer"]
CASES = 24
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
WORDS = ["is fast", "Für", "日本", "the", "x", "rain", "School of", "Zürich 8", "no", '"', "a\\b", "😀"]
BANNED = ["e", "qu", "the ", "zz", "rainy", "日", "fast!"]


@cache
def tokenizer_of(folder: Path) -> Any:
    with unpacked(folder) as files:
        return hf.AutoTokenizer.from_pretrained(files)


def random_model(tokenizer: Any, seed: int) -> Model:
    """A model of random weights: of two kinds, in turn."""
    torch.manual_seed(seed)
    sizes = SIZES | {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    config = hf.LlamaConfig(**sizes) if seed % 2 else hf.Gemma3TextConfig(**sizes, head_dim=8, num_key_value_heads=1)
    config.eos_token_id = config.pad_token_id = None
    module = hf.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return Model.of(module, tokenizer)


def random_schema(chance: random.Random) -> dict[str, Any]:
    members: dict[str, Any] = {
        "a": chance.choice([{"type": "string", "maxLength": chance.randrange(6, 40)}, {"type": "string"}]),
        "b": {"type": "array", "maxItems": chance.randrange(1, 4), "items": chance.choice([
            {"type": "string", "maxLength": 30}, {"enum": ["rain", "is fast", "School of it"]},
        ])},
        "c": chance.choice([{"type": "integer"}, {"type": "boolean"}, {"type": "string", "pattern": "^[a-z ]{0,20}$"}]),
    }  # fmt: skip
    required = ["a", "b", *(["c"] if chance.random() < 0.5 else [])]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def random_phrases(chance: random.Random) -> list[tuple[Any, str]]:
    """Phrases, each with a pattern of what it finds."""
    one, two = chance.sample(WORDS, 2)
    at = chance.choice(["/a", "/b/*", None])
    if at is None:  # in the text as it is written, where these have escapes
        one, two = (word.strip('"\\').replace("\\", "") or "x" for word in (one, two))
    made: list[tuple[Any, str]] = [
        (sg.Phrase(one, at=at), re.escape(one)),
        (sg.AnyOf(one, two, at=at), f"{re.escape(one)}|{re.escape(two)}"),
        (sg.Ordered(one, two, at=at), f"(?s){re.escape(one)}.*{re.escape(two)}"),
        (sg.Template(one, sg.Gap(characters=(0, 2)), two, at=at), f"(?s){re.escape(one)}.{{0,2}}{re.escape(two)}"),
        (sg.Phrase(one, ignore_case=True, at=at), f"(?i){re.escape(one)}"),
    ]
    return chance.sample(made, chance.choice([1, 1, 2]))


def strings_at(value: dict[str, Any], at: str | None, text: str) -> list[str]:
    return [text] if at is None else [value["a"]] if at == "/a" else value["b"]


def all_strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in all_strings(part)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_beam_has_all_that_was_asked_for(name, number, data_folder):
    """Or the search says which phrase it lacks, or that nothing is left that is not banned."""
    chance = random.Random(f"{name} {number}")
    schema, phrases = random_schema(chance), random_phrases(chance)
    banned = chance.sample(BANNED, chance.randrange(3))
    model = random_model(tokenizer_of(data_folder / "tokenizers" / name), number)
    (run,) = sg.generate(
        model, ["json: "], schema, phrases=[phrase for phrase, _ in phrases], banned=banned,
        beams=chance.choice([2, 3, 5]), canonical=chance.choice(["off", "off", "prefer"]),
        limits=sg.Limits(chance.randrange(60, 160), rollbacks=32), details=True,
    )  # fmt: skip
    if run.error is not None:
        assert isinstance(run.error, sg.DeadEnd)
        assert any(str(phrase) in str(run.error) for phrase, _ in phrases)
        return
    for found in run.beams:
        assert found.error is None
        value = json.loads(found.text)
        jsonschema.validate(value, schema)
        for phrase, pattern in phrases:
            assert any(re.search(pattern, text) for text in strings_at(value, phrase.at, found.text)), phrase
        assert not [ban for ban in banned for text in all_strings(value) if ban in text]


@pytest.mark.slow
def test_searches_give_up_only_for_phrases_that_cannot_be_said(data_folder):
    """With room enough, all but those that the schema rules out have a text."""
    model, given = random_model(tokenizer_of(data_folder / "tokenizers" / "gpt-2-tokenizer"), 1), 0
    for number in range(12):
        chance = random.Random(f"gpt-2-tokenizer {number}")
        schema, phrases = random_schema(chance), [phrase for phrase, _ in random_phrases(chance)]
        (run,) = sg.generate(model, ["json: "], schema, phrases=phrases, beams=2, limits=sg.Limits(160), details=True)
        given += run.error is None
        assert run.error is None or "no text of the constraint has" in str(run.error)
    assert given >= 7
