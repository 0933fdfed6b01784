"""Small models whose tokenizers have chat templates that render calls: scripted ones, and random ones."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from structgen.chat.pieces import TAG
from structgen.models.model import Model
from structgen.testing import HERMES, ScriptedModel
from structgen.vocabulary import Vocabulary
from tests.support.chat_templates import control_tokens, format_of, template_of
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases

MISTRAL = """{%- for message in messages %}{% if message.role == "user" %}[INST]{{ message.content }}[/INST]\
{% elif message.tool_calls %}{% for call in message.tool_calls %}[TOOL_CALLS]{{ call.function.name }}[CALL_ID]\
{{ call.id }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}<|im_end|>\
{% elif message.role == "tool" %}[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]\
{% else %}{{ message.content }}<|im_end|>{% endif %}{% endfor %}"""
"""A name between special tokens, an id, and JSON; no text before calls."""

XML = cases("support/calling_models", "XML", globals())
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


class AnsweringModel(ScriptedModel):
    """It says the text of the one of these keys that stands in its prompt."""

    def __init__(self, texts: dict[str, str], vocabulary: Vocabulary):
        super().__init__(list(texts.values()), vocabulary)
        self.keys = [key.encode() for key in texts]

    def _script_of(self, ids, notes):
        prompt = self.vocabulary.decode([int(i) for i in ids])
        return next((number for number, key in enumerate(self.keys) if key in prompt), 0)


class Mixture(ScriptedModel):
    """It says one of these texts, each with its probability."""

    def __init__(self, texts: dict[str, float], tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary):
        super().__init__("", vocabulary)
        self.chances = {(*tokenizer.encode(text), tokenizer.eos_token_id): p for text, p in texts.items()}

    def _scores(self, row, said):
        law = torch.full((self.vocabulary.width,), 1e-12)
        for text, chance in self.chances.items():
            if text[: len(said)] == tuple(said) and len(text) > len(said):
                law[text[len(said)]] += chance
        return law.log()


def mixture_chat(template: str, texts: dict[str, float]) -> Model:
    """A model that says one of these texts in each turn, each with its probability."""
    tokenizer = chat_tokenizer(template)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return Model(Mixture(texts, tokenizer, vocabulary), tokenizer, vocabulary)


def answering_chat(template: str, texts: dict[str, str]) -> Model:
    """A model that wants to say these texts, each where its key stands in the prompt."""
    tokenizer = chat_tokenizer(template)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return Model(AnsweringModel(texts, vocabulary), tokenizer, vocabulary)


def real_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """A tokenizer of some 400 tokens, and the control tokens that a real model's chat template has."""
    format_ = format_of(name)
    thinking = format_.thinking
    marks = TAG.findall(thinking.opening + thinking.closing) if thinking is not None else []
    end = next(iter(TAG.findall(format_.end)), format_.end.strip() or "<|im_end|>")
    tokenizer = byte_level_bpe(TEXTS * 9, 400)
    special = sorted({*control_tokens(format_), *marks} - {end})
    tokenizer.add_special_tokens({"eos_token": end, "additional_special_tokens": special})
    tokenizer.chat_template = template_of(name)
    return tokenizer


def random_chat(template: str, seed: int = 0) -> Model:
    """A model with random weights, and one of `TEMPLATES` or of the real chat templates."""
    tokenizer = chat_tokenizer(template) if template in TEMPLATES else real_tokenizer(template)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, eos_token_id=tokenizer.eos_token_id,
                         pad_token_id=0, bos_token_id=0, **sizes)  # fmt: skip
    module = LlamaForCausalLM(config).eval()
    return Model.of(module, tokenizer)
