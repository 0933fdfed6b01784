"""Streams turns: thinking, text, the name of a tool, pieces of its arguments, the validated call."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from structgen.calling.reply import Reply
from structgen.calling.request import CallRequest, TurnRequest, prepared
from structgen.calling.turns import any_request, replies, reply, values
from structgen.chat.history import Messages
from structgen.chat.parser import ArgumentsPiece, CallBegun, TextPiece, ThoughtPiece, TurnEvent
from structgen.chat.templates import Message
from structgen.decoding.generation import Generation
from structgen.decoding.session import Session
from structgen.decoding.stream import RowEvents, in_one_run, warning
from structgen.decoding.threads import awaited_each
from structgen.errors import OptionError, StructgenError
from structgen.guards.folding import begun_character
from structgen.tools import ToolCall
from structgen.waiting import waiting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from structgen.calling.request import TurnOptions
    from structgen.streams import AnyModel


class TurnWatch:
    """Turns the thinking and the text of a turn into events, and remembers which events have been given.

    Attributes:
        read: the number of the turn's tokens whose whole text has been read.
    """

    def __init__(self, asked: TurnRequest) -> None:
        self._asked, thinking = asked, asked.session.thinking
        self._thoughts = None if thinking is None else RowEvents(thinking, str, is_json=False, row=asked.row)
        self._text, self.read = b"", 0
        self._turn = None if asked.format is None else asked.session.turn(0).turn

    def events(self, session: Session) -> tuple[list[TurnEvent], bool]:
        """Returns the events since the last call, and whether text was rolled back: then they begin the turn again.

        Raises:
            CallSyntaxError: the text is over, a call is not complete, and no limit has cut it off.
        """
        unsettled = 0 if session.done else session.unsettled()  # which may end the row: the time may be over
        pieces = [] if self._thoughts is None else self._thoughts.events()
        thoughts = [ThoughtPiece(piece.text) for piece in pieces if piece.text]
        if session.error is not None or not session.has_begun:
            return [*thoughts], False
        events, back = (self._of_text if self._turn is None else self._of_turn)(session, unsettled)
        return [*thoughts, *events], back

    def _of_turn(self, session: Session, unsettled: int) -> tuple[list[TurnEvent], bool]:
        """Returns the events of a turn that may have calls. `unsettled`: bytes that may be rolled back."""
        tokens, before = session.tokens, self._turn
        count = len(tokens)
        while unsettled > 0 and count:
            count -= 1
            unsettled -= len(self._asked.request.model.vocabulary.token(tokens[count]))
        if session.done:
            turn, rest = session.whole_turn(tokens, cut=session.finish == "cut"), b""
        else:
            turn, error, rest, _ = session.turn(count)
            if error is not None:
                raise error
        assert before is not None
        events = turn.changes(before)
        if events is None and before.changes(turn) is not None:
            return [], False  # the same text may come again
        self._turn, self.read = turn, self.read if rest else count
        return turn.events() if events is None else events, events is None

    def _of_text(self, session: Session, unsettled: int) -> tuple[list[TurnEvent], bool]:
        """Returns the events of a text without calls, as `_of_turn`."""
        text = session.said
        held = 0 if session.done else max(begun_character(text), unsettled)
        text = text[: len(text) - held]
        back = not text.startswith(self._text)
        if back and self._text.startswith(text):
            return [], False
        new = text[0 if back else len(self._text) :].decode("utf-8", errors="replace")
        self._text, self.read = text, self.read if held else len(session.tokens)
        return [TextPiece(new)] if new else [], back


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One piece of a turn, from `stream_call`.

    Attributes:
        text: the new piece of the answer's text.
        index: the number of the call in the turn, from 0; None for text.
        name: the name of the tool, in the first event of a call.
        arguments: the new piece of the call's arguments, as JSON text.
        call: the validated call, in the last event of a call. A call that a limit has cut off has none: it is the last
            one of `reply.calls`, and is marked there.
        restart: the decoder went back: drop all earlier events of the turn, they come again.
        reply: the `Reply` of `call(..., details=True)`, in the last event of the turn.
        row: the number of the conversation in a list; 0 for a single one.
        thinking: the new piece of what the model thinks before its turn.
    """

    text: str = ""
    index: int | None = None
    name: str | None = None
    arguments: str = ""
    call: ToolCall[Any] | None = None
    restart: bool = False
    reply: Reply[Any] | None = None
    row: int = 0
    thinking: str = ""


def stream_call(
    model: AnyModel,
    messages: Messages | list[str] | Sequence[Sequence[Message]],
    tools: Sequence[Any] = (),
    *,
    choice: Any = "auto",
    schema: Any = None,
    **options: Unpack[TurnOptions],
) -> Iterator[CallEvent]:
    """Streams what `call` returns: a tool's name first, then pieces of its arguments, then the validated call.

        for event in stream_call(model, "The weather in Paris?", [get_weather]):
            if event.call:
                print(event.call.invoke())

    Args:
        model, messages, tools, choice, schema, options: as for `call`. Of a list of conversations, the events
            of all of them come as they happen.

    Warns:
        BudgetWarning: limits cut values short; with the last event.

    Returns:
        An iterator of `CallEvent`s. Stop whenever you like: no token is chosen ahead.

    Raises:
        RequestError: at once. A search of beams has no text before its end: it is refused, too.
        RunError: by the iterator, for a single conversation. For a list, the `reply` of its last event has the error.
    """
    asked = _request(model, messages, tools, choice, schema, options)
    return warning(streamed(asked), asked.request, _generation)


astream_call = awaited_each(stream_call)
"""`stream_call` for `async for`: each step runs in a thread, the event loop continues meanwhile.

    async for event in astream_call(model, "The weather in Paris?", [get_weather]):
        if event.call:
            print(await event.call.ainvoke())

Arguments, events and errors are those of `stream_call`.
"""


def _request(
    model: Any, messages: Any, tools: Any, choice: Any, schema: Any, options: Mapping[str, Any]
) -> CallRequest:
    """Returns the request of a stream."""
    asked = prepared(model, messages, tools, choice=choice, schema=schema, options=options)
    if asked.request.beams is not None:
        raise OptionError("beams= in a stream of calls: a search has no calls before its end; use `call`")
    in_one_run(asked.request)
    return asked


def streamed(asked: CallRequest) -> Generator[CallEvent]:
    watches = [_Watch(turn) for turn in asked.turns]
    with asked.request.submit(record=True) as ticket:
        for row, over in ticket.progress():
            yield from watches[row].events()
            if over:
                last = watches[row].last(asked.request.result(row, ticket))
                if last.error is not None and not asked.many:
                    raise last.error
                yield CallEvent(reply=last, row=row)


def turn_events(
    model: Any, messages: Any, tools: Any, *, choice: Any, schema: Any, pieces: bool, **options: Any
) -> Generator[CallEvent]:
    """Runs one conversation's turn, and yields what the model writes and its reply; without `pieces` the reply alone.

    What a search of beams or an endpoint writes comes whole.

    Raises:
        StructgenError: the turn failed.
    """
    asked = any_request(model, messages, tools, choice=choice, schema=schema, options=options)
    if pieces and isinstance(asked, CallRequest) and asked.request.beams is None:
        in_one_run(asked.request)
        yield from streamed(asked)
        return
    with waiting("generating"):
        last: Reply[Any] = values(asked, replies(asked, record=True), details=True)
    if pieces and last.generation.thinking:
        yield CallEvent(thinking=last.generation.thinking)
    if pieces and last.text:
        yield CallEvent(last.text)
    yield CallEvent(reply=last)


def _generation(event: CallEvent) -> Generation[Any] | None:
    """Returns the result of a turn whose last event this is."""
    return None if event.reply is None else event.reply.generation


class _Watch:
    """Turns the tokens of one row into events, and remembers which events have been given."""

    def __init__(self, asked: TurnRequest) -> None:
        self._asked, self._watch = asked, TurnWatch(asked)
        self._error: StructgenError | None = None
        self._calls: list[ToolCall[Any]] = []

    def events(self) -> Iterator[CallEvent]:
        """Yields what is new since the last time. After an error nothing is new."""
        if self._error is not None:
            return
        try:
            events, back = self._watch.events(self._asked.session)
            if back:
                self._calls.clear()
                yield CallEvent(restart=True, row=self._asked.row)
            yield from map(self._told, events)
        except StructgenError as error:
            self._error = error

    def last(self, generation: Generation[Any]) -> Reply[Any]:
        """Returns the reply at the end of the turn; its calls are those of the events."""
        last = reply(self._asked, generation, self._calls)
        return last if self._error is None else replace(last, error=self._error, calls=[], answer=None)

    def _told(self, event: TurnEvent) -> CallEvent:
        row = self._asked.row
        if isinstance(event, ThoughtPiece):
            return CallEvent(thinking=event.text, row=row)
        if isinstance(event, TextPiece):
            return CallEvent(event.text, row=row)
        if isinstance(event, CallBegun):
            return CallEvent(index=event.index, name=event.name, row=row)
        if isinstance(event, ArgumentsPiece):
            return CallEvent(index=event.index, arguments=event.text, row=row)
        call = self._asked.called(event)
        self._calls.append(call)
        return CallEvent(index=event.index, call=call, row=row)
