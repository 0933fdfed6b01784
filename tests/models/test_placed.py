"""Models whose weights are elsewhere until they are needed, as accelerate's `device_map` leaves them, and adapters."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import accelerate
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.models.prefixes import weights_key
from structgen.models.transfer import device_of

TEXTS = "Ada Moreau, 36, lives in Lyon", "Tom Berg is 51 years old and lives in Oslo"
PROMPTS = [f"Extract the person: name, age, city.\nText: {text}.\nJSON: " for text in TEXTS]
PEOPLE = [Person(name="Ada Moreau", age=36, city="Lyon"), Person(name="Tom Berg", age=51, city="Oslo")]


@pytest.mark.parametrize("place", ["cpu", "disk"])
def test_a_model_whose_weights_are_loaded_for_each_layer_says_the_same(place, tmp_path):
    module, tokenizer = load_demo()
    module, device = copy.deepcopy(module), torch.device("cpu")
    if place == "cpu":
        accelerate.cpu_offload(module, execution_device=device)
    else:
        accelerate.disk_offload(module, str(tmp_path), execution_device=device)
    assert module.device.type == "meta"
    assert device_of(module) == device
    assert sg.generate(module, PROMPTS, Person, tokenizer=tokenizer) == PEOPLE


def test_a_model_without_weights_is_an_option_error():
    module, tokenizer = load_demo()
    with torch.device("meta"):
        empty = type(module)(module.config)
    with pytest.raises(sg.OptionError, match="LlamaForCausalLM has no weights"):
        sg.generate(empty, PROMPTS[0], Person, tokenizer=tokenizer)


def test_a_model_with_adapters_is_read_with_them(tmp_path):
    """As it is, and loaded from the adapter's folder: the cache in slots, the greedy text of peft's own `generate`."""
    peft = pytest.importorskip("peft", reason="peft is no dependency; install it to run this test")
    module, tokenizer = load_demo()
    module.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    base = type(module).from_pretrained(tmp_path / "base")
    options = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], r=2, init_lora_weights=False)
    whole = peft.get_peft_model(base, options)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            parameter.mul_(30.0 if "lora_B" in name else 1.0)
    whole.save_pretrained(tmp_path / "adapter")
    ids = torch.tensor([tokenizer.encode(PROMPTS[0])])
    expected = whole.generate(input_ids=ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :].tolist()
    models = (whole, tokenizer), (sg.Model.of(whole, tokenizer), None), (sg.load(tmp_path / "adapter"), None)
    for model, beside in models:
        limits = sg.Limits(max_new_tokens=12)
        run = sg.generate(model, PROMPTS[0], tokenizer=beside, limits=limits, details=True)
        assert (list(run.token_ids), run.stats.cache) == (expected, "slots")
        assert sg.generate(model, PROMPTS, Person, tokenizer=beside) != PEOPLE
    before = weights_key(whole.get_base_model())
    with whole.disable_adapter():
        assert weights_key(whole.get_base_model()) != before  # graphs that were captured are not replayed
        assert sg.generate(whole, PROMPTS, Person, tokenizer=tokenizer) == PEOPLE


def test_adapters_that_are_no_part_of_the_layers_are_refused():
    peft = pytest.importorskip("peft", reason="peft is no dependency; install it to run this test")
    module, tokenizer = load_demo()
    options = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    whole = peft.get_peft_model(copy.deepcopy(module), options)
    with pytest.raises(sg.OptionError, match="PROMPT_TUNING is not part of the model's layers"):
        sg.generate(whole, "x", tokenizer=tokenizer)


def test_an_adapter_is_read_through_its_wrapper():
    """A class of that name, where peft is not installed."""
    module, tokenizer = load_demo()
    settings = SimpleNamespace(is_prompt_learning=False)
    kind = type("PeftModel", (), {"active_peft_config": settings, "get_base_model": lambda self: module})
    assert sg.generate(kind(), PROMPTS, Person, tokenizer=tokenizer) == PEOPLE
    assert sg.Model.of(kind(), tokenizer).module is module
