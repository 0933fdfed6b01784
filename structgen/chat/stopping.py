"""Where a stop string ends a turn that may also have calls: in its free text, never within a call."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence

from structgen.chat.parser import TextPiece, TurnParser
from structgen.errors import CallSyntaxError
from structgen.vocabulary import Vocabulary


class TextStops:
    """Finds the first stop string in the free text of a turn. Mostly a text continues the one before.

    Args:
        parser: returns a parser that knows the stop strings.
    """

    def __init__(self, parser: Callable[[], TurnParser], vocabulary: Vocabulary) -> None:
        self._new, self._vocabulary = parser, vocabulary
        self._names = {i: name.encode() for name, i in vocabulary.special_names.items()}
        self._begin()

    def _begin(self) -> None:
        self._parser, self._decoder = self._new(), getincrementaldecoder("utf-8")("replace")
        self._tokens, self._text, self._broken = list[int](), "", False

    def __call__(self, tokens: Sequence[int], said: bytes | bytearray) -> tuple[int, str] | None:
        """Returns the byte offset at which the text ends, and the stop string that stands there; None without one.

        Args:
            tokens: of the text.
            said: their bytes, without control tokens.
        """
        if tokens[: len(self._tokens)] != self._tokens or self._parser.stopped is not None:
            self._begin()
        for token in tokens[len(self._tokens) :]:
            self._read(token)
        stop = self._parser.stopped
        if stop is None:
            return None
        offset = said.find((self._text + stop).encode())
        return None if offset < 0 else (offset + len(self._text.encode()), stop)

    def _read(self, token: int) -> None:
        self._tokens.append(token)
        if self._broken or token in self._vocabulary.end_ids:
            return
        written = self._decoder.decode(self._names.get(token) or self._vocabulary.token(token))
        try:
            events = self._parser.feed(written)
        except CallSyntaxError:
            self._broken = True
        else:
            self._text += "".join(event.text for event in events if isinstance(event, TextPiece))
