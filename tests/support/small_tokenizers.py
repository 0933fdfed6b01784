"""Tokenizers that tests train themselves, and a model of random weights for one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from structgen.models.model import Model


def byte_level_bpe(texts: Sequence[str], size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of so many tokens trained on texts, as a transformers tokenizer with `</s>` as its end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def random_model(texts: Sequence[str], size: int = 420) -> Model:
    """A Llama of one layer and random weights, always the same, with a tokenizer trained on texts."""
    tokenizer = byte_level_bpe(texts, size)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    return Model.of(LlamaForCausalLM(config).eval(), tokenizer)
