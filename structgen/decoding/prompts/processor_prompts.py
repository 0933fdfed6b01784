"""Prompts as a processor of transformers returns them: ids, and other inputs of the model.

The processor's mapping is the prompt: `input_ids`, `pixel_values`, `image_grid_thw`, `input_features`, or whatever else
the model's forward pass takes. One mapping is one prompt; several prompts are a list of mappings.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.prompts.token_ids import checked, encode, one_row
from structgen.errors import OptionError, excerpt, quoted
from structgen.models.hosts.host import Host
from structgen.models.model import Model
from structgen.models.multimodal import reads_both_ways
from structgen.models.row import Row

IDS = "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"
"""The inputs that become the prompt's tokens."""

OURS = {"cache", "past_key_values", "cache_params", "use_cache", "position_ids", "cache_position", "encoder_outputs"}
OURS |= {"labels", "return_dict", "logits_to_keep", "output_attentions", "output_hidden_states", "prompt_tokens"}
"""The model's inputs that a prompt must not have."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One checked prompt.

    Attributes:
        ids: the tokens that the model goes on from, or that the encoder reads. Empty if the encoder reads no text.
        inputs: further arguments of the model's forward pass, each for one row; may be empty for a model that has its
            own way of reading prompts. None for text.
        start: for encoder-decoder models, the tokens that the decoder goes on from.
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


def read_prompts(model: Model, prompts: Sequence[Any], *, many: bool) -> list[Prompt]:
    """The prompts of a call. A prompt that is given several times becomes one object, so it can be read once.

    Raises:
        OptionError: a prompt is invalid; the message says which.
    """
    known: dict[int, Prompt] = {}
    for row, prompt in enumerate(prompts):
        if id(prompt) not in known:
            known[id(prompt)] = _prompt(model, prompt, f"prompt[{row}]" if many else "prompt")
    return [known[id(prompt)] for prompt in prompts]


def _prompt(model: Model, prompt: Any, where: str) -> Prompt:
    if isinstance(model.module, Host):
        return Prompt(encode(model, prompt, where))
    if isinstance(prompt, Mapping):
        return _processed(model, model.module, prompt, where)
    if model.module.config.is_encoder_decoder and model.module.main_input_name != "input_ids":
        name = model.module.main_input_name
        raise OptionError(f"{where}: {type(model.module).__name__} reads {name}: pass what its processor returns")
    return Prompt(encode(model, prompt, where), {} if reads_both_ways(model.module) else None, model.start)


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
    ids = one_row(given[name], f"{where}[{quoted(name)}]")
    mask = given.get(name.replace("input_ids", "attention_mask"))
    seen = [1] * len(ids) if mask is None else one_row(mask, f"{where}'s attention_mask")
    kept = [id_ for id_, is_seen in zip(ids, seen, strict=True) if is_seen]
    if len(kept) < len(ids) and (given.keys() - set(IDS) or 0 in _between(seen)):
        raise OptionError(f"{where}: its attention_mask hides tokens; process each prompt by itself, without padding")
    return kept


def _between(seen: list[int]) -> list[int]:
    """A mask without the padding at its ends."""
    if 1 not in seen:
        return []
    return seen[seen.index(1) : len(seen) - seen[::-1].index(1)]


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
