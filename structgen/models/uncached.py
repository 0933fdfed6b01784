"""Rows that are read from their beginning at every step, for models whose cache we cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from structgen.errors import OptionError
from structgen.models.layers import read_ids
from structgen.models.multimodal import encoded, no_logits, read_prompt
from structgen.models.row import Foreseen, Forward, Row
from structgen.models.transfer import device_of, near, upload_one


class WholeForward(Forward):
    """Runs any model that generates, without a cache: slow, but always exact.

    For models that keep their state in themselves (RecurrentGemma), insist on a cache of their own (MiniMax, xLSTM), or
    take none (GPT-1, RWKV).
    """

    why_eager = "the model's cache is its own"
    kind = "none"
    cost = "every row is read from its beginning at every step"

    def __init__(self, module: PreTrainedModel) -> None:
        self._module = module

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        return torch.stack([self._read(row) for row in rows])

    def _read(self, row: Row) -> Tensor:
        self.count += 1
        row.valid = len(row.ids)
        return at_once(self._module, row)


def looks_ahead(module: PreTrainedModel, row: Row) -> bool:
    """Do a model's logits depend on later tokens?

    They do in models that fill in masked words (BERT, XLNet), and in a decoder that a release of transformers forgets
    to mask. Two rows that differ in their last id are read by one forward pass, so whatever the model scales by the
    largest number of a batch, as quantised ones do, it scales equally for both.
    """
    with torch.inference_mode():
        one, other = _after_each(module, row, [*row.ids[:-1], row.ids[-2]])[:, :-1]
        return one.numel() > 0 and not near(one, other)  # none where a model gives the last token's logits only


def batch_noise(module: PreTrainedModel, row: Row) -> float:
    """How much a row's logits depend on the row next to it, relative to the largest of them.

    0 but for rounding, except in models that scale what they compute by the largest number of the batch.
    """
    with torch.inference_mode():
        alone = _after_each(module, row)[0].float()
        mates = row.ids[::-1], row.ids[-1:] * len(row.ids), [*row.ids[3:], *row.ids[:3]]
        mixed = [_after_each(module, row, ids)[0].float() for ids in mates]
        return float(max((logits - alone).abs().max() for logits in mixed) / alone.abs().max())


def at_once(module: PreTrainedModel, row: Row) -> Tensor:
    """The logits after all ids of a row, without a cache: float[width]; not-a-numbers where `row.error` is set.

    A prompt with inputs is read by itself, and the rest token by token, as transformers' `generate` does.
    """
    if not module.config.is_encoder_decoder:
        return _after_each(module, row)[0, -1] if row.inputs is None else _behind_prompt(module, row)
    encoded(module, row)
    return no_logits(module) if row.error is not None else _after_each(module, row)[0, -1]


def _after_each(module: PreTrainedModel, row: Row, *further: Sequence[int]) -> Tensor:
    """The logits after each id of a row without inputs in its decoder: float[1 + len(further), ids, width].

    Args:
        further: ids of further rows, as many as the row has, after the same prompt of an encoder.
    """
    ids = upload_one([row.ids, *further], device_of(module))
    given: dict[str, Any] = {"input_ids": ids}
    if module.config.is_encoder_decoder:
        output = encoded(module, row)
        if further:
            states = output.last_hidden_state.expand(len(ids), -1, -1)
            output = type(output)(**{**output, "last_hidden_state": states})  # experts' outputs have more in them
        given = {"encoder_outputs": output, "decoder_input_ids": ids}
    logits: Tensor | None = getattr(module(**given, use_cache=False, return_dict=True), "logits", None)
    if logits is None:
        raise OptionError(f"{type(module).__name__} gives no logits: load the variant that generates text")
    return logits


def _behind_prompt(module: PreTrainedModel, row: Row) -> Tensor:
    """The logits after a row whose prompt has inputs, by a cache of transformers: float[width]."""
    cache = DynamicCache()
    logits = read_prompt(module, row, cache, {})
    if logits is None:
        return no_logits(module)
    for index in range(row.given, len(row.ids)):
        logits = read_ids(module, [row.ids[index]], index + row.shift, cache)
    return logits[-1]
