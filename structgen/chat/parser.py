"""Parses a model's turn while it is generated: text, and calls in the model's format.

The reader is a generator that is sent one character after the other. So it does not matter how the text is cut into
pieces: the events are the same once neighbouring pieces of text, or of arguments, are joined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.call_format import CallFormat
from structgen.chat.keyed.reader import (
    ID,
    CharacterStream,
    Members,
    json_text,
    keyed_text,
    literal,
    longest_of,
    members_by_tool,
)
from structgen.chat.pieces import Slot
from structgen.errors import CallSyntaxError, quoted


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call has begun; `index` is its number in the turn, from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    """A piece of a call's arguments, as JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is complete.

    Attributes:
        arguments: the JSON text of the arguments, a whole object.
        id: the id of the call; empty in formats without ids.
    """

    index: int
    name: str
    arguments: str
    id: str = ""


TurnEvent = TextPiece | CallBegun | ArgumentsPiece | CallEnded
Reader = Generator[None, str, None]

END = ""
"""The reader is sent this at the end of the text."""


class TurnParser:
    """Reads a turn of a model, piece by piece.

    Args:
        format_: how the model writes a turn.
        schemas: tool name -> JSON Schema of the tool's arguments. Other tools cannot be called.
    """

    def __init__(self, format_: CallFormat, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._format = format_
        self._names = tuple(schemas)
        self._members: dict[str, Members] = {}
        if isinstance(format_.arguments, KeyedArguments):
            self._members = members_by_tool(format_.arguments, schemas)
        self._stream = CharacterStream()
        self._events: deque[TurnEvent] = deque()
        self._reader = self._turn()
        next(self._reader)

    def feed(self, text: str) -> list[TurnEvent]:
        """Reads the next piece of the text, with special tokens by their names, and returns the events in it.

        Raises:
            CallSyntaxError: the text is not a turn in the format.
        """
        for char in text:
            self._reader.send(char)
        return self._new_events()

    def finish(self) -> list[TurnEvent]:
        """Reads the end of the text, and returns the last events.

        Raises:
            CallSyntaxError: the text ends within a call.
        """
        with suppress(StopIteration):
            self._reader.send(END)
        return self._new_events()

    def _new_events(self) -> list[TurnEvent]:
        """Returns the events since the last call of this method, with neighbouring pieces joined."""
        events: list[TurnEvent] = []
        for event in self._events:
            last = events[-1] if events else None
            if isinstance(event, TextPiece) and isinstance(last, TextPiece):
                events[-1] = TextPiece(last.text + event.text)
            elif isinstance(event, ArgumentsPiece) and isinstance(last, ArgumentsPiece):
                events[-1] = ArgumentsPiece(event.index, last.text + event.text)
            else:
                events.append(event)
        self._events.clear()
        return events

    def _turn(self) -> Reader:
        """Reads the whole turn."""
        lead, opening = self._format.lead, self._format.content.opening
        starts = [lead, opening] if self._names else [opening]
        begun = yield from longest_of(self._stream, [start for start in starts if start])
        called = bool(self._names) and begun == lead and (begun != "" or opening != "")
        if not called:
            called = yield from self._text()
        if called:
            yield from self._calls()
        yield from self._rest()

    def _text(self) -> Generator[None, str, bool]:
        """Reads text up to the beginning of calls (returns True) or to the end of the text (returns False)."""
        format_ = self._format
        trigger = format_.trigger if self._names else ""
        before = (format_.gap or "").removesuffix(format_.opening)
        stops = [text for text in (before + trigger, trigger) if trigger]
        closing = format_.content.closing
        held = ""
        while True:
            char = yield from self._stream.take()
            held += char
            stop = next((stop for stop in stops if held.endswith(stop)), None)
            if stop is not None:
                self._say(held[: -len(stop)])
                yield from literal(self._stream, format_.opening.removeprefix(trigger))
                return True
            if char == END:
                self._say(held.removesuffix(closing) if closing else held)
                return False
            kept = max(_begun(held, text) for text in (*stops, closing))
            self._say(held[: len(held) - kept])
            held = held[len(held) - kept :]

    def _calls(self) -> Reader:
        """Reads calls, from the first slot of the first one to `closing`."""
        between, closing = self._format.between, self._format.closing
        for index in count():
            yield from self._call(index)
            tag = yield from longest_of(self._stream, [text for text in (between, closing) if text])
            if not tag or tag != between:
                if tag != closing:
                    raise CallSyntaxError(f"call {index + 1} is not followed by {quoted(closing)}")
                return

    def _call(self, index: int) -> Reader:
        name, arguments, id_ = "", "", ""
        for piece in self._format.body:
            if isinstance(piece, str):
                yield from literal(self._stream, piece)
            elif piece is Slot.NAME:
                tool = yield from longest_of(self._stream, self._names)
                if not tool or (name and tool != name):
                    raise CallSyntaxError(f"call {index + 1} names no known tool: expected {quoted(self._names)}")
                if not name:
                    self._events.append(CallBegun(index, tool))
                name = tool
            elif piece is Slot.ARGUMENTS:
                arguments = yield from self._arguments(name, index)
            else:
                word = yield from self._stream.word(ID)
                id_ = word if piece is Slot.ID else id_
        self._events.append(CallEnded(index, name, arguments, id_ or self._format.id_of(name, index)))

    def _arguments(self, name: str, index: int) -> Generator[None, str, str]:
        pieces: list[str] = []

        def emit(text: str) -> None:
            pieces.append(text)
            self._events.append(ArgumentsPiece(index, text))

        if isinstance(self._format.arguments, JsonLayout):
            yield from json_text(self._stream, emit)
        else:
            yield from keyed_text(self._stream, self._members[name], self._format.arguments.separator, emit)
        return "".join(pieces)

    def _rest(self) -> Reader:
        """Reads the text behind a turn. The format's `end` makes no event."""
        yield from longest_of(self._stream, [text for text in (self._format.end, self._format.end.rstrip()) if text])
        while char := (yield from self._stream.take()):
            self._say(char)

    def _say(self, text: str) -> None:
        if text:
            self._events.append(TextPiece(text))


def _begun(text: str, stop: str) -> int:
    """Returns the length of the longest end of a text that is a prefix of `stop`, or the whole of it."""
    longest = min(len(text), len(stop))
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
