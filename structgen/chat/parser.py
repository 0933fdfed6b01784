"""Parses a model's turn while it is generated: text, and calls in the model's format.

The reader is a generator that is sent one character after the other. So it does not matter how the text is cut into
pieces: the events are the same once neighbouring pieces of text, or of arguments, are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from structgen.chat.arguments import KeyedArguments
from structgen.chat.call_format import CallFormat, Spellings, thought_opening
from structgen.chat.character_stream import CharacterStream, expect, json_text, longest_of
from structgen.chat.keyed.reader import ID, KeyedReader
from structgen.chat.pieces import Blank, Maybe, OneOf, Slot, Spelling
from structgen.chat.spellings import Alternatives, canonical, firsts, leading
from structgen.errors import CallSyntaxError, quoted


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """A piece of what the model thinks before its turn."""

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


@dataclass(frozen=True, slots=True)
class CallCut:
    """The text was cut off within a call, which has begun and will not end.

    Attributes:
        arguments: the JSON text of the arguments as far as it was read.
    """

    index: int
    name: str
    arguments: str


TurnEvent = TextPiece | ThoughtPiece | CallBegun | ArgumentsPiece | CallEnded | CallCut
Reader = Generator[None, str, None]
Ways = list[tuple[Spellings, list[Spelling]]]

END = ""
"""The reader is sent this at the end of the text."""
_VALUES = tuple('{["')
"""With these a JSON text may begin that has the beginning of a call."""


class TurnParser:
    """Reads a turn of a model, piece by piece.

    Args:
        format_: how the model writes a turn.
        schemas: tool name -> JSON Schema of the tool's arguments. Other tools cannot be called.
        thought: where the text begins: "open", within a thought that the prompt has begun; "closed", outside of one,
            though the model may begin one with its tag; None if this is not known. Then text is held back until a
            closing tag, or the first call, or the end of the text tells.
        stop: texts at which the turn is over where they stand in its free text: neither they nor what follows is read.
        answers: may the turn be a value of a schema? Then what only begins as a call does is that value.

    Attributes:
        stopped: the stop string that came; else None.
        is_calling: have calls begun, and what closes them is not read?
    """

    def __init__(
        self,
        format_: CallFormat,
        schemas: Mapping[str, Mapping[str, Any]],
        *,
        thought: str | None = None,
        stop: Sequence[str] = (),
        answers: bool = False,
    ) -> None:
        self._format, self._thought = format_, thought
        self.stopped: str | None = None
        self.is_calling = False
        self._stop, self._held = stop, ""
        self._call_read: _Call | None = None  # which has begun, and has not ended
        self._answers, self._is_certain, self._called = answers, True, 0
        self._names = tuple(schemas)
        reading = format_.reading
        self._keyed = KeyedReader(reading, schemas) if isinstance(reading, KeyedArguments) else None
        self._stream = CharacterStream()
        self._events: list[TurnEvent] = []
        self._reader = self._turn()
        next(self._reader)

    def feed(self, text: str) -> list[TurnEvent]:
        """Reads the next piece of the text, with special tokens by their names, and returns the events in it.

        Raises:
            CallSyntaxError: the text is not a turn in the format.
        """
        for char in text:
            if self.stopped is None:
                self._reader.send(char)
        return self._new_events()

    def finish(self, *, cut: bool = False) -> list[TurnEvent]:
        """Reads the end of the text, and returns the last events.

        Args:
            cut: a limit has cut the text off, maybe within a call. If its name was read, the last event is a `CallCut`.

        Raises:
            CallSyntaxError: the text ends within a call, and is not cut off.
        """
        if self.stopped is not None:
            return self._new_events()
        call, known = self._call_read if cut else None, len(self._events)
        last = [] if call is None or not call.name else [CallCut(call.index, call.name, "".join(call.pieces))]
        try:
            with suppress(StopIteration):
                self._reader.send(END)
        except CallSyntaxError:
            if not cut:
                raise
        if call is not None:  # what the end of the text has ended
            del self._events[known:]
        self._events += last
        self._release()
        return self._new_events()

    def _new_events(self) -> list[TurnEvent]:
        """Returns the new events, with neighbouring pieces joined; none yet of a call that may still be a value."""
        events: list[TurnEvent] = []
        for event in self._events if self._is_certain else ():
            last = events[-1] if events else None
            if isinstance(event, (TextPiece, ThoughtPiece)) and type(last) is type(event):
                events[-1] = type(event)(last.text + event.text)
            elif isinstance(event, ArgumentsPiece) and isinstance(last, ArgumentsPiece):
                events[-1] = ArgumentsPiece(event.index, last.text + event.text)
            else:
                events.append(event)
        if self._is_certain:
            self._events.clear()
        return events

    def _turn(self) -> Reader:
        """Reads the whole turn."""
        yield from self._thinking()
        spellings, ways = self._format.spellings, self._format.ways(self._names)
        ways = ways[:1] if self._answers else ways
        starts = [(way, (*spellings.prefix, *leading(each))) for way, triggers in ways for each in triggers]
        begun, text = yield from _one_of([*(start for _, start in starts), spellings.opening]).read(self._stream)
        called = 0 <= begun < len(starts) and (text != "" or bool(firsts(spellings.opening)))
        in_text = [] if self._answers else ways
        if called:
            way = starts[begun][0]
            self._stream.unread(text)
            if not self._answers or text.lstrip()[:1] not in _VALUES:
                yield from self._calls(way, spellings.prefix)
            elif not (yield from self._tried_calls(way, spellings.prefix)):
                yield from self._text([])
        else:
            found = yield from self._text(in_text)
            if found is not None:
                yield from self._calls(found, spellings.apart or ())
        yield from self._rest(in_text)

    def _tried_calls(self, way: Spellings, before: Spelling) -> Generator[None, str, bool]:
        """Reads calls, see `_calls`. Returns False, and gives the text back, if it is no call but a value."""
        said, called, self._is_certain = len(self._events), self._called, False
        self._stream.keep()
        try:
            yield from self._calls(way, before)
        except CallSyntaxError:
            if self._stream.is_over:
                raise
            while len(self._events) > said:
                self._events.pop()
            self._called = called
            self._stream.go_back()
            self.is_calling, self._call_read = False, None
            return False
        finally:
            self._is_certain = True
        self._stream.forget()
        return True

    def _thinking(self) -> Reader:
        """Reads a thought, if there is one."""
        tags, stream = self._format.thinking, self._stream
        if tags is None:
            return
        closing, begun = Alternatives((Blank(), tags.closing.strip())), -1
        if tags.opening.strip():
            begun, _ = yield from Alternatives(thought_opening(tags)).read(stream)
        if begun >= 0 or self._thought == "open":
            yield from self._thought_until(closing, self._think, certain=True)
        elif self._thought is None:
            held: list[str] = []
            ended = yield from self._thought_until(closing, held.append, certain=False)
            if ended:
                self._think("".join(held))
            else:
                stream.unread("".join(held))

    def _thought_until(
        self, closing: Alternatives, emit: Callable[[str], None], *, certain: bool
    ) -> Generator[None, str, bool]:
        """Reads a thought up to its closing tag (returns True), or to what else ends it.

        Args:
            certain: is it known that this is a thought? Otherwise the first call ends it.
        """
        stream, control = self._stream, self._format.ending_thought
        triggers = [each for _, begun in self._format.ways(self._names)[:1] for each in begun]
        calls = _one_of(triggers) if triggers and not certain else None
        others = Alternatives(*((text,) for text in control)) if control else None
        while True:
            char = yield from stream.peek()
            if not char:
                return False
            if closing.begins(char):
                ended, _ = yield from closing.read(stream)
                if ended >= 0:
                    behind = self._format.thinking.closing if self._format.thinking else ""
                    yield from longest_of(stream, _prefixes(behind[len(behind.rstrip()) :]))
                    return True
            for stops in (others, calls):
                if stops is not None and stops.begins(char):
                    ended, text = yield from stops.read(stream)
                    stream.unread(text)
                    if ended >= 0:
                        return False
            yield from stream.take()
            emit(char)

    def _think(self, text: str) -> None:
        if text:
            self._events.append(ThoughtPiece(text))

    def _text(self, ways: Ways) -> Generator[None, str, Spellings | None]:
        """Reads text up to calls, and returns how these are written; None at the end of the text."""
        stream, spellings, gap = self._stream, self._format.spellings, self._format.gap
        answered, apart = firsts(spellings.answered), spellings.apart or ()
        before = "".join(map(str, canonical(apart))) if gap is None else gap[: len(gap) - len(gap.lstrip())]
        befores = [apart] if any(firsts(apart)) else [(before,), ()] if before else [()]
        begun = [(way, (*each, *trigger)) for each in befores for way, triggers in ways for trigger in triggers]
        calls = _one_of([spelling for _, spelling in begun]) if begun else None
        ends = Alternatives(spellings.answered) if answered else None
        while True:
            char = yield from stream.peek()
            if not char:
                return None
            if calls is not None and calls.begins(char):
                place, text = yield from calls.read(stream)
                if place >= 0:
                    stream.unread(text)
                    return begun[place][0]
            if ends is not None and ends.begins(char):
                _, text = yield from ends.read(stream)
                if text:
                    return None
            yield from stream.take()
            self._say(char)

    def _calls(self, spellings: Spellings, before: Spelling) -> Reader:
        """Reads calls, from what begins them to what ends them.

        Args:
            spellings: how they are written.
            before: what stands before the beginning of calls.
        """
        stream, self.is_calling = self._stream, True
        yield from expect(stream, _one_of([(*before, *spellings.begin)]), "the beginning of a call")
        ends = _one_of([spellings.closing] if spellings.between is None else [spellings.between, spellings.closing])
        for index in count(self._called):
            self._called += 1
            yield from self._call(index, spellings.body)
            place = yield from expect(stream, ends, f"the end of call {index + 1}")
            if spellings.between is None or place != 0:
                self.is_calling = False
                return

    def _call(self, index: int, body: Spelling) -> Reader:
        call = self._call_read = _Call(index)
        yield from self._pieces(body, call)
        if not call.pieces:
            self._events.append(ArgumentsPiece(index, "{}"))
        id_ = call.id or self._format.id_of(call.name, index)
        self._events.append(CallEnded(index, call.name, "".join(call.pieces) or "{}", id_))
        self._call_read = None

    def _pieces(self, pieces: Spelling, call: _Call) -> Reader:
        """Reads pieces of a call."""
        place = 0
        while place < len(pieces):
            plain = len(leading(pieces[place:]))
            if plain:
                texts = pieces[place : place + plain]
                shown = "".join(map(str, canonical(texts)))
                yield from expect(self._stream, _one_of([texts]), quoted(shown))
                place += plain
                continue
            piece = pieces[place]
            place += 1
            if isinstance(piece, Slot):
                yield from self._slot(piece, call)
            elif isinstance(piece, Maybe):
                if (yield from self._comes([piece.pieces])) == 0:
                    yield from self._pieces(piece.pieces, call)
            elif isinstance(piece, OneOf):
                chosen = yield from self._comes(piece.options)
                yield from self._pieces(piece.options[chosen], call)

    def _comes(self, options: Any) -> Generator[None, str, int]:
        """Returns the place of the option whose first text comes next; -1 for none."""
        chosen, text = yield from _one_of([leading(each) for each in options]).read(self._stream)
        self._stream.unread(text)
        return chosen

    def _slot(self, slot: Slot, call: _Call) -> Reader:
        if slot is Slot.NAME:
            tool = yield from longest_of(self._stream, self._names)
            if not tool or (call.name and tool != call.name):
                raise CallSyntaxError(f"call {call.index + 1} names no known tool: expected {quoted(self._names)}")
            if not call.name:
                self._release()
                self._events.append(CallBegun(call.index, tool))
                if call.pieces:
                    self._events.append(ArgumentsPiece(call.index, "".join(call.pieces)))
            call.name = tool
        elif slot is Slot.ARGUMENTS:
            yield from self._arguments(call)
        else:
            word = yield from self._stream.word(ID)
            call.id = word if slot is Slot.ID else call.id

    def _arguments(self, call: _Call) -> Reader:
        def emit(text: str) -> None:
            call.pieces.append(text)
            if call.name:  # else the name comes behind them
                self._events.append(ArgumentsPiece(call.index, text))

        if self._keyed is None:
            yield from json_text(self._stream, emit)
        else:
            yield from self._keyed.read(self._stream, call.name, emit)

    def _rest(self, ways: Ways) -> Reader:
        """Reads the text after a turn, and calls in it, which no mask allows there. The format's `end` is no event."""
        yield from longest_of(self._stream, [text for text in (self._format.end, self._format.end.rstrip()) if text])
        while (found := (yield from self._text(ways))) is not None:
            if not (yield from self._tried_calls(found, self._format.spellings.apart or ())):
                self._say((yield from self._stream.take()))
        while char := (yield from self._stream.take()):
            self._say(char)

    def _say(self, text: str) -> None:
        if not self._stop and text:
            self._events.append(TextPiece(text))
            return
        for char in text if self.stopped is None else "":
            self._held += char
            self.stopped = next((stop for stop in self._stop if self._held.endswith(stop)), None)
            if self.stopped is not None:
                self._release(len(self.stopped))
                self._held = ""
                return
            self._release(begun_stop(self._held, self._stop))

    def _release(self, kept: int = 0) -> None:
        """Makes an event of the text that is held back, but for its last characters."""
        text, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        if text:
            self._events.append(TextPiece(text))


def begun_stop(text: str, stops: Sequence[str]) -> int:
    """Returns the number of characters at the end of a text that may begin a stop string."""
    ends = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(ends, default=0)


@dataclass
class _Call:
    """A call that is being read."""

    index: int
    name: str = ""
    pieces: list[str] = field(default_factory=list)  # of the JSON text of the arguments
    id: str = ""


def _one_of(spellings: list[Spelling]) -> Alternatives:
    return Alternatives(*spellings)


def _prefixes(text: str) -> list[str]:
    """Returns the prefixes of a text."""
    return [text[:size] for size in range(1, len(text) + 1)]
