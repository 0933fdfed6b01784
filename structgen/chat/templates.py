"""Chat templates: they write a conversation as the text that a model was trained on."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from structgen.arguments import require_unicode
from structgen.errors import OptionError, excerpt, quoted
from structgen.memo import once_per_object

Message = Mapping[str, Any]


class CannotRender(OptionError):
    """A chat template refuses a conversation, or fails."""


class ChatTemplate(Protocol):
    """Turns a conversation into text."""

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        """Returns the text of a conversation.

        Args:
            messages: dicts with role and content; the assistant's may have `tool_calls`.
            tools: declarations of tools in OpenAI's form.
            prompt: add the text that comes before the model's next turn.
            options: options for the template, such as `enable_thinking`.

        Raises:
            CannotRender: the template refuses, or fails.
        """
        ...


class TokenizerTemplate:
    """The chat template of a transformers tokenizer.

    Args:
        tokenizer: a tokenizer with `apply_chat_template`.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not hasattr(tokenizer, "apply_chat_template"):
            raise CannotRender(f"{type(tokenizer).__name__} has no chat template")
        self._tokenizer = tokenizer

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        """See `ChatTemplate`."""
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=prompt, tokenize=False, **options
            )
        except Exception as error:
            raise CannotRender(f"the chat template refuses this conversation: {_why(error)}") from error
        return text


def prompt_ids(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Any] = (),
    options: Mapping[str, Any] | None = None,
    *,
    where: str = "messages",
) -> list[int]:
    """Returns the token ids of a conversation, up to the beginning of the model's turn.

    What is said in the messages never becomes a control token: the tokenizer spells the names of such tokens as text.
    Tokenizers that are not of transformers have no option for it; those that are known, as mistral-common's, always
    spell so.

    Some templates read a message's content as a text, some as a list of parts, some as either: what is given comes in
    the form that the template reads.

    Args:
        tokenizer: a tokenizer with `apply_chat_template`.
        messages: dicts with role and content, which is a text or a list of parts.
        tools: declarations of tools in OpenAI's form.
        options: options for the template, such as `enable_thinking`.
        where: the name of the messages in error messages.

    Raises:
        OptionError: the tokenizer has no chat template, a message has no role, or has parts that need a processor, or
            the template refuses the conversation or fails.
    """
    apply = getattr(tokenizer, "apply_chat_template", None)
    if apply is None or getattr(tokenizer, "chat_template", "") is None:
        raise OptionError(f"{where}: the tokenizer has no chat template, and chat messages need one")
    for place, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise OptionError(f"{where}: message {place} has no role; it takes role and content")
    given: dict[str, Any] = {"tools": list(tools), **(options or {})} if tools else dict(options or {})
    if "sanitize_control_tokens" in inspect.signature(apply).parameters:
        given["sanitize_control_tokens"] = True
    try:
        plain = [_plain(message, f"{where}: message {place}") for place, message in enumerate(messages)]
        form = _content_form(tokenizer, str(getattr(tokenizer, "chat_template", None)))
        plain = [_with_content(message, form, f"{where}: message {place}") for place, message in enumerate(plain)]
        encoded = apply(plain, add_generation_prompt=True, return_dict=True, **given)
        return [int(token) for token in encoded["input_ids"]]
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"{where}: the chat template refuses the conversation: {_why(error)}") from error


def _plain(value: Any, where: str) -> Any:
    """Returns a value with dicts for all mappings and lists for all sequences: only there control tokens are found."""
    if isinstance(value, str):
        require_unicode(where, value)
    if isinstance(value, Mapping):
        return {key: _plain(each, where) for key, each in value.items()}
    return [_plain(each, where) for each in value] if isinstance(value, (list, tuple)) else value


class _ContentForm(Enum):
    """The forms in which a chat template reads the content of a message."""

    TEXT = 1
    PARTS = 2
    EITHER = 3


_PROBE = "What is said"


@once_per_object
def _content_form(tokenizer: Any, template: str) -> _ContentForm:
    """Tells the form from a probe: what reads one form only leaves the other out, fails, or prints it as Python does.

    Args:
        tokenizer: a tokenizer with `apply_chat_template`.
        template: its chat template, which may be changed.
    """

    def rendered(content: Any) -> str:
        try:
            return str(TokenizerTemplate(tokenizer).render([{"role": "user", "content": content}], (), prompt=False))
        except CannotRender:
            return ""

    text, parts = rendered(_PROBE), rendered([{"type": "text", "text": _PROBE}])
    if _PROBE in parts and _PROBE not in text:
        return _ContentForm.PARTS
    return _ContentForm.EITHER if text == parts else _ContentForm.TEXT


def _with_content(message: dict[str, Any], form: _ContentForm, where: str) -> dict[str, Any]:
    """Returns a message with its content as the template reads it."""
    content = message.get("content")
    if isinstance(content, str) and form is _ContentForm.PARTS:
        return {**message, "content": [{"type": "text", "text": content}]}
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind.startswith(("image", "video", "audio", "input_")):
            raise OptionError(f"{where}: {quoted(kind)} parts are read from what the model's processor returns only")
    return {**message, "content": joined(content)} if form is _ContentForm.TEXT and "content" in message else message


def joined(content: Any) -> Any:
    """Returns the content of a message with its parts as one text, where it is a list of texts alone."""
    if not isinstance(content, list):
        return content
    texts: list[Any] = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(texts) if len(texts) == len(content) and all(isinstance(each, str) for each in texts) else content


def _why(error: Exception) -> str:
    """Returns what an exception says: the words of a template that refuses, with the type of any other exception."""
    own = isinstance(error, (jinja2.TemplateError, ValueError))
    return excerpt(error if own and str(error) else f"{type(error).__name__}: {error}")


class JinjaTemplate:
    """A chat template in Jinja, run in a sandbox.

    Args:
        source: the source of the template.
        names: values of further variables of the template, such as `bos_token`.
    """

    def __init__(self, source: str, **names: Any) -> None:
        self._source, self._names = source, {"bos_token": "", "eos_token": "", **names}

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        """See `ChatTemplate`."""
        given = {"messages": list(messages), "tools": list(tools) or None, "add_generation_prompt": prompt}
        try:
            return self._compiled.render(**self._names, **self._asked(tools), **given, **options)
        except Exception as error:
            raise CannotRender(f"the chat template refuses this conversation: {_why(error)}") from error

    @cached_property
    def _compiled(self) -> jinja2.Template:
        try:
            return _environment().from_string(self._source)
        except jinja2.TemplateError as error:
            raise CannotRender(f"no chat template: {excerpt(error)}") from error

    @cached_property
    def _undeclared(self) -> set[str]:
        return set(meta.find_undeclared_variables(_environment().parse(self._source)))

    def _asked(self, tools: Sequence[Any]) -> dict[str, Any]:
        """Returns what older templates ask for: `functions`, the tools' declarations as JSON; `datetime`, today."""
        older = {
            "functions": json.dumps([tool.get("function", tool) for tool in tools], indent=4),
            "datetime": datetime.now().strftime("%Y-%m-%d"),
        }
        return {name: value for name, value in older.items() if name in self._undeclared}


def _environment() -> SandboxedEnvironment:
    """Returns an environment like that of transformers, with JSON readers. Templates may change their own lists."""
    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    environment.filters |= {"tojson": _to_json, "from_json": json.loads, "fromjson": json.loads}
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return environment


class _Generation(Extension):
    """Reads `{% generation %}`, with which templates mark the assistant's turns, and keeps its content."""

    tags = {"generation"}  # noqa: RUF012 - so jinja2 wants it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=list, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
