"""A model is loaded from a folder by transformers, and what cannot be loaded is told."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from pydantic import BaseModel
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from tests.support.tables import cases


def test_load_reads_a_saved_model_and_generates_a_typed_value(tmp_path, small_bpe):
    """Save, load by path, generate: greedy and sampled values are of the type, in fp32 and bf16."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(small_bpe) + 5, eos_token_id=small_bpe.eos_token_id, **sizes)
    torch.manual_seed(0)
    module = LlamaForCausalLM(config)
    module.save_pretrained(tmp_path)
    small_bpe.save_pretrained(tmp_path)

    class Answer(BaseModel):
        ok: bool
        n: Literal[1, 20, 300]

    for dtype in (torch.float32, torch.bfloat16):
        model = sg.load(tmp_path, dtype=dtype)
        assert model.module.dtype == dtype
        for sampling in (sg.Sampling(), sg.Sampling(temperature=1.0, top_p=0.9, seed=1)):
            value = sg.generate(model, "The city", schema=Answer, sampling=sampling)
            assert isinstance(value, Answer)


def test_loading_from_nowhere_is_an_option_error(tmp_path):
    with pytest.raises(sg.OptionError, match="cannot load"):
        sg.load(tmp_path / "missing")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(sg.OptionError, match="cannot load"):
        sg.load(tmp_path)


@pytest.mark.parametrize(("options", "told"), cases("models/loading", "an_option_that_transformers"))
def test_an_option_that_transformers_cannot_take_is_named(options, told):
    with pytest.raises(sg.OptionError, match=told):
        sg.load("demo", **options)


def test_a_token_of_the_hub_is_not_told():
    with pytest.raises(sg.OptionError) as found:
        sg.load("demo", token="hf_secret", zz=3)
    assert "hf_secret" not in str(found.value)
