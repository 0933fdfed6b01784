"""Streams a turn: text, the name of a tool, pieces of its arguments, the validated call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from structgen.calling.messages import Message
from structgen.calling.request import Parallel, TurnRequest, prepared
from structgen.calling.turns import Reply, reply
from structgen.calling.watching import TurnWatch
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, TurnEvent
from structgen.decoding.request import raise_first_error
from structgen.models.evaluation_mode import evaluating
from structgen.tools import ToolCall


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One piece of a turn, from `stream_call`.

    Attributes:
        text: the new piece of the answer's text.
        index: the number of the call in the turn, from 0; None for text.
        name: the name of the tool, in the first event of a call.
        arguments: the new piece of the call's arguments, as JSON text.
        call: the validated call, in the last event of a call.
        restart: the decoder went back: drop all earlier events of the turn, they come again.
        reply: the `Reply` of `call(..., details=True)`, in the last event of the turn.
    """

    text: str = ""
    index: int | None = None
    name: str | None = None
    arguments: str = ""
    call: ToolCall[Any] | None = None
    restart: bool = False
    reply: Reply[Any] | None = None


def stream_call(
    model: Any,
    messages: str | Sequence[Message],
    tools: Sequence[Any] = (),
    *,
    choice: Any = "auto",
    parallel: Parallel = False,
    schema: Any = None,
    template_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[CallEvent]:
    """Streams what `call` returns: a tool's name first, then pieces of its arguments, then the validated call.

        for event in stream_call(model, "The weather in Paris?", [get_weather]):
            if event.call:
                print(event.call.invoke())

    Args:
        model, messages, tools, choice, parallel, schema, template_options, options: as for `call`.

    Returns:
        An iterator of `CallEvent`s. Stop whenever you like: no token is chosen ahead.

    Raises:
        RequestError: at once. RunError: by the iterator.
    """
    asked = prepared(
        model, messages, tools, choice=choice, parallel=parallel, schema=schema, template_options=template_options,
        options=options,
    )  # fmt: skip
    return _streamed(asked)


def _streamed(asked: TurnRequest) -> Iterator[CallEvent]:
    request, session = asked.request, asked.request.sessions[0]
    watch = TurnWatch(asked)
    with evaluating(request.model.module), closing(request.batch(record=True)) as batch:
        more = True
        while more:
            more = batch.step()
            if session.before is not None and not session.before.done:
                continue
            events, back = watch.events(session)
            if back:
                yield CallEvent(restart=True)
            yield from _call_events(asked, events)
        generation = request.result(0, batch)
    raise_first_error([generation])
    yield from _call_events(asked, watch.finish())
    yield CallEvent(reply=reply(asked, generation))


def _call_events(asked: TurnRequest, events: Sequence[TurnEvent]) -> Iterator[CallEvent]:
    for event in events:
        if isinstance(event, TextPiece):
            yield CallEvent(event.text)
        elif isinstance(event, CallBegun):
            yield CallEvent(index=event.index, name=event.name)
        elif isinstance(event, ArgumentsPiece):
            yield CallEvent(index=event.index, arguments=event.text)
        else:
            yield CallEvent(index=event.index, call=_call(asked, event))


def _call(asked: TurnRequest, event: CallEnded) -> ToolCall[Any]:
    return asked.tools[event.name].called(event.arguments, event.id or None)
