"""Conversations: from the messages that a caller gives to the token ids of a prompt."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from structgen.arguments import require_unicode
from structgen.chat.call_format import CallFormat, WrittenCall
from structgen.chat.call_ids import with_short_ids
from structgen.chat.control_tokens import Marking, control_names, encoded_bare, plain_ids
from structgen.chat.history import ROLES, as_messages, require_role
from structgen.chat.known import call_format
from structgen.chat.templates import CannotRender, Message, TokenizerTemplate, rendering, variables_of
from structgen.chat.thoughts import with_thought
from structgen.errors import OptionError, quoted
from structgen.given_prompts import PlainText
from structgen.memo import once_per_object
from structgen.patience import reading_prompt
from structgen.tools import Tool, ToolCall

THOUGHT_FIELD = "reasoning_content"
"""The field of a message in which its thought is given, as by most servers."""


def turn_message(calls: Sequence[ToolCall[Any]], content: str = "", thought: str | None = None) -> dict[str, Any]:
    """Returns the assistant's message with a text, calls and a thought; it has no empty calls, and no empty thought.

    Line breaks at the ends of a thought belong to its tags.
    """
    thought = (thought or "").strip("\n")
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return {**message, THOUGHT_FIELD: thought} if thought else message


def prompt_ids(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Tool[..., Any]] = (),
    format_: CallFormat | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    where: str = "messages",
    processor: Any = None,
) -> list[int] | Mapping[str, Any]:
    """Returns the token ids of a conversation, up to the beginning of the model's turn.

    If there are images among the messages, the processor returns the ids and the images' inputs by their names.

    Data cannot contain a control token: the name of one in a message, a tool, a document or an option is encoded as
    plain text, see `control_tokens`.

    Templates read different forms. Content is a text or a list of parts; the arguments of a call are a mapping or JSON
    text; some templates render no calls. Messages are converted to the form that the template reads. If the template
    has no `developer` role, the message of a developer becomes one of the system. If it refuses the conversation, the
    ids of calls become nine letters and digits: Mistral's templates take no others.

    Args:
        messages: dicts with role and content. Content is a text or a list of parts. Messages of the assistant may have
            `tool_calls`, each a `ToolCall` or a dict in OpenAI's form.
        tools: the tools that the template describes in the prompt.
        format_: the call format of the model; if it is None and a message has calls, it is derived from the template.
        options: options for the template, such as `enable_thinking`.
        where: the name of the messages in error messages.
        processor: the model's processor, if it reads images.

    Raises:
        OptionError: the tokenizer has no chat template. Or a message has no role, has parts that need a processor
            (images), or has `tool_calls` that are no calls. Or the template refuses the conversation, or fails.
    """
    apply = getattr(tokenizer, "apply_chat_template", None)
    if apply is None or getattr(tokenizer, "chat_template", "") is None:
        raise OptionError(f"{where}: chat messages need a chat template, and the tokenizer has none")
    messages = as_messages(messages, where) if messages else []
    given: dict[str, Any] = {"tools": [tool.declaration for tool in tools]} if tools else {}
    require_options(tokenizer, options or {})
    given |= options or {}
    with rendering(f"{where}: "), reading_prompt():
        if format_ is None and any(message.get("tool_calls") for message in messages):
            format_ = call_format(tokenizer)
        reading = _TemplateReading(tokenizer, where, processor is not None)
        written = [
            _written(message, reading, format_, f"{where}: message {place}") for place, message in enumerate(messages)
        ]
    has_images = any(_is_image(part) for message in written for part in _parts(message))
    encoded = partial(_processed, processor) if has_images else partial(_encoded, tokenizer)
    try:
        return encoded(written, given, where)
    except CannotRender:
        renamed = with_short_ids(written)
        if renamed == written:
            raise
        with suppress(CannotRender):
            return encoded(renamed, given, where)
        raise


def _parts(message: Message) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "image"


def _processed(
    processor: Any, messages: Sequence[Message], options: Mapping[str, Any], where: str
) -> Mapping[str, Any]:
    """Returns what a processor makes of messages with images.

    Raises:
        OptionError: a text has the name of a control token, and the processor cannot encode it as text.
    """
    own = {}
    if "sanitize_control_tokens" in inspect.signature(processor.apply_chat_template).parameters:
        own["sanitize_control_tokens"] = True
    elif Marking.of(control_names(processor.tokenizer), [messages, options]) is not None:
        raise OptionError(
            f"{where}: a text has the name of a control token, beside images: this needs transformers 5.20"
        )
    with rendering(f"{where}: "):
        encoded: Mapping[str, Any] = processor.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
            **options, **own,
        )  # fmt: skip
        return encoded


@once_per_object
def shows_images(tokenizer: Any, template: str) -> bool:
    """Does the chat template render an image in the result of a tool?

    Args:
        template: the tokenizer's chat template. If it changes, the answer is found again.
    """
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": {}}}
    turns: list[Any] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    text = {"type": "text", "text": "x"}
    result = {"role": "tool", "tool_call_id": call["id"], "name": "look"}
    try:
        with_image, without = (
            str(TokenizerTemplate(tokenizer).render([*turns, {**result, "content": content}], (), prompt=True))
            for content in ([text, {"type": "image"}], [text])
        )
    except CannotRender:
        return False
    as_python = "'type'" in with_image  # the template takes only texts, and writes the list as Python does
    return with_image != without and not as_python


def _encoded(tokenizer: Any, messages: Sequence[Message], options: Mapping[str, Any], where: str) -> list[int]:
    """Returns the token ids of messages in the form that the template reads."""
    apply: Any = tokenizer.apply_chat_template
    with rendering(f"{where}: "), reading_prompt():
        marking = Marking.of(control_names(tokenizer), [messages, options])
        if marking is not None:
            messages, options = marking.marked([messages, options])
            text, data = marking.read(apply(messages, add_generation_prompt=True, tokenize=False, **options))
            ids = plain_ids(tokenizer, text, data, special=False)
            return encoded_bare(tokenizer, text) if ids is None else ids
        sanitizes = "sanitize_control_tokens" in inspect.signature(apply).parameters
        own = {"sanitize_control_tokens": True} if sanitizes else {}
        encoded = apply(messages, add_generation_prompt=True, return_dict=True, **options, **own)
        return [int(token) for token in encoded["input_ids"]]


def require_options(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Takes only options that are variables of the chat template: all others would be options of the tokenizer's.

    Raises:
        OptionError: there is another one, such as `chat_template`, which would be code, or `max_length`.
    """
    template = getattr(tokenizer, "chat_template", None)
    sources = [template] if isinstance(template, str) else [*template.values()] if isinstance(template, dict) else []
    named = inspect.signature(tokenizer.apply_chat_template).parameters.keys() - {"documents"}
    taken = named | getattr(tokenizer, "special_tokens_map", {}).keys()
    known = sorted(set().union(*map(variables_of, sources)) - taken)
    for name in options:
        if name in taken or (sources and name not in known):
            reads = f"its variables are {', '.join(known)}" if known else "it has none"
            raise OptionError(f"template_options: {quoted(name)} is no variable of the chat template: {reads}")


def _plain(value: Any, where: str) -> Any:
    """Returns a value with dicts for all mappings and lists for all sequences.

    transformers looks for control tokens only inside dicts and lists.
    """
    if isinstance(value, str):
        require_unicode(where, value)
    if isinstance(value, PlainText):
        return value.text
    if isinstance(value, Mapping):
        return {key: _plain(each, where) for key, each in value.items()}
    return [_plain(each, where) for each in value] if isinstance(value, (list, tuple)) else value


class _TemplateReading:
    """Which roles and forms of content a chat template reads. Probes find it out: short conversations to render."""

    def __init__(self, tokenizer: Any, where: str, images: bool) -> None:
        self.images = images
        self.tokenizer, self._where = tokenizer, where
        self._source = str(getattr(tokenizer, "chat_template", None))
        self._shows = partial(_shows, tokenizer, self._source)
        self.in_parts = not self._shows("user", False) and self._shows("user", True) is True
        """Does the template read content only as a list of parts, and leave out plain texts?"""

    def role(self, role: str) -> str:
        """Returns the role under which the template reads a message of this role: `developer` may become `system`.

        Raises:
            OptionError: the template leaves out messages of this role, or it is a slip for one of `ROLES`.
        """
        if role not in ROLES and not any(f"{quote}{role}{quote}" in self._source for quote in "'\""):
            require_role(role, self._where)
            if not self._shows(role, self.in_parts):
                raise OptionError(f"{self._where}: the chat template knows no role {quoted(role)}")
        if role not in ("system", "developer") or not self._shows("user", self.in_parts):
            return role
        if role == "developer" and not self._shows(role, self.in_parts):
            role = "system"
        if self._shows(role, self.in_parts) is False:
            told = f"the chat template leaves out messages of the role {role!r}: put the text into a user message"
            raise OptionError(f"{self._where}: {told}")
        return role


_PROBE = "What is said"


@once_per_object
def _shows(tokenizer: Any, template: str, role: str, in_parts: bool) -> bool | None:
    """Does the chat template render the content of a message of this role? None if it refuses the conversation.

    Args:
        template: the tokenizer's chat template. If it changes, the answer is found again.
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
    """Returns a message with its thought, its content and its calls in the form that the template reads."""
    message = with_thought(message, reading.tokenizer, as_text=format_ is not None and format_.as_text)
    if format_ is not None and message.get("tool_calls"):
        message = _with_calls(message, format_, where)
    plain: dict[str, Any] = {**_plain(message, where), "role": reading.role(message["role"])}
    content = plain.get("content")
    if isinstance(content, str) and reading.in_parts:
        return {**plain, "content": [{"type": "text", "text": content}]}
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if reading.images and kind == "image":
            continue
        if isinstance(kind, str) and kind.startswith(("image", "video", "audio", "input_")):
            raise OptionError(
                f"{where}: {quoted(kind)} parts need the model's processor: pass the prompt that the processor returns"
            )
    return plain if reading.in_parts or "content" not in plain else {**plain, "content": _joined(content)}


def _joined(content: Any) -> Any:
    """Returns content as one text if it is a list of text parts only; any other content stays as it is."""
    if not isinstance(content, list):
        return content
    texts: list[Any] = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(texts) if len(texts) == len(content) and all(isinstance(each, str) for each in texts) else content


def _with_calls(message: Message, format_: CallFormat, where: str) -> dict[str, Any]:
    """Returns a message with its calls as the template takes them. If the template renders none, content has them."""
    calls = [_call(call, as_text=format_.as_text and not format_.told) for call in message["tool_calls"]]
    content = message.get("content") or format_.no_content
    if not format_.told:
        return {**message, "content": content, "tool_calls": calls}
    written = [
        WrittenCall(call["function"]["name"], call["function"]["arguments"], call.get("id", "")) for call in calls
    ]
    text = format_.render(written, _joined(content) or "" if format_.gap is not None else "")
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": text}


def _call(call: Any, *, as_text: bool) -> Any:
    """Returns a call as the template takes it. Callers may give the arguments as JSON text or as a mapping."""
    if isinstance(call, ToolCall):
        call = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
    arguments = call["function"]["arguments"]
    if as_text and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    elif not as_text and isinstance(arguments, str):
        arguments = json.loads(arguments)
    return {**call, "function": {"name": call["function"]["name"], "arguments": arguments}}
