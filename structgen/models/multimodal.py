"""How a model reads a prompt of more than text: images, sounds, embeddings in the place of tokens.

The prompt goes through the model's own preparation in the forward pass that reads it. There the model puts images in
the places of their tokens, lets them attend to each other in both directions where it does that, and counts positions
in as many dimensions as it has. From then on the row is text. Its positions differ from the tokens' indexes by
`Row.shift`, because an image may take more or fewer positions than tokens.

Prompts with inputs of the same kinds are read side by side, shorter ones after padding, as the model's own processor
would lay them. A prompt is read whole or not at all: a rollback to before its end makes all of it pending again.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from structgen.errors import RunError
from structgen.models.grouping import packed
from structgen.models.layers import REFUSALS, arguments_of, cache_option, logits_width
from structgen.models.row import Row
from structgen.models.transfer import device_of, near, upload_one


def reads_both_ways(module: PreTrainedModel) -> bool:
    """Do tokens of a prompt attend to later ones, even in mere text? Then its own preparation reads text, too."""
    config = module.config.get_text_config(decoder=True)
    return not module.config.is_encoder_decoder and getattr(config, "use_bidirectional_attention", None) is True


PER_TOKEN = {"token_type_ids", "mm_token_type_ids", "inputs_embeds"}
"""Inputs with an entry for each of a prompt's tokens: [1, tokens, ...]. All others describe images, sounds or patches;
those of several prompts are concatenated, as processors do."""

_read_together: weakref.WeakKeyDictionary[PreTrainedModel, dict[tuple[bool, frozenset[str]], bool]]
_read_together = weakref.WeakKeyDictionary()
"""By whether there is padding, and the names of the inputs: do prompts read together give the logits of each alone?"""


def prompt_groups(rows: Sequence[Row], spare: int) -> list[list[int]]:
    """Indexes of rows whose prompts have inputs of the same kinds and shapes, and about the same length.

    Args:
        rows: of which nothing was read, with inputs.
        spare: tokens of padding that cost less than a forward pass.
    """
    alike: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        alike.setdefault(_kind(row), []).append(i)
    lengths = [row.given for row in rows]
    ordered = [sorted(like, key=lengths.__getitem__) for like in alike.values()]
    return [group for like in ordered for group in packed(like, lengths, spare)]


def _kind(row: Row) -> Any:
    """A key, equal for rows whose prompts may be read together. Inputs without dimensions cannot be concatenated."""
    inputs = row.inputs or {}
    if any(value.dim() == 0 for value in inputs.values()):
        return id(row)
    return tuple((n, v.dtype, v.shape[2:] if n in PER_TOKEN else v.shape[1:]) for n, v in sorted(inputs.items()))


def read_prompt(module: PreTrainedModel, row: Row, cache: Any, options: Mapping[str, Any]) -> Tensor | None:
    """Reads the prompt of a row with its inputs, into an empty cache of transformers; sets `row.shift`.

    Args:
        module: a causal model.
        cache: takes the prompt's keys, values or states.

    Returns:
        The logits after the prompt, float[1, width]. None where the model refuses the inputs: `row.error` says why.
    """
    try:
        return _read(module, [row], cache, options)
    except REFUSALS as error:
        row.error = _refusal(row, error)
        return None


def read_prompts(
    module: PreTrainedModel, rows: Sequence[Row], options: Mapping[str, Any]
) -> tuple[Tensor, DynamicCache] | None:
    """`read_prompt` for rows of one of the `prompt_groups`, side by side after padding.

    The first prompts of a kind are also read alone. Where that gives other logits, no others are read together.

    Returns:
        The logits after the prompts, float[rows, width]; the cache, in which each row's tokens lie at the end. None for
        several rows: read each by itself. None for a single row: the model refuses it, `row.error` says why.
    """
    cache = DynamicCache()
    if len(rows) == 1:
        alone = read_prompt(module, rows[0], cache, options)
        return None if alone is None else (alone, cache)
    known = _read_together.setdefault(module, {})
    kind = len({row.given for row in rows}) > 1, frozenset(rows[0].inputs or ())
    if not known.get(kind, True):
        return None
    try:
        logits = _read(module, rows, cache, options)
    except REFUSALS:  # of one of them: whose it is, each by itself tells
        return None
    if kind not in known:
        shifts = [row.shift for row in rows]
        each = [read_prompt(module, row, DynamicCache(), options) for row in rows]
        same = all(one is not None and near(both, one[0]) for both, one in zip(logits, each, strict=True))
        known[kind] = same and shifts == [row.shift for row in rows]
    return (logits, cache) if known[kind] else None


def _read(module: PreTrainedModel, rows: Sequence[Row], cache: Any, options: Mapping[str, Any]) -> Tensor:
    """The logits after the prompts of rows, float[rows, width]; shorter prompts have padding before them."""
    own: Any = module
    width = max(row.given for row in rows)
    given = _placed(rows, module, width)
    pads = [[0] * (width - row.given) for row in rows]
    padded = [pad + row.ids[: row.given] for pad, row in zip(pads, rows, strict=True)]
    seen = [pad + [1] * row.given for pad, row in zip(pads, rows, strict=True)]
    ids, mask = upload_one([padded, seen], device_of(module))
    if "position_ids" in arguments_of(module):
        if not hasattr(module, "_prepare_position_ids_for_generation"):
            raise RuntimeError("prompts with images, sounds or embeddings need transformers 5.2")
        tokens = given.get("inputs_embeds", ids)
        positions = own._prepare_position_ids_for_generation(tokens, {**given, "attention_mask": mask})
        given["position_ids"] = positions
    given |= cache_option(module, cache)
    arguments = own.prepare_inputs_for_generation(
        ids, attention_mask=mask, use_cache=True, is_first_iteration=True, **given
    )
    output = own(**{**arguments, **options, "return_dict": True})
    _require_tokens_only(module, cache, width)
    for number, row in enumerate(rows):
        row.shift = _shift(arguments.get("position_ids"), number, row.given)
    logits: Tensor = output.logits[:, -1]
    return logits


def _refusal(row: Row, error: Exception) -> RunError:
    """A model's exception on a prompt with inputs, as the row's error; an exception on text alone is raised again."""
    if row.inputs is None:
        raise error
    refusal = RunError(f"the model refuses the prompt's inputs ({', '.join(row.inputs)}): {error}")
    refusal.__cause__ = error
    return refusal


def no_logits(module: PreTrainedModel) -> Tensor:
    """Not-a-numbers in the place of the logits of a row with an error: float[width]."""
    return torch.full((logits_width(module),), torch.nan, dtype=module.dtype, device=device_of(module))


def _require_tokens_only(module: PreTrainedModel, cache: Any, width: int) -> None:
    """Checks that a cache keeps the keys of `width` tokens, and nothing else.

    Raises:
        ValueError: a layer keeps something else, as one does that attends to an image next to the text.
    """
    for layer in (layer for layer in cache.layers if type(layer) is DynamicLayer and layer.is_initialized):
        if (length := layer.get_seq_length()) != width:
            kept = f"{length} keys for {width} tokens"
            raise ValueError(f"{type(module).__name__} attends to them apart from its tokens ({kept}): unsupported")


def encoded(module: PreTrainedModel, row: Row) -> Any:
    """The encoder's output for a row's prompt, kept with the row; None where it refuses the prompt."""
    if row.encoded is not None:
        return row.encoded
    encoder: Any = module.get_encoder()
    given = _placed([row], module, 0)
    if row.source:
        source = upload_one([row.source], device_of(module))
        given |= {"input_ids": source, "attention_mask": torch.ones_like(source)}
    try:
        row.encoded = encoder(**given, return_dict=True)
    except REFUSALS as error:
        row.error = _refusal(row, error)
    return row.encoded


def _placed(rows: Sequence[Row], module: PreTrainedModel, width: int) -> dict[str, Any]:
    """The rows' inputs side by side, on the model's device; floating-point inputs in the model's dtype.

    Args:
        rows: of one of the `prompt_groups`.
        width: of all prompts with their padding, in tokens.
    """
    given = {}
    for name in rows[0].inputs or ():
        each = [(row.inputs or {})[name] for row in rows]
        if name in PER_TOKEN and len(rows) > 1:
            each = [torch.cat([v.new_zeros((1, width - v.shape[1], *v.shape[2:])), v], dim=1) for v in each]
        value = torch.cat(each) if len(rows) > 1 else each[0]
        given[name] = value.to(device_of(module), module.dtype if value.is_floating_point() else value.dtype)
    return given


def _shift(positions: Tensor | None, row: int, length: int) -> int:
    """How much larger the position after a row's prompt is than its number of tokens; see `Row.shift`.

    Args:
        positions: int64[rows, tokens], or int64[dimensions, rows, tokens]; the last three dimensions are an image's.
        length: of the prompt, in tokens.
    """
    if positions is None:
        return 0
    counted = positions[-3:, row] if positions.dim() == 3 else positions[row]
    return int(counted[..., -length:].max()) + 1 - length
