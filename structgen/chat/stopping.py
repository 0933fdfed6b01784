"""A row's turn read along: where a stop string ends its free text, and whether its text ends within calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from structgen.chat.parser import ReadTurn, TextPiece, TurnReader
from structgen.errors import CallSyntaxError
from structgen.guards.folding import begun_character
from structgen.vocabulary import Vocabulary


class _Read(NamedTuple):
    """A text that has been read.

    Attributes:
        turn: what was read; None from where it is no turn.
        rest: the bytes of a character that is not complete.
        length: the length in bytes of its free text.
    """

    turn: ReadTurn | None
    rest: bytes = b""
    length: int = 0


class TurnReading:
    """Reads the text of a turn token by token. To go back is to drop what was read last.

    Args:
        reader: of the turn; it knows the stop strings.
        has_text, has_value: may the turn be free text, or a value of a schema?
    """

    def __init__(self, reader: TurnReader, vocabulary: Vocabulary, *, has_text: bool, has_value: bool) -> None:
        self._reader, self._vocabulary = reader, vocabulary
        self.has_text, self.has_value = has_text, has_value
        self._names = {i: name.encode() for name, i in vocabulary.special_names.items()}
        self._tokens, self._states = list[int](), [_Read(reader.start)]

    def stop(self, tokens: Sequence[int], said: bytes | bytearray) -> tuple[int, str] | None:
        """Returns the byte offset at which the text ends, and the stop string that is there; None without one.

        A stop string within a call does not count.

        Args:
            tokens: of the text.
            said: their bytes, without control tokens.
        """
        turn, _, length = self._read(tokens)
        if turn is None or turn.stopped is None:
            return None
        offset = said.find(turn.stopped.encode(), length)
        return None if offset < 0 else (offset, turn.stopped)

    def is_calling(self, tokens: Sequence[int]) -> bool:
        """Does a text end within calls: after what begins them, and before what closes them is complete?

        A turn that must call is nothing else.
        """
        if not (self.has_text or self.has_value):
            return True
        turn = self._read(tokens).turn
        return turn is not None and turn.is_calling

    def has_called(self, tokens: Sequence[int]) -> bool:
        """Has a text a call?"""
        turn = self._read(tokens).turn
        return turn is not None and turn.called > 0

    def _read(self, tokens: Sequence[int]) -> _Read:
        """Returns what is read of these tokens."""
        shared = len(self._tokens)
        if tokens[:shared] != self._tokens:
            pairs = enumerate(zip(self._tokens, tokens, strict=False))
            shared = next((place for place, (one, other) in pairs if one != other), min(shared, len(tokens)))
        del self._tokens[shared:], self._states[shared + 1 :]
        for token in tokens[shared:]:
            self._tokens.append(token)
            self._states.append(self._after(self._states[-1], token))
        return self._states[-1]

    def _after(self, before: _Read, token: int) -> _Read:
        turn, rest, length = before
        if turn is None or token in self._vocabulary.end_ids:
            return before
        written = rest + (self._names.get(token) or self._vocabulary.token(token))
        whole = len(written) - begun_character(written)
        try:
            turn, events = self._reader.feed(turn, written[:whole].decode("utf-8", errors="replace"))
        except CallSyntaxError:
            return _Read(None)
        length += sum(len(event.text.encode()) for event in events if isinstance(event, TextPiece))
        return _Read(turn, written[whole:], length)
