"""What `generate` of transformers hands over and takes back: rows of one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.prompts.processor_prompts import IDS, OURS
from structgen.errors import OptionError

NOT_READ = {*IDS, *OURS}
"""Arguments of the forward pass that are not a prompt's."""


def prompts_of(
    model: PreTrainedModel, input_ids: Tensor, source: Tensor | None, inputs: Mapping[str, Any], copies: int
) -> list[Any]:
    """One prompt for each that `generate` was given, without padding.

    Raises:
        OptionError: images or sounds for several prompts, which do not say which is whose.
    """
    more = {name: given for name, given in inputs.items() if isinstance(given, Tensor) and name not in NOT_READ}
    mask = inputs.get("attention_mask")
    if more and len(input_ids) > copies:
        raise OptionError(f"{min(more)}: with inputs beside its ids a prompt comes alone; generate each by itself")
    prompts: list[Any] = []
    for row in range(0, len(input_ids), copies):
        own = None if mask is None else mask[row].bool()
        if model.config.is_encoder_decoder and source is not None:
            read, name = source[row // copies], model.main_input_name
            hidden = own is not None and name == "input_ids"
            prompts.append({name: (read[own] if hidden else read)[None], "decoder_input_ids": input_ids[row][None]})
            continue
        ids = input_ids[row] if own is None else input_ids[row][own]
        prompts.append({"input_ids": ids[None], **more} if more else ids.tolist())
    return prompts


def sequences_of(prompts: Tensor, texts: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Prompts with their texts behind them: int64[rows, tokens]."""
    longest = max(map(len, texts), default=0)
    tokens = [[*text, *[padding] * (longest - len(text))] for text in texts]
    return torch.cat([prompts, prompts.new_tensor(tokens).reshape(len(texts), longest)], dim=1)
