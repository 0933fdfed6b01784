"""Turns of a remote model: it is sent the tools in OpenAI's form, and its calls are validated here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import from_json

from structgen.arguments import require, require_flag, without_nones
from structgen.calling.reply import Reply
from structgen.calling.request import TurnOptions, named_conversations
from structgen.chat.history import is_conversation
from structgen.decoding.call_options import CallOptions, require_known
from structgen.decoding.prompts.per_row import lists, per_row
from structgen.errors import ValidationFailed, quoted
from structgen.given_prompts import ChatPrompt, GivenPrompt, GivenPrompts
from structgen.options import Limits
from structgen.remote import Offer, Remote, RemoteRequest, prepare_remote
from structgen.remote_replies import ReplyChoice
from structgen.rendering import schema_text
from structgen.tools import Tool, ToolCall


class _Turn(NamedTuple):
    """What a model has written: calls, or an answer."""

    calls: list[ToolCall[Any]]
    answer: Any


@dataclass(frozen=True)
class RemoteTurns:
    """Turns of a remote model. `many`: was a list of conversations given? Then a list is returned."""

    request: RemoteRequest
    many: bool

    def replies(self) -> list[Reply[Any]]:
        """Returns the model's turns; a failure is in its reply. What prompt the model read is not known."""
        turns = [(each.value or _Turn([], None), each) for each in self.request.results()]
        return [
            Reply(turn.calls, turn.answer, each.text, "", replace(each, value=each.text), each.error)
            for turn, each in turns
        ]


def prepared_remote(
    remote: Remote,
    messages: Any,
    tools: Sequence[Any],
    *,
    choice: Any,
    schema: Any,
    options: Mapping[str, Any],
) -> RemoteTurns:
    """Returns the request of the turns. `call` documents the arguments.

    Raises:
        OptionError: an option cannot work with an endpoint.
    """
    require_known(options, TurnOptions.__annotations__)
    options, many = without_nones(options), not is_conversation(messages)
    conversations, choice = named_conversations(messages, many=many), "auto" if choice is None else choice
    require(isinstance(tools, (list, tuple)), "tools", tools, "a list of tools")
    for name in ("tokenizer", "call_format", "template_options", "examples"):
        require(options.pop(name, None) is None, name, "given", "nothing: the model is remote")
    parallel, shown, count = options.pop("parallel", False), options.pop("prompt_schema", False), len(conversations)
    require_flag("prompt_schema", shown)

    def each(name: str, value: Any) -> Sequence[Any]:
        return per_row(name, value, count) if many and isinstance(value, list) else [value] * count

    columns = lists("tools", tools, count), each("choice", choice), each("parallel", parallel), each("schema", schema)
    offers, prompts = [], list[GivenPrompt]()
    for (name, each_one), offered, wanted, several, answer in zip(conversations.items(), *columns, strict=True):
        offers.append(_offer(offered, wanted, several, limits=options.get("limits")))
        prompt = ChatPrompt(each_one, name)
        prompts.append(prompt.with_schema(schema_text(answer)) if shown and answer is not None else prompt)
    asked = CallOptions.of(options)
    return RemoteTurns(prepare_remote(remote, GivenPrompts(prompts, many), schema, asked, offers), many)


def _offer(given: Sequence[Any], choice: Any, parallel: Any, *, limits: Any) -> Offer:
    tools: list[Tool[..., Any]] = [Tool.of(each) for each in given]
    require(isinstance(parallel, bool), "parallel", parallel, "True or False: the model is remote")
    chosen = choice
    if choice not in ("auto", "required", "none"):
        name = choice if isinstance(choice, str) else Tool.of(choice).name
        require(any(each.name == name for each in tools), "choice", name, "a tool of the list")
        chosen = {"type": "function", "function": {"name": name}}
    fields: dict[str, Any] = {}
    if tools:
        declared = [each.declaration for each in tools]
        fields = {"tools": declared, "tool_choice": chosen, "parallel_tool_calls": parallel}
    known = {each.name: each for each in tools}
    cut = f"max_new_tokens={(limits if isinstance(limits, Limits) else Limits()).budget()}"
    return Offer(fields, partial(_turn, known, cut))


def _turn(
    tools: Mapping[str, Tool[..., Any]], cut: str, answer: Callable[[ReplyChoice], Any], choice: ReplyChoice
) -> _Turn:
    """Reads what an endpoint's model has written.

    Raises:
        ValidationFailed: a call is of no tool, or its arguments are none of the tool.
    """
    calls = []
    for each in (choice.message and choice.message.tool_calls) or ():
        name, arguments = each.function.name, each.function.arguments or "{}"
        if name not in tools:
            why = f"there is no tool {quoted(name)}, only {', '.join(map(quoted, tools))}"
            raise ValidationFailed(why, "", f"{name}({arguments})", why)
        try:
            calls.append(tools[name].called(arguments, each.id))
        except ValidationFailed:
            if choice.finish_reason != "length":
                raise
            written = from_json(arguments, allow_partial="trailing-strings")
            calls.append(ToolCall(name, written, tool=tools[name], cut=cut))
    return _Turn(calls, None if calls else answer(choice))
