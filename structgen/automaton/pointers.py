"""Reads a JSON text while it is written: which values are complete, and where each stands in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_BETWEEN, _DIGITS = rb"[ \n\t\r:,]*", rb"(-?[0-9][-+.0-9eE]*)"
_STRING, _WORD = rb'("[^"\\]*(?:\\.[^"\\]*)*")', rb"(true|false|null)"
TOKEN = re.compile(
    _BETWEEN + rb"(?:" + _STRING + rb"|([\[{])|([\]}])|" + _WORD + rb"|" + _DIGITS + rb"(?=[^-+.0-9eE]))", re.DOTALL
)
"""The next complete token of a JSON text, after the white space, commas and colons in front of it.

Groups: 1 a string, 2 an opening bracket, 3 a closing bracket, 4 a word, 5 a number. A number is complete only if
another byte follows: after `12`, more digits could come."""
_NUMBER = re.compile(_BETWEEN + rb"(-?(?:[0-9][-+.0-9eE]*)?)\Z")
"""A number that nothing follows, as group 1; the group is empty where the text ends between two tokens."""
BLANK = re.compile(_BETWEEN)
"""White space, commas and colons."""


class Span(NamedTuple):
    """A complete value. Places are counted in bytes of the text."""

    pointer: str  # JSON pointer of the value; "" is the whole text
    path: tuple[str | int, ...]  # the names and indexes of the pointer
    start: int  # the first byte of the value
    end: int  # the byte after the value
    around: int  # the first byte of the container that holds the value; `start` if there is none


class PointerReader:
    """Reads a JSON text piece by piece. Readers of the same text are equal.

    Attributes:
        scalars: the number of complete strings, numbers and words, without the names of members.
    """

    def __init__(self) -> None:
        self.scalars = 0
        # Forks share the bytearray: this reader has read its first `_length` bytes, a fork may have added more.
        self._text, self._length = bytearray(), 0
        self._at = 0  # the end of the last complete token
        self._open: list[tuple[bool, int]] = []  # the open containers, outermost first: is it an object, its first byte
        # For each open container, the name or index of the value that is being read or comes next; None before a name.
        self._path: list[str | int | None] = []

    def feed(self, more: bytes) -> list[Span]:
        """Reads more bytes. Returns the values that they complete, inner values first.

        A number is complete only if another byte follows it (see `finish`).
        """
        return list(self.completing(more))

    def completing(self, more: bytes) -> Iterator[Span]:
        """`feed`, value by value: when one comes, `containers` and `keys` are those after it."""
        if len(self._text) > self._length:  # a fork has read more
            self._text = self._text[: self._length]
        self._text += more
        self._length += len(more)
        while token := TOKEN.match(self._text, self._at, self._length):
            self._at = token.end()
            kind = token.lastindex or 0
            start = token.start(kind)
            if kind == 1 and self._open and self._open[-1][0] and self._path[-1] is None:  # the name of a member
                self._path[-1] = json.loads(token[1])
            elif kind == 2:
                self._open.append((token[2] == b"{", start))
                self._path.append(None if token[2] == b"{" else 0)
            elif kind == 3:
                _, start = self._open.pop()
                self._path.pop()
                yield self._complete(start, self._at)
            else:
                self.scalars += 1
                yield self._complete(start, self._at)

    def fork(self) -> PointerReader:
        """A reader of another text, which begins with the bytes read so far."""
        twin = PointerReader.__new__(PointerReader)
        twin.__dict__.update(self.__dict__)  # in half the time of `copy`
        twin._open, twin._path = self._open[:], self._path[:]
        return twin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointerReader) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> bytes:
        """All bytes that were read."""
        return bytes(self._text[: self._length])

    def finish(self) -> list[Span]:
        """Ends the text. Returns the number at its end, which nothing else could complete, if there is one."""
        number = _NUMBER.match(self._text, self._at, self._length)
        if number is None or self._open or not number[1]:
            return []
        self._at = self._length
        self.scalars += 1
        return [self._complete(number.start(1), self._at)]

    @property
    def is_inside(self) -> bool:
        """Is a container open?"""
        return bool(self._open)

    @property
    def containers(self) -> list[int]:
        """The first byte of each open container, outermost first."""
        return [start for _, start in self._open]

    @property
    def keys(self) -> list[str | int | None]:
        """For each open container, the name or index of the member that is being read or comes next; None before a
        name."""
        return self._path[:]

    @property
    def settled(self) -> bytes:
        """The text without a number at its end: while digits may follow, the number's value may still change."""
        number = _NUMBER.match(self._text, self._at, self._length)
        return bytes(self._text[: self._length if number is None else number.start(1)])

    @property
    def begun(self) -> bytes:
        """The bytes after the last complete token: white space, commas, colons, and the beginning of the next token."""
        return bytes(self._text[self._at : self._length])

    @property
    def pending(self) -> tuple[str | int, ...] | None:
        """The path of the value that is being read or comes next; None while its name is not known."""
        path = tuple(part for part in self._path if part is not None)
        return path if len(path) == len(self._path) else None

    @property
    def pointer(self) -> str:
        """JSON pointer of the value that is being written; between two values, of the container that holds them."""
        return pointer_of(self.path)

    @property
    def path(self) -> tuple[str | int, ...]:
        """The names and indexes of `pointer`."""
        path = list(self._path)
        if path and not BLANK.sub(b"", self.begun) and not isinstance(path[-1], str):
            path.pop()
        return tuple(part for part in path if part is not None)

    def _complete(self, start: int, end: int) -> Span:
        """The value at `start..end`, at the current path. Moves the path to the next item, or before the next name."""
        path = tuple(part for part in self._path if part is not None)
        if self._open:
            last = self._path[-1]
            self._path[-1] = None if self._open[-1][0] else (last + 1 if isinstance(last, int) else 0)
        around = self._open[-1][1] if self._open else start
        return Span(pointer_of(path), path, start, end, around)


def pointer_at(text: bytes) -> str:
    """JSON pointer of the value that is being written at the end of an unfinished JSON text."""
    reader = PointerReader()
    reader.feed(text)
    return reader.pointer


def pointer_of(path: tuple[str | int, ...]) -> str:
    """The JSON pointer (RFC 6901) for a path of names and indexes: `("a", 0)` is `/a/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
