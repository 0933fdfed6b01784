"""What the layers of a model keep of what was read: by the configuration, in the words of transformers' caches."""

from __future__ import annotations

import inspect
from typing import Any

from transformers import PreTrainedModel, cache_utils
from transformers.cache_utils import get_layer_types_and_kwargs

NOTHING = "dummy"
"""The kind of a layer that keeps nothing, or uses what another one keeps."""

WITHOUT_CACHE = {"mlp", "moe"}
"""Kinds by which a model names layers that keep nothing; older releases do not put them down as `NOTHING`."""

STATES_ONLY = {"linear_attention", "conv"}
BOTH = {"hybrid"}
"""Kinds of layers that keep recurrent states; and those that keep keys and values beside them."""


def layer_kinds(config: Any) -> list[tuple[str, int | None]]:
    """The kind of each layer, and its window in tokens, if it has one.

    Args:
        config: of the text model or decoder.
    """
    kinds, options = get_layer_types_and_kwargs(config)
    given: Any = options  # older releases have one for all layers
    each = [given] * len(kinds) if isinstance(given, dict) else given
    named = [NOTHING if kind in WITHOUT_CACHE else kind for kind in kinds]
    return [(kind, own.get("sliding_window")) for kind, own in zip(named, each, strict=True)]


def cache_argument(module: PreTrainedModel) -> str | None:
    """The name under which the model takes a cache of transformers; None where it takes none."""
    accepted = inspect.signature(module.forward).parameters
    return next((name for name in ("past_key_values", "cache_params") if name in accepted), None)


def empty_layer() -> Any:
    """A cache's layer that keeps nothing."""
    kind = getattr(cache_utils, "DummyLayer", cache_utils.DynamicLayer)  # older releases have no layer there
    return kind()
