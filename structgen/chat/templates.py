"""Chat templates: they write a conversation as the text that a model was trained on."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from structgen.arguments import require_unicode
from structgen.errors import OptionError, excerpt

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

    Args:
        tokenizer: a tokenizer with `apply_chat_template`.
        messages: dicts with role and content, which is a text or a list of parts.
        tools: declarations of tools in OpenAI's form.
        options: options for the template, such as `enable_thinking`.
        where: the name of the messages in error messages.

    Raises:
        OptionError: the tokenizer has no chat template, a message has no role, or the template refuses the conversation
            or fails.
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
