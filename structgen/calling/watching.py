"""Reads a turn while it is generated: what each step has added, as events of the model's call format."""

from __future__ import annotations

from structgen.calling.request import TurnRequest
from structgen.chat.parser import TextPiece, TurnEvent
from structgen.decoding.session import Session
from structgen.guards.folding import begun_character


class TurnWatch:
    """Turns the text of a turn into events, and remembers which events have been given."""

    def __init__(self, asked: TurnRequest) -> None:
        self._asked = asked
        self._begin()

    def _begin(self) -> None:
        self._parser, self._read = self._asked.parser(), b""

    def events(self, session: Session) -> tuple[list[TurnEvent], bool]:
        """The events since the last call, and whether the text was taken back: then they begin the turn anew."""
        text = session.said if self._parser is None else self._asked.written(session.tokens)
        if not session.done:
            text = text[: len(text) - max(begun_character(text), session.unsettled())]
        back = not text.startswith(self._read)
        if back:
            if len(text) < len(self._read) and self._read.startswith(text):
                return [], False  # it may come to say the same again
            self._begin()
        new = text[len(self._read) :].decode("utf-8", errors="replace")
        self._read = text
        if self._parser is not None:
            return self._parser.feed(new), back
        return [TextPiece(new)] if new else [], back

    def finish(self) -> list[TurnEvent]:
        """The events at the end of the text.

        Raises:
            CallSyntaxError: a call is not complete.
        """
        return [] if self._parser is None else self._parser.finish()
