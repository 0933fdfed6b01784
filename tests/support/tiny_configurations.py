"""A tiny configuration of every architecture of transformers that generates text, by the names of its fields."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.support.tables import cases

WIDTH = 260
BIGGEST = 12_000_000
"""Parameters; what has more has parts that its fields do not shrink."""

SIZES = {"vocab_size": WIDTH, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 8}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "sliding_window": 6}
SIZES |= {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 256, "n_ctx": 256, "n_inner": 64, "rotary_dim": 4}
SIZES |= {"d_model": 32, "d_kv": 8, "d_ff": 64, "n_layers": 4, "n_heads": 4, "max_seq_len": 256, "num_heads": 4}
SIZES |= {"num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
SIZES |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
SIZES |= {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "ffn_dim": 64, "word_embed_proj_dim": 32}
SIZES |= {"embedding_size": 32, "embed_dim": 32, "max_target_positions": 256, "max_source_positions": 64}
SIZES |= {"num_mel_bins": 8, "vocab_size_per_layer_input": WIDTH, "hidden_size_per_layer_input": 8, "laurel_rank": 4}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4}
EXPERTS |= {"num_experts_per_tok": 2, "moe_k": 2, "moe_topk": 2, "n_group": 2, "topk_group": 1, "n_shared_experts": 1}
EXPERTS |= {"num_shared_experts": 1, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
EXPERTS |= {"shared_intermediate_size": 32, "first_k_dense_replace": 1, "moe_layer_start_index": 1}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
STATES = {"state_size": 8, "conv_kernel": 4, "time_step_rank": 4, "attention_chunk_size": 6, "chunk_size": 8}
STATES |= {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}
STATES |= {"mamba_d_ssm": 64, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 1}
STATES |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8}
STATES |= {"linear_value_head_dim": 8, "linear_head_dim": 8, "linear_num_heads": 4}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 256, "decoder_start_token_id": 1}
TINY = SIZES | EXPERTS | LATENT | STATES | IDS

BY_TURNS = ["linear_attention", "full_attention"] * 2
OWN: dict[str, dict[str, Any]] = cases("support/tiny_configurations", "OWN", globals())
OWN["gemma3n_text"]["layer_types"] = ["sliding_attention", "full_attention"] * 2
OWN["zamba2"]["num_key_value_heads"] = 4


def tiny(model_type: str) -> Any:
    """The configuration."""
    return _tiny(CONFIG_MAPPING[model_type], OWN.get(model_type, {}))


def _tiny(kind: Any, own: dict[str, Any]) -> Any:
    accepted, behind = inspect.signature(kind.__init__).parameters, getattr(kind, "attribute_map", {})
    given = {name: size for name, size in TINY.items() if name in accepted and name not in behind}
    given |= {behind[name]: TINY[name] for name in behind if name in TINY and behind[name] in accepted}
    if "kv_lora_rank" in accepted:
        given["num_key_value_heads"] = given["num_attention_heads"]
    if "is_decoder" in accepted and "is_encoder_decoder" in accepted:
        given["is_decoder"] = kind.model_type not in ("prophetnet",)
    parts = getattr(kind, "sub_configs", {})
    given |= {name: _tiny(part, {}) for name, part in parts.items() if part is not AutoConfig}
    return kind(**given | own)


def make(model_type: str, *, encoder_decoder: bool) -> PreTrainedModel:
    """A random model whose logits are not all the same; the same one each time."""
    kind: Any = AutoModelForSeq2SeqLM if encoder_decoder else AutoModelForCausalLM
    config = tiny(model_type)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind.from_config(config).parameters())
    if size > BIGGEST:
        raise ValueError(f"{model_type} has {size:,} parameters")
    torch.manual_seed(3)
    module = kind.from_config(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module


WAYS: dict[str, dict[str, str]] = cases("support/tiny_configurations", "WAYS", globals())
"""By whether they are encoder-decoders, and by the way that they are read, their names in transformers."""
