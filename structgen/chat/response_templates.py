"""Call formats from a tokenizer's `response_template`, with which transformers (from 5.20) reads an answer.

The template tells how calls are found and read, not how a model writes them. So common forms of such calls are tried,
then the known formats. One is accepted only if transformers itself reads the calls back from it, with arguments of each
JSON type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import chain, product
from typing import Any

from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.call_format import CallFormat, Tags, WrittenCall
from structgen.chat.deriving.probes import NAMES, USER
from structgen.chat.formats import NATIVE
from structgen.chat.pieces import Slot, joined

PROBE = {"kone": 'a "b" <c>\n', "ktwo": [7, -1.5, True, None, {"kaa": ["x", {}]}], "kaa": 3}
_TYPES = {"kone": {"type": "string"}, "ktwo": {"type": "array"}, "kaa": {"type": "integer"}}
_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": _TYPES}}}
    for name in NAMES
]
_GROUP = re.compile(r"\(\?P<name>(?:[^()\\\[]|\\.|\[[^\]]*\])*\)")
_OPTIONAL = re.compile(r"(?:\\s|\\n|\s)[*?]")
_BLANKS = re.compile(r"\\s\+?|\\n\+")


def response_format(response: Any, told: str, prompt: str) -> CallFormat | None:
    """Returns the call format that a `response_template` reads; None if no form that was tried is read back.

    Args:
        response: the `response_template` of a tokenizer, if it has one.
        told: the prompt of a conversation with tools.
        prompt: the end of this prompt, after the user's words.
    """
    fields = response.get("fields") if isinstance(response, Mapping) else None
    field = fields.get("tool_calls") if isinstance(fields, Mapping) else None
    if not isinstance(field, Mapping):
        return None
    known = [native.alone() for native in NATIVE]
    keyed = [format_ for format_ in known if isinstance(format_.arguments, KeyedArguments)]
    tried = chain(keyed, _candidates(field, told) if field.get("content") == "json" else (), known)
    found = next((format_ for format_ in tried if _is_read_back(format_, response, prompt)), None)
    if found is None or found.known is not None:
        return found
    spaced = replace(found, gap="\n" + found.lead)
    return spaced if _is_read_back(spaced, response, prompt, content="Q said") else found


def _candidates(field: Mapping[str, Any], told: str) -> Iterator[CallFormat]:
    """Yields the formats that a field may read. Formats with the white space of the prompt's example come first."""
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
    """Returns the text of an anchor, with `Slot.NAME` for the group `name`; None if it matches several texts."""
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
    """Returns the shortest text that a pattern matches; None if the matches differ in more than white space."""
    plain = _BLANKS.sub("\\n", _OPTIONAL.sub("", pattern))
    text = re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], plain)
    unescaped = re.sub(r"\\.", "", plain)
    return None if re.search(r"[][.*+?()|{}^$]", unescaped) else text


def _is_read_back(format_: CallFormat, response: Any, prompt: str, content: str = "") -> bool:
    """Does transformers read back calls that this format writes, one alone and several together?"""
    try:
        parse = import_module("transformers.utils.chat_parsing").parse_response
    except ImportError:  # an older transformers
        return False
    options: dict[str, Any] = {"prefix": USER + prompt}
    if "tools" in (parse.__kwdefaults__ or ()):  # some parsers know types only from the tools
        options["tools"] = _TOOLS
    probe = PROBE if isinstance(format_.arguments, JsonLayout) else {**PROBE, "kone": str(PROBE["kone"]).strip()}
    calls = [WrittenCall(name, probe) for name in NAMES]
    for several in (calls[:1], calls[:2], calls) if format_.between is not None else (calls[:1],):
        try:
            read = parse(format_.render(several, content), response, **options)
            functions = [call["function"] for call in read["tool_calls"]]
            for each in functions:
                if isinstance(each["arguments"], str):
                    each["arguments"] = json.loads(each["arguments"])
            if functions != [{"name": call.name, "arguments": call.arguments} for call in several]:
                return False
            if content and (read.get("content") or "").strip() != content:
                return False
        except (ValueError, KeyError, TypeError):
            return False
    return True
