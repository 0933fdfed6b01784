"""The call formats of tokenizers: each is found once and remembered.

The format of history is derived from the chat template. How the model itself writes calls is known for many models (see
`native`), and is chosen by marks in the template; for others it is the template's format with more white space. Nothing
can be derived from a template that renders no calls. Then the format is the native one, or the tokenizer has a
`response_template`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.deriving.calls import derive
from structgen.chat.deriving.probes import DECLARED, USER, Probes
from structgen.chat.deriving.thinking import CONTENT, tags_in, thinking_tags
from structgen.chat.formats import by_name, native_of
from structgen.chat.native import Native
from structgen.chat.response_templates import response_format
from structgen.chat.templates import CannotRender, ChatTemplate, JinjaTemplate, TokenizerTemplate
from structgen.errors import OptionError, excerpt
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary


def call_format(source: Any, vocabulary: Vocabulary | None = None) -> CallFormat:
    """Returns how a model writes calls: a known format if the chat template has its marks, else one derived from it.

    Args:
        source: a transformers tokenizer with a chat template, the Jinja source of one, or the name of a known format,
            such as "hermes".
        vocabulary: the vocabulary of the tokenizer, which knows the tokens that end a text.

    Raises:
        OptionError: the template renders no calls, or no format can be derived from them; the message says why.
    """
    ends: tuple[str, ...] = ()
    if vocabulary is not None:
        ends = tuple(sorted(name for name, i in vocabulary.special_names.items() if i in vocabulary.end_ids))
    if isinstance(source, str):
        named = by_name(source)
        if named is None:
            return _derived_or_told(JinjaTemplate(source), ends, source)
        alone = named.alone()
        return replace(alone, thinking=alone.thinking or Tags("<think>", "</think>"))
    template, response = (str(getattr(source, name, None)) for name in ("chat_template", "response_template"))
    format_ = _format_or_reason(source, template, response, ends)
    if isinstance(format_, str):
        raise OptionError(f'{excerpt(format_)}; call_format="hermes", or the name of another format, takes its place')
    return format_


@once_per_object
def _format_or_reason(tokenizer: Any, template: str, response: str, ends: tuple[str, ...]) -> CallFormat | str:
    """Returns the format of a tokenizer, or why there is none.

    transformers removes a content of None from messages. Some templates render calls only next to such a content, so
    through the tokenizer they render none. Their format is marked as `told` (see `CallFormat`).

    Args:
        template, response: the tokenizer's templates as texts. If they change, the format is derived again.
    """
    try:
        return _derived_or_told(TokenizerTemplate(tokenizer), ends, template, tokenizer)
    except OptionError as refusal:
        reason = str(refusal)
    source = getattr(tokenizer, "chat_template", None)
    if isinstance(source, str):
        with suppress(OptionError):
            format_ = derive(JinjaTemplate(source, **tokenizer.special_tokens_map), ends)
            native = native_of(source)
            return replace(format_ if native is None else native.beside(format_), told=True)
    return reason


def _derived_or_told(template: ChatTemplate, ends: Collection[str], source: str, tokenizer: Any = None) -> CallFormat:
    """Returns the format of a chat template.

    Args:
        source: the template as text.
        tokenizer: the tokenizer of the template, which may have a `response_template`.
    """
    native = native_of(source + _prompt_with_tools(template))
    try:
        format_ = derive(template, ends)
        format_ = format_ if native is None else native.beside(format_)
    except OptionError:
        told = told_format(template, getattr(tokenizer, "response_template", None), native)
        if told is None:
            raise
        format_ = told
    return format_ if format_.thinking is not None else replace(format_, thinking=tags_in(source))


def _prompt_with_tools(template: ChatTemplate) -> str:
    """Returns the prompt of a conversation with tools; an empty text if the template refuses it."""
    with suppress(CannotRender):
        return template.render([{"role": "user", "content": USER}], DECLARED, prompt=True)
    return ""


def told_format(template: ChatTemplate, response: Any = None, native: Native | None = None) -> CallFormat | None:
    """Returns the call format of a template that renders no calls; None if it is unknown.

    Args:
        response: the `response_template` of the tokenizer, with which transformers reads the model's calls.
        native: the format whose marks the template has.
    """
    probes = Probes(template)
    try:
        prompt, end = probes.prompt(), probes.answer(CONTENT).partition(CONTENT)[2]
    except CannotRender:
        return None
    format_ = response_format(response, _prompt_with_tools(template), prompt) or (
        None if native is None else native.alone()
    )
    return None if format_ is None else replace(format_, end=end, thinking=format_.thinking or thinking_tags(probes))


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
        return thinking_tags(Probes(TokenizerTemplate(tokenizer))) or tags_in(source)
    except OptionError:
        return tags_in(source)
