"""Conversations as messages, with calls and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structgen.arguments import require
from structgen.chat.templates import Message
from structgen.tools import ToolCall

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
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
