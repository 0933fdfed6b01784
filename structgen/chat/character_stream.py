"""The characters of a call as they come, with lookahead, and what any format reads of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from structgen.chat.spellings import Alternatives, Read
from structgen.errors import CallSyntaxError, quoted

Emit = Callable[[str], None]


class CharacterStream:
    """Characters to read, with lookahead: characters that are given back are read again before new ones.

    Attributes:
        is_over: has the end of the text been read?
    """

    def __init__(self) -> None:
        self._again: deque[str] = deque()
        self._kept: list[str] | None = None
        self.is_over = False

    def take(self) -> Read[str]:
        """Returns the next character; at the end of the text, an empty string each time."""
        if self._again:
            char = self._again.popleft()
        else:
            char = "" if self.is_over else (yield)
            self.is_over = not char
        if self._kept is not None and char:
            self._kept.append(char)
        return char

    def unread(self, text: str) -> None:
        """Gives characters back: the next `take` returns the first of them."""
        self._again.extendleft(reversed(text))
        if self._kept:
            del self._kept[len(self._kept) - len(text) :]

    def keep(self) -> None:
        """Remembers from now on what is taken."""
        self._kept = []

    def go_back(self) -> None:
        """Gives back what was taken since `keep`."""
        kept, self._kept = self._kept or [], None
        self.unread("".join(kept))

    def forget(self) -> None:
        """Remembers no more."""
        self._kept = None

    def peek(self) -> Read[str]:
        """Returns the next character, and leaves it to be read."""
        char = yield from self.take()
        self.unread(char)
        return char

    def word(self, letters: re.Pattern[str]) -> Read[str]:
        """Reads and returns characters that match `letters`, up to the first one that does not."""
        word = ""
        while True:
            char = yield from self.take()
            if not letters.match(char):
                self.unread(char)
                return word
            word += char


def longest_of(stream: CharacterStream, texts: Sequence[str]) -> Read[str]:
    """Reads and returns the longest of these texts that comes next; an empty string if none of them does."""
    read, known = "", ""
    while any(text.startswith(read) and text != read for text in texts):
        char = yield from stream.take()
        if not char:
            break
        read += char
        known = read if read in texts else known
    stream.unread(read[len(known) :])
    return known


def expect(stream: CharacterStream, alternatives: Alternatives, what: str) -> Read[int]:
    """Reads one of the alternatives, and returns its place.

    Raises:
        CallSyntaxError: none of them comes.
    """
    place, _ = yield from alternatives.read(stream)
    if place < 0:
        found = yield from stream.peek()
        raise CallSyntaxError(f"expected {what} in a call, found {quoted(found)}")
    return place


def json_text(stream: CharacterStream, emit: Emit) -> Read[None]:
    """Reads and emits an array, an object or a string in JSON."""
    depth, quoted_, escaped = 0, False, False
    while True:
        char = yield from stream.take()
        if not char:
            raise CallSyntaxError("the text ends within the JSON of a call")
        if quoted_:
            quoted_ = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted_ = True
        else:
            depth += (char in "[{") - (char in "]}")
        if depth == 0 and not quoted_ and char.isspace():
            continue
        if depth == 0 and not quoted_ and char not in ']}"':
            raise CallSyntaxError(f"expected the JSON of a call, found {quoted(char)}")
        emit(char)
        if depth == 0 and not quoted_:
            return
