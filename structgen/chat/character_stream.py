"""The characters of a call as they come, with lookahead, and what any format reads of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from structgen.chat.spellings import Alternatives, Read
from structgen.errors import CallSyntaxError, quoted

Emit = Callable[[str], None]


class CharacterStream:
    """Characters to read, with lookahead: characters that are given back are read again before new ones."""

    def __init__(self) -> None:
        self._again: deque[str] = deque()
        self._over = False

    def take(self) -> Read[str]:
        """Returns the next character; at the end of the text, an empty string each time."""
        if self._again:
            return self._again.popleft()
        char = "" if self._over else (yield)
        self._over = not char
        return char

    def unread(self, text: str) -> None:
        """Gives characters back: the next `take` returns the first of them."""
        self._again.extendleft(reversed(text))

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
