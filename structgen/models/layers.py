"""What each layer of a model keeps of the tokens it has read, and how one row is read into a cache of transformers.

The name of the argument that takes the cache is the model's own, and releases change it: the model is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, cache_utils
from transformers.modeling_outputs import BaseModelOutput

from structgen.memo import once_per_object
from structgen.models.transfer import device_of, upload_one

REFUSALS = RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError
"""What models raise on inputs that do not fit each other."""

PROBE = range(2, 16)
"""Ids that are read to learn what a model does; see `probe_ids`."""

NOTHING = "dummy"
"""The kind of a layer that keeps nothing, or shares what another layer keeps."""

WITHOUT_CACHE = {"mlp", "moe"}
"""Other kinds of layers that keep nothing; newer releases call them `NOTHING`, too."""

SLIDING = {"sliding_attention", "hybrid_sliding", "reference_sliding_attention"}
"""Kinds of layers that see only the last tokens."""

COUPLED = {"longrope", "dynamic"}
"""Rotary embeddings that depend on the longest row of the batch."""

STATES_ONLY = {"linear_attention", "conv"}
BOTH = {"hybrid"}
"""Kinds of layers that keep recurrent states, and of those that keep keys and values, too."""


class _WithoutStates:
    """Stands for `StateLayer` in releases without one: no cache has such a layer."""


def _state_layer() -> Any:
    """The class of transformers' layers with recurrent states, from the release on that numbers a layer's states."""
    kind = getattr(cache_utils, "LinearAttentionLayer", _WithoutStates)
    return kind if isinstance(getattr(kind(), "conv_states", None), dict) else _WithoutStates


StateLayer: Any = _state_layer()
"""A cache's layer of recurrent states."""

KNOWS_STATES = StateLayer is not _WithoutStates
"""Can states be copied from one cache into another? Otherwise each row of a model with states has its own cache."""


def layer_kinds(config: Any) -> list[tuple[str, int | None]]:
    """The kind of each layer, and its window in tokens, if it has one.

    It is what transformers' caches read from a configuration, in all releases of version 5.

    Args:
        config: of the text model or decoder.
    """
    layers: list[Any] = getattr(config, "per_layer_config", None) or [config] * config.num_hidden_layers
    named = getattr(config, "layer_types", None)
    kinds: list[str] = [_kind(layer) for layer in layers] if named is None else list(named)
    shared = getattr(config, "num_kv_shared_layers", None) or 0  # the last ones use what others keep
    modes = getattr(config, "kv_sharing_modes", None) or [""] * (len(kinds) - shared) + ["reuse"] * shared
    each = zip(kinds, layers, modes, strict=False)
    return [
        (NOTHING, None) if kind in WITHOUT_CACHE or mode == "reuse" else (kind, _window(kind, layer))
        for kind, layer, mode in each
    ]


@once_per_object
def kinds_of(module: PreTrainedModel) -> Sequence[tuple[str, int | None]]:
    """The `layer_kinds` of a model's text model or decoder."""
    return layer_kinds(module.config.get_text_config(decoder=True))


def is_coupled(config: Any) -> bool:
    """Do rotary embeddings depend on the longest row that is read?"""
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type")} | {r.get("rope_type") for r in rope.values() if isinstance(r, dict)}
    return bool(kinds & COUPLED)


def _kind(layer: Any) -> str:
    """The kind of a layer whose configuration does not say it."""
    if getattr(layer, "sliding_window", None) is not None:
        return "sliding_attention"
    return "full_attention" if getattr(layer, "attention_chunk_size", None) is None else "chunked_attention"


def _window(kind: str, layer: Any) -> int | None:
    name = "sliding_window" if kind in SLIDING else "attention_chunk_size" if kind == "chunked_attention" else ""
    window: int | None = getattr(layer, name, None)
    return window


def probe_ids(module: PreTrainedModel) -> list[int]:
    """Ids that the model knows; some come twice where it knows few."""
    width = getattr(module.config.get_text_config(decoder=True), "vocab_size", None) or PROBE.stop
    return [id_ % width for id_ in PROBE]


def made_up_encoding(module: PreTrainedModel) -> BaseModelOutput:
    """States as the encoder gives them, for a model whose encoder reads no text: float[1, 5, width]."""
    width = module.get_encoder().config.hidden_size
    states = torch.linspace(-1, 1, 5 * width, dtype=module.dtype, device=device_of(module))
    return BaseModelOutput(last_hidden_state=states.view(1, 5, -1))


@once_per_object
def arguments_of(module: PreTrainedModel) -> frozenset[str]:
    """The names of the arguments that the model's forward pass takes.

    A wrapper or subclass that names none (`*given, **options`) passes on what the class or its base takes.
    """
    for forward in (
        module.forward,
        *(vars(kind)["forward"] for kind in type(module).__mro__ if "forward" in vars(kind)),
    ):
        parameters = inspect.signature(forward).parameters.values()
        named = {each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
        if named - {"self"}:
            return frozenset(named - {"self"})
    return frozenset()


@once_per_object
@torch.inference_mode()
def cache_argument(module: PreTrainedModel) -> str | None:
    """The name under which the model takes a cache of transformers; None where it takes none.

    It reads a token, and reads it again with the cache that it gave the first time: under the right name it gives the
    same cache back. Names are tried that its output has for a cache, then those of its arguments.
    """
    given = _one_token(module) | {"use_cache": True}
    caches = _caches(module, given)
    names = dict.fromkeys([*caches, *sorted(arguments_of(module) - given.keys())]) if caches else ()
    for name in names:
        for cache in caches.values():
            if any(back is cache for back in _caches(module, given | {name: cache}).values()):
                return name
    return None


@once_per_object
@torch.inference_mode()
def logits_width(module: PreTrainedModel) -> int:
    """The number of the model's logits, which not every model's configuration or head tells."""
    return int(module(**_one_token(module)).logits.shape[-1])


def _one_token(module: PreTrainedModel) -> dict[str, Any]:
    """Arguments of a forward pass over one token."""
    token = torch.tensor([probe_ids(module)[:1]], device=device_of(module))
    if not module.config.is_encoder_decoder:
        return {"input_ids": token, "return_dict": True}
    # The encoder runs by itself, as for rows: options of the decoder that are passed on to it are refused by some.
    reads_text = module.main_input_name == "input_ids"
    encoding = module.get_encoder()(input_ids=token, return_dict=True) if reads_text else made_up_encoding(module)
    return {"encoder_outputs": encoding, "decoder_input_ids": token, "return_dict": True}


@torch.inference_mode()
def _caches(module: PreTrainedModel, given: dict[str, Any]) -> dict[str, Any]:
    """The caches of transformers in a model's output, by their names there; none where it refuses what is given."""
    try:
        return {name: value for name, value in module(**given).items() if isinstance(value, cache_utils.Cache)}
    except REFUSALS:
        return {}


def cache_option(module: PreTrainedModel, cache: Any) -> dict[str, Any]:
    """A cache of transformers as an argument of the model's forward pass.

    Raises:
        TypeError: the model takes none.
    """
    name = cache_argument(module)
    if name is None:
        raise TypeError(f"{type(module).__name__} takes no cache of transformers")
    return {name: cache}


def read_ids(module: PreTrainedModel, ids: Sequence[int], first: int, cache: Any, **options: Any) -> Tensor:
    """Reads ids of one row after what its cache holds. The logits that the model gives: float[columns, width].

    Args:
        first: the position of the first id, for models that take positions.
        cache: of transformers.
        options: further arguments of the forward pass.
    """
    inputs = upload_one([[list(ids)], [list(range(first, first + len(ids)))]], device_of(module))
    options["decoder_input_ids" if module.config.is_encoder_decoder else "input_ids"] = inputs[0]
    options |= cache_option(module, cache)
    if "position_ids" in arguments_of(module):
        options["position_ids"] = inputs[1]
    logits: Tensor = module(use_cache=True, return_dict=True, **options).logits[0]
    return logits


def empty_layer() -> Any:
    """A layer of a cache, for a layer of the model that keeps nothing."""
    kind = getattr(cache_utils, "DummyLayer", cache_utils.DynamicLayer)  # older releases have no layer there
    return kind()
