"""The call formats of tokenizers: each is derived once and remembered.

Nothing can be derived from a template that renders no calls. Some of these templates describe the format in the prompt:
`SPELLINGS` has the words to look for. For others the tokenizer has a `response_template`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from structgen.chat.arguments import ArgumentFormat, JsonLayout, KeyedArguments, ValueWriter
from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.derive import derive
from structgen.chat.derive_thinking import CONTENT, thinking_tags
from structgen.chat.keyed.nested import TRICKY, Nested
from structgen.chat.pieces import Slot
from structgen.chat.probes import DECLARED, USER, Probes
from structgen.chat.response_templates import response_format
from structgen.chat.templates import CannotRender, ChatTemplate, JinjaTemplate, TokenizerTemplate
from structgen.errors import OptionError, excerpt
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary

_TEXT = Tags("", "")
_JSON_BODY = (Slot.NAME, '", "arguments": ', Slot.ARGUMENTS)
_NESTED = Nested(
    string=('"', '"'), array=("[", ", ", "]"), object=("{", ", ", "}"), key=('"', '": '),
    scalars=("True", "False", "None"), without=frozenset(TRICKY) & frozenset('"\\\n\t'),
)  # fmt: skip


def _python_arguments() -> KeyedArguments:
    """Arguments as a call in Python has them: `city="Rome", days=2, sunny=True`."""
    writers: dict[str, ValueWriter] = {
        "string": JsonLayout(), "number": JsonLayout(), "boolean": _NESTED, "null": _NESTED,
        "array": _NESTED, "object": _NESTED,
    }  # fmt: skip
    formats = {type_: ArgumentFormat((Slot.KEY, "="), writer, ()) for type_, writer in writers.items()}
    return KeyedArguments(tuple(formats.items()), separator=", ")


SPELLINGS = {
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>': CallFormat(  # SmolLM3, Hermes
        '<tool_call>\n{"name": "', _JSON_BODY, '}\n</tool_call>\n<tool_call>\n{"name": "', "}\n</tool_call>", "",
        JsonLayout(), _TEXT, gap='\n<tool_call>\n{"name": "', told=True,
    ),
    "respond only with <|tool_call|> followed by a JSON list of tools used": CallFormat(  # Granite 3.3
        '<|tool_call|>[{"name": "', _JSON_BODY, '}, {"name": "', "}]", "", JsonLayout(), _TEXT, told=True
    ),
    "<|tool_list_start|>": CallFormat(  # LFM2
        "<|tool_call_start|>[", (Slot.NAME, "(", Slot.ARGUMENTS), "), ", ")]<|tool_call_end|>", "",
        _python_arguments(), _TEXT, told=True,
    ),
}  # fmt: skip
"""What a prompt says of calls -> the format. The text behind a turn and the tags of thinking are the template's."""


def call_format(source: Any, vocabulary: Vocabulary | None = None) -> CallFormat:
    """Returns how a model writes calls. The format is derived from the chat template, or recognised in its prompt.

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

    transformers removes a content of None from messages. Some templates render calls only beside such a content, so
    through the tokenizer they render none. Their format is marked as `told` (see `CallFormat`).

    Args:
        template, response: the tokenizer's templates as texts. If they change, the format is derived again.
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


def told_format(template: ChatTemplate, response: Any = None) -> CallFormat | None:
    """Returns the call format of a template that renders no calls; None if it is unknown.

    It is the format that transformers reads with the tokenizer's `response_template`, or one that the prompt describes.

    Args:
        response: the `response_template` of the tokenizer.
    """
    probes = Probes(template)
    try:
        told = template.render([{"role": "user", "content": USER}], DECLARED, prompt=True)
        prompt, end = probes.prompt(), probes.answer(CONTENT).partition(CONTENT)[2]
    except CannotRender:
        return None
    spelled = next((format_ for words, format_ in SPELLINGS.items() if words in told), None)
    format_ = response_format(response, told, prompt) or spelled
    return None if format_ is None else replace(format_, end=end, thinking=thinking_tags(probes))


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
