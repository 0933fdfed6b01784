"""What `gpu.py` runs: random weights of a real configuration, a vocabulary of its own, a schema full of structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import structgen as sg

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
}
WIDTHS = {"tiny": 4096, "1b": 128_256, "8b": 128_256}
KEYS = ("name", "category", "price", "currency", "in_stock", "warehouse", "supplier", "discontinued")
ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "category": {"enum": ["kitchen", "garden", "office", "electronics"]},
        "price": {"type": "integer", "minimum": 1, "maximum": 99999},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "in_stock": {"type": "boolean"},
        "warehouse": {"enum": ["north", "south"]},
        "supplier": {"type": "string", "maxLength": 12},
        "discontinued": {"type": "boolean"},
    },
    "required": list(KEYS),
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": ITEM, "minItems": 3, "maxItems": 3}


class LongestMatch:
    """A tokenizer that always takes the longest token there is."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._ids = {token: i for i, token in enumerate(tokens)}
        self._longest = max(map(len, tokens))

    def encode(self, text: str) -> list[int]:
        data, ids, at = text.encode(), [], 0
        while at < len(data):
            size = next(n for n in range(self._longest, 0, -1) if data[at : at + n] in self._ids)
            ids.append(self._ids[data[at : at + size]])
            at += size
        return ids


def tokens_of(width: int) -> list[bytes]:
    """All bytes, the pieces that JSON is made of, and as many words as there is room for."""
    pieces = ['{"', '": ', '": "', '", "', '"}', '"}, {"', "[{", "}]", "true", "false", ", ", ": "]
    pieces += [piece for key in KEYS for piece in (key, f'"{key}', f'{key}": ')]
    pieces += [value for values in ITEM["properties"].values() for value in values.get("enum", [])]
    known = dict.fromkeys([bytes([byte]) for byte in range(256)] + [piece.encode() for piece in pieces])
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
    while len(known) < width - 1:
        word = letters[random.integers(0, 26, random.integers(2, 9))].tobytes()
        known.setdefault(word)
        known.setdefault(b" " + word) if len(known) < width - 1 else None
    return list(known)


def build(size: str, device: torch.device, dtype: torch.dtype) -> sg.Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    width = WIDTHS[size]
    tokens = tokens_of(width)
    vocabulary = sg.engine.Vocabulary.from_tokens([*tokens, None], end_ids=[width - 1], width=width)
    heads = {"num_key_value_heads": 4 if size == "tiny" else 8, "max_position_embeddings": 8192}
    config = LlamaConfig(vocab_size=width, eos_token_id=width - 1, **heads, **SIZES[size])
    torch.manual_seed(0)
    with torch.device(device):
        module = LlamaForCausalLM._from_config(config, dtype=dtype)
    return sg.Model(module.eval(), LongestMatch(tokens), vocabulary)


def prompts(model: sg.Model, rows: int) -> list[list[int]]:
    return [model.tokenizer.encode("List three products as JSON. " * (1 + row % 5)) for row in range(rows)]
