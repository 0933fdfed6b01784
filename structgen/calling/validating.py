"""Runs the validators of tools while calls are generated: refused values are taken back and generated differently."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.chat import CallFormat, Tags
from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.calls_constraint import TurnRules
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TurnParser
from structgen.chat.pieces import Slot, filled
from structgen.errors import CallSyntaxError
from structgen.guards import Guard, Veto
from structgen.guards.lookahead import holding
from structgen.guards.validators import ArgumentVeto, ValidatorGuard
from structgen.json_text.pointers import PointerReader
from structgen.schema.python.validators import validators_of
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

_NO_TEXT = "\x00"
"""No answer begins with this."""


def judges(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> list[Guard[Any]]:
    """Returns a guard if validators of a tool's type demand more than its schema; else an empty list.

    The list is also empty for formats with special tokens within the arguments, which the text of a guard does not
    have: there a call is validated when it is complete.
    """
    if isinstance(format_.reading, KeyedArguments) and _has_any(format_.reading, vocabulary.special_names):
        return []
    guards = {
        tool.name: ValidatorGuard(tool.type)
        for tool in rules.tools
        if tool.type is not None and validators_of(tool.type) is not None
    }
    if not guards:
        return []
    bare = format_.without(vocabulary.special_names)
    if not rules.text and rules.answer is None:
        spellings = replace(bare.spellings, opening=(_NO_TEXT,), answered=(), apart=None)
        bare = replace(bare, content=Tags(_NO_TEXT, ""), gap=None, known=spellings)
    return [CallGuard(bare, rules.tools, guards)]


def _has_any(arguments: KeyedArguments, tokens: Collection[str]) -> bool:
    """Does a format write arguments with one of these tokens?"""
    pieces = [piece for _, each in arguments.formats for piece in (*each.before, *each.after)]
    pieces += [arguments.separator, *(str(each.writer) for _, each in arguments.formats)]
    return any(token in piece for piece in pieces if isinstance(piece, str) for token in tokens)


def _closers(arguments: KeyedArguments) -> bytes:
    """Returns the last bytes of the texts that end values; none if a value ends with no text of its own."""
    ends = {filled(each.after, {Slot.KEY: "k"}).encode()[-1:] for _, each in arguments.formats}
    return b"" if b"" in ends else b"".join(sorted(ends))


@dataclass
class _Call:
    """A call in a text.

    Attributes:
        start: the byte offset at which the arguments begin; before they begin, the end of the name.
        end: the byte offset up to which the arguments are read.
        json: the JSON of the arguments so far.
        places: pairs of a length of `json` and the offset in the text at which its next byte was read.
    """

    name: str
    start: int
    end: int
    json: bytes = b""
    places: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False

    def offset(self, json_offset: int) -> int:
        """Returns the offset in the text of a byte of the arguments, or of one before it."""
        return max((place for length, place in self.places if length <= json_offset), default=self.start)


class _CallReading:
    """A text that grows, and the calls read from it."""

    def __init__(self, parser: TurnParser) -> None:
        self.text, self.calls = b"", list[_Call]()
        self._parser, self._offset, self._broken = parser, 0, False
        self._decoder = getincrementaldecoder("utf-8")("ignore")

    def feed(self, more: bytes) -> None:
        """Reads more of the text. Text that breaks the format ends the calls."""
        self.text += more
        for char in self._decoder.decode(more):
            if not self._broken:
                try:
                    self._take(char)
                except CallSyntaxError:
                    self._broken = True

    def _take(self, char: str) -> None:
        start = self._offset
        self._offset += len(char.encode())
        for event in self._parser.feed(char):
            if isinstance(event, CallBegun):
                self.calls.append(_Call(event.name, start, self._offset))
            elif isinstance(event, ArgumentsPiece):
                last = self.calls[-1]
                last.start = last.start if last.json else start
                last.places.append((len(last.json), start))
                last.json += event.text.encode()
                last.end = self._offset
            elif isinstance(event, CallEnded):
                self.calls[-1].ended = True


@dataclass(unsafe_hash=True, slots=True)
class _CallState:
    """A state: a text, and where it stands in a call's JSON. Equal texts are equal states.

    Attributes:
        call, reader: the call in whose arguments the text ends, and the state of its guard; None unless the arguments
            are JSON that validators judge.
    """

    text: bytes
    call: _Call | None = field(default=None, compare=False)
    reader: PointerReader | None = field(default=None, compare=False)


class CallGuard(Guard[_CallState]):
    """Vetoes values in arguments that a tool's validators refuse, from the first byte of such a value.

    Args:
        format_: the call format of the model without special tokens, as decoded text shows it.
        guards: the guards of arguments, by the tool's name.
    """

    def __init__(
        self, format_: CallFormat, tools: Sequence[Tool[..., Any]], guards: Mapping[str, ValidatorGuard]
    ) -> None:
        self._format, self._guards = format_, guards
        self._is_json = isinstance(format_.reading, JsonLayout)
        self._closers = _closers(format_.reading) if isinstance(format_.reading, KeyedArguments) else b""
        self._schemas = {tool.name: tool.arguments_schema for tool in tools}
        self._last = self._fresh()

    def start(self) -> _CallState:
        """Returns the empty text."""
        return _CallState(b"")

    def feed(self, state: _CallState, text: bytes) -> _CallState | Veto:
        """Returns the extended text; or a veto where a value begins that is now complete and that validators refuse."""
        if state.call is not None and state.reader is not None:
            inside = self._within(state, state.call, state.reader, text)
            if inside is not None:
                return inside
        extended = state.text + text
        calls = self._read(extended).calls
        for call in calls:
            guard = self._guards.get(call.name)
            if guard is None or call.end <= len(state.text):
                continue
            after = guard.feed(guard.start(), call.json)
            if isinstance(after, Veto):
                return ArgumentVeto(call.offset(after.offset), f"{call.name}: {after.reason}")
            if self._is_json and call is calls[-1] and call.json and not call.ended and after.is_inside:
                return _CallState(extended, replace(call), after)
        return _CallState(extended)

    def _within(self, state: _CallState, call: _Call, reader: PointerReader, text: bytes) -> _CallState | Veto | None:
        """Returns the state behind more of a call's JSON; None where the JSON ends within it."""
        guard = self._guards[call.name]
        pieces = [text] if b"}" not in text else [text[n : n + 1] for n in range(len(text))]
        for piece in pieces:
            after = guard.feed(reader, piece)
            if isinstance(after, Veto):
                return ArgumentVeto(call.start + after.offset, f"{call.name}: {after.reason}")
            if not after.is_inside:
                return None
            reader = after
        return _CallState(state.text + text, call, reader)

    def begun(self, state: _CallState) -> int:
        """Returns the offset at which the last call's arguments begin."""
        if state.call is not None:
            return state.call.start
        calls = self._read(state.text).calls
        return calls[-1].start if calls else len(state.text)

    def suspects(self, state: _CallState, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Returns the tokens that may complete a value.

        Outside of JSON arguments there are none: a token that begins them and completes a refused value, too, is vetoed
        when it comes.
        """
        if not self._is_json:
            return holding(vocabulary, self._closers) if self._closers else None
        if state.call is None or state.reader is None:
            return np.zeros(0, np.int64)
        return self._guards[state.call.name].suspects(state.reader, vocabulary)

    def _read(self, text: bytes) -> _CallReading:
        """Reads a text. Mostly it continues the text that was read last."""
        last = self._last
        if not text.startswith(last.text):
            last = self._last = self._fresh()
        last.feed(text[len(last.text) :])
        return last

    def _fresh(self) -> _CallReading:
        return _CallReading(TurnParser(self._format, self._schemas, thought="closed"))
