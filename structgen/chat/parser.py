"""Reads a model's turn while it is generated: text, and calls in the model's format.

The text is read by the machine of `reading`, through the plan of the turn from which the mask is made too. What was
read of a turn is a value, `ReadTurn`, and the events of a stream are what one value has beyond an earlier one. How the
text is cut into pieces changes no event, once neighbouring pieces of text, or of arguments, are joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from structgen.chat.call_format import CallFormat, tells
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


TurnEvent = TextPiece | ThoughtPiece | CallBegun | ArgumentsPiece | CallEnded
EventLog = tuple[Any, tuple[TurnEvent, ...]] | None
"""The events of a turn: those before, and the last ones. Longer turns share the logs of shorter ones."""


class ReadTurn(NamedTuple):
    """What was read of a turn so far. It is a value: to go back is to keep an earlier one.

    Attributes:
        reading: where the text ends in the turn.
        log: the events so far.
        called: the number of calls that have started.
        is_open: is the last one not complete?
        name, id: of the last call: the tool, and the id.
        early: the JSON text of its arguments before the tool is known.
        keys: the names of its arguments, where they are written key by key.
        word: the text of a value that is not complete.
        held: text that may begin a stop string.
        stopped: the stop string that has ended the turn; None without one.
    """

    reading: Reading
    log: EventLog = None
    called: int = 0
    is_open: bool = False
    name: str = ""
    id: str = ""
    early: str = ""
    keys: tuple[str, ...] = ()
    word: str = ""
    held: str = ""
    stopped: str | None = None

    @property
    def is_calling(self) -> bool:
        """Have calls started, and what closes them is not read?"""
        return self.reading.position.is_calling

    @property
    def arguments(self) -> str:
        """The JSON text of the last call's arguments, as far as it was read."""
        return _arguments(self.log, [])

    @property
    def calls(self) -> list[CallEnded]:
        """The complete calls."""
        return [each for each in self.events() if isinstance(each, CallEnded)]

    def said(self, kind: type[TextPiece] | type[ThoughtPiece]) -> str:
        """Returns the whole text of an answer or of a thought."""
        return "".join(each.text for each in self.events() if isinstance(each, kind))

    def events(self) -> list[TurnEvent]:
        """Returns the events so far."""
        events = list[TurnEvent]()
        for each in _newer(self.log, None) or ():
            _joined(events, each)
        return events

    def changes(self, before: ReadTurn) -> list[TurnEvent] | None:
        """Returns the events after those of an earlier turn; None if they do not begin as those do."""
        newer = _newer(self.log, before.log)
        return newer if newer is not None else _beyond(self.events(), before.events())


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

    def feed(self, turn: ReadTurn, text: str) -> ReadTurn:
        """Returns a turn with more of its text, special tokens by their names.

        Raises:
            CallSyntaxError: the text is not a turn in the format.
        """
        if turn.stopped is not None:
            return turn
        reading, told = turn.reading, list[Action]()
        for char in text:
            after, actions = self._machine.feed(reading, char)
            if not after.position.threads:
                turn = self._told(turn._replace(reading=reading), told)
                if turn.stopped is not None:
                    return turn
                raise _unexpected(turn, quoted(char))
            reading = after
            told += actions
        return self._told(turn._replace(reading=reading), told)

    def finish(self, turn: ReadTurn, *, cut: bool = False) -> ReadTurn:
        """Returns the turn at the end of its text.

        Args:
            cut: a limit has cut the text off, maybe within a call. If its name was read, the call stays open.

        Raises:
            CallSyntaxError: the text ends within a call, and is not cut off.
        """
        if turn.stopped is not None:
            return turn
        position, logs = turn.reading
        likely = self._told(turn, actions_of(logs[0])) if cut else turn
        if cut and likely.is_open and turn.name and likely.called == turn.called:
            return likely
        whole = next((place for place, thread in enumerate(position.threads) if thread.leaf is None), None)
        if whole is None:
            if not cut:
                raise _unexpected(turn, "the end of the text")
            return likely._replace(is_open=False)
        actions = actions_of(logs[whole])
        if cut or (actions and actions[-1][0] is Role.THOUGHT):  # a thought that nothing closes is cut off, too
            actions = actions[: _unmarked(turn.reading, actions)]
        last = self._told(turn, actions)
        return last._replace(log=_logged(last.log, [TextPiece(last.held)] if last.held else []), held="")

    def _told(self, turn: ReadTurn, actions: Iterable[Action]) -> ReadTurn:
        """Returns the turn after what is certain now."""
        events: list[TurnEvent] = []
        for what, group in groupby(actions, itemgetter(0)):
            for data in ["".join(char for _, char in group)] if isinstance(what, Role) else [data for _, data in group]:
                turn = self._after(turn, what, data, events)
            if turn.stopped is not None:
                break
        return turn._replace(log=_logged(turn.log, events)) if events else turn

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
            return ReadTurn(turn.reading, turn.log, turn.called + 1, is_open=True, held=turn.held)
        if what is Happens.NAMED:
            _say(events, turn.held)
            events.append(CallBegun(turn.called - 1, data))
            return _argued(turn._replace(name=data, held="", early=""), turn.early, events)
        if what is Happens.CALL_ENDS:
            arguments = _arguments(turn.log, events)
            if not arguments:
                arguments = "{}"
                _argued(turn, arguments, events)
            id_ = turn.id or self._format.id_of(turn.name, turn.called - 1)
            events.append(CallEnded(turn.called - 1, turn.name, arguments, id_))
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


def _unmarked(reading: Reading, actions: list[Action]) -> int:
    """Returns how many actions are left without the text at their end that begins a tag, or a call without tags."""
    kept = len(actions)
    for thread, log in zip(reading.position.threads, reading.logs, strict=True):
        told = actions_of(log)
        known = list(takewhile(lambda action: isinstance(action[0], Role), told))
        is_marker = thread.told is None and isinstance(thread.leaf, (Fixed, Texts))
        if (is_marker or len(known) < len(told)) and known == actions[: len(known)]:
            rest = actions[len(known) :]
            marker = "".join(str(char) for _, char in rest)
            begins = marker.lstrip().startswith(_TAG_BEGINS) or tells((marker,))
            if begins and all(what in (Role.TEXT, Role.THOUGHT) for what, _ in rest):
                kept = min(kept, len(known))
    return kept


_TAG_BEGINS = "<", "[", "]"


@lru_cache(64)
def _machine(rules: ReadRules) -> TurnMachine:
    return TurnMachine(read_plan(rules))


def _say(events: list[TurnEvent], text: str) -> None:
    if text:
        _joined(events, TextPiece(text))


def _argued(turn: ReadTurn, text: str, events: list[TurnEvent]) -> ReadTurn:
    """Adds a piece of the arguments, once the tool is known."""
    if not turn.name:
        return turn._replace(early=turn.early + text)
    if text:
        _joined(events, ArgumentsPiece(turn.called - 1, text))
    return turn


def _joined(events: list[TurnEvent], event: TurnEvent) -> None:
    """Adds an event. A piece of text is added to the one before if that is of the same kind."""
    last = events[-1] if events else None
    if isinstance(last, ArgumentsPiece) and isinstance(event, ArgumentsPiece):
        events[-1] = ArgumentsPiece(event.index, last.text + event.text)
    elif isinstance(last, (TextPiece, ThoughtPiece)) and isinstance(event, type(last)):
        events[-1] = type(last)(last.text + event.text)
    else:
        events.append(event)


def _logged(log: EventLog, events: Sequence[TurnEvent]) -> EventLog:
    return (log, tuple(events)) if events else log


def _newer(log: EventLog, before: EventLog) -> list[TurnEvent] | None:
    """Returns the events of a log after those of an earlier one; None if that is not its beginning."""
    newer = list[tuple[TurnEvent, ...]]()
    while log is not before:
        if log is None:
            return None
        newer.append(log[1])
        log = log[0]
    return [event for events in reversed(newer) for event in events]


def _beyond(events: list[TurnEvent], before: list[TurnEvent]) -> list[TurnEvent] | None:
    """Returns the events after others that were read of the same text in other pieces; None if it is another text."""
    count, pieces = len(before), (TextPiece, ThoughtPiece, ArgumentsPiece)
    if not count or events[:count] == before:
        return events[count:]
    event, known = events[count - 1] if len(events) >= count else None, before[-1]
    if not isinstance(event, pieces) or not isinstance(known, type(event)) or events[: count - 1] != before[:-1]:
        return None
    if not event.text.startswith(known.text):
        return None
    return [replace(event, text=event.text[len(known.text) :]), *events[count:]]


def _arguments(log: EventLog, events: Sequence[TurnEvent]) -> str:
    """Returns the arguments of the last call in a log with more events."""
    pieces = list[str]()
    while True:
        for event in reversed(events):
            if isinstance(event, CallBegun):
                return "".join(reversed(pieces))
            pieces += [event.text] if isinstance(event, ArgumentsPiece) else []
        if log is None:
            return ""
        log, events = log


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


def begun_stop(text: Any, stops: Sequence[Any]) -> int:
    """Returns the number of characters, or bytes, at the end of a text that may begin a stop string."""
    ends = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(ends, default=0)
