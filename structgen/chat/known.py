"""The call formats of tokenizers: each is derived once and remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.derive import derive
from structgen.chat.derive_thinking import thinking_tags
from structgen.chat.probes import Probes
from structgen.chat.response_templates import response_format
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
    ends = [] if vocabulary is None else _ends(vocabulary)
    if isinstance(source, str):
        return _found(JinjaTemplate(source), ends)
    template, read_by = (str(getattr(source, name, None)) for name in ("chat_template", "response_template"))
    derived = _format_or_reason(source, template, read_by, tuple(ends))
    if isinstance(derived, str):
        raise OptionError(excerpt(derived))
    return derived


@once_per_object
def _format_or_reason(tokenizer: Any, template: str, read_by: str, ends: tuple[str, ...]) -> CallFormat | str:
    """Returns the format, or why there is none; the templates of a tokenizer may be changed."""
    try:
        return _format_of_tokenizer(tokenizer, list(ends))
    except OptionError as refusal:
        return str(refusal)


def _format_of_tokenizer(tokenizer: Any, ends: list[str]) -> CallFormat:
    """Returns the format that a tokenizer renders.

    transformers takes a content of None out of messages. Templates that render calls only where it is there render none
    then: such a format is `told`, so that conversations have calls as content.
    """
    template = TokenizerTemplate(tokenizer)
    try:
        return _found(template, ends, getattr(tokenizer, "response_template", None))
    except OptionError:
        source = getattr(tokenizer, "chat_template", None)
        if not isinstance(source, str):
            raise
        try:
            return replace(derive(JinjaTemplate(source, **tokenizer.special_tokens_map), ends=ends), told=True)
        except OptionError:
            pass
        raise


def _found(template: ChatTemplate, ends: list[str], read_by: Any = None) -> CallFormat:
    """Returns the derived format of a template, or else the one that its tokenizer reads, or that it tells.

    Args:
        read_by: the `response_template` of the tokenizer.
    """
    try:
        return derive(template, ends=ends)
    except OptionError:
        told = response_format(template, read_by) or told_format(template)
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
    probes = Probes(TokenizerTemplate(tokenizer))
    try:
        return thinking_tags(probes, probes.prompt())
    except OptionError:
        return None


def _ends(vocabulary: Vocabulary) -> list[str]:
    return sorted(name for name, i in vocabulary.special_names.items() if i in vocabulary.end_ids)
