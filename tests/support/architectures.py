"""Tiny random models of real architectures, by the way in which rows of them are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from tests.support.tables import cases

WIDTH = 90
SIZES = {"vocab_size": WIDTH, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
SMALL = SIZES | {"num_attention_heads": 4, "max_position_embeddings": 160, "pad_token_id": 0, "eos_token_id": 1}
GROUPED = SMALL | {"num_key_value_heads": 2}
FOUR, SIX = GROUPED | {"num_hidden_layers": 4}, GROUPED | {"num_hidden_layers": 6}
EVEN = {"num_attention_heads": 4, "vocab_size": WIDTH, "hidden_size": 32}
HALVES = {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
HALVES |= {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}
HALVES |= {"vocab_size": WIDTH, "d_model": 32, "max_position_embeddings": 160, "pad_token_id": 0}
MAMBA = {"vocab_size": WIDTH, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
LATENT |= {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "n_shared_experts": 1}
LATENT |= {"moe_intermediate_size": 32, "first_k_dense_replace": 1}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
TWICE = ["sliding_attention", "sliding_attention", "full_attention"] * 2
BY_TURNS = ["sliding_attention", "full_attention"] * 3
PER_LAYER = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WIDTH, "num_kv_shared_layers": 2}

Configs = dict[str, Callable[[], Any]]

SLOTTED: Configs = cases("support/architectures", "SLOTTED", globals())
"""Read in slots, with either kind of attention."""

MORE_SLOTTED: Configs = cases("support/architectures", "MORE_SLOTTED", globals())
"""Read in slots, too, with the attention that they have by default."""

ALONE: Configs = cases("support/architectures", "ALONE", globals())
"""Read with a cache for each row."""

HYBRID: Configs = cases("support/architectures", "HYBRID", globals())
"""Keys and values in slots, states of the rows that are read together."""

WHOLE: Configs = cases("support/architectures", "WHOLE", globals())
"""Read from the beginning at every step: they keep their state in themselves, in a cache of their own, or nowhere."""


def make(name: str, dtype: torch.dtype = torch.float32, **options: str) -> PreTrainedModel:
    """A model whose logits are not all the same, in evaluation mode; the same one each time."""
    torch.manual_seed(3)
    try:
        config = (SLOTTED | MORE_SLOTTED | HYBRID | ALONE | WHOLE)[name]()
    except AttributeError as error:
        pytest.skip(f"{error}: this release has no such model")
    if name == "umt5" and hf.__version__.startswith("5.17."):
        options = {"attn_implementation": "eager"} | options  # by default its decoder looks ahead there
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    module = kind.from_config(config, **options).to(dtype).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module
