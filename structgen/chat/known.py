"""The call formats of tokenizers: each is derived once and remembered."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.derive import derive
from structgen.chat.derive_thinking import thinking_tags
from structgen.chat.probes import Probes
from structgen.chat.spellings import told_format
from structgen.chat.templates import ChatTemplate, JinjaTemplate, TokenizerTemplate
from structgen.errors import OptionError, excerpt
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary


def call_format(source: Any, vocabulary: Vocabulary | None = None) -> CallFormat:
    """Returns how a model writes calls, derived from its chat template, or told in its prompt.

    Args:
        source: a transformers tokenizer with a chat template, or the Jinja source of one.
        vocabulary: the vocabulary of the tokenizer, which knows the tokens that end a text.

    Raises:
        OptionError: the template renders no calls, or no format can be derived from them; the message says why.
    """
    ends: tuple[str, ...] = ()
    if vocabulary is not None:
        ends = tuple(sorted(name for name, i in vocabulary.special_names.items() if i in vocabulary.end_ids))
    if isinstance(source, str):
        return _derived_or_told(JinjaTemplate(source), ends)
    template, response = (str(getattr(source, name, None)) for name in ("chat_template", "response_template"))
    format_ = _format_or_reason(source, template, response, ends)
    if isinstance(format_, str):
        raise OptionError(excerpt(format_))
    return format_


@once_per_object
def _format_or_reason(tokenizer: Any, template: str, response: str, ends: tuple[str, ...]) -> CallFormat | str:
    """Returns the format of a tokenizer, or why there is none.

    transformers takes a content of None out of messages. Some templates render calls only beside such a content, so
    they render none through the tokenizer. Their format is `told`: conversations have calls as content then.

    Args:
        template, response: the tokenizer's templates as texts: if they change, the format is derived again.
    """
    try:
        return _derived_or_told(TokenizerTemplate(tokenizer), ends, getattr(tokenizer, "response_template", None))
    except OptionError as refusal:
        reason = str(refusal)
    source = getattr(tokenizer, "chat_template", None)
    if isinstance(source, str):
        with suppress(OptionError):
            return replace(derive(JinjaTemplate(source, **tokenizer.special_tokens_map), ends), told=True)
    return reason


def _derived_or_told(template: ChatTemplate, ends: Collection[str], response: Any = None) -> CallFormat:
    try:
        return derive(template, ends)
    except OptionError:
        told = told_format(template, response)
        if told is None:
            raise
        return told


def thinking_tags_of(tokenizer: Any, vocabulary: Vocabulary) -> Tags | None:
    """Returns the tags around a model's thinking, read off its chat template; None if it has none.

    Args:
        tokenizer: the tokenizer of the model; one without a chat template has no tags.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        return None
    try:
        return call_format(tokenizer, vocabulary).thinking
    except OptionError:  # a template without calls may have thinking
        return _thinking_alone(tokenizer, str(tokenizer.chat_template))


@once_per_object
def _thinking_alone(tokenizer: Any, source: str) -> Tags | None:
    try:
        return thinking_tags(Probes(TokenizerTemplate(tokenizer)))
    except OptionError:
        return None
