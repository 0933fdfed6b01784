"""JSON text as it comes: which values are complete, and where in the text each of them stands."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_BETWEEN, _DIGITS = rb"[ \n\t\r:,]*", rb"(-?[0-9][-+.0-9eE]*)"
_STRING, _WORD = rb'("[^"\\]*(?:\\.[^"\\]*)*")', rb"(true|false|null)"
TOKEN = re.compile(
    _BETWEEN + rb"(?:" + _STRING + rb"|([\[{])|([\]}])|" + _WORD + rb"|" + _DIGITS + rb"(?=[^-+.0-9eE]))", re.DOTALL
)
"""The next token of a JSON text that is over, with what stands before it. Groups: a string, an opening bracket, a
closing one, a word, a number (which another byte has ended)."""
_NUMBER = re.compile(_BETWEEN + rb"(-?(?:[0-9][-+.0-9eE]*)?)\Z")
BLANK = re.compile(_BETWEEN)


class Span(NamedTuple):
    """A value that is complete."""

    pointer: str  # JSON pointer of the value; "" is the whole text
    path: tuple[str | int, ...]  # its names and indexes
    start: int  # its first byte
    end: int  # the byte behind it
    around: int  # the first byte of the container that it is in; its own where it is in none


class PointerReader:
    """Reads a JSON text piece by piece. Readers of the same text are equal.

    Attributes:
        scalars: how many values are complete that are no containers.
    """

    def __init__(self) -> None:
        self.scalars = 0
        self._text, self._length = bytearray(), 0  # forks share the text: of its bytes, so many were read
        self._at = 0
        self._open: list[tuple[bool, int]] = []  # is it an object, and where does it start
        self._path: list[str | int | None] = []  # of each open container, the name or index of what comes next

    def feed(self, more: bytes) -> list[Span]:
        """The values that are complete with these bytes, inner ones first. A number is complete when another byte
        has ended it."""
        if len(self._text) > self._length:  # a fork has read more
            self._text = self._text[: self._length]
        self._text += more
        self._length += len(more)
        spans = []
        while token := TOKEN.match(self._text, self._at, self._length):
            self._at = token.end()
            kind = token.lastindex or 0
            start = token.start(kind)
            if kind == 1 and self._open and self._open[-1][0] and self._path[-1] is None:
                self._path[-1] = json.loads(token[1])
            elif kind == 2:
                self._open.append((token[2] == b"{", start))
                self._path.append(None if token[2] == b"{" else 0)
            elif kind == 3:
                _, start = self._open.pop()
                self._path.pop()
                spans.append(self._complete(start, self._at))
            else:
                self.scalars += 1
                spans.append(self._complete(start, self._at))
        return spans

    def fork(self) -> PointerReader:
        """Another text that begins like this one."""
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
        """All that was read."""
        return bytes(self._text[: self._length])

    def finish(self) -> list[Span]:
        """The number that is complete only because the text is over, if there is one."""
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
    def settled(self) -> bytes:
        """The text without an unfinished number at its end, whose value may still change."""
        number = _NUMBER.match(self._text, self._at, self._length)
        return bytes(self._text[: self._length if number is None else number.start(1)])

    @property
    def begun(self) -> bytes:
        """The end of the text that is not complete: the beginning of a string, a number or a word."""
        return bytes(self._text[self._at : self._length])

    @property
    def pending(self) -> tuple[str | int, ...] | None:
        """The path of the value that comes next or has begun; None in front of a member's name."""
        path = tuple(part for part in self._path if part is not None)
        return path if len(path) == len(self._path) else None

    @property
    def pointer(self) -> str:
        """JSON pointer of the value that is being written; of its container between two of them."""
        return pointer_of(self.path)

    @property
    def path(self) -> tuple[str | int, ...]:
        """The names and indexes of `pointer`."""
        path = list(self._path)
        if path and not BLANK.sub(b"", self.begun) and not isinstance(path[-1], str):
            path.pop()
        return tuple(part for part in path if part is not None)

    def _complete(self, start: int, end: int) -> Span:
        path = tuple(part for part in self._path if part is not None)
        if self._open:
            last = self._path[-1]
            self._path[-1] = None if self._open[-1][0] else (last + 1 if isinstance(last, int) else 0)
        around = self._open[-1][1] if self._open else start
        return Span(pointer_of(path), path, start, end, around)


def pointer_at(text: bytes) -> str:
    """JSON pointer of the value that is being written where a JSON text stops."""
    reader = PointerReader()
    reader.feed(text)
    return reader.pointer


def pointer_of(path: tuple[str | int, ...]) -> str:
    """The JSON pointer (RFC 6901) of names and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
