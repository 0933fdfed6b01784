"""The life of a thought: does a prompt leave it open, what switches it, and where does a history show it?

All of it is read off what the chat template renders. A prompt may end within a thought (`<think>`), after one
(`</think>`), or neither: then the model opens a thought or leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from structgen.chat.call_format import Tags
from structgen.chat.deriving.probes import DECLARED, NAMES, USER
from structgen.chat.deriving.thinking import CONTENT, FIELDS, THOUGHT
from structgen.chat.known import thinking_tags_of
from structgen.chat.pieces import TAG
from structgen.chat.templates import CannotRender, ChatTemplate, TokenizerTemplate
from structgen.errors import OptionError, quoted
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary

Options = Mapping[str, Any]
ON: tuple[Options, ...] = (
    {"enable_thinking": True}, {"thinking": True}, {"thinking_mode": "enabled"}, {"thinking_option": "on"},
    {"reasoning": True}, {"reasoning_effort": "high"},
)  # fmt: skip
OFF: tuple[Options, ...] = (
    {"enable_thinking": False}, {"thinking": False}, {"thinking_mode": "disabled"}, {"thinking_option": "off"},
    {"reasoning": False}, {"reasoning_effort": "none"}, {"reasoning_effort": "low"},
)  # fmt: skip
"""Variables with which chat templates switch thinking on and off, those of most templates first."""
PARTS = "content"
"""The name of the field of a history's thought where it is a part of the content: `{"type": "thinking"}`."""


def state_of(prompt: str, tags: Tags) -> Literal["open", "closed"] | None:
    """Returns whether a prompt ends within a thought, after one, or neither (None).

    Args:
        prompt: the text after the user's words. A closing tag of several control tokens, as
            `<|end|><|start|>assistant`, ends every turn: it closes a thought only after an opening tag.
    """
    text, opening, closing = prompt.rstrip(), tags.opening.strip(), tags.closing.strip()
    if opening and text.endswith(opening):
        return "open"
    if not closing or not text.endswith(closing):
        return None
    if len(TAG.findall(closing)) < 2:
        return "closed"
    return "closed" if opening and opening in text and text.rpartition(opening)[2].count(closing) == 1 else None


State = Literal["open", "closed", "free"] | None
"""How a prompt leaves a thought: it ends within one, after one, or where the model may open one by itself; None if it
has no place for a thought."""


def prompt_state(tokenizer: Any, vocabulary: Vocabulary, end: str) -> State:
    """Returns how a prompt leaves a thought.

    Args:
        end: the end of the prompt, with the names of special tokens. It is free only where it ends as the prompts of
            the chat template do: other texts leave no place for a thought.
    """
    template = getattr(tokenizer, "chat_template", None)
    if template is None or not end.strip():
        return None
    header = _header(tokenizer, str(template))
    if _TAGGED.search(end) is None and not (header and end.rstrip().endswith(header)):
        return None  # only elsewhere the template's tags are asked for
    tags = thinking_tags_of(tokenizer, vocabulary)
    return None if tags is None else state_of(end, tags) or ("free" if _ends_as_turns_do(end, header, tags) else None)


_TAGGED = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]|(?i:think|thought|reason)")
"""What is at the end of prompts that chat templates write, or where a thought begins."""


def _ends_as_turns_do(end: str, header: str | None, tags: Tags) -> bool:
    """Does a prompt end with the header of the model's turn or, if the template has none, with a tag?"""
    if header is None:
        return False
    for tag in (tags.opening.strip(), tags.closing.strip()):  # by itself the template may open a thought, or close one
        header = header.partition(tag)[0].rstrip() if tag and tag in header else header
    if header:
        return end.rstrip().endswith(header)
    last = [*_TAGGED.finditer(end.rstrip())][-1:]
    return bool(last) and last[0].end() == len(end.rstrip())


@once_per_object
def _header(tokenizer: Any, template: str) -> str | None:
    """Returns what the chat template writes before the model's turn alone, without white space at the ends; empty if
    it writes nothing there; None if it writes no prompts."""
    turns, render = [{"role": "user", "content": USER}], TokenizerTemplate(tokenizer).render
    try:
        without, prompt = (render(turns, (), prompt=wanted) for wanted in (False, True))
    except CannotRender:
        return None
    return prompt.removeprefix(without).strip() if prompt.startswith(without) else ""


def thought_options(
    tokenizer: Any, vocabulary: Vocabulary, wanted: bool | None, given: Options | None = None
) -> dict[str, Any]:
    """Returns the options for a chat template with which its prompts let the model think, or do not.

    Args:
        wanted: shall the model think? None: as the template has it.
        given: the caller's options for the template; they are kept.

    Raises:
        OptionError: the template closes every thought by itself, and the model shall think.
    """
    options = dict(given or {})
    template = getattr(tokenizer, "chat_template", None)
    tags = None if wanted is None or template is None else thinking_tags_of(tokenizer, vocabulary)
    if wanted is None or tags is None:
        return options
    if options:
        return _switched(TokenizerTemplate(tokenizer), tags, wanted, options)
    return dict(_switched_alone(tokenizer, str(template), tags, wanted))


@once_per_object
def _switched_alone(tokenizer: Any, template: str, tags: Tags, wanted: bool) -> dict[str, Any]:
    return _switched(TokenizerTemplate(tokenizer), tags, wanted, {})


def _switched(template: ChatTemplate, tags: Tags, wanted: bool, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options, with the first switch of the template that does what is wanted."""
    plain = _prompt(template, given)
    if plain is None:
        return given
    before, goal = _state(plain, tags), "open" if wanted else "closed"
    if before == goal:
        return given
    switches: dict[str | None, list[Options]] = {"open": [], "closed": [], None: []}
    for switch in ON if wanted else OFF:
        text = None if switch.keys() & given.keys() else _prompt(template, {**given, **switch})
        if text is not None and text != plain:
            switches[_state(text, tags)].append(switch)
    if switches[goal]:
        return {**given, **switches[goal][0]}
    others = switches[None] if before is not None or wanted else []
    if before is None:  # only words of the prompt change: an effort is no switch
        others = [switch for switch in others if "reasoning_effort" not in switch]
    if others:
        return {**given, **others[0]}
    if wanted and before == "closed":
        known = ", ".join(dict.fromkeys(name for switch in ON for name in switch))
        why = f"template_options={quoted(given)}" if given else f"none of its options ({known}) opens one"
        raise OptionError(
            f"thinking=True: the chat template closes the thought in its prompt ({quoted(tags.closing.strip())}): {why}"
        )
    return given


def _prompt(template: ChatTemplate, options: Options) -> str | None:
    """Returns the prompt of a short conversation; None if the template refuses it."""
    for tools in (DECLARED, ()):
        try:
            return template.render([{"role": "user", "content": USER}], tools, prompt=True, **options)
        except CannotRender:
            continue
    return None


def _state(prompt: str, tags: Tags) -> str | None:
    return state_of(prompt.rpartition(USER)[2], tags)


def with_thought(message: Mapping[str, Any], tokenizer: Any, *, as_text: bool) -> Mapping[str, Any]:
    """Returns a message of the assistant with its thought in the field from which the chat template writes it.

    A caller may give it in any of the fields, or as parts of the content of the type `thinking`. If the template shows
    no thought in such a message, its fields stay as they are, and parts of the content are left out.

    Args:
        as_text: does the template take the arguments of calls as JSON text?
    """
    content, field = message.get("content"), next((name for name in FIELDS if _is_text(message.get(name))), None)
    parts = [part for part in content if _is_thought(part)] if isinstance(content, list) else []
    if message.get("role") != "assistant" or not (field or parts):
        return message
    thought = str(message[field]) if field else "".join(_text_of(part) for part in parts)
    rest = content
    if parts and isinstance(content, list):
        rest = [part for part in content if not _is_thought(part)]
    shape = bool(message.get("tool_calls")), bool(rest)
    target = _field(tokenizer, str(getattr(tokenizer, "chat_template", None)), *shape, as_text)
    if target in (field, None):
        return {**message, "content": rest} if parts else message
    bare = {name: value for name, value in message.items() if name != field}
    if target != PARTS:
        return {**bare, "content": rest, str(target): thought}
    texts = rest if isinstance(rest, list) else [{"type": "text", "text": rest}] if rest else []
    return {**bare, "content": [{"type": "thinking", "thinking": thought}, *texts]}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_thought(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("thinking", "reasoning", "thought")


def _text_of(part: Mapping[str, Any]) -> str:
    """Returns the text of a part that is a thought; Mistral's may be a list of parts of text."""
    kind = str(part.get("type"))
    inner = next((part[name] for name in (kind, *FIELDS, "text") if name in part), "")
    pieces: Sequence[Any] = inner if isinstance(inner, list) else [inner]
    return "".join(str(piece.get("text", "")) if isinstance(piece, Mapping) else str(piece) for piece in pieces)


@once_per_object
def _field(tokenizer: Any, template: str, calls: bool, text: bool, as_text: bool) -> str | None:
    """Returns the field from which a chat template writes the thought of such a message; None if it shows none."""
    said = CONTENT if text else ""
    message: dict[str, Any] = {"role": "assistant", "content": said}
    turns: list[dict[str, Any]] = [{"role": "user", "content": USER}, message]
    if calls:
        function = {"name": NAMES[0], "arguments": '{"a": 1}' if as_text else {"a": 1}}
        message["tool_calls"] = [{"id": "qid1xyzab", "type": "function", "function": function}]
        turns.append({"role": "tool", "tool_call_id": "qid1xyzab", "name": NAMES[0], "content": "1"})
    texts = [{"type": "text", "text": said}] if said else []
    forms = {name: {**message, name: THOUGHT} for name in FIELDS}
    forms[PARTS] = {**message, PARTS: [{"type": "thinking", "thinking": THOUGHT}, *texts]}
    for name, form in forms.items():
        turns[1] = form
        try:
            shown = TokenizerTemplate(tokenizer).render(turns, DECLARED, prompt=True)
        except CannotRender:
            continue
        if THOUGHT in shown and "'type'" not in shown:
            return name
    return None
