"""Conversations with calls and results: as messages for chat templates, and as token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.arguments import require
from structgen.chat import CallFormat
from structgen.chat.call_format import WrittenCall
from structgen.chat.templates import joined, prompt_ids
from structgen.errors import OptionError, quoted
from structgen.tools import Tool, ToolCall

Message = Mapping[str, Any]

EXPECTED = "a string, or chat messages (dicts with role and content)"


Messages = str | Sequence[Message]
"""A conversation: its messages, or the text of a user's only one."""


def as_messages(given: Messages, where: str = "messages") -> list[dict[str, Any]]:
    """Returns the messages of a conversation; a string is one message of the user.

    Raises:
        OptionError: `given` is neither a string nor chat messages; `where` is its name in the message.
    """
    if isinstance(given, str):
        require(bool(given), where, given, "not an empty text")
        return [{"role": "user", "content": given}]
    require(is_conversation(given) and all(isinstance(each.get("role"), str) for each in given), where, given, EXPECTED)
    return [dict(message) for message in given]


def is_conversation(given: Any) -> bool:
    """Is it one conversation, and no list of them? An empty list has no conversation."""
    return isinstance(given, str) or (
        isinstance(given, (list, tuple)) and bool(given) and all(isinstance(each, Mapping) for each in given)
    )


def calls_message(calls: Sequence[ToolCall[Any]], content: str = "") -> dict[str, Any]:
    """Returns the assistant's message with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result_message(call: ToolCall[Any], content: str) -> dict[str, Any]:
    """Returns the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}


def conversation_ids(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Tool[..., Any]],
    format_: CallFormat | None,
    options: Mapping[str, Any],
    where: str,
) -> list[int]:
    """Returns the token ids of a conversation with calls, up to the beginning of the model's turn.

    Args:
        tokenizer: a tokenizer with a chat template.
        messages: the messages; the assistant's `tool_calls` may be `ToolCall`s.
        tools: the tools that the template declares.
        format_: the call format of the model; None without tools.
        options: options for the template.
        where: the name of the messages in error messages.

    Raises:
        OptionError: as `prompt_ids` does.
    """
    if format_ is not None and format_.told:
        written = [_as_content(message, format_, where) for message in messages]
    else:
        written = [_written(message, format_, where) for message in messages]
    return prompt_ids(tokenizer, written, [tool.declaration for tool in tools], options, where=where)


def _written(message: Message, format_: CallFormat | None, where: str) -> dict[str, Any]:
    """Returns a message whose calls are dicts, as templates take them."""
    as_text = format_ is not None and format_.as_text
    calls = [_call(call, where, as_text=as_text) for call in message.get("tool_calls") or ()]
    if not calls:
        return dict(message)
    content = message.get("content") or ("" if format_ is None else format_.no_content)
    return {**message, "content": content, "tool_calls": calls}


def _as_content(message: Message, format_: CallFormat, where: str) -> dict[str, Any]:
    """Returns a message with its calls in its content, for templates that render none."""
    calls = [_call(call, where, as_text=False) for call in message.get("tool_calls") or ()]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    if not calls:
        return rest
    content = joined(message.get("content") or "")
    written = [
        WrittenCall(call["function"]["name"], call["function"]["arguments"], call.get("id", "")) for call in calls
    ]
    text = content if isinstance(content, str) and format_.gap is not None else ""
    return {**rest, "content": format_.render(written, text)}


def _call(call: Any, where: str, *, as_text: bool) -> Any:
    """Returns a call as the template takes it; clients give arguments as JSON text or as a mapping."""
    if isinstance(call, ToolCall):
        call = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
    try:
        arguments = call["function"]["arguments"]
        if as_text and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        elif not as_text and isinstance(arguments, str):
            arguments = json.loads(arguments)
        return {**call, "function": {"name": call["function"]["name"], "arguments": arguments}}
    except (LookupError, TypeError, ValueError):
        told = "expected a ToolCall, or a function with a name and arguments (a mapping, or JSON text)"
        raise OptionError(f"{where}: tool_calls has {quoted(call)}: {told}") from None
