"""The context of a model: what its configuration and its rotary embeddings say, or what the caller sets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel, pipeline

import structgen as sg
from structgen.errors import OptionError
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.tables import cases

SIZES = {"vocab_size": 257, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": 256}


def model_of(rope: dict[str, object], context: int | None = None) -> sg.Model:
    """A model that reads 64 tokens with plain embeddings."""
    module = LlamaForCausalLM(LlamaConfig(rope_parameters={"rope_theta": 10000.0, **rope}, **SIZES)).eval()
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
    return replace(model, set_context=context)


@pytest.mark.parametrize(("rope", "context"), cases("models/model", "the_context_follows_the_rope"))
def test_the_context_follows_the_rope(rope, context):
    """`yarn` may be in `max_position_embeddings` already; Qwen2.5's card adds it without changing that."""
    assert model_of(rope).context == context


def test_an_extended_context_is_used_to_its_end():
    """A prompt beyond 64 tokens was refused, and an answer ended there."""
    model = model_of({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})
    limits = sg.Limits(max_new_tokens=90)
    run = sg.generate(model, "x" * 97, schema=sg.Regex("[a-z]{80}"), limits=limits, details=True)
    assert len(run.value) == 80
    assert run.finish == "complete"


def test_a_context_can_be_set():
    assert model_of({}, context=32).context == 32
    assert sg.load("demo", context=100).context == 100
    with pytest.raises(OptionError, match="97 tokens"):
        sg.generate(model_of({}, context=32), "x" * 97)
    with pytest.raises(OptionError, match=r"context=0"):
        sg.load("demo", context=0)
    with pytest.raises(OptionError, match=r"draft=: leave it out"):
        sg.load("demo", draft="small")
    demo = sg.load("demo")
    assert sg.Model.of(demo.module, demo.tokenizer, context=7).context == 7


def test_a_head_that_the_model_does_not_tell_is_no_matter():
    """Only a model without one is refused."""

    class Headed(LlamaForCausalLM):
        """Its head has another name, and nothing leads to it."""

        def get_output_embeddings(self):
            return None

        def forward(self, *given, **options):
            self._modules["lm_head"] = self._modules["head"]
            try:
                return super().forward(*given, **options)
            finally:
                del self._modules["lm_head"]

    tokenizer = sg.load("demo").tokenizer
    config = LlamaConfig(**SIZES | {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id})
    headed = Headed(config).eval()
    headed._modules["head"] = headed._modules.pop("lm_head")
    run = sg.generate(headed, "x", sg.Regex("[a-z]{5}"), tokenizer=tokenizer, details=True)
    assert (len(run.value), run.stats.cache, run.stats.why_slow) == (5, "slots", ())
    with pytest.raises(OptionError, match="LlamaModel has no language-model head"):
        sg.Model.of(LlamaModel(config), tokenizer)


def test_a_pipeline_stands_for_its_model():
    demo = sg.load("demo")
    texts = pipeline("text-generation", model=demo.module, tokenizer=demo.tokenizer)
    limits = sg.Limits(max_new_tokens=8)
    assert sg.generate(texts, "Text:", limits=limits) == sg.generate(demo, "Text:", limits=limits)
