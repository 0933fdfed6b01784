"""A GGUF file of a small Llama of transformers, with its tokenizer: what `convert_hf_to_gguf` of llama.cpp writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
from torch import Tensor
from transformers import LlamaForCausalLM

from tests.support.tables import cases

NAMES = cases("support/gguf_files", "NAMES")


def write_gguf(path: Path, model: LlamaForCausalLM, tokenizer: Any, chat_template: str | None = None) -> Path:
    """Writes a model in float32 with a byte-level BPE tokenizer."""
    config, heads = model.config, model.config.num_attention_heads
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_block_count(config.num_hidden_layers)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_dimension_count(config.hidden_size // heads)
    out.add_rope_freq_base(config.rope_parameters["rope_theta"])
    _write_tokenizer(out, tokenizer)
    if chat_template is not None:
        out.add_chat_template(chat_template)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        out.add_tensor(_name(name), _permuted(name, tensor.float(), config).contiguous().numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _write_tokenizer(out: gguf.GGUFWriter, tokenizer: Any) -> None:
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {token["id"]: token for token in described["added_tokens"]}
    size = len(tokenizer)
    tokens = [tokenizer.convert_ids_to_tokens(i) for i in range(size)]
    kinds = [gguf.TokenType.CONTROL if i in added else gguf.TokenType.NORMAL for i in range(size)]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in described["model"]["merges"]]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    out.add_token_merges(merges)
    out.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.bos_token_id is not None:
        out.add_bos_token_id(tokenizer.bos_token_id)
    out.add_add_bos_token(bool(tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id))


def _name(name: str) -> str:
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in whole or name == "lm_head.weight":
        return whole.get(name, "output.weight")
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.weight"


def _permuted(name: str, weight: Tensor, config: Any) -> Tensor:
    """Queries and keys in the order in which ggml rotates them."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return weight
    size = weight.shape[0] // heads
    return weight.view(heads, 2, size // 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
