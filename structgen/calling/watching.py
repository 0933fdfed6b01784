"""Reads a turn while it is generated, and gives what each step added as events of the model's call format."""

from __future__ import annotations

from dataclasses import dataclass

from structgen.calling.request import TurnRequest
from structgen.chat.parser import TextPiece, TurnEvent
from structgen.decoding.session import Session
from structgen.decoding.stream import RowEvents
from structgen.guards.folding import begun_character


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what the model thinks before it answers."""

    text: str


class TurnWatch:
    """Turns the thinking and the text of a turn into events, and remembers which events have been given."""

    def __init__(self, asked: TurnRequest) -> None:
        self._asked, thinking = asked, asked.session.thinking
        self._thoughts = None if thinking is None else RowEvents(thinking, str, is_json=False, row=asked.row)
        self._begin()

    def _begin(self) -> None:
        self._parser, self._read = self._asked.parser(), b""

    def events(self, session: Session) -> tuple[list[TurnEvent | Thought], bool]:
        """Returns the events since the last call, and whether text was taken back: then they begin the turn again.

        Raises:
            CallSyntaxError: the text is over, and a call is not complete.
        """
        pieces = [] if self._thoughts is None else self._thoughts.events()
        thoughts = [Thought(piece.text) for piece in pieces if piece.text]
        if session.error is not None or (session.before is not None and not session.before.done):
            return [*thoughts], False
        events, back = self._written(session)
        if session.done and self._parser is not None:
            events += self._parser.finish()
        return [*thoughts, *events], back

    def _written(self, session: Session) -> tuple[list[TurnEvent], bool]:
        """Returns the events of the text, as `events` does."""
        text = session.said if self._parser is None else self._asked.written(session.tokens)
        if not session.done:
            text = text[: len(text) - max(begun_character(text), session.unsettled())]
        back = not text.startswith(self._read)
        if back:
            if len(text) < len(self._read) and self._read.startswith(text):
                return [], False  # the same text may come again
            self._begin()
        new = text[len(self._read) :].decode("utf-8", errors="replace")
        self._read = text
        if self._parser is not None:
            return self._parser.feed(new), back
        return [TextPiece(new)] if new else [], back
