"""Reads a JSON text while it is written: which values are complete, and where each is in the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from structgen.json_text.lexer import BETWEEN, LAST_NUMBER, TOKEN

Path = tuple[str | int, ...]
"""The names and indexes that lead to a value."""


class Container(NamedTuple):
    """An open array or object.

    Attributes:
        parent: the container around it.
        key: the name or index of the member that is being read or comes next; None before a name.
        start: the offset of its bracket in the text, for readers that keep it.
    """

    parent: Container | None
    is_object: bool
    key: str | int | None
    start: int = 0

    @staticmethod
    def opened(parent: Container | None, *, is_object: bool, start: int = 0) -> Container:
        """A container before its first member."""
        return Container(parent, is_object, None if is_object else 0, start)

    def next(self) -> Container:
        """The container before the member after the current one."""
        return self._replace(key=self.key + 1 if isinstance(self.key, int) else None)


def chain(container: Container | None) -> list[Container]:
    """A container and those around it, outermost first."""
    found = list[Container]()
    while container is not None:
        found.append(container)
        container = container.parent
    return found[::-1]


def path_of(container: Container | None) -> Path:
    """The path of the value that a container reads or that comes next; before a name, of the container itself."""
    return tuple([each.key for each in chain(container) if each.key is not None])


class Span(NamedTuple):
    """A complete value. Places are counted in bytes of the text."""

    pointer: str  # JSON pointer of the value; "" is the whole text
    path: Path  # the names and indexes of the pointer
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
        self._inner: Container | None = None  # the innermost open container

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
            self._at, kind, inner = token.end(), token.lastindex or 0, self._inner
            start = token.start(kind)
            if kind == 1 and inner is not None and inner.key is None:  # the name of a member
                self._inner = inner._replace(key=json.loads(token[1]))
            elif kind == 2:
                self._inner = Container.opened(inner, is_object=token[2] == b"{", start=start)
            elif kind == 3:
                assert inner is not None
                self._inner = inner.parent
                yield self._complete(inner.start)
            else:
                self.scalars += 1
                yield self._complete(start)

    def fork(self) -> PointerReader:
        """A reader of another text, which begins with the bytes read so far."""
        twin = PointerReader.__new__(PointerReader)
        twin.__dict__.update(self.__dict__)  # in half the time of `copy`
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
        number = LAST_NUMBER.match(self._text, self._at, self._length)
        if number is None or self._inner is not None or not number[1]:
            return []
        self._at = self._length
        self.scalars += 1
        return [self._complete(number.start(1))]

    @property
    def is_inside(self) -> bool:
        """Is a container open?"""
        return self._inner is not None

    @property
    def containers(self) -> list[int]:
        """The first byte of each open container, outermost first."""
        return [each.start for each in chain(self._inner)]

    @property
    def keys(self) -> list[str | int | None]:
        """For each open container, the name or index of the member that is being read or comes next; None before a
        name."""
        return [each.key for each in chain(self._inner)]

    @property
    def settled(self) -> bytes:
        """The text without a number at its end: while digits may follow, the number's value may still change."""
        number = LAST_NUMBER.match(self._text, self._at, self._length)
        return bytes(self._text[: self._length if number is None else number.start(1)])

    @property
    def unfinished(self) -> bytes:
        """The bytes after the last complete token: white space, commas, colons, and the beginning of the next token."""
        return bytes(self._text[self._at : self._length])

    @property
    def pending(self) -> Path | None:
        """The path of the value that is being read or comes next; None while its name is not known."""
        return None if self._inner is not None and self._inner.key is None else path_of(self._inner)

    @property
    def pointer(self) -> str:
        """JSON pointer of the value that is being written; between two values, of the container that holds them."""
        return pointer_of(self.path)

    @property
    def path(self) -> Path:
        """The names and indexes of `pointer`."""
        path = path_of(self._inner)
        between = self._inner is not None and not self._inner.is_object and not BETWEEN.sub(b"", self.unfinished)
        return path[:-1] if between else path

    def _complete(self, start: int) -> Span:
        """The value from `start` to the last token, at the current path. Moves the path to the next member."""
        path, inner = path_of(self._inner), self._inner
        self._inner = inner and inner.next()
        return Span(pointer_of(path), path, start, self._at, inner.start if inner else start)


def pointer_at(text: bytes) -> str:
    """JSON pointer of the value that is being written at the end of an unfinished JSON text."""
    reader = PointerReader()
    reader.feed(text)
    return reader.pointer


def pointer_of(path: Path) -> str:
    """The JSON pointer (RFC 6901) for a path of names and indexes: `("a", 0)` is `/a/0`."""
    return "".join(["/" + escaped(part) for part in path])


def escaped(token: object) -> str:
    """A name or an index as one token of a JSON pointer."""
    return str(token).replace("~", "~0").replace("/", "~1")


def unescaped(token: str) -> str:
    """The name that one token of a JSON pointer stands for."""
    return token.replace("~1", "/").replace("~0", "~")
