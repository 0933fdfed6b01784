"""What has been read of a JSON text, for checks: open containers with their members, and the unfinished token.

A `JsonReading` is a value: `feed` gives a new one and leaves the old one as it was. So matchers keep readings to roll
back to, and forks share them. Finished members are in logs that grow in place; each reading knows how many of a log's
members are its own, and a log is copied where two readings go different ways. A reading that is made only to ask a
question (`keep=False`) does not change the logs.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator
from threading import Lock
from typing import Any, NamedTuple

from structgen.json_text.finished_items import Earlier
from structgen.json_text.lexer import BETWEEN, TOKEN, WORDS, canonical, number_value, spelled

_lock = Lock()


class _Log:
    """The members of one container in the order in which they came. In an array, names are None.

    Args:
        base: the log that holds the first `start` members.
    """

    __slots__ = ("_base", "_earlier", "_indexed", "_names", "_places", "_sorted", "_start", "_values")

    def __init__(self, base: _Log | None = None, start: int = 0) -> None:
        self._base, self._start = base, start
        self._names: list[str | None] = []
        self._values: list[Any] = []
        self._places: dict[Hashable, int] = {}
        self._indexed = 0
        self._sorted: list[tuple[bytes, int]] = []
        self._earlier: Earlier | None = None

    def grown(self, count: int, name: str | None, value: Any, *, keep: bool) -> _Log:
        """A log with this member after the first `count`. It is this log if it has no further members and `keep` is
        set."""
        with _lock:
            log = _Log(self, count)
            if keep:
                log = self if count == self._start + len(self._values) else self._copied(count)
            log._names[len(log._values) :] = [name]  # an exception may have left a name without its value
            log._values.append(value)
        return log

    def _copied(self, count: int) -> _Log:
        log = _Log()
        log._names, log._values = self.names(count), self.values(count)
        if self._base is None:
            log._indexed = min(self._indexed, count)
            log._places = {key: place for key, place in self._places.items() if place < count}
        return log

    def names(self, count: int) -> list[str | None]:
        """The names of the first `count` members."""
        before = [] if self._base is None else self._base.names(min(count, self._start))
        return before + self._names[: max(0, count - self._start)]

    def values(self, count: int) -> list[Any]:
        """The values of the first `count` members."""
        before = [] if self._base is None else self._base.values(min(count, self._start))
        return before + self._values[: max(0, count - self._start)]

    def value(self, place: int) -> Any:
        """The value of one member."""
        if self._base is not None and place < self._start:
            return self._base.value(place)
        return self._values[place - self._start]

    def place(self, key: Hashable) -> int:
        """The index at which a name or a canonical item came first; an index after all members if it did not come."""
        if self._base is not None and (place := self._base.place(key)) < self._start:
            return place
        with _lock:
            for i in range(self._indexed, len(self._values)):
                name = self._names[i]
                self._places.setdefault(canonical(self._values[i]) if name is None else name, self._start + i)
            self._indexed = len(self._values)
        return self._places.get(key, self._start + len(self._values))

    def beginning(self, begun: bytes, count: int) -> list[bytes]:
        """The spellings of the first `count` names that begin with `begun`."""
        spellings = [] if self._base is None else self._base.beginning(begun, min(count, self._start))
        with _lock:  # another text may add names meanwhile
            for place in range(len(self._sorted), len(self._values)):
                insort(self._sorted, (spelled(self._names[place] or ""), place))
            own, i = count - self._start, bisect_left(self._sorted, (begun,))
            while i < len(self._sorted) and self._sorted[i][0].startswith(begun):
                if self._sorted[i][1] < own:
                    spellings.append(self._sorted[i][0])
                i += 1
        return spellings

    def earlier(self) -> Earlier:
        """The items, indexed by their holes (see `finished_items`)."""
        with _lock:
            if self._earlier is None:
                self._earlier = Earlier()
            count = self._start + len(self._values)
            if self._earlier.count < count:
                for value in self.values(count)[self._earlier.count :]:
                    self._earlier.add(value)
        return self._earlier


class Seen(Collection[Hashable]):
    """The first members of a log: names, or items in canonical form."""

    def __init__(self, log: _Log, count: int) -> None:
        self._log, self._count = log, count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: object) -> bool:
        return self._count > 0 and self._log.place(key) < self._count

    def __iter__(self) -> Iterator[Hashable]:
        for name, value in zip(self._log.names(self._count), self._log.values(self._count), strict=True):
            yield canonical(value) if name is None else name


class Open(NamedTuple):
    """An open container, or the text itself: its first `size` members are finished.

    Attributes:
        is_object: is it an object?
        name: the name of the member whose value is being read; None before it is known.
    """

    is_object: bool
    parent: Open | None
    log: _Log
    size: int
    name: str | None

    def put(self, value: Any, *, keep: bool) -> Open:
        """The container with one more member."""
        log = self.log.grown(self.size, self.name, value, keep=keep)
        return Open(self.is_object, self.parent, log, self.size + 1, None)

    @property
    def values(self) -> list[Any]:
        """The finished values."""
        return self.log.values(self.size)

    def value(self) -> Any:
        """The finished container as a Python value."""
        if self.is_object:
            return dict(zip(self.log.names(self.size), self.values, strict=True))
        return self.values


class JsonReading:
    """The state of reading a JSON text, after some bytes.

    Attributes:
        inner: the innermost open container.
        rest: the bytes of an unfinished string, number or word. A number is finished when another byte has ended it.
    """

    __slots__ = ("_string", "inner", "rest")

    def __init__(self, inner: Open, rest: bytes, string: str) -> None:
        self.inner, self.rest, self._string = inner, rest, string

    @staticmethod
    def start() -> JsonReading:
        """The reading before the first byte."""
        return JsonReading(Open(False, None, _Log(), 0, None), b"", "")

    def feed(self, more: bytes, *, keep: bool = True) -> JsonReading:
        """The reading after `more`. Without `keep`, the result serves one question, and the logs do not change."""
        if self.rest[:1] == b'"' and b'"' not in more:
            return JsonReading(self.inner, self.rest + more, "")
        text, offset, inner, string = self.rest + more, 0, self.inner, self._string
        while token_match := TOKEN.match(text, offset):
            offset = token_match.end()
            kind, token = token_match.lastindex, token_match[token_match.lastindex or 0]
            if kind == 1:
                string = str(json.loads(token)) if b"\\" in token else token[1:-1].decode()
                if inner.is_object and inner.name is None:
                    inner = Open(True, inner.parent, inner.log, inner.size, string)
                else:
                    inner = inner.put(string, keep=keep)
            elif kind == 2:
                inner = Open(token == b"{", inner, _Log(), 0, None)
            elif kind == 3:
                assert inner.parent is not None
                inner = inner.parent.put(inner.value(), keep=keep)
            else:
                inner = inner.put(WORDS[token] if kind == 4 else number_value(token.decode()), keep=keep)
        blank = BETWEEN.match(text, offset)
        return JsonReading(inner, text[blank.end() if blank else offset :], string)

    @property
    def open_string(self) -> bytes | None:
        """The spelling of the current string or name, after its opening quote; None outside strings."""
        return self.rest[1:] if self.rest[:1] == b'"' else None

    @property
    def in_name(self) -> bool:
        """Is a name being read?"""
        return self.inner.is_object and self.inner.name is None

    def string(self) -> str:
        """The string or name that has just ended."""
        return self._string

    def number(self) -> str:
        """The text of the number that ends here."""
        return self.rest.decode()

    def names(self) -> Seen:
        """The names that came in the innermost open object, without the one that has just ended."""
        return Seen(self.inner.log, self.inner.size)

    def items(self) -> Seen:
        """The items of the innermost open array in canonical form, without the one that ends here."""
        return Seen(self.inner.log, self.inner.size if self.rest else self.inner.size - 1)

    def item(self) -> Hashable:
        """The canonical form of the item that ends here."""
        return canonical(number_value(self.number()) if self.rest else self.inner.log.value(self.inner.size - 1))
