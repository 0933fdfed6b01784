"""A call format that the caller names, for a tokenizer without a chat template, or with one that tells nothing of it.

Then the tools are in the message of the system, with the words that the format's models were trained on, and calls
and their results are the content of messages.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from structgen.arguments import nearest
from structgen.chat.call_format import CallFormat, WrittenCall
from structgen.chat.deriving.probes import DECLARED, NAMES, USER
from structgen.chat.formats import NATIVE, by_name
from structgen.chat.known import call_format, told_format
from structgen.chat.native import Native
from structgen.chat.templates import CannotRender, TokenizerTemplate
from structgen.errors import OptionError, quoted
from structgen.memo import once_per_object
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

CHATML = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PLAIN = """{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}

{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
"""Chat templates for tokenizers without one: with the tokens of ChatML, or in plain words."""

ANY = """You may call these functions. They are described in JSON:
{tools}

To call a function, write:
{call}"""
"""What the models of a format are told, if its row in the table does not say it as their own templates do."""


@dataclass(frozen=True)
class NamedChat:
    """How the turns of a model are written: its tokenizer with a chat template, and its call format.

    Attributes:
        format: None: as the chat template tells, which is found when tools are there.
        tells: are the tools told in the message of the system, because the template tells none?
        shows_results: does the template write messages of the role `tool`?
        shows_system: does it write messages of the role `system`? Otherwise the user's first message has the tools.
    """

    tokenizer: Any
    format: CallFormat | None = None
    tells: bool = False
    shows_results: bool = True
    shows_system: bool = True

    def messages(self, given: Sequence[Mapping[str, Any]], tools: Sequence[Tool[..., Any]]) -> list[Mapping[str, Any]]:
        """Returns the messages of a conversation with what the template does not tell of tools by itself."""
        messages = list(given)
        if self.format is not None and not self.shows_results:
            messages = [_result(each, self.format) if each.get("role") == "tool" else each for each in messages]
        if self.tells and tools and self.format is not None:
            messages = _with_text(messages, told(self.format, tools), system=self.shows_system)
        return messages


def named_chat(tokenizer: Any, vocabulary: Vocabulary, given: Any) -> NamedChat:
    """Returns how turns are written with this `call_format=`; None: as the chat template says.

    Args:
        given: the name of a known format, a `CallFormat`, or None.

    Raises:
        OptionError: there is no such format.
    """
    if given is None:
        return NamedChat(tokenizer)
    names = [each.name for each in NATIVE]
    native = by_name(given) if isinstance(given, str) else None
    if native is None and not isinstance(given, CallFormat):
        near = nearest(given, names) if isinstance(given, str) else ", ".join(names)
        raise OptionError(f"call_format={quoted(given)}: expected a CallFormat, or the name of one: {near}")
    return _named(tokenizer, vocabulary, native or given, str(getattr(tokenizer, "chat_template", None)))


@once_per_object
def _named(tokenizer: Any, vocabulary: Vocabulary, given: Native | CallFormat, source: str) -> NamedChat:
    if getattr(tokenizer, "chat_template", None) is None and not _has_own_template(tokenizer):
        tokenizer = copy.copy(tokenizer)
        tokenizer.chat_template = CHATML if "<|im_start|>" in vocabulary.special_names else PLAIN
    template = TokenizerTemplate(tokenizer)
    tells = not _shows(template, [{"role": "user", "content": USER}], NAMES[0], tools=True)
    try:
        own = call_format(tokenizer, vocabulary)
    except OptionError:
        own = None
    if isinstance(given, CallFormat):
        format_ = given
    elif own is not None and own.name == given.name and not tells:
        return NamedChat(tokenizer, own)
    else:
        format_ = told_format(template, None, given) or given.alone()
    format_ = replace(format_, told=True)
    called = {"role": "assistant", "content": format_.render([WrittenCall(NAMES[0], {}, "abcdefgh1")])}
    result = {"role": "tool", "name": NAMES[0], "tool_call_id": "abcdefgh1", "content": "Qresult"}
    turns = [{"role": "user", "content": USER}, called, result]
    system = [{"role": "system", "content": "Qsystem"}, turns[0]]
    shows = (_shows(template, *each, tools=False) for each in ((turns, "Qresult"), (system, "Qsystem")))
    return NamedChat(tokenizer, format_, tells, *shows)


def _has_own_template(tokenizer: Any) -> bool:
    """Has a tokenizer a chat template that is no attribute of it, as mistral-common's?"""
    try:
        return bool(TokenizerTemplate(tokenizer).render([{"role": "user", "content": USER}], (), prompt=True))
    except CannotRender:
        return False


def _shows(template: TokenizerTemplate, turns: Sequence[Mapping[str, Any]], text: str, *, tools: bool) -> bool:
    """Does the template write this text in a prompt?"""
    try:
        return text in template.render(turns, DECLARED if tools else (), prompt=True)
    except CannotRender:
        return False


def told(format_: CallFormat, tools: Sequence[Tool[..., Any]]) -> str:
    """Returns what a model is told of the tools."""
    declared = "\n".join(json.dumps(tool.declaration, ensure_ascii=False) for tool in tools)
    call = format_.render([WrittenCall("function_name", {"argument_name": "value"}, format_.id_of("function_name", 0))])
    known = by_name(format_.name)
    return ((known and known.told) or ANY).format(tools=declared, call=call.strip())


def _with_text(messages: Sequence[Mapping[str, Any]], text: str, *, system: bool) -> list[Mapping[str, Any]]:
    """Returns the messages with a text after what the system says, or before what the user says first."""
    roles = ("system", "developer") if system else ("user",)
    first, content = messages[0], messages[0].get("content")
    if first.get("role") not in roles or not isinstance(content, str):
        return [{"role": roles[0], "content": text}, *messages]
    whole = f"{content}\n\n{text}" if system else f"{text}\n\n{content}"
    return [{**first, "content": whole}, *messages[1:]]


def _result(message: Mapping[str, Any], format_: CallFormat) -> dict[str, Any]:
    """Returns the result of a call as a message of the user."""
    content = message.get("content")
    name = message.get("name")
    if format_.name == "hermes":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    return {"role": "user", "content": f"Result of {name}: {content}" if name else f"Result: {content}"}
