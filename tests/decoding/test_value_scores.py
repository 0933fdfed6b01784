"""The distribution over the values of a finite type is that of all texts of the value, read one by one."""

from __future__ import annotations

import gc
import json
import pickle
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from structgen.decoding.grammars import grammar_for
from structgen.decoding.value_scores import EXACT, value_of
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.calling_models import random_chat

SIZES: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def random_bytes(seed: int) -> sg.Model:
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=257, max_position_embeddings=256, initializer_range=0.3, **SIZES)
    return sg.Model(LlamaForCausalLM(config), ByteTokenizer(), byte_vocabulary())


def by_itself(model: sg.Model, prompt: str, constraint: Any, texts: list[str]) -> list[float]:
    """Each text's probability by one forward pass for each, in tokens of one byte, under the masks."""
    module: Any = model.module
    chances = []
    for text in texts:
        tokens, chance = [*text.encode()], 1.0
        with torch.inference_mode():
            logits = module(torch.tensor([[*prompt.encode(), *tokens]])).logits[0].double()
        matcher = grammar_for(constraint, model.vocabulary).matcher()
        for place, token in enumerate([*tokens, model.vocabulary.end_ids[0]]):
            allowed = matcher.allowed_tokens()
            weights = logits[len(prompt) - 1 + place, allowed].softmax(0)
            chance *= float(weights[allowed.index(token)]) if token in allowed else 1.0
            if token in allowed and place < len(tokens):
                matcher.advance(token)
        chances.append(chance)
    return chances


@pytest.mark.parametrize("count", [2, 13, 1_000])
def test_the_distribution_equals_enumeration(count: int) -> None:
    labels = ["a", "ab", "é", "abc", *(f"label {number * 7}" for number in range(count))][:count]
    for seed, constraint in enumerate([sg.Choice(labels), sg.JsonSchema({"enum": labels})]):
        model = random_bytes(seed)
        field = sg.generate(model, "The label", constraint, details=True).fields[""]
        texts = labels if seed == 0 else [json.dumps(label, ensure_ascii=False) for label in labels]
        some = range(0, count, max(1, count // 13))
        assert {*field.values} == {*texts}
        assert field.unknown <= EXACT
        assert sum(field.values.values()) + field.unknown == pytest.approx(1, abs=1e-6)
        expected = by_itself(model, "The label", constraint, [texts[place] for place in some])
        assert [field.values[texts[place]] for place in some] == pytest.approx(expected, abs=2e-5)


class Answer(BaseModel):
    kind: Literal["cat", "car", "dog"]
    legs: Literal[0, 2, 4, 12]
    name: str | None
    sure: bool


@pytest.mark.parametrize("options", [{}, {"canonical": True}, {"fast_forward": False}, {"beams": 2}])
def test_all_values_of_a_type_are_told_in_all_their_spellings(options: dict[str, Any]) -> None:
    model = random_chat("hermes")
    run = sg.generate(model, "An animal:", Answer, details=True, limits=sg.Limits(max_new_tokens=200), **options)
    kind, legs, sure = (run.fields[f"/{name}"] for name in ("kind", "legs", "sure"))
    assert {*kind.values} == {'"car"', '"cat"', '"dog"'}
    assert {*sure.values} == {"false", "true"}
    assert {*legs.values} == {"0", "2", "4", "12"}
    for field, value in ((kind, run.value.kind), (legs, run.value.legs), (sure, run.value.sure)):
        assert field.probability == pytest.approx(field.values[json.dumps(value)])
        assert sum(field.values.values()) + field.unknown == pytest.approx(1, abs=1e-5)
        assert field.unknown <= EXACT or "beams" in options
    with pytest.raises(KeyError, match="'/label': the values are at \\['/kind'"):
        run.fields["/label"]
    assert "/label" not in run.fields
    name = run.fields["/name"]
    assert [*name.values] == ["null"]
    assert name.values["null"] + name.unknown == pytest.approx(1, abs=1e-5)


def test_draws_have_the_distribution_that_is_told() -> None:
    model, kinds = random_chat("hermes"), sg.Choice(["Paris", "Pa", "Rome", "Ro", "R"])
    told = sg.generate(model, "In", kinds, details=True, sampling=sg.Sampling(temperature=1, seed=0)).fields[""].values
    count = 600
    drawn = sg.generate(model, ["In"] * count, kinds, sampling=sg.Sampling(temperature=1, seed=1).several(count))
    shares = {value: drawn.count(value) / count for value in told}
    assert [shares[value] for value in told] == pytest.approx([*told.values()], abs=0.07)


def test_a_model_that_is_gone_is_not_asked() -> None:
    """What the run's own choices tell is told, and the rest is unknown. A pickled field was found before."""
    labels = sg.Choice(["aa", "ab", "b"])
    model = random_bytes(3)
    run, kept = (sg.generate(model, prompt, labels, details=True) for prompt in ("x", "x"))
    asked = pickle.loads(pickle.dumps(kept)).fields[""]
    assert asked.unknown <= EXACT
    del model, kept
    gc.collect()
    left = run.fields[""]
    assert sum(left.values.values()) + left.unknown == pytest.approx(1, abs=1e-5)
    assert all(left.values[value] <= asked.values[value] + 1e-6 for value in left.values)


def test_a_value_has_one_name_whatever_its_spelling() -> None:
    assert [value_of(text, is_json=True) for text in (b"1.0", b"-0.0", b'"\\u0061"', b"1.5")] == [
        "1",
        "0",
        '"a"',
        "1.5",
    ]
    assert np.isfinite(float(value_of(b"1e300", is_json=True)))
