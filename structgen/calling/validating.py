"""Runs the validators of tools while calls are generated: refused values are taken back and generated differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from structgen.chat import CallFormat, Tags
from structgen.chat.arguments import JsonArguments
from structgen.chat.calls_constraint import TurnRules
from structgen.chat.parser import ArgumentsPiece, CallBegun, TurnParser
from structgen.errors import CallSyntaxError
from structgen.guards import Guard, Veto
from structgen.guards.validators import ValidatorGuard
from structgen.schema.python.validators import validators_of
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

_NO_TEXT = "\x00"
"""No answer begins with this."""


def judges(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> list[Guard[Any]]:
    """Returns a guard if validators of a tool's type demand more than its schema says; else an empty list.

    It is also empty for formats that write arguments key by key: there a call is validated when it is complete.
    """
    if not isinstance(format_.arguments, JsonArguments):
        return []
    judged = [tool for tool in rules.tools if tool.type is not None and validators_of(tool.type) is not None]
    if not judged:
        return []
    bare = format_.without(vocabulary.special_names)
    if not rules.text and rules.answer is None:
        bare = replace(bare, content=Tags(_NO_TEXT, ""), gap=None)
    return [CallGuard(bare, rules.tools)]


@dataclass
class _Call:
    """A call in a text.

    Attributes:
        name: the name of the tool.
        start: the offset in bytes at which the arguments begin; before they begin, the end of the name.
        json: the JSON of the arguments so far.
    """

    name: str
    start: int
    json: bytes = b""


class CallGuard(Guard[bytes]):
    """Vetoes values in arguments that a tool's validators refuse, from the first byte of such a value.

    Args:
        format_: the call format of the model without special tokens, as decoded text shows it.
        tools: the tools that may be called.
    """

    def __init__(self, format_: CallFormat, tools: Sequence[Tool[..., Any]]) -> None:
        self._format = format_
        self._schemas = {tool.name: tool.arguments_schema for tool in tools}
        self._guards = {
            tool.name: ValidatorGuard(tool.type)
            for tool in tools
            if tool.type is not None and validators_of(tool.type) is not None
        }
        self._read = lru_cache(64)(self._calls)

    def start(self) -> bytes:
        """Returns the empty text."""
        return b""

    def feed(self, state: bytes, text: bytes) -> bytes | Veto:
        """Returns the extended text; or a veto where a value begins that is now complete and that validators refuse."""
        extended = state + text
        return self._veto(extended, len(state)) or extended

    def begun(self, state: bytes) -> int:
        """Returns the offset at which the last call's arguments begin."""
        calls = self._read(state)
        return calls[-1].start if calls else len(state)

    def _veto(self, text: bytes, known: int) -> Veto | None:
        for call in self._read(text):
            guard = self._guards.get(call.name)
            if guard is None or call.start + len(call.json) <= known:
                continue
            veto = guard.feed(guard.start(), call.json)
            if isinstance(veto, Veto):
                return Veto(call.start + veto.offset, f"{call.name}: {veto.reason}")
        return None

    def _calls(self, text: bytes) -> list[_Call]:
        """Returns the calls in a text. The last one may be incomplete; text that breaks the format ends the list."""
        parser, calls = TurnParser(self._format, self._schemas), list[_Call]()
        offset = 0
        try:
            for char in text.decode("utf-8", errors="ignore"):
                for event in parser.feed(char):
                    if isinstance(event, CallBegun):
                        calls.append(_Call(event.name, offset))
                    elif isinstance(event, ArgumentsPiece):
                        last = calls[-1]
                        last.start = last.start if last.json else offset
                        last.json += event.text.encode()
                offset += len(char.encode())
        except CallSyntaxError:
            return calls
        return calls
