"""A row's turn read along: where a stop string ends its free text, and whether its text ends within calls."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence

from structgen.chat.parser import TextPiece, TurnParser
from structgen.errors import CallSyntaxError
from structgen.vocabulary import Vocabulary


class TurnReading:
    """Reads the text of a turn. Mostly a text continues the one before.

    Args:
        parser: returns a parser that knows the stop strings.
        has_text, has_value: may the turn be free text, or a value of a schema?
    """

    def __init__(
        self, parser: Callable[[], TurnParser], vocabulary: Vocabulary, *, has_text: bool, has_value: bool
    ) -> None:
        self._new, self._vocabulary = parser, vocabulary
        self.has_text, self.has_value = has_text, has_value
        self._names = {i: name.encode() for name, i in vocabulary.special_names.items()}
        self._begin()

    def _begin(self) -> None:
        self._parser, self._decoder = self._new(), getincrementaldecoder("utf-8")("replace")
        self._tokens, self._text, self._broken = list[int](), "", False

    def stop(self, tokens: Sequence[int], said: bytes | bytearray) -> tuple[int, str] | None:
        """Returns the byte offset at which the text ends, and the stop string that stands there; None without one.

        A stop string within a call does not count.

        Args:
            tokens: of the text.
            said: their bytes, without control tokens.
        """
        stop = self._read(tokens).stopped
        if stop is None:
            return None
        offset = said.find((self._text + stop).encode())
        return None if offset < 0 else (offset + len(self._text.encode()), stop)

    def is_calling(self, tokens: Sequence[int]) -> bool:
        """Does a text end within calls: behind what begins them, and before what closes them is complete?

        A turn that must call is nothing else.
        """
        return not (self.has_text or self.has_value) or self._read(tokens).is_calling

    def _read(self, tokens: Sequence[int]) -> TurnParser:
        """Returns the parser that has read these tokens."""
        if tokens[: len(self._tokens)] != self._tokens or self._parser.stopped is not None:
            self._begin()
        for token in tokens[len(self._tokens) :]:
            self._tokens.append(token)
            if not self._broken and token not in self._vocabulary.end_ids:
                self._feed(self._decoder.decode(self._names.get(token) or self._vocabulary.token(token)))
        return self._parser

    def _feed(self, written: str) -> None:
        try:
            events = self._parser.feed(written)
        except CallSyntaxError:
            self._broken = True
        else:
            self._text += "".join(event.text for event in events if isinstance(event, TextPiece))
