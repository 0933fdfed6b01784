"""Small models whose tokenizers have chat templates that render calls: scripted ones, and random ones."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from structgen.models.model import Model
from structgen.testing import HERMES, ScriptedModel
from structgen.vocabulary import Vocabulary
from tests.support.small_tokenizers import byte_level_bpe

MISTRAL = """{%- for message in messages %}{% if message.role == "user" %}[INST]{{ message.content }}[/INST]\
{% elif message.tool_calls %}{% for call in message.tool_calls %}[TOOL_CALLS]{{ call.function.name }}[CALL_ID]\
{{ call.id }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}<|im_end|>\
{% elif message.role == "tool" %}[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]\
{% else %}{{ message.content }}<|im_end|>{% endif %}{% endfor %}"""
"""A name between special tokens, an id, and JSON; no text before calls."""

XML = """{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}
<tool_call>
<function={{ call.function.name }}>
{% for key, value in call.function.arguments | items %}<parameter={{ key }}>
{{ value if value is string else value | tojson }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Arguments key by key."""

TEMPLATES = {"hermes": HERMES, "mistral": MISTRAL, "xml": XML}

SPECIAL = {
    "hermes": ["<|im_start|>"],
    "mistral": ["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    "xml": ["<|im_start|>", "<tool_call>", "</tool_call>"],
}

TEXTS = ['{"name": "weather", "arguments": {"city": "Paris"}}', "<tool_call>\n</tool_call>", "The weather in Rome is."]


def chat_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """A tokenizer of some 400 tokens with one of `TEMPLATES`."""
    tokenizer = byte_level_bpe(TEXTS * 9, 400)
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": SPECIAL[template]})
    tokenizer.chat_template = TEMPLATES[template]
    return tokenizer


def scripted_chat(template: str, *said: str) -> Model:
    """A model that wants to say these texts, one turn after the other."""
    tokenizer = chat_tokenizer(template)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return Model(ScriptedModel(list(said), vocabulary), tokenizer, vocabulary)


def random_chat(template: str, seed: int = 0) -> Model:
    """A model with random weights."""
    tokenizer = chat_tokenizer(template)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, eos_token_id=tokenizer.eos_token_id,
                         pad_token_id=0, bos_token_id=0, **sizes)  # fmt: skip
    module = LlamaForCausalLM(config).eval()
    return Model.of(module, tokenizer)
