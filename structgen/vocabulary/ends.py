"""What a model's configurations say about its vocabulary: which ids end the text, how wide the logits are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from structgen.errors import VocabularyError, quoted


def declared_ends(model_config: Any, generation_config: Any) -> list[int]:
    """The `eos_token_id` of both configurations, and of the text part of a composite model."""
    ends: list[int] = []
    for name, config in (("model", model_config), ("generation", generation_config)):
        for part in (config, _text_part(config)):
            ends += as_ids(_field(part, "eos_token_id"), f"eos_token_id of the {name} configuration")
    return ends


def declared_width(model_config: Any) -> int | None:
    """`vocab_size` of the configuration, of its text part where it has one; None without a configuration."""
    width = _field(_text_part(model_config), "vocab_size")
    return None if width is None else int(width)


def as_ids(value: Any, where: str) -> list[int]:
    """An id, a list of ids or None as a list. A negative id is how some configurations say "none".

    Raises:
        VocabularyError: anything else.
    """
    ids = [] if value is None else list(value) if isinstance(value, Iterable) else [value]
    if isinstance(value, str) or not all(hasattr(i, "__index__") for i in ids):
        raise VocabularyError(f"{where} is {quoted(value)}: expected a token id or a list of them")
    return [int(i) for i in ids if int(i) >= 0]


def _text_part(config: Any) -> Any:
    if isinstance(config, Mapping):
        return config.get("text_config", config)
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
