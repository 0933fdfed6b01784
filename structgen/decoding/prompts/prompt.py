"""Prompts of every kind to token ids and other inputs of the model, checked before anything runs.

What a processor of transformers returns is a mapping: `input_ids`, `pixel_values`, `image_grid_thw`, `input_features`,
or whatever else the model's forward pass takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.chat.control_tokens import plain_ids
from structgen.chat.messages import prompt_ids
from structgen.chat.thoughts import thought_options
from structgen.errors import OptionError, PromptTooLong, excerpt, quoted
from structgen.given_prompts import EXPECTED, ChatPrompt, GivenPrompt, ProcessorPrompt, TextPrompt, is_id
from structgen.models.model import Model
from structgen.models.multimodal import reads_both_ways
from structgen.models.row import Row
from structgen.patience import reading_prompt

IDS = "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"
"""The inputs that become the prompt's tokens."""

OURS = {"cache", "past_key_values", "cache_params", "use_cache", "position_ids", "cache_position", "encoder_outputs"}
OURS |= {"labels", "return_dict", "logits_to_keep", "output_attentions", "output_hidden_states", "prompt_tokens"}
"""The model's inputs that a prompt must not have."""


SHRUNK = 4
"""How many times fewer bytes a tokenizer's normal form of a text may have."""
SLICE = 1 << 16
"""The characters that are counted at once."""
WRITTEN = "user", "system", "developer", "tool"
"""The roles of the messages that chat templates write out whole."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One checked prompt.

    Attributes:
        ids: the tokens that the model continues from, or that the encoder reads. Empty if the encoder reads no text.
        inputs: further arguments of the model's forward pass, each for one row; may be empty for a model that has its
            own way of reading prompts. None for text.
        start: for encoder-decoder models, the tokens that the decoder continues from.
    """

    ids: list[int]
    inputs: Mapping[str, Tensor] | None = None
    start: list[int] | None = None

    @property
    def read(self) -> list[int]:
        """The tokens before the answer's first token."""
        return self.ids if self.start is None else self.start

    def followed_by(self, ids: Sequence[int]) -> Prompt:
        """The prompt with more tokens right before the answer."""
        more = [*self.read, *ids]
        return replace(self, ids=more) if self.start is None else replace(self, start=more)

    def row(self) -> Row:
        """A new row that the model has to read."""
        return Row(self.read, source=None if self.start is None else self.ids, inputs=self.inputs)


@reading_prompt()
def read_prompt(model: Model, prompt: GivenPrompt, *, thinks: bool | None = None) -> Prompt:
    """Reads a prompt by the model's tokenizer and chat template.

    Args:
        thinks: shall the template let the model think? None: as it does by itself.

    Raises:
        OptionError: it is empty, longer than the model's context, or has an id or an input that the model does not
            know.
    """
    module, where = model.of_transformers, prompt.name
    if module is None:
        if isinstance(prompt, ProcessorPrompt):
            raise OptionError(f"{where}={quoted(prompt.given)}: expected {EXPECTED}")
        return Prompt(checked(model, [*_token_ids(model, prompt, thinks)], where))
    if isinstance(prompt, ProcessorPrompt):
        return _processed(model, module, prompt.given, where)
    if module.config.is_encoder_decoder and module.main_input_name != "input_ids":
        expected = f"{type(module).__name__} reads {module.main_input_name}: pass what its processor returns"
        raise OptionError(f"{where}: {expected}")
    ids = _token_ids(model, prompt, thinks)
    if isinstance(ids, Mapping):
        return _processed(model, module, ids, where)
    ids = checked(model, ids, where)
    return Prompt(ids, {} if reads_both_ways(module) else None, model.start)


def _token_ids(model: Model, prompt: GivenPrompt, thinks: bool | None) -> list[int] | Mapping[str, Any]:
    """The ids of a text, of messages, or of ids as they are; of messages with images what the processor returns."""
    require_fits(model, prompt)
    if isinstance(prompt, TextPrompt):
        ids = plain_ids(model.tokenizer, prompt.given, prompt.data)
        return ids if ids is not None else _text_ids(model.tokenizer, prompt.given) if prompt.given else []
    if isinstance(prompt, ChatPrompt):
        options = thought_options(model.tokenizer, model.vocabulary, thinks)
        return prompt_ids(model.tokenizer, prompt.given, options=options, where=prompt.name, processor=model.processor)
    return _one_row(prompt.given, prompt.name)


def require_fits(model: Model, prompt: GivenPrompt) -> None:
    """Refuses texts that are longer than the model's context whatever their tokens are, before they are encoded.

    White space is not counted, and `SHRUNK` times as many bytes are let through: a tokenizer may make both fewer.

    Raises:
        PromptTooLong: they are.
    """
    context = model.context
    if context is None or not isinstance(prompt, (TextPrompt, ChatPrompt)):
        return
    contents = [each.get("content") for each in prompt.messages() if each.get("role") in WRITTEN]
    parts = [part for each in contents for part in (each if isinstance(each, list) else [each])]
    given = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    texts: list[str] = [text for text in given if isinstance(text, str)]
    if sum(map(len, texts)) <= context:  # a character has at most four bytes
        return
    longest = max([int(np.diff(model.vocabulary.offsets).max()), *map(len, model.vocabulary.special_names)])
    size, characters = 0, sum(map(len, texts))
    for text in texts:
        for start in range(0, len(text), SLICE):
            size += len("".join(text[start : start + SLICE].split()).encode("utf-8", "replace"))
            if size > SHRUNK * longest * context:
                raise PromptTooLong(prompt.name, max(characters // (SHRUNK * longest), context + 1), context)


def _text_ids(tokenizer: Any, text: str) -> list[int]:
    """The text's ids, with a beginning token if the tokenizer adds one by itself."""
    if type(tokenizer).__module__.startswith("mistral_common."):  # MistralTokenizer is a wrapper
        tokenizer = getattr(tokenizer, "instruct_tokenizer", tokenizer)
        return list(getattr(tokenizer, "tokenizer", tokenizer).encode(text, bos=True, eos=False))
    encoded = tokenizer.encode(text)
    return list(getattr(encoded, "ids", encoded))  # the tokenizers library wraps them


def checked(model: Model, ids: list[int], where: str) -> list[int]:
    """Returns the ids if the model can read them."""
    if not ids:
        raise OptionError(f"{where} is empty")
    highest, context = model.readable_ids - 1, model.context
    if min(ids) < 0 or max(ids) > highest:
        unknown = next(i for i in ids if not 0 <= i <= highest)
        raise OptionError(f"{where}: the model does not know token id {quoted(unknown)}, only 0 to {highest}")
    if context is not None and len(ids) > context:
        raise PromptTooLong(where, len(ids), context)
    return ids


def _processed(model: Model, module: PreTrainedModel, given: Mapping[str, Any], where: str) -> Prompt:
    """The prompt of a processor's mapping."""
    start = model.start
    if "decoder_input_ids" in given:
        if start is None:
            raise OptionError(f"{where}: decoder_input_ids are for encoder-decoder models; this one takes input_ids")
        start = checked(model, _ids(given, "decoder_input_ids", where), where)
    inputs = {name: _tensor(given[name], f"{where}[{quoted(name)}]") for name in given if name not in IDS}
    _require_known(module, given.keys() - {"attention_mask", *IDS[2:]}, where)
    embedded = inputs.get("inputs_embeds")
    if "input_ids" in given:
        ids = checked(model, _ids(given, "input_ids", where), where)
    elif embedded is not None and start is None:
        ids = checked(model, [0] * embedded.shape[1], where)  # embeddings have no ids: zeros hold their places
    elif start is not None and inputs:
        ids = []
    else:
        raise OptionError(f"{where} has no input_ids, only {excerpt(', '.join(map(repr, given))) or 'nothing'}")
    if embedded is not None and start is None and embedded.shape[1] != len(ids):
        raise OptionError(f"{where}: {len(ids)} input_ids for {embedded.shape[1]} inputs_embeds")
    return Prompt(ids, inputs if inputs or reads_both_ways(module) else None, start)


def _ids(given: Mapping[str, Any], name: str, where: str) -> list[int]:
    """One row of ids. Padding is left out, unless there are other inputs, which may count it."""
    ids = _one_row(given[name], f"{where}[{quoted(name)}]")
    mask = given.get(name.replace("input_ids", "attention_mask"))
    seen = [1] * len(ids) if mask is None else _one_row(mask, f"{where}'s attention_mask")
    kept = [id_ for id_, is_seen in zip(ids, seen, strict=False) if is_seen]
    padding_only = len(seen) == len(ids) and 0 not in _between(seen) and given.keys() <= set(IDS)
    if len(kept) < len(ids) and not padding_only:
        raise OptionError(f"{where}: its attention_mask hides tokens; process each prompt by itself, without padding")
    return kept


def _between(seen: list[int]) -> list[int]:
    """A mask without the padding at its ends."""
    if 1 not in seen:
        return []
    return seen[seen.index(1) : len(seen) - seen[::-1].index(1)]


def _one_row(value: Any, where: str) -> list[int]:
    """The ids of one prompt, from a list, a tensor or an array: [tokens] or [1, tokens]."""
    numbers = value.tolist() if hasattr(value, "tolist") else list(value)
    row: list[Any] = numbers if isinstance(numbers, list) else [None]
    if len(row) == 1 and isinstance(row[0], (list, tuple)):
        row = list(row[0])
    if not all(map(is_id, row)):
        several = "for several, pass a list: of texts, of ids, or of what a tokenizer or processor returns for each"
        raise OptionError(f"{where}: expected the ids of one prompt; {several}")
    return [int(id_) for id_ in row]


def _tensor(value: Any, where: str) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        given = f"{where} of type {type(value).__name__}"
        raise OptionError(f"{given}: expected a tensor; ask the processor for return_tensors='pt'") from error


def _require_known(module: PreTrainedModel, names: Set[str], where: str) -> None:
    """Refuses inputs that the model or its encoder does not take, and missing ones that it needs.

    Raises:
        OptionError: there is such an input.
    """
    reader: Any = module.get_encoder() if module.config.is_encoder_decoder else module
    accepted = inspect.signature(reader.forward).parameters.keys() - OURS - set(IDS[1:])
    for name in sorted(names):
        if name not in accepted:
            takes = ", ".join(sorted(n for n in accepted if n not in ("self", "kwargs")))
            raise OptionError(f"{where}[{quoted(name)}]: {type(module).__name__} takes no such input, only {takes}")
    counted = [name for name in sorted(names) if name.endswith("_grid_thw")]
    if counted and "mm_token_type_ids" in accepted and "mm_token_type_ids" not in names:
        need = "mm_token_type_ids, from which the positions are counted"
        raise OptionError(f"{where}: {counted[0]} needs {need}: pass all that the processor returns")
