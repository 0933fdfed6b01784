"""The call formats of tokenizers: each is derived once and remembered."""

from __future__ import annotations

import weakref
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

_known: weakref.WeakKeyDictionary[Any, tuple[Any, CallFormat | str]] = weakref.WeakKeyDictionary()


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
    read_by = getattr(source, "response_template", None)
    key = str(getattr(source, "chat_template", None)), str(read_by), tuple(ends)
    known = _known.get(source)
    if known is None or known[0] != key:
        derived: CallFormat | str
        try:
            derived = _format_of_tokenizer(source, ends)
        except OptionError as refusal:
            derived = str(refusal)
        known = _known[source] = key, derived
    if isinstance(known[1], str):
        raise OptionError(excerpt(known[1]))
    return known[1]


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
        vocabulary: the vocabulary of the tokenizer.
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
