"""Call formats out of a tokenizer's `response_template`: what transformers (from 5.20) reads an answer with.

It tells how calls are found and read, not how a model writes them. So the ways in which models write such calls are
tried, and one is taken only if transformers itself reads the calls back from it, of every JSON type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

from structgen.chat.arguments import JsonLayout
from structgen.chat.call_format import CallFormat, Tags, WrittenCall
from structgen.chat.derive_thinking import CONTENT, thinking_tags
from structgen.chat.pieces import Slot, joined
from structgen.chat.probes import DECLARED, NAMES, USER, Probes
from structgen.chat.templates import CannotRender, ChatTemplate

PROBE = {"kone": 'a "b" <c>\n', "ktwo": [7, -1.5, True, None, {"kaa": ["x", {}]}], "kaa": 3}
_GROUP = re.compile(r"\(\?P<name>(?:[^()\\\[]|\\.|\[[^\]]*\])*\)")
_OPTIONAL = re.compile(r"(?:\\s|\\n|\s)[*?]")
_BLANKS = re.compile(r"\\s\+?|\\n\+")


def response_format(template: ChatTemplate, response: Any) -> CallFormat | None:
    """Returns the call format that a `response_template` reads; None if there is none that is known to be read back."""
    field = _calls_field(response)
    if field is None:
        return None
    probes = Probes(template)
    try:
        told = template.render([{"role": "user", "content": USER}], DECLARED, prompt=True)
        behind = probes.answer(CONTENT).partition(CONTENT)[2]
        prompt = probes.prompt()
    except CannotRender:
        return None
    for format_ in _candidates(field, told):
        if _is_read_back(format_, response, prompt):
            spaced = replace(format_, gap="\n" + format_.lead)
            whole = spaced if _is_read_back(spaced, response, prompt, content="Q said") else format_
            return whole.ending(behind, thinking_tags(probes, prompt))
    return None


def _calls_field(response: Any) -> Mapping[str, Any] | None:
    fields = response.get("fields") if isinstance(response, Mapping) else None
    field = fields.get("tool_calls") if isinstance(fields, Mapping) else None
    return field if isinstance(field, Mapping) and field.get("content") == "json" else None


def _candidates(field: Mapping[str, Any], told: str) -> Iterator[CallFormat]:
    """The ways to write calls that a field may read. White space is as the prompt tells it, if that tells of calls."""
    opening, closing = (_literals(field, key) for key in ("open", "close"))
    if opening is None or closing is None or Slot.NAME in closing:
        return
    end = "".join(map(str, closing))
    if Slot.NAME in opening:
        place = opening.index(Slot.NAME)
        before, after = ("".join(map(str, part)) for part in (opening[:place], opening[place + 1 :]))
        for blank in ("", "\n", " "):
            yield _format(before, (Slot.NAME, after + blank, Slot.ARGUMENTS), end, field)
        return
    begun = "".join(map(str, opening))
    lines = ("\n", "") if begun + "\n" in told or begun not in told else ("", "\n")
    for blank, key in product(lines, ("arguments", "parameters")):
        body = (Slot.NAME, f'", "{key}": ', Slot.ARGUMENTS)
        yield _format(f'{begun}{blank}{{"name": "', body, f"}}{blank}{end}", field, blank)


def _format(lead: str, body: tuple[Any, ...], closing: str, field: Mapping[str, Any], blank: str = "") -> CallFormat:
    between = closing + blank + lead if field.get("repeats") else None
    return CallFormat(lead, joined(body), between, closing, "", JsonLayout(), Tags("", ""), told=True)


def _literals(field: Mapping[str, Any], key: str) -> list[Any] | None:
    """The text of an anchor, with `Slot.NAME` in place of a group of this name; None for a pattern of many texts."""
    given = field.get(key)
    if isinstance(given, list):
        given = given[0] if given else None
    if isinstance(given, str):
        return [given]
    pattern = field.get(f"{key}_pattern")
    if not isinstance(pattern, str):
        return None
    parts = [_literal(part) for part in _GROUP.split(pattern)]
    if len(parts) > 2 or None in parts:
        return None
    return [parts[0]] if len(parts) == 1 else [parts[0], Slot.NAME, parts[1]]


def _literal(pattern: str) -> str | None:
    """The shortest text of a pattern that is literal but for white space."""
    plain = _BLANKS.sub("\\n", _OPTIONAL.sub("", pattern))
    text = re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], plain)
    unescaped = re.sub(r"\\.", "", plain)
    return None if re.search(r"[][.*+?()|{}^$]", unescaped) else text


def _is_read_back(format_: CallFormat, response: Any, prompt: str, content: str = "") -> bool:
    """Does transformers read the calls that this format writes, alone and together?"""
    try:
        parse = import_module("transformers.utils.chat_parsing").parse_response
    except ImportError:  # an older transformers
        return False
    calls = [WrittenCall(name, PROBE) for name in NAMES]
    for several in (calls[:1], calls[:2], calls) if format_.between is not None else (calls[:1],):
        try:
            read = parse(format_.render(several, content), response, prefix=USER + prompt)
            calls_read = [call["function"] for call in read["tool_calls"]]
            written = [{"name": call.name, "arguments": dict(call.arguments)} for call in several]
            if [{**each, "arguments": _value(each["arguments"])} for each in calls_read] != written:
                return False
            if content and (read.get("content") or "").strip() != content:
                return False
        except (ValueError, KeyError, TypeError):
            return False
    return True


def _value(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments
