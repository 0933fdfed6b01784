"""Which added tokens are text.

The tokenizer cuts added tokens out of the input before it encodes the rest, so the text of an added token is always
written with that one token. Special ones are never text. The others are of two kinds, which tokenizers do not tell
apart:

- *control tokens* that were not marked as special (`<think>`, `<tool_call>`, `[INST]`): a value must not hold them,
  because the model and its chat template read them as commands;
- *words*: runs of blanks (Phi, Gemma), or words that someone added before fine-tuning. Only the added token writes
  this text canonically.

A control token is recognised by its brackets. So are the user-defined pieces of a SentencePiece model: Gemma has its
`<start_of_turn>` and its runs of blanks as such pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BRACKETS = {"<": ">", "[": "]"}


def declared_special(tokenizer: Any, added: Mapping[int, Any]) -> frozenset[int]:
    """The ids that a tokenizer of transformers holds to be special.

    `all_special_ids` also lists the user-defined symbols of a SentencePiece model (braces, digits), which are added
    tokens like any word: they are not special to the tokenizer's own decoder, and have no role such as `eos_token`.
    """
    roles = {text for text in getattr(tokenizer, "special_tokens_map", {}).values() if isinstance(text, str)}
    return frozenset(
        i
        for i in tokenizer.all_special_ids
        if i is not None  # the configuration has a special token that is not in the vocabulary
        and (i not in added or added[i].special or added[i].content in roles)
    )


def is_word(content: str, spelled: bytes) -> bool:
    """True for an added token, not marked as special, that may stand inside text.

    Args:
        content: the text that the token stands for in the input.
        spelled: what the tokenizer's decoder makes of it, which must be `content` again.
    """
    blank_again = spelled.decode("utf-8", "replace").replace("\u2581", " ")
    if blank_again != content.replace("\u2581", " "):
        return False
    return not looks_like_control(content)


def looks_like_control(content: str) -> bool:
    """True for a text in angle or square brackets; blanks around it do not count."""
    text = content.strip(" \t\r\n\u2581")
    return bool(text) and _BRACKETS.get(text[0]) == text[-1]
