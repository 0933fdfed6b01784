"""Reads the messages that a caller gives, the same at every door: `generate`, `call`, `run`, the server's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic_core import from_json, to_json

from structgen.arguments import nearest, require
from structgen.chat.deriving.thinking import FIELDS
from structgen.chat.templates import Message
from structgen.errors import MessageWarning, OptionError, excerpt, quoted, warn_caller
from structgen.given_prompts import PlainText
from structgen.tools import ToolCall
from structgen.tools.images import data_url, of_data_url
from structgen.tools.tool import new_id

Messages = str | Sequence[Message]
"""A conversation: its messages, or the text of its only message, the user's."""
EXPECTED = "a string, or chat messages (dicts with role and content)"
ROLES = "system", "developer", "user", "assistant", "tool"


def require_role(role: str, where: str) -> None:
    """Refuses a role that is a slip for one of `ROLES`; a chat template may know further ones."""
    near = "" if role in ROLES else nearest(role.lower(), ROLES, 0.6)
    if near:
        raise OptionError(f"{where}: role={quoted(role)}: expected one of {', '.join(ROLES)}; the nearest is {near}")


def as_messages(given: Messages, where: str = "messages") -> list[dict[str, Any]]:
    """Returns the messages of a conversation; a string is one message of the user.

    Args:
        where: the name of the messages in error messages.

    Raises:
        OptionError: `given` is neither a string nor chat messages, see `read_messages`.

    Warns:
        MessageWarning: the arguments of a call are broken.
    """
    if isinstance(given, str):
        require(bool(given), where, given, "not an empty text")
        return [{"role": "user", "content": given}]
    require(is_conversation(given), where, given, EXPECTED)
    messages, repaired = read_messages(given, where)
    for each in repaired:
        warn_caller(each, MessageWarning)
    return messages


def read_messages(given: Sequence[Message], where: str = "messages") -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the messages of a conversation, and for each call with broken arguments how it is read.

    A client sends a history again in each turn, so what a model has once broken off must not end it. The arguments of a
    call are a JSON object, or its text. Of any other text the beginning is read that is one; of other values nothing.

    Args:
        where: the name of the messages in error messages.

    Raises:
        OptionError: a message has no role or no content, or `tool_calls` that are no calls.
    """
    messages, repaired = [], list[str]()
    for number, message in enumerate(given):
        place, one = f"{where}: message {number}", dict(message)
        _require_fields(one, place)
        calls = one.get("tool_calls") or ()
        for index, call in enumerate(calls):
            own = _repaired(call, place)
            if own is not call:
                one["tool_calls"] = [*one["tool_calls"][:index], own, *one["tool_calls"][index + 1 :]]
                read = json.dumps(own["function"]["arguments"], ensure_ascii=False)
                broken = f"the arguments of {quoted(own['function']['name'])} in tool_calls[{index}] are no JSON object"
                repaired.append(f"{place}: {broken}, and are read as {excerpt(read)}")
        messages.append(one)
    return messages, repaired


def _require_fields(message: Mapping[str, Any], where: str) -> None:
    """Refuses a message without a role, or without what it says."""
    role, content = message.get("role"), message.get("content")
    missing = "role" if not isinstance(role, str) else ""
    if not missing and content is None and not (role == "tool" or any(message.get(each) for each in _INSTEAD)):
        missing = "content"
    if missing:
        others = [name for name in message if name != "role" and isinstance(name, str)]
        found = f", but {', '.join(map(quoted, others[:_LISTED]))}" if others else ""
        raise OptionError(f"{where} has no {missing}{found}; a message is a dict with role and content")
    if not isinstance(content, (str, PlainText, list, tuple, type(None))):
        raise OptionError(f"{where}: content={quoted(content)}: expected a text, or a list of parts")
    if not isinstance(message.get("tool_calls"), (list, tuple, type(None))):
        raise OptionError(f"{where}: tool_calls={quoted(message['tool_calls'])}: expected a list of calls")


_INSTEAD = "tool_calls", *FIELDS
"""Fields with which a message needs no content."""
_LISTED = 5


def _repaired(call: Any, where: str) -> Any:
    """Returns a call with arguments that can be read; as it is if they can.

    Raises:
        OptionError: it is no call.
    """
    if isinstance(call, ToolCall):
        return call
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        told = "expected a ToolCall, or a function with a name and arguments (a mapping, or JSON text)"
        raise OptionError(f"{where}: tool_calls has {quoted(call)}: {told}")
    given = function.get("arguments")
    with suppress(ValueError, TypeError, RecursionError):
        read = json.loads(given) if isinstance(given, str) else given
        if isinstance(read, Mapping):
            json.dumps(dict(read), allow_nan=False, ensure_ascii=False).encode()  # raises if JSON cannot write it
            return call
    return {**call, "function": {**function, "arguments": _readable(given)}}


def _readable(arguments: Any) -> Any:
    """Returns what can be read of the arguments of a call as a JSON object."""
    with suppress(ValueError):
        while isinstance(arguments, str):
            arguments = from_json(arguments, allow_partial="trailing-strings")
        if isinstance(arguments, Mapping):
            return from_json(to_json(dict(arguments), fallback=str, inf_nan_mode="null"))
    return {}


def is_conversation(given: Any) -> bool:
    """Is this one conversation (not a list of conversations, and not an empty list)?"""
    return isinstance(given, str) or (
        isinstance(given, (list, tuple)) and bool(given) and all(isinstance(each, Mapping) for each in given)
    )


def as_json_message(message: Message) -> dict[str, Any]:
    """Returns a message as JSON has it, in OpenAI's form: calls with their arguments as text, images as data URLs."""
    one = dict(message)
    if one.get("tool_calls"):
        one["tool_calls"] = [*map(_as_json_call, one["tool_calls"])]
    if isinstance(one.get("content"), (list, tuple)):
        one["content"] = [
            {"type": "image_url", "image_url": {"url": data_url(part["image"])}}
            if part.get("type") == "image" and "image" in part else part for part in one["content"]
        ]  # fmt: skip
    elif isinstance(one.get("content"), PlainText):
        one["content"] = str(one["content"])
    return one


def _as_json_call(call: Any) -> Any:
    if isinstance(call, ToolCall):
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
    function = call["function"]
    if isinstance(function.get("arguments"), Mapping):
        function = {**function, "arguments": json.dumps(dict(function["arguments"]), ensure_ascii=False)}
    return {**call, "function": function}


def of_json_message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the message that `as_json_message` has written; arguments are parsed JSON.

    Raises:
        ValueError, LookupError, TypeError: it is none.
    """
    one = dict(given)
    if one.get("tool_calls"):
        one["tool_calls"] = [
            ToolCall(each["function"]["name"], json.loads(each["function"]["arguments"]), each.get("id") or new_id())
            for each in one["tool_calls"]
        ]
    if isinstance(one.get("content"), list):
        one["content"] = [
            {"type": "image", "image": of_data_url(part["image_url"]["url"])} if part["type"] == "image_url" else part
            for part in one["content"]
        ]
    return one
