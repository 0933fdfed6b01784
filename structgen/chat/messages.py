"""Conversations: their messages as callers give them, and as token ids in the form that a chat template reads."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from structgen.arguments import require, require_unicode
from structgen.chat.call_format import CallFormat, WrittenCall
from structgen.chat.known import call_format
from structgen.chat.templates import CannotRender, Message, TokenizerTemplate, rendering
from structgen.errors import OptionError, quoted
from structgen.memo import once_per_object
from structgen.tools import Tool, ToolCall

Messages = str | Sequence[Message]
"""A conversation: its messages, or the text of a user's only one."""
EXPECTED = "a string, or chat messages (dicts with role and content)"


def as_messages(given: Messages, where: str = "messages") -> list[dict[str, Any]]:
    """Returns the messages of a conversation; a string is one message of the user.

    Args:
        where: the name of the messages in error messages.

    Raises:
        OptionError: `given` is neither a string nor chat messages.
    """
    if isinstance(given, str):
        require(bool(given), where, given, "not an empty text")
        return [{"role": "user", "content": given}]
    require(is_conversation(given) and all(isinstance(each.get("role"), str) for each in given), where, given, EXPECTED)
    return [dict(message) for message in given]


def is_conversation(given: Any) -> bool:
    """Is it one conversation, not a list of conversations or an empty list?"""
    return isinstance(given, str) or (
        isinstance(given, (list, tuple)) and bool(given) and all(isinstance(each, Mapping) for each in given)
    )


def calls_message(calls: Sequence[ToolCall[Any]], content: str = "") -> dict[str, Any]:
    """Returns the assistant's message with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def prompt_ids(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Tool[..., Any]] = (),
    format_: CallFormat | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    where: str = "messages",
) -> list[int]:
    """Returns the token ids of a conversation, up to the beginning of the model's turn.

    Names of control tokens within the messages are spelled as text, so no message can contain a control token. Other
    tokenizers than those of transformers have no option for this; the known ones, as mistral-common's, always do it.

    Templates differ: content is a text or a list of parts; the arguments of a call are a mapping or JSON text; some
    render no calls. Messages are brought into the form that the template reads. If it has no `developer`, such a
    message becomes the system's.

    Args:
        messages: dicts with role and content, which is a text or a list of parts; the assistant's may have
            `tool_calls`, each a `ToolCall` or a dict in OpenAI's form.
        format_: the call format of the model; None reads it off the template where a message has calls.
        options: options for the template, such as `enable_thinking`.
        where: the name of the messages in error messages.

    Raises:
        OptionError: the tokenizer has no chat template, a message has no role, parts that need a processor, or what is
            no call, or the template refuses the conversation or fails.
    """
    apply = getattr(tokenizer, "apply_chat_template", None)
    if apply is None or getattr(tokenizer, "chat_template", "") is None:
        raise OptionError(f"{where}: the tokenizer has no chat template, and chat messages need one")
    for place, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise OptionError(f"{where}: message {place} has no role; it takes role and content")
    given: dict[str, Any] = {"tools": [tool.declaration for tool in tools]} if tools else {}
    given |= options or {}
    if "sanitize_control_tokens" in inspect.signature(apply).parameters:
        given["sanitize_control_tokens"] = True
    with rendering(f"{where}: "):
        if format_ is None and any(message.get("tool_calls") for message in messages):
            format_ = call_format(tokenizer)
        reading = _TemplateReading(tokenizer, where)
        written = [
            _written(message, reading, format_, f"{where}: message {place}") for place, message in enumerate(messages)
        ]
        encoded = apply(written, add_generation_prompt=True, return_dict=True, **given)
        return [int(token) for token in encoded["input_ids"]]


def _plain(value: Any, where: str) -> Any:
    """Returns a value with dicts for all mappings and lists for all sequences: only there control tokens are found."""
    if isinstance(value, str):
        require_unicode(where, value)
    if isinstance(value, Mapping):
        return {key: _plain(each, where) for key, each in value.items()}
    return [_plain(each, where) for each in value] if isinstance(value, (list, tuple)) else value


class _TemplateReading:
    """What a chat template reads of conversations, told by probes."""

    def __init__(self, tokenizer: Any, where: str) -> None:
        self._where, self._shows = where, partial(_shows, tokenizer, str(getattr(tokenizer, "chat_template", None)))
        self.in_parts = not self._shows("user", False) and self._shows("user", True) is True
        """Does it take content as a list of parts only, and leave texts out?"""

    def role(self, role: str) -> str:
        """Returns the role under which the template reads what the application says.

        Raises:
            OptionError: it leaves that out.
        """
        if role not in ("system", "developer") or not self._shows("user", self.in_parts):
            return role
        if role == "developer" and not self._shows(role, self.in_parts):
            role = "system"
        if self._shows(role, self.in_parts) is False:
            told = f"the chat template leaves out what a {role!r} message says: say it in the user's"
            raise OptionError(f"{self._where}: {told}")
        return role


_PROBE = "What is said"


@once_per_object
def _shows(tokenizer: Any, template: str, role: str, in_parts: bool) -> bool | None:
    """Does a chat template show what a message of this role says? None where it refuses the conversation.

    Args:
        template: its chat template, which may be changed.
        in_parts: is content given as a list of parts?
    """

    def turn(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}] if in_parts else text}

    turns = [turn(role, _PROBE)] if role == "user" else [turn(role, _PROBE), turn("user", "?")]
    try:
        return _PROBE in str(TokenizerTemplate(tokenizer).render(turns, (), prompt=False))
    except CannotRender:
        return None


def _written(message: Message, reading: _TemplateReading, format_: CallFormat | None, where: str) -> dict[str, Any]:
    """Returns a message with its content and its calls as the template reads them."""
    if format_ is not None and message.get("tool_calls"):
        message = _with_calls(message, format_, where)
    plain: dict[str, Any] = {**_plain(message, where), "role": reading.role(message["role"])}
    content = plain.get("content")
    if isinstance(content, str) and reading.in_parts:
        return {**plain, "content": [{"type": "text", "text": content}]}
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind.startswith(("image", "video", "audio", "input_")):
            raise OptionError(f"{where}: {quoted(kind)} parts are read from what the model's processor returns only")
    return plain if reading.in_parts or "content" not in plain else {**plain, "content": _joined(content)}


def _joined(content: Any) -> Any:
    """Returns the content of a message with its parts as one text, where it is a list of texts alone."""
    if not isinstance(content, list):
        return content
    texts: list[Any] = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(texts) if len(texts) == len(content) and all(isinstance(each, str) for each in texts) else content


def _with_calls(message: Message, format_: CallFormat, where: str) -> dict[str, Any]:
    """Returns a message with its calls as the template takes them; in its content where the template renders none."""
    calls = [_call(call, where, as_text=format_.as_text and not format_.told) for call in message["tool_calls"]]
    content = message.get("content") or format_.no_content
    if not format_.told:
        return {**message, "content": content, "tool_calls": calls}
    written = [
        WrittenCall(call["function"]["name"], call["function"]["arguments"], call.get("id", "")) for call in calls
    ]
    text = format_.render(written, _joined(content) or "" if format_.gap is not None else "")
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": text}


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
