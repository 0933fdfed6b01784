"""Reads a model's turn while it is generated: text, and calls in the model's format.

The text is read by the machine of `reading`, through the plan of the turn from which the mask is made too. How the text
is cut into pieces changes no event, once neighbouring pieces of text, or of arguments, are joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from structgen.chat.call_format import CallFormat
from structgen.chat.read_plans import ReadRules, read_plan
from structgen.chat.reading import Action, Happens, Reading, Role, TurnMachine, actions_of
from structgen.errors import CallSyntaxError, quoted
from structgen.parts.parts import Texts
from structgen.parts.special import Fixed


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
    """A call has started; `index` is its number in the turn, from 0."""

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
    """The text was cut off within a call, which has started and will not end.

    Attributes:
        arguments: the JSON text of the arguments as far as it was read.
    """

    index: int
    name: str
    arguments: str


TurnEvent = TextPiece | ThoughtPiece | CallBegun | ArgumentsPiece | CallEnded | CallCut


class ReadTurn(NamedTuple):
    """What was read of a turn so far. It is a value: to go back is to keep an earlier one.

    Attributes:
        reading: where the text ends in the turn.
        called: the number of calls that have started.
        is_open: is the last one not complete?
        name, id, arguments: of the last call: the tool, the id, and the JSON text of the arguments so far.
        keys: the names of its arguments, where they are written key by key.
        word: the text of a value that is not complete.
        held: text that may begin a stop string.
        stopped: the stop string that has ended the turn; None without one.
    """

    reading: Reading
    called: int = 0
    is_open: bool = False
    name: str = ""
    id: str = ""
    arguments: str = ""
    keys: tuple[str, ...] = ()
    word: str = ""
    held: str = ""
    stopped: str | None = None

    @property
    def is_calling(self) -> bool:
        """Have calls started, and what closes them is not read?"""
        return self.reading.position.is_calling


class TurnReader:
    """Reads turns of a model.

    Args:
        format_: how the model writes a turn.
        schemas: tool name -> JSON Schema of the tool's arguments. Other tools cannot be called.
        thought: where the text begins: "open", within a thought that the prompt has started; "closed", outside of one,
            though the model may begin one with its tag; None if this is not known. Then text is held back until a
            closing tag, or the first call, or the end of the text tells.
        stop: texts at which the turn is over where they are in its free text: neither they nor what follows is read.
        text: may the turn be free text? False where it must call.
        answers: may the turn be a value of a schema? Then what only begins as a call does is that value.
    """

    def __init__(
        self,
        format_: CallFormat,
        schemas: Mapping[str, Mapping[str, Any]],
        *,
        thought: str | None = None,
        stop: Sequence[str] = (),
        text: bool = True,
        answers: bool = False,
    ) -> None:
        self._format, self._stop = format_, tuple(stop)
        named = tuple((name, json.dumps(schema)) for name, schema in schemas.items())
        self._machine = _machine(ReadRules(format_, named, thought, text, answers))

    @property
    def start(self) -> ReadTurn:
        """The turn before its first character."""
        return ReadTurn(self._machine.start)

    def feed(self, turn: ReadTurn, text: str) -> tuple[ReadTurn, list[TurnEvent]]:
        """Returns a turn with more of its text, special tokens by their names; and the events in it.

        Raises:
            CallSyntaxError: the text is not a turn in the format.
        """
        events: list[TurnEvent] = []
        if turn.stopped is not None:
            return turn, events
        reading, told = turn.reading, list[Action]()
        for char in text:
            after, actions = self._machine.feed(reading, char)
            if not after.position.threads:
                turn = self._told(turn._replace(reading=reading), told, events)
                if turn.stopped is not None:
                    return turn, events
                raise _unexpected(turn, quoted(char))
            reading = after
            told += actions
        return self._told(turn._replace(reading=reading), told, events), events

    def finish(self, turn: ReadTurn, *, cut: bool = False) -> list[TurnEvent]:
        """Returns the last events, at the end of the text.

        Args:
            cut: a limit has cut the text off, maybe within a call. If its name was read, the last event is a `CallCut`.

        Raises:
            CallSyntaxError: the text ends within a call, and is not cut off.
        """
        if turn.stopped is not None:
            return []
        position, logs = turn.reading
        if cut:
            events: list[TurnEvent] = []
            likely = self._told(turn, actions_of(logs[0]), events)
            if likely.is_open and turn.name and likely.called == turn.called:
                return [*events, CallCut(likely.called - 1, likely.name, likely.arguments)]
        whole = next((place for place, thread in enumerate(position.threads) if thread.leaf is None), None)
        if whole is None:
            if not cut:
                raise _unexpected(turn, "the end of the text")
            return events
        events = []
        last = self._told(turn, actions_of(logs[whole]), events)
        _say(events, last.held)
        return events

    def _told(self, turn: ReadTurn, actions: Iterable[Action], events: list[TurnEvent]) -> ReadTurn:
        """Adds the events of what is certain now, and returns the turn after it."""
        for what, group in groupby(actions, itemgetter(0)):
            for data in ["".join(char for _, char in group)] if isinstance(what, Role) else [data for _, data in group]:
                turn = self._after(turn, what, data, events)
            if turn.stopped is not None:
                break
        return turn

    def _after(self, turn: ReadTurn, what: Role | Happens, data: Any, events: list[TurnEvent]) -> ReadTurn:
        """Adds the events of characters of one part, or of what happens."""
        if what is Role.TEXT:
            return self._text(turn, data, events)
        if what is Role.WORD:
            return turn._replace(word=turn.word + data)
        if what is Role.ID:
            return turn._replace(id=turn.id + data)
        if what is Role.JSON or what is Happens.JSON:
            return _argued(turn, data, events)
        if what is Role.STRING:
            return _argued(turn, json.dumps(data, ensure_ascii=False)[1:-1], events)
        if what is Happens.CONVERTED:
            return _argued(turn._replace(word=""), data(turn.word), events)
        if what is Happens.KEY:
            key = data or turn.word
            if key in turn.keys:
                raise CallSyntaxError(f"the argument {quoted(key)} comes twice in a call")
            text = f"{', ' if turn.keys else ''}{json.dumps(key, ensure_ascii=False)}: "
            return _argued(turn._replace(word="", keys=(*turn.keys, key)), text, events)
        if what is Happens.CALL_BEGINS:
            return ReadTurn(turn.reading, turn.called + 1, is_open=True, held=turn.held)
        if what is Happens.NAMED:
            _say(events, turn.held)
            events.append(CallBegun(turn.called - 1, data))
            return _argued(turn._replace(name=data, held="", arguments=""), turn.arguments, events)
        if what is Happens.CALL_ENDS:
            turn = turn if turn.arguments else _argued(turn, "{}", events)
            id_ = turn.id or self._format.id_of(turn.name, turn.called - 1)
            events.append(CallEnded(turn.called - 1, turn.name, turn.arguments, id_))
            return turn._replace(is_open=False)
        assert what is Role.THOUGHT
        _joined(events, ThoughtPiece(data))
        return turn

    def _text(self, turn: ReadTurn, text: str, events: list[TurnEvent]) -> ReadTurn:
        """Adds free text, up to a stop string."""
        if not self._stop:
            _say(events, text)
            return turn
        held, stopped = turn.held + text, None
        for end in range(len(turn.held) + 1, len(held) + 1):
            stopped = next((stop for stop in self._stop if held[:end].endswith(stop)), None)
            if stopped is not None:
                _say(events, held[: end - len(stopped)])
                return turn._replace(held="", stopped=stopped)
        kept = len(held) - begun_stop(held, self._stop)
        _say(events, held[:kept])
        return turn._replace(held=held[kept:])


class TurnParser:
    """Reads a turn of a model, piece by piece. The arguments are those of `TurnReader`."""

    def __init__(self, format_: CallFormat, schemas: Mapping[str, Mapping[str, Any]], **options: Any) -> None:
        self._reader = TurnReader(format_, schemas, **options)
        self.turn = self._reader.start

    @property
    def stopped(self) -> str | None:
        """The stop string that came; else None."""
        return self.turn.stopped

    def feed(self, text: str) -> list[TurnEvent]:
        """Reads the next piece of the text, and returns the events in it, as `TurnReader.feed`."""
        self.turn, events = self._reader.feed(self.turn, text)
        return events

    def finish(self, *, cut: bool = False) -> list[TurnEvent]:
        """Returns the last events, at the end of the text, as `TurnReader.finish`."""
        return self._reader.finish(self.turn, cut=cut)


@lru_cache(64)
def _machine(rules: ReadRules) -> TurnMachine:
    return TurnMachine(read_plan(rules))


def _say(events: list[TurnEvent], text: str) -> None:
    if text:
        _joined(events, TextPiece(text))


def _argued(turn: ReadTurn, text: str, events: list[TurnEvent]) -> ReadTurn:
    """Adds a piece of the arguments, once the tool is known."""
    if turn.name and text:
        _joined(events, ArgumentsPiece(turn.called - 1, text))
    return turn._replace(arguments=turn.arguments + text)


def _joined(events: list[TurnEvent], piece: TextPiece | ThoughtPiece | ArgumentsPiece) -> None:
    """Adds a piece of text, to the one before if that is of the same kind."""
    last = events[-1] if events else None
    if isinstance(last, ArgumentsPiece) and isinstance(piece, ArgumentsPiece):
        events[-1] = ArgumentsPiece(piece.index, last.text + piece.text)
    elif isinstance(last, (TextPiece, ThoughtPiece)) and type(last) is type(piece):
        events[-1] = type(last)(last.text + piece.text)
    else:
        events.append(piece)


def _unexpected(turn: ReadTurn, found: str) -> CallSyntaxError:
    """Returns the error of a text that is no turn."""
    wanted = []
    for thread in turn.reading.position.threads:
        if isinstance(thread.leaf, Texts):
            wanted.append("one of " + quoted([text.decode() for text in thread.leaf.texts]))
        elif isinstance(thread.leaf, Fixed):
            wanted.append(quoted(thread.leaf.text[thread.state if isinstance(thread.state, int) else 0 :]))
    where = f"call {turn.called}" if turn.is_open else "a turn"
    return CallSyntaxError(f"{where}: expected {' or '.join(wanted[:3]) or 'what the format writes'}, found {found}")


def begun_stop(text: str, stops: Sequence[str]) -> int:
    """Returns the number of characters at the end of a text that may begin a stop string."""
    ends = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(ends, default=0)
