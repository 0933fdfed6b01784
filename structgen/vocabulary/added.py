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

_BRACKETS = {"<": ">", "[": "]"}


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
