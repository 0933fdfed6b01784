"""Tiny random models of real architectures, by the way in which rows of them are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

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

SLOTTED: Configs = {
    "llama": lambda: hf.LlamaConfig(**GROUPED),
    "qwen2": lambda: hf.Qwen2Config(**GROUPED),
    "qwen3": lambda: hf.Qwen3Config(head_dim=8, **GROUPED),
    "gemma": lambda: hf.GemmaConfig(head_dim=8, **GROUPED),
    "gemma2": lambda: hf.Gemma2Config(head_dim=8, sliding_window=6, **GROUPED),
    "gemma3": lambda: hf.Gemma3TextConfig(head_dim=8, sliding_window=6, **SIX),
    "mistral": lambda: hf.MistralConfig(sliding_window=6, **GROUPED),
    "mixtral": lambda: hf.MixtralConfig(num_local_experts=4, **GROUPED),
    "phi3": lambda: hf.Phi3Config(**GROUPED),
    "gpt2": lambda: hf.GPT2Config(vocab_size=WIDTH, n_embd=32, n_layer=2, n_head=4, n_positions=160),
    "gpt-neox": lambda: hf.GPTNeoXConfig(**SMALL),
    "llama4": lambda: hf.Llama4TextConfig(
        head_dim=8, attention_chunk_size=6, num_local_experts=2, intermediate_size_mlp=64, **FOUR
    ),
}
"""Read in slots, with either kind of attention."""

MORE_SLOTTED: Configs = {
    "bitnet": lambda: hf.BitNetConfig(**GROUPED),
    "cohere2": lambda: hf.Cohere2Config(sliding_window=6, **FOUR),
    "deepseek-v3": lambda: hf.DeepseekV3Config(**LATENT, **SMALL),
    "ernie-4.5": lambda: hf.Ernie4_5Config(head_dim=8, **GROUPED),
    "exaone4": lambda: hf.Exaone4Config(sliding_window=6, **FOUR),
    "gemma3n": lambda: hf.Gemma3nTextConfig(
        head_dim=8,
        sliding_window=6,
        laurel_rank=4,
        layer_types=TWICE,
        activation_sparsity_pattern=[0.0] * 6,
        **PER_LAYER,
        **SIX,
    ),
    "gemma4": lambda: hf.Gemma4TextConfig(
        head_dim=8, global_head_dim=8, sliding_window=6, layer_types=BY_TURNS, **PER_LAYER, **SIX
    ),
    "glm4": lambda: hf.Glm4Config(head_dim=8, **GROUPED),
    "gpt-j": lambda: hf.GPTJConfig(vocab_size=WIDTH, n_embd=32, n_layer=2, n_head=4, n_positions=160, rotary_dim=4),
    "gpt-oss": lambda: hf.GptOssConfig(
        head_dim=8, sliding_window=6, num_local_experts=4, num_experts_per_tok=2, rope_parameters=ROPE, **FOUR
    ),
    "granite": lambda: hf.GraniteConfig(**GROUPED),
    "ministral": lambda: hf.MinistralConfig(head_dim=8, sliding_window=6, **GROUPED),
    "nemotron": lambda: hf.NemotronConfig(head_dim=8, **GROUPED),
    "olmo3": lambda: hf.Olmo3Config(sliding_window=6, **FOUR),
    "opt": lambda: hf.OPTConfig(
        ffn_dim=64, num_hidden_layers=2, max_position_embeddings=160, word_embed_proj_dim=32, **EVEN
    ),
    "phi": lambda: hf.PhiConfig(**SMALL),
    "qwen3-moe": lambda: hf.Qwen3MoeConfig(head_dim=8, num_experts=4, **EXPERTS, **GROUPED),
    "smollm3": lambda: hf.SmolLM3Config(**GROUPED),
    "stablelm": lambda: hf.StableLmConfig(**GROUPED),
    "starcoder2": lambda: hf.Starcoder2Config(sliding_window=6, **GROUPED),
}
"""Read in slots, too, with the attention that they have by default."""

ALONE: Configs = {
    "t5": lambda: hf.T5Config(vocab_size=WIDTH, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "umt5": lambda: hf.UMT5Config(vocab_size=WIDTH, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "switch": lambda: hf.SwitchTransformersConfig(
        vocab_size=WIDTH, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, num_experts=2, expert_capacity=64
    ),
    "bart": lambda: hf.BartConfig(**HALVES),
    "marian": lambda: hf.MarianConfig(decoder_start_token_id=0, **HALVES),
    "pegasus": lambda: hf.PegasusConfig(**HALVES),
    "bloom": lambda: hf.BloomConfig(vocab_size=WIDTH, hidden_size=32, n_layer=2, n_head=4),
    "mpt": lambda: hf.MptConfig(vocab_size=WIDTH, d_model=32, n_heads=4, n_layers=2, max_seq_len=160),
    "falcon-alibi": lambda: hf.FalconConfig(alibi=True, num_hidden_layers=2, **EVEN),
    "phi3-longrope": lambda: hf.Phi3Config(
        original_max_position_embeddings=32,
        rope_parameters=LONG | {"original_max_position_embeddings": 32},
        **GROUPED,
    ),
    "deepseek-v3.2": lambda: hf.DeepseekV32Config(
        index_n_heads=2, index_head_dim=16, index_topk=256, **LATENT, **SMALL
    ),
}
"""Read with a cache for each row."""

HYBRID: Configs = {
    "mamba": lambda: hf.MambaConfig(**MAMBA),
    "mamba2": lambda: hf.Mamba2Config(num_heads=8, head_dim=8, n_groups=2, expand=2, **MAMBA),
    "jamba": lambda: hf.JambaConfig(num_experts=2, attn_layer_period=2, attn_layer_offset=1, **GROUPED),
    "qwen3-next": lambda: hf.Qwen3NextConfig(
        head_dim=8, num_experts=4, shared_expert_intermediate_size=32, **DELTA, **EXPERTS, **FOUR
    ),
    "bamba": lambda: hf.BambaConfig(attn_layer_indices=[1], **HEADS, **GROUPED),
    "falcon-h1": lambda: hf.FalconH1Config(mamba_d_ssm=64, head_dim=8, **HEADS, **GROUPED),
    "lfm2": lambda: hf.Lfm2Config(layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, **GROUPED),
    "granite-h": lambda: hf.GraniteMoeHybridConfig(
        layer_types=["mamba", "attention", "mamba"],
        num_local_experts=2,
        shared_intermediate_size=32,
        **HEADS,
        **GROUPED,
    ),
    "olmo-hybrid": lambda: hf.OlmoHybridConfig(
        layer_types=["linear_attention", "full_attention", "linear_attention"], **DELTA, **GROUPED
    ),
    "nemotron-h": lambda: hf.NemotronHConfig(
        hybrid_override_pattern="M*-M",
        mamba_num_heads=8,
        mamba_head_dim=8,
        ssm_state_size=8,
        n_groups=1,
        chunk_size=8,
        head_dim=8,
        **FOUR,
    ),
    "zamba2": lambda: hf.Zamba2Config(
        mamba_d_state=8,
        mamba_expand=2,
        n_mamba_heads=8,
        mamba_headdim=8,
        chunk_size=8,
        layers_block_type=["mamba", "hybrid", "mamba"],
        **SMALL | {"num_key_value_heads": 4},
    ),
}
"""Keys and values in slots, states of the rows that are read together."""

WHOLE: Configs = {
    "recurrent-gemma": lambda: hf.RecurrentGemmaConfig(
        attention_window_size=8,
        lru_width=32,
        block_types=["recurrent", "attention"],
        num_attention_heads=4,
        num_key_value_heads=1,
        **SIZES,
    ),
    "minimax": lambda: hf.MiniMaxConfig(
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        block_size=8,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        **GROUPED,
    ),
    "gpt-1": lambda: hf.OpenAIGPTConfig(vocab_size=WIDTH, n_embd=32, n_layer=2, n_head=4, n_positions=160),
    "rwkv": lambda: hf.RwkvConfig(vocab_size=WIDTH, hidden_size=32, num_hidden_layers=2, context_length=160),
    "xlstm": lambda: hf.xLSTMConfig(vocab_size=WIDTH, hidden_size=32, num_hidden_layers=2, num_heads=4, chunk_size=8),
}
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
