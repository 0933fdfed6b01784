"""Streams: the pieces of a text as they come, the values that are complete, and the whole value so far."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Generic, Protocol, TypeVar

from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.loop import Decoded
from structgen.decoding.partial import Container, Unfinished, partial_type
from structgen.decoding.request import Request
from structgen.errors import OptionError
from structgen.guards.folding import begun_character
from structgen.json_text.pointers import PointerReader, Span
from structgen.models.prefixes import common
from structgen.waiting import first_waited

T = TypeVar("T")


class OfRow(Protocol):
    """An event of a row, by its index."""

    @property
    def row(self) -> int: ...


E = TypeVar("E", bound=OfRow)


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One piece of a text, from `stream`.

    Attributes:
        text: the new text; it ends after a complete value, or with the last whole character.
        start: the index of its first character in the whole text. Smaller than the length of the text before only
            after the decoder had to go back: what was there is gone.
        path: JSON pointer of the value that this text completes; None if it completes none.
        value: that value, of its type.
        result: in the row's last event, the result of `generate(..., details=True)`.
        row: the index of the prompt in a list; 0 for a single one.
        thinking: this is thinking before the answer; `start` counts only its characters.
    """

    text: str
    start: int
    path: str | None = None
    value: Any = None
    result: Generation[T] | None = None
    row: int = 0
    thinking: bool = False
    _known: tuple[Any, Unfinished] | None = field(default=None, repr=False)

    @property
    def partial(self) -> T | None:
        """The whole value so far: what has appeared in it stays as it is, missing members are unset.

        A string that may be any text grows. Every other value appears when it is complete, and an object of a union
        when only one of its types is left. A model is an instance of its class with the members so far, without
        defaults; dataclasses are dicts until they are complete. None before there is a value, and if the text is no
        JSON.
        """
        if self.result is not None and self.result.error is None:
            return self.result.value
        return None if self._known is None else partial_type(self._known[0]).value(self._known[1])

    def _repr_html_(self) -> str:
        """In a notebook: the value so far, or the new text; of the last event the whole run."""
        if self.result is not None:
            return self.result._repr_html_()
        return f"<pre>{escape(self.text if self._known is None else repr(self.partial))}</pre>"


class RowEvents:
    """The events of one row of a run.

    Args:
        tp: the type of its value; `Any` for parsed JSON.
    """

    def __init__(self, source: Decoded, tp: Any, *, is_json: bool, row: int) -> None:
        self._source, self._is_json, self._row = source, is_json, row
        self._type = tp
        self._shown = b""
        self._characters = 0
        self._free_at = -1  # where the last string began that may be any text
        self._read_anew()

    def events(self) -> Iterator[Event[Any]]:
        """The events since the last call."""
        text = self._sure()
        if not text.startswith(self._shown):
            self._go_back(text)
        offset = len(self._shown)
        for span in self._spans(text[offset:]):
            yield self._event(text[offset : max(offset, span.end)], text[: span.end], span)
            offset = max(offset, span.end)
        if offset < len(text):
            yield self._event(text[offset:], text, None)
        self._shown = text

    def last(self, result: Generation[Any]) -> Event[Any]:
        return Event("", self._characters, result=result, row=self._row)

    def _spans(self, new: bytes) -> Iterator[Span]:
        """The values that new text completes. Each is a member of its container when the next one comes."""
        spans = self._reader.completing(new) if self._is_json else iter(())
        for span in spans:
            self._members.pop(span.start, None)
            self._members.setdefault(span.around, []).append(span)
            yield span
        if self._is_json and self._source.done and self._source.error is None:
            yield from self._reader.finish()

    def _event(self, new: bytes, text: bytes, span: Span | None) -> Event[Any]:
        """One piece of text.

        Args:
            text: up to the end of the piece.
            span: the value that it completes.
        """
        piece, start = new.decode("utf-8", errors="replace"), self._characters
        self._characters += len(piece)
        if not self._is_json:
            return Event(piece, start, row=self._row)
        now = self._unfinished(text, span)
        if span is None:
            return Event(piece, start, row=self._row, _known=(self._type, now))
        value = partial_type(self._type).completed(now, span)
        return Event(piece, start, span.pointer, value, row=self._row, _known=(self._type, now))

    def _unfinished(self, text: bytes, span: Span | None) -> Unfinished:
        """What has been read of a text."""
        containers = []
        for start, key in zip(self._reader.containers, self._reader.keys, strict=True):
            members = self._members.setdefault(start, [])
            containers.append(Container(start, members, len(members), key))
        whole = span if span is not None and not span.path else None
        return Unfinished(text, tuple(containers), whole, b"" if span is not None else self._free_string(text))

    def _free_string(self, text: bytes) -> bytes:
        """The spelling of the unfinished string at the end of a text, if it may be any text; else empty."""
        begun = self._reader.unfinished.lstrip(b" \n\t\r:,")
        if not begun.startswith(b'"') or self._reader.keys[-1:] == [None]:  # or it is a name
            return b""
        start = len(text) - len(begun) + 1
        if self._free_at != start and self._source.is_free(start, len(text)):
            self._free_at = start
        return begun if self._free_at == start else b""

    def _read_anew(self) -> None:
        self._reader = PointerReader()
        self._members = dict[int, list[Span]]()  # the complete members of each open container, by its first byte
        self._free_at = -1

    def _sure(self) -> bytes:
        """The part of the text that more tokens cannot change: whole characters that cannot be rolled back."""
        unsettled = 0 if self._source.done else self._source.unsettled()  # which may end the row: the time may be over
        text = self._source.said
        if self._source.done:
            return text
        return text[: len(text) - max(begun_character(text), unsettled)]

    def _go_back(self, text: bytes) -> None:
        """Forgets the text after the last common character."""
        kept = text[: common(text, self._shown)]
        self._shown = kept[: len(kept) - begun_character(kept)]
        self._characters = len(self._shown.decode("utf-8", errors="replace"))
        self._read_anew()
        for _ in self._spans(self._shown):
            pass


def events(request: Request) -> Generator[Event[Any]]:
    """Runs a request, and gives the events of each step.

    Raises:
        RunError: a single prompt failed. In a list, a failed prompt's error is in the `result` of its last event.
    """
    thoughts = {
        row: RowEvents(session.thinking, str, is_json=False, row=row)
        for row, session in enumerate(request.sessions)
        if session.thinking is not None
    }
    with request.submit(record=True) as ticket:
        watches = [
            RowEvents(each, target.type, is_json=target.is_json, row=row)
            for row, (each, target) in enumerate(zip(ticket.rows, request.targets, strict=True))
        ]
        for row, over in ticket.progress():
            if row in thoughts:
                yield from (replace(event, thinking=True) for event in thoughts[row].events())
            if request.sessions[row].has_begun:
                yield from watches[row].events()
            if over:
                result = request.result(row, ticket)
                if result.error is not None and not request.prompts.many:
                    raise result.error
                yield watches[row].last(result)


def in_one_run(request: Request) -> Request:
    """Returns the request, if it can be run by a stream or a job, which run it once.

    Raises:
        OptionError: exact sampling may need a second run.
    """
    if any(session.sampling.exact == "prefer" for session in request.sessions):
        raise OptionError(
            "Sampling(exact='prefer') may need a second run, and streams and jobs run once: use exact=True"
        )
    return request


def warning(events: Generator[E], request: Request, result: Callable[[E], Generation[Any] | None]) -> Iterator[E]:
    """The events of a stream. Warns with `BudgetWarning` at the caller's line if limits cut values short.

    Args:
        result: of a row, if an event is its last one.
    """
    cuts = Cuts(len(request.sessions), many=request.prompts.many)
    with closing(events):
        for event in first_waited(events, "reading the prompt"):
            if (generation := result(event)) is not None:
                cuts.note(event.row, generation)
            yield event
