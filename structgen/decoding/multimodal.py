"""How a model reads a prompt of more than text: images, sounds, embeddings in the place of tokens.

The prompt goes through the model's own preparation, once, in the forward pass that reads it: there the model puts
images in the places of their tokens, lets them see each other in both directions where it does that, and counts
positions in as many dimensions as it has. From then on the row is text, its positions moved by what the images took
more or less than their tokens (`Row.shift`).

A prompt is read whole or not at all: who goes back to before its end reads it again, with all that belongs to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer

from structgen.decoding.rows import Row
from structgen.errors import RunError

REFUSALS = RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError
"""What models raise on inputs that do not fit each other: their own words for it are the row's error."""


def reads_both_ways(module: PreTrainedModel) -> bool:
    """Do tokens of a prompt see those behind them, even of text alone? Then the model's own way reads it, too."""
    config = module.config.get_text_config(decoder=True)
    return not module.config.is_encoder_decoder and getattr(config, "use_bidirectional_attention", None) is True


def read_prompt(module: PreTrainedModel, row: Row, cache: Any, options: Mapping[str, Any]) -> Tensor | None:
    """Reads the prompt of a row with all that belongs to it, into an empty cache of transformers; sets `row.shift`.

    Args:
        module: a causal model.
        row: with inputs.
        cache: takes the prompt's keys, values or states, of one row.
        options: further arguments of the forward pass.

    Returns:
        The logits after the prompt, float[1, width]. None where the model refuses the inputs: `row.error` says why.
    """
    own: Any = module
    given = _placed(row, module)
    ids = torch.tensor([row.ids[: row.given]], device=module.device)
    mask = torch.ones_like(ids)
    with _refusals(row):
        if "position_ids" in inspect.signature(module.forward).parameters:
            tokens = given.get("inputs_embeds", ids)
            positions = own._prepare_position_ids_for_generation(tokens, {**given, "attention_mask": mask})
            given["position_ids"] = positions
        arguments = own.prepare_inputs_for_generation(
            ids, past_key_values=cache, attention_mask=mask, use_cache=True, is_first_iteration=True, **given
        )
        output = own(**{**arguments, **options, "return_dict": True})
        _require_tokens_only(module, cache, row)
    if row.error is not None:
        return None
    row.shift = _shift(arguments.get("position_ids"), row.given)
    logits: Tensor = output.logits[:, -1]
    return logits


@contextmanager
def _refusals(row: Row) -> Iterator[None]:
    """What the model raises on a prompt with inputs is its row's error."""
    try:
        yield
    except REFUSALS as error:
        if row.inputs is None:
            raise
        row.error = RunError(f"the model refuses the prompt's inputs ({', '.join(row.inputs)}): {error}")
        row.error.__cause__ = error


def no_logits(module: PreTrainedModel) -> Tensor:
    """In the place of the logits of a row with an error: not-a-numbers, float[width]."""
    model: Any = module
    width = model.get_output_embeddings().weight.shape[0]
    return torch.full((width,), torch.nan, dtype=module.dtype, device=module.device)


def _require_tokens_only(module: PreTrainedModel, cache: Any, row: Row) -> None:
    """What a full cache keeps is what the prompt's tokens left there, one by one.

    Raises:
        ValueError: a layer keeps something else, as those do that attend to an image beside the text.
    """
    for layer in (layer for layer in cache.layers if type(layer) is DynamicLayer and layer.is_initialized):
        if (length := layer.get_seq_length()) != row.given:
            kept = f"{length} keys for {row.given} tokens"
            raise ValueError(f"{type(module).__name__} attends to them beside its tokens ({kept}): no such cache here")


def encoded(module: PreTrainedModel, row: Row) -> Any:
    """What the encoder of an encoder-decoder model makes of a row's prompt, kept with the row; None: it refuses it."""
    if row.encoded is not None:
        return row.encoded
    encoder: Any = module.get_encoder()
    given = _placed(row, module)
    if row.source:
        source = torch.tensor([row.source], device=module.device)
        given |= {"input_ids": source, "attention_mask": torch.ones_like(source)}
    with _refusals(row):
        row.encoded = encoder(**given, return_dict=True)
    return row.encoded


def _placed(row: Row, module: PreTrainedModel) -> dict[str, Any]:
    """The inputs where the model is; numbers with fractions in its own kind."""
    given = (row.inputs or {}).items()
    return {n: v.to(module.device, module.dtype if v.is_floating_point() else v.dtype) for n, v in given}


def _shift(positions: Tensor | None, length: int) -> int:
    """By how much the positions of what follows a prompt are further on than its number of tokens.

    Args:
        positions: int64[rows, tokens], or int64[dimensions, rows, tokens], of which the last three are the image's.
        length: of the prompt, in tokens.
    """
    if positions is None:
        return 0
    counted = positions[-3:] if positions.dim() == 3 else positions
    return int(counted.max()) + 1 - length
