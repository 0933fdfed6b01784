"""The kinds of layers, read by our own code, are those that transformers' own caches are made of."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import DynamicCache, LlamaConfig, cache_utils
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

from structgen.models.layers import (
    NOTHING,
    SLIDING,
    WITHOUT_CACHE,
    arguments_of,
    cache_argument,
    empty_layer,
    layer_kinds,
)
from tests.support.architectures import make
from tests.support.releases import require_release
from tests.support.tiny_configurations import tiny

THEIRS: Any = getattr(cache_utils, "get_layer_types_and_kwargs", None)


def text_configuration(name: str) -> Any:
    """A tiny configuration of the part that reads text; skips where none can be made by the names of its fields."""
    try:
        config = tiny(name).get_text_config(decoder=True)
        assert config.num_hidden_layers
        DynamicCache(config=config)
        return config
    except Exception as error:  # noqa: BLE001 - whatever a configuration asks for
        pytest.skip(f"{type(error).__name__}: {error}")


@pytest.mark.skipif(THEIRS is None, reason="this release of transformers has no such function")
@pytest.mark.parametrize("name", sorted(CAUSAL))
def test_kinds_and_windows_are_those_of_transformers(name: str) -> None:
    """Of every causal architecture."""
    config = text_configuration(name)
    kinds, options = THEIRS(config)
    each = options
    if isinstance(options, dict):  # of all layers, as some releases give them: a window is for those that have one
        each = [options if kind in SLIDING | {"chunked_attention"} else {} for kind in kinds]
    ours = layer_kinds(config)
    rest = len(ours) - len(kinds)  # some releases leave out layers at the end that keep nothing
    assert [kind for kind, _ in ours] == [NOTHING if kind in WITHOUT_CACHE else kind for kind in kinds] + [
        NOTHING
    ] * rest
    assert [window for _, window in ours] == [own.get("sliding_window") for own in each] + [None] * rest


@pytest.mark.skipif(THEIRS is not None, reason="the test before says more")
@pytest.mark.parametrize("name", sorted(CAUSAL))
def test_windows_are_those_of_a_cache(name: str) -> None:
    """In releases without that function: what a `DynamicCache` makes of a configuration has the same windows."""
    config = text_configuration(name)
    kinds = [(kind, window) for kind, window in layer_kinds(config) if kind != NOTHING]
    layers = [layer for layer in DynamicCache(config=config).layers if type(layer) is not type(empty_layer())]
    if len(layers) != len(kinds) or not layers:
        pytest.skip("the cache has layers of other kinds")
    for layer, (kind, window) in zip(layers, kinds, strict=True):
        if type(layer) is cache_utils.DynamicSlidingWindowLayer:
            assert layer.sliding_window == window, kind


def test_layers_that_use_what_others_keep_keep_nothing() -> None:
    """As older releases say it: by their number."""
    config = LlamaConfig(num_hidden_layers=5)
    config.layer_types = ["full_attention", "sliding_attention"] * 2 + ["mlp"]
    config.sliding_window, config.num_kv_shared_layers = 7, 2
    kinds = [
        ("full_attention", None),
        ("sliding_attention", 7),
        ("full_attention", None),
        (NOTHING, None),
        (NOTHING, None),
    ]
    assert layer_kinds(config) == kinds


@pytest.mark.parametrize("name", ["llama", "t5", "mamba"])
def test_the_model_tells_under_which_name_it_takes_a_cache(name: str) -> None:
    """Whatever a release calls it: the same model with another name, and one whose wrapper names nothing."""
    if name == "mamba":
        require_release("transformers", "5.14")
    module: Any = make(name)
    usual, forward = cache_argument(module), type(module).forward
    renamed, wrapped = make(name), make(name)

    def forward_of_another_release(input_ids=None, decoder_input_ids=None, kept=None, **options):
        return forward(renamed, input_ids, decoder_input_ids=decoder_input_ids, **{usual: kept}, **options)

    def causal(input_ids=None, kept=None, **options):
        return forward(renamed, input_ids, **{usual: kept}, **options)

    renamed.forward = forward_of_another_release if module.config.is_encoder_decoder else causal
    wrapped.forward = lambda *given, **options: forward(wrapped, *given, **options)
    assert usual is not None
    assert cache_argument(renamed) == "kept"
    assert cache_argument(wrapped) == usual
    assert arguments_of(wrapped) == arguments_of(module)
