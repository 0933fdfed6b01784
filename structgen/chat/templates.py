"""Chat templates. They turn a conversation into text of the form that a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Protocol

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from structgen.errors import OptionError, excerpt

Message = Mapping[str, Any]


class CannotRender(OptionError):
    """A chat template refused a conversation, or failed."""


class ChatTemplate(Protocol):
    """Turns a conversation into text."""

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        """Returns the text of a conversation.

        Args:
            messages: dicts with role and content; the assistant's may have `tool_calls`.
            tools: declarations of tools in OpenAI's form.
            prompt: add the text that comes before the model's next turn?
            options: options for the template, such as `enable_thinking`.

        Raises:
            CannotRender: the template refuses the conversation, or fails.
        """
        ...


class TokenizerTemplate:
    """The chat template of a transformers tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        if not hasattr(tokenizer, "apply_chat_template"):
            raise CannotRender(f"{type(tokenizer).__name__} has no chat template")
        self._tokenizer = tokenizer

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        with rendering():
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=prompt, tokenize=False, **options
            )
        return text


@contextmanager
def rendering(where: str = "") -> Iterator[None]:
    """Turns any exception of a template into `CannotRender`.

    A template is code that calls methods of its values, so it may raise anything.

    Args:
        where: the beginning of the message. The template's own words follow, or the type and text of the exception.

    Raises:
        CannotRender: the template raised an exception.
    """
    try:
        yield
    except OptionError:
        raise
    except Exception as error:  # a template is code
        own = isinstance(error, (jinja2.TemplateError, ValueError)) and str(error)
        why = excerpt(error if own else f"{type(error).__name__}: {error}")
        raise CannotRender(f"{where}the chat template refuses the conversation: {why}") from error


class JinjaTemplate:
    """A chat template in Jinja, run in a sandbox.

    Args:
        names: values of further variables of the template, such as `bos_token`.
    """

    def __init__(self, source: str, **names: Any) -> None:
        self._source, self._names = source, {"bos_token": "", "eos_token": "", **names}

    def render(self, messages: Sequence[Message], tools: Sequence[Any], *, prompt: bool, **options: Any) -> str:
        given = {"messages": list(messages), "tools": list(tools) or None, "add_generation_prompt": prompt}
        older = {  # variables that older templates read
            "functions": json.dumps([tool.get("function", tool) for tool in tools], indent=4),
            "datetime": datetime.now().strftime("%Y-%m-%d"),
        }
        with rendering():
            return self._compiled.render(**self._names, **older, **given, **options)

    @cached_property
    def _compiled(self) -> jinja2.Template:
        try:
            return _environment().from_string(self._source)
        except jinja2.TemplateError as error:
            raise CannotRender(f"the chat template is not valid Jinja: {excerpt(error)}") from error


def _environment() -> SandboxedEnvironment:
    """Returns a sandboxed environment like that of transformers, with filters that read JSON.

    Templates may change lists that they have made themselves.
    """
    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationTag]
    )
    environment.filters |= {"tojson": _to_json, "from_json": json.loads, "fromjson": json.loads}
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return environment


class _GenerationTag(Extension):
    """Accepts the tag `{% generation %}`, which marks the assistant's turns, and renders its content."""

    tags = {"generation"}  # noqa: RUF012 - so jinja2 wants it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


OURS = {"messages", "tools", "add_generation_prompt", "raise_exception", "strftime_now", "functions", "datetime"}
"""Variables of templates that are no caller's to set."""


@lru_cache(maxsize=64)
def variables_of(source: str) -> frozenset[str]:
    """Returns the names of the variables that a template reads from its caller.

    Raises:
        CannotRender: it is not valid Jinja.
    """
    environment = _environment()
    try:
        read = meta.find_undeclared_variables(environment.parse(source))
    except jinja2.TemplateError as error:
        raise CannotRender(f"the chat template is not valid Jinja: {excerpt(error)}") from error
    return frozenset(read - environment.globals.keys() - OURS)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=list, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
