"""Conversations with calls and results: as messages for chat templates, and as token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.arguments import require
from structgen.chat import CallFormat
from structgen.chat.templates import MISTAKES
from structgen.errors import OptionError, excerpt
from structgen.models.model import Model
from structgen.tools import Tool, ToolCall

Message = Mapping[str, Any]

EXPECTED = "a string, or chat messages (dicts with role and content)"


def as_messages(given: str | Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the messages of a conversation; a string is one message of the user.

    Raises:
        OptionError: `given` is neither a string nor chat messages.
    """
    if isinstance(given, str):
        require(bool(given), "messages", given, "not an empty text")
        return [{"role": "user", "content": given}]
    listed = isinstance(given, (list, tuple)) and bool(given) and all(isinstance(each, Mapping) for each in given)
    require(listed and all(isinstance(each.get("role"), str) for each in given), "messages", given, EXPECTED)
    return [dict(message) for message in given]


def calls_message(calls: Sequence[ToolCall[Any]], content: str = "") -> dict[str, Any]:
    """Returns the assistant's message with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result_message(call: ToolCall[Any], content: str) -> dict[str, Any]:
    """Returns the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}


def prompt_ids(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool[..., Any]],
    format_: CallFormat | None,
    options: Mapping[str, Any],
) -> list[int]:
    """Returns the token ids of a conversation, up to the beginning of the model's turn.

    Text of users and tools never becomes a control token: the tokenizer spells such names as text.

    Args:
        model: the model, with its tokenizer and chat template.
        messages: the messages; the assistant's `tool_calls` may be `ToolCall`s.
        tools: the tools that the template declares.
        format_: the call format of the model; None without tools.
        options: options for the template.

    Raises:
        OptionError: the tokenizer has no chat template, or the template refuses the conversation.
    """
    if not hasattr(model.tokenizer, "apply_chat_template"):
        raise OptionError("the tokenizer has no chat template: calls need one")
    written = [_written(message, as_text=format_ is not None and format_.as_text) for message in messages]
    try:
        encoded = model.tokenizer.apply_chat_template(
            written,
            tools=[tool.declaration for tool in tools] or None,
            add_generation_prompt=True,
            return_dict=True,
            sanitize_control_tokens=True,
            **options,
        )
    except MISTAKES as error:
        raise OptionError(f"the chat template refuses the conversation: {excerpt(error)}") from error
    return [int(token) for token in encoded["input_ids"]]


def _written(message: Message, *, as_text: bool) -> dict[str, Any]:
    """Returns a message whose calls are dicts, as templates take them."""
    calls = [_call(call, as_text=as_text) for call in message.get("tool_calls") or ()]
    return {**message, "tool_calls": calls} if calls else dict(message)


def _call(call: Any, *, as_text: bool) -> Any:
    if not isinstance(call, ToolCall):
        return call
    arguments = call.json if as_text else json.loads(call.json)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
