"""What a model is made to be while it decodes, and is again afterwards."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch
from torch._dynamo.utils import counters

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.models.evaluation_mode import COMPILED, evaluating
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.architectures import make
from tests.support.tiny_configurations import make as make_with_bytes

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
ADA = Person(name="Ada Moreau", age=36, city="Lyon")


@pytest.mark.parametrize("way", ["compile()", "part.compile()", "forward"])
def test_a_compiled_model_is_read_without_that_and_says_so(way):
    """Each length and number of rows would be compiled: 8 graphs within one call, after which torch gave up."""
    module, tokenizer = load_demo()
    if way == "forward":
        module.forward = compiled = torch.compile(module.forward, backend="eager")
    else:
        part = module if way == "compile()" else module.model
        part.compile(backend="eager")
        compiled = part._compiled_call_impl
    counters.clear()
    model = sg.Model.of(module, tokenizer)
    with pytest.warns(sg.PerformanceWarning, match=COMPILED):
        first = sg.generate(model, PROMPT, Person, details=True)
    runs = [sg.generate(model, [PROMPT + " " * n] * (1 + n % 3), Person, details=True) for n in range(5)]
    assert first.value == ADA
    assert {run.stats.why_slow for each in [[first], *runs] for run in each} == {(COMPILED,)}
    assert counters["stats"]["unique_graphs"] == 0
    assert compiled in (module.forward, module._compiled_call_impl, module.model._compiled_call_impl)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bart", "t5", "mamba"])
def test_outputs_without_names_are_no_matter(name):
    """transformers' own models read their parts' outputs by name, and raise an `AttributeError`."""
    module = make_with_bytes(name, encoder_decoder=name in ("bart", "t5"))
    module.config.eos_token_id = module.generation_config.eos_token_id = 256
    module.generation_config.decoder_start_token_id = 1
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary(width=260))
    expected = sg.generate(model, "abc", sg.Regex("[a-z]{6}"))
    module.config.return_dict = False
    assert sg.generate(model, "abc", sg.Regex("[a-z]{6}")) == expected
    assert module.config.return_dict is False


def test_training_mode_is_restored():
    module, tokenizer = load_demo()
    module.train()
    module.model.layers[0].eval()
    before = [part.training for part in module.modules()]
    with warnings.catch_warnings():
        warnings.simplefilter("error", sg.PerformanceWarning)
        assert sg.generate(module, PROMPT, Person, tokenizer=tokenizer) == ADA
    assert [part.training for part in module.modules()] == before


def test_a_run_that_fails_restores_the_model():
    module = make("llama").train()
    module.config.return_dict = False
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
    with pytest.raises(sg.StructgenError):
        sg.generate(model, [3, 4], sg.Regex("[a-f]{5}"))
    assert module.training
    assert module.config.return_dict is False


def test_a_run_that_the_garbage_collector_ends_while_another_begins_blocks_nothing():
    first, second = make("llama"), make("gpt2")
    first.train()

    def modules():
        gc.collect()
        return type(second).modules(second)

    def begin():
        abandoned = [evaluating(first)]
        abandoned[0].__enter__()
        abandoned.append(abandoned)
        del abandoned
        second.modules = modules
        with evaluating(second):
            pass

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert first.training
