"""Runs the validators of tools while calls are generated: refused values are rolled back and generated differently."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.chat import CallFormat
from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.calls_constraint import Turn
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, ReadTurn, TurnReader
from structgen.chat.pieces import Slot, filled
from structgen.errors import CallSyntaxError, ValidationFailed, excerpt
from structgen.guards import Guard, Veto
from structgen.guards.folding import begun_character
from structgen.guards.lookahead import holding
from structgen.guards.validators import ArgumentVeto, ValidatorGuard
from structgen.json_text.pointers import PointerReader
from structgen.schema.python.validators import validators_of
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary


def judges(turn: Turn, vocabulary: Vocabulary) -> list[Guard[Any]]:
    """Returns a guard if calls must fulfil more than their masks hold: validators of a tool's type, or rules of its
    schema; else an empty list.

    The list is also empty for formats with special tokens within the arguments, which the text of a guard does not
    have: there a call is validated when it is complete.
    """
    format_, rules = turn.format, turn.rules
    if rules.max_calls == 0:
        return []
    if isinstance(format_.reading, KeyedArguments) and _has_any(format_.reading, vocabulary.special_names):
        return []
    guards = {
        tool.name: ValidatorGuard(tool.type)
        for tool in rules.tools
        if tool.type is not None and validators_of(tool.type) is not None
    }
    if not (guards or turn.checked):
        return []
    bare, has_text = format_.without(vocabulary.special_names), rules.text or rules.answer is not None
    return [CallGuard(bare, rules.tools, guards, has_text=has_text, checked=turn.checked)]


def _has_any(arguments: KeyedArguments, tokens: Collection[str]) -> bool:
    """Does a format write arguments with one of these tokens?"""
    pieces = [piece for _, each in arguments.formats for piece in (*each.before, *each.after)]
    pieces += [arguments.separator, *(str(each.writer) for _, each in arguments.formats)]
    return any(token in piece for piece in pieces if isinstance(piece, str) for token in tokens)


def _closers(arguments: KeyedArguments) -> bytes:
    """Returns the last bytes of the texts that end values; none if a value ends with no text of its own."""
    ends = {filled(each.after, {Slot.KEY: "k"}).encode()[-1:] for _, each in arguments.formats}
    return b"" if b"" in ends else b"".join(sorted(ends))


@dataclass(unsafe_hash=True, slots=True)
class _CallState:
    """A text and what was read of it. Equal texts are equal states.

    Attributes:
        turn: what was read; None from where the text breaks the format.
        rest: the first bytes of a character that is not complete.
        name: the tool of the call in which the text ends.
        start: the byte offset at which the arguments of the last call begin; before they begin, the end of its name.
        places: for each piece of the arguments, the length of the JSON before it, and its offset in the text.
        length: the length of the JSON.
        reader: the state of the guard of the arguments; None unless validators judge them.
    """

    text: bytes
    turn: ReadTurn | None = field(default=None, compare=False)
    rest: bytes = field(default=b"", compare=False)
    name: str = field(default="", compare=False)
    start: int | None = field(default=None, compare=False)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    length: int = field(default=0, compare=False)
    reader: PointerReader | None = field(default=None, compare=False)

    def offset(self, json_offset: int) -> int:
        """Returns the offset in the text of a byte of the arguments, or of one before it."""
        return max((place for length, place in self.places if length <= json_offset), default=self.start or 0)


class CallGuard(Guard[_CallState]):
    """Vetoes values in arguments that a tool's validators refuse, from the first byte of such a value.

    Args:
        format_: the call format of the model without special tokens, as decoded text shows it.
        guards: the guards of arguments, by the tool's name.
        has_text: may the turn be an answer?
        checked: is a complete call held to the schema of its tool?
    """

    def __init__(
        self,
        format_: CallFormat,
        tools: Sequence[Tool[..., Any]],
        guards: Mapping[str, ValidatorGuard],
        *,
        has_text: bool,
        checked: bool = False,
    ) -> None:
        self._guards, self._tools = guards, {tool.name: tool for tool in tools if checked}
        self._is_json = isinstance(format_.reading, JsonLayout)
        self._closers = _closers(format_.reading) if isinstance(format_.reading, KeyedArguments) else b""
        schemas = {tool.name: tool.arguments_schema for tool in tools}
        self._reader = TurnReader(format_, schemas, thought="closed", text=has_text)

    def start(self) -> _CallState:
        """Returns the empty text."""
        return _CallState(b"", self._reader.start)

    def feed(self, state: _CallState, text: bytes) -> _CallState | Veto:
        """Returns the extended text; or a veto where a value begins that is now complete and that validators refuse."""
        written, offset = state.rest + text, len(state.text) - len(state.rest)
        whole = len(written) - begun_character(written)
        after = replace(state, text=state.text + text, rest=written[whole:])
        turn = state.turn
        if turn is None:
            return after
        for char in written[:whole].decode("utf-8", errors="replace"):
            try:
                turn, events = self._reader.feed(turn, char)
            except CallSyntaxError:
                return replace(after, turn=None, reader=None)
            start, offset = offset, offset + len(char.encode())
            for event in events:
                if isinstance(event, CallBegun):
                    guard = self._guards.get(event.name)
                    after.name, after.start, after.places, after.length = event.name, offset, (), 0
                    after.reader = None if guard is None else guard.start()
                elif isinstance(event, CallEnded):
                    after.reader = None
                    if (why := self._refused(event)) is not None:
                        return ArgumentVeto(after.start or 0, f"{event.name}: {why}")
                elif isinstance(event, ArgumentsPiece) and after.reader is not None:
                    after.start = after.start if after.places else start
                    after.places = (*after.places, (after.length, start))
                    after.length += len(event.text.encode())
                    verdict = self._guards[after.name].feed(after.reader, event.text.encode())
                    if isinstance(verdict, Veto):
                        return ArgumentVeto(after.offset(verdict.offset), f"{after.name}: {verdict.reason}")
                    after.reader = verdict
        after.turn = turn
        return after

    def _refused(self, call: CallEnded) -> str | None:
        """Returns why a complete call is refused; None if it is not."""
        try:
            if call.name in self._tools:
                self._tools[call.name].parse(call.arguments)
        except ValidationFailed as refusal:
            return excerpt(refusal.reason)
        return None

    def begun(self, state: _CallState) -> int:
        """Returns the offset at which the last call's arguments begin."""
        return len(state.text) if state.start is None else state.start

    def suspects(self, state: _CallState, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Returns the tokens that may complete a value.

        Outside of JSON arguments there are none: a token that begins them and completes a refused value, too, is vetoed
        when it comes.
        """
        if not self._is_json:
            return holding(vocabulary, self._closers) if self._closers else None
        if state.reader is None or not state.reader.is_inside:
            return np.zeros(0, np.int64)
        return self._guards[state.name].suspects(state.reader, vocabulary)
