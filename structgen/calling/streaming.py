"""A turn as it comes: text, the name of a tool, pieces of its arguments, the validated call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from structgen.calling.messages import Message
from structgen.calling.request import Parallel, TurnRequest, prepared
from structgen.calling.turns import Reply, reply
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, TurnEvent
from structgen.decoding.request import raise_first_error
from structgen.guards.folding import begun_character
from structgen.models.evaluation_mode import evaluating
from structgen.tools import ToolCall


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One piece of a turn, from `stream_call`.

    Attributes:
        text: what is new of the answer's text.
        index: which call of the turn this is about, from 0; None for text.
        name: of the tool, with the first event of a call.
        arguments: what is new of the call's arguments, as JSON.
        call: the validated call, with its last event.
        restart: the decoder had to go back: forget all that was told of the turn; it is told again.
        reply: with the last event, what `call(..., details=True)` gives.
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
    """The same as `call`, told while it happens: a tool's name first, then its arguments, then the call.

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
    watch = _Watch(asked)
    with evaluating(request.model.module), closing(request.batch(record=True)) as batch:
        more = True
        while more:
            more = batch.step()
            if session.before is not None and not session.before.done:
                continue
            yield from watch.events(session.tokens, 0 if session.done else session.unsettled(), done=session.done)
        generation = request.result(0, batch)
    raise_first_error([generation])
    yield from watch.finish()
    yield CallEvent(reply=reply(asked, generation))


class _Watch:
    """What has been told of a turn.

    Args:
        asked: the turn.
    """

    def __init__(self, asked: TurnRequest) -> None:
        self._asked = asked
        self._begin()

    def _begin(self) -> None:
        self._parser, self._read = self._asked.parser(), b""

    def events(self, tokens: Sequence[int], unsettled: int, *, done: bool) -> Iterator[CallEvent]:
        """What these tokens tell that was not told before.

        Args:
            tokens: all of the turn.
            unsettled: bytes at their end that may be taken back.
            done: no more will come.
        """
        text = self._asked.written(tokens)
        if not done:
            text = text[: len(text) - max(begun_character(text), unsettled)]
        if not text.startswith(self._read):
            if len(text) < len(self._read) and self._read.startswith(text):
                return
            self._begin()
            yield CallEvent(restart=True)
        new = text[len(self._read) :].decode("utf-8", errors="replace")
        self._read = text
        yield from self._events([TextPiece(new)] if self._parser is None else self._parser.feed(new))

    def finish(self) -> Iterator[CallEvent]:
        """What the end of the text tells."""
        yield from self._events([] if self._parser is None else self._parser.finish())

    def _events(self, events: Sequence[TurnEvent]) -> Iterator[CallEvent]:
        for event in events:
            if isinstance(event, TextPiece):
                if event.text:
                    yield CallEvent(event.text)
            elif isinstance(event, CallBegun):
                yield CallEvent(index=event.index, name=event.name)
            elif isinstance(event, ArgumentsPiece):
                yield CallEvent(index=event.index, arguments=event.text)
            else:
                yield CallEvent(index=event.index, call=self._call(event))

    def _call(self, event: CallEnded) -> ToolCall[Any]:
        return self._asked.tools[event.name].called(event.arguments, event.id or None)
