"""The turn of a row, read once, token by token: for stop strings, limits, the judge of calls, streams and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from structgen.chat.judging import UNJUDGED, CallJudge, Judged
from structgen.chat.parser import ReadTurn, TextPiece, TurnReader
from structgen.errors import CallSyntaxError
from structgen.guards.folding import begun_character
from structgen.vocabulary import Vocabulary, spelled


class RowTurn(NamedTuple):
    """What was read of a row's text. It is a value: to go back is to keep an earlier one.

    Attributes:
        turn: what was read, up to where the text is no turn.
        error: why the text is no turn; None while it is one.
        rest: the bytes of a character that is not complete.
        judged: what is known of the arguments of its calls.
    """

    turn: ReadTurn
    error: CallSyntaxError | None = None
    rest: bytes = b""
    judged: Judged = UNJUDGED

    @property
    def is_calling(self) -> bool:
        """Does the text end within calls: after what begins them, and before what closes them is complete?"""
        return self.error is None and self.turn.is_calling

    def stop(self, said: bytes | bytearray) -> tuple[int, str] | None:
        """Returns the byte offset at which the text ends, and the stop string that is there; None without one.

        A stop string within a call does not count.

        Args:
            said: the bytes of the text, without control tokens.
        """
        if self.turn.stopped is None:
            return None
        offset = said.find(self.turn.stopped.encode(), len(self.turn.said(TextPiece).encode()))
        return None if offset < 0 else (offset, self.turn.stopped)


class TurnReading:
    """Reads the text of a turn; a `TokenReader`.

    Args:
        reader: of the turn; it knows the stop strings.
        judge: judges the arguments of calls; None if nothing is to be judged.
        has_text, has_value: may the turn be free text, or a value of a schema?
    """

    def __init__(
        self,
        reader: TurnReader,
        vocabulary: Vocabulary,
        *,
        has_text: bool,
        has_value: bool,
        judge: CallJudge | None = None,
    ) -> None:
        self._reader, self._vocabulary, self.judge = reader, vocabulary, judge
        self.has_text, self.has_value = has_text, has_value
        self._names = {i: name.encode() for name, i in vocabulary.special_names.items()}

    @property
    def only_calls(self) -> bool:
        """Must the turn call? Then it is nothing else."""
        return not (self.has_text or self.has_value)

    def start(self, prompt: Sequence[int]) -> RowTurn:
        """Returns the empty text."""
        return RowTurn(self._reader.start)

    def feed(self, state: RowTurn, token: int, piece: bytes) -> RowTurn:
        """Returns the text after a token."""
        if state.error is not None or token in self._vocabulary.end_ids:
            return state
        after = self._after(state, self._names.get(token) or piece)
        if self.judge is None or after.error is not None:
            return after
        return after._replace(judged=self.judge.after(state.judged, after.turn.changes(state.turn) or (), piece))

    def read(self, state: RowTurn, tokens: Sequence[int]) -> RowTurn:
        """Returns the text after several tokens, in which nothing is judged."""
        written = spelled(self._vocabulary, tokens, self._vocabulary.end_ids)
        return state if state.error is not None else self._after(state, written)

    def _after(self, state: RowTurn, more: bytes) -> RowTurn:
        written = state.rest + more
        whole = len(written) - begun_character(written)
        try:
            turn = self._reader.feed(state.turn, written[:whole].decode("utf-8", errors="replace"))
        except CallSyntaxError as error:
            return RowTurn(state.turn, error)
        return RowTurn(turn, None, written[whole:], state.judged)

    def whole(self, state: RowTurn, *, cut: bool) -> ReadTurn:
        """Returns the turn of a text that has ended. `cut`: as of `TurnReader.finish`.

        Raises:
            CallSyntaxError: it is no turn.
        """
        turn, error, rest, _ = state
        if error is None and rest:
            turn = self._reader.feed(turn, rest.decode("utf-8", errors="replace"))
        if error is not None:
            raise error
        return self._reader.finish(turn, cut=cut)
