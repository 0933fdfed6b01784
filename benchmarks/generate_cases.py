"""The models, prompts and schemas of `generate.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizer_files import unpacked

ROWS = 8
"""Prompts of a case: batches of up to so many rows, each with a prompt of its own."""


@dataclass(frozen=True)
class Case:
    """A model, the prompts of up to eight rows, and the schema to fill."""

    name: str
    module: Any
    tokenizer: Any
    prompts: list[list[int]]
    schema: dict[str, Any]


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these members."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


PRODUCT = {
    "name": {"type": "string", "maxLength": 24},
    "category": {"enum": ["kitchen", "garden", "office", "electronics"]},
    "price": {"enum": [9, 19, 49, 99, 199, 499, 999]},
    "in_stock": {"type": "boolean"},
}
PRODUCTS = closed(
    {
        "products": {"type": "array", "minItems": 3, "maxItems": 3, "items": closed(PRODUCT)},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "complete": {"type": "boolean"},
    }
)
"""Bounded on purpose: a model with random weights would never end an open string, or the zeros of 12.000."""

STORY = closed(
    {
        "title": {"type": "string", "minLength": 10, "maxLength": 40},
        "text": {"type": "string", "minLength": 300, "maxLength": 320},
    }
)
"""Nearly all of it free text."""


def extraction(data: Path) -> Case:
    """Our trained demo model fills in invoices, most of which it copies from the prompt."""
    from structgen.demo import load_demo
    from structgen.demo.show import SENTENCES
    from structgen.demo.tasks import TASKS

    module, tokenizer = load_demo()
    sentence = dict(SENTENCES)["invoice"]
    texts = [TASKS["invoice"].prompt(sentence.replace("7730", f"773{n}")) for n in range(ROWS)]
    schema = TASKS["invoice"].model.model_json_schema()
    name = "extraction, the trained demo model"
    return Case(
        name, module, tokenizer, [tokenizer.encode(t) for t in texts], {**schema, "additionalProperties": False}
    )


def story(data: Path) -> Case:
    """A model of 260,000 parameters that was trained elsewhere writes free text into a small object."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = data / "stories260k"
    module, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    names = "Lily Tom Mia Ben Sara Max Anna Tim".split()
    prompts = [tokenizer.encode(f"Once upon a time, there was a child named {name}.") for name in names]
    return Case("free text, the trained stories260k", module, tokenizer, prompts, STORY)


def products(data: Path) -> Case:
    """Random weights and a large vocabulary: structure, with what a forward pass costs at 128k tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    with unpacked(data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=8,
        num_attention_heads=4,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
    )
    texts = [f"List three products of shop {n} with their prices as JSON." for n in range(ROWS)]
    prompts = [tokenizer.encode(text) for text in texts]
    name = "structure, a random 8-layer Llama with 128k tokens"
    return Case(name, LlamaForCausalLM(config).eval(), tokenizer, prompts, PRODUCTS)


CASES: dict[str, tuple[Callable[[Path], Case], str | None]] = {
    "extraction": (extraction, None),
    "story": (story, "stories260k"),
    "products": (products, "llama3-tokenizer"),
}
"""How each case is made, and what of the data it needs."""


def cases(data: Path, names: list[str]) -> Iterator[Case]:
    """The cases of these names, as far as their data is there; says which is not."""
    for name in names:
        make, needed = CASES[name]
        if needed is None or (data / needed).is_dir():
            yield make(data)
        else:
            print(f"- left out: {name}, for want of {data / needed}", flush=True)
