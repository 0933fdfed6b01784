"""Models whose weights are elsewhere until they are needed, as accelerate's `device_map` leaves them, and adapters."""

from __future__ import annotations

import copy

import accelerate
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
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


def test_a_model_with_adapters_is_the_one_inside():
    """The error says which; its layers have the adapters: greedy text is that of the whole."""
    peft = pytest.importorskip("peft", reason="peft is no dependency; install it to run this test")
    module, tokenizer = load_demo()
    options = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], r=2, init_lora_weights=False)
    whole = peft.get_peft_model(copy.deepcopy(module), options)
    with pytest.raises(sg.OptionError, match=r"PeftModelForCausalLM.*get_base_model\(\)"):
        sg.generate(whole, "x", tokenizer=tokenizer)
    inside, ids = whole.get_base_model(), torch.tensor([tokenizer.encode(PROMPTS[0])])
    run = sg.generate(inside, PROMPTS[0], tokenizer=tokenizer, limits=sg.Limits(max_new_tokens=12), details=True)
    theirs = whole.generate(input_ids=ids, max_new_tokens=12, do_sample=False)
    assert list(run.token_ids) == theirs[0, ids.shape[1] :].tolist()
