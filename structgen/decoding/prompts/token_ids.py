"""Prompts of every kind to token ids, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from structgen.arguments import require_unicode
from structgen.chat.messages import prompt_ids
from structgen.errors import OptionError, quoted
from structgen.models.model import Model

EXPECTED = (
    "a string, chat messages (dicts with role and content), token ids, what a tokenizer or processor returns, "
    "or a list of any of those"
)


def is_batch(prompt: Any) -> bool:
    """True for a list of prompts, even an empty one; False for one prompt.

    Raises:
        OptionError: the argument is no prompt.
    """
    if isinstance(prompt, Mapping) and "role" in prompt:
        raise OptionError("prompt is one chat message: pass a list of them, [{'role': ..., 'content': ...}]")
    if isinstance(prompt, (str, Mapping)) or hasattr(prompt, "tolist"):
        return False
    if not isinstance(prompt, (list, tuple)):
        raise OptionError(f"prompt of type {type(prompt).__name__}: expected {EXPECTED}")
    return not prompt or (not _is_messages(prompt) and not _is_ids(prompt))


def encode(model: Model, prompt: Any, where: str = "prompt") -> list[int]:
    """The token ids of one prompt.

    Args:
        model: whose tokenizer, chat template and context apply.
        prompt: a string, chat messages or token ids.

    Raises:
        OptionError: it is empty, no prompt, longer than the model's context, or has an id that the model does not have.
    """
    return checked(model, _ids(model, prompt, where), where)


def checked(model: Model, ids: list[int], where: str) -> list[int]:
    """Returns the ids if the model can read them; raises like `encode`."""
    if not ids:
        raise OptionError(f"{where} is empty")
    highest, context = model.readable_ids - 1, model.context
    for unknown in (i for i in ids if not 0 <= i <= highest):
        raise OptionError(f"{where}: the model does not know token id {quoted(unknown)}, only 0 to {highest}")
    if context is not None and len(ids) > context:
        raise OptionError(f"{where} has {len(ids)} tokens, the model's context holds {context}: shorten it")
    return ids


def _ids(model: Model, prompt: Any, where: str) -> list[int]:
    if isinstance(prompt, str):
        require_unicode(where, prompt)
        return _text(model.tokenizer, prompt) if prompt else []
    if hasattr(prompt, "tolist"):
        return one_row(prompt, where)
    if isinstance(prompt, (list, tuple)):
        if not prompt or _is_ids(prompt):
            return [int(token) for token in prompt]
        if _is_messages(prompt):
            return prompt_ids(model.tokenizer, prompt, where=where)
    raise OptionError(f"{where}={quoted(prompt)}: expected {EXPECTED}")


def one_row(value: Any, where: str) -> list[int]:
    """The ids of one prompt, from a list, a tensor or an array: [tokens] or [1, tokens]."""
    numbers = value.tolist() if hasattr(value, "tolist") else list(value)
    ids: list[Any] = numbers if isinstance(numbers, list) else [None]
    if len(ids) == 1 and isinstance(ids[0], (list, tuple)):
        ids = list(ids[0])
    if not _is_ids(ids):
        several = "for several, pass a list: of texts, of ids, or of what a tokenizer or processor returns for each"
        raise OptionError(f"{where}: expected the ids of one prompt; {several}")
    return ids


def _text(tokenizer: Any, text: str) -> list[int]:
    """The text's ids, with a beginning token if the tokenizer adds one by itself."""
    if type(tokenizer).__module__.startswith("mistral_common."):  # MistralTokenizer is a wrapper
        tokenizer = getattr(tokenizer, "instruct_tokenizer", tokenizer)
        return list(getattr(tokenizer, "tokenizer", tokenizer).encode(text, bos=True, eos=False))
    encoded = tokenizer.encode(text)
    return list(getattr(encoded, "ids", encoded))  # the tokenizers library wraps them


def _is_ids(prompt: Sequence[Any]) -> bool:
    return all(isinstance(item, Integral) and not isinstance(item, bool) for item in prompt)


def _is_messages(prompt: Sequence[Any]) -> bool:
    """Messages have a role or content; what a processor returns has neither."""
    messages = all(isinstance(item, Mapping) for item in prompt)
    return messages and all("role" in item or "content" in item for item in prompt)
