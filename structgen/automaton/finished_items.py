"""The finished items of an array, by what one that is being read could still come to equal.

To ask each earlier item whether the new one is on its way to it would make an array of n items cost n * n. So each
item is entered under its *holes*. A hole is a place in it that a text may come to last: the last item of an array,
any member of an object (their order does not matter), and so on inwards. Of an item that is being read all but one
hole is known, and one look-up finds what has stood there. Hashes that are equal by chance make a rest suspect that is
not: it is asked about then, and no more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import Any, Protocol

from structgen.schema.keywords.arguments import canonical

FEW = 32
"""The most rests that are always listed, whatever tokens there are."""

Level = tuple[bool, int, str | None, bool]
"""A container on the way to a hole: is it an object, how many members it has, the name of the one that is open, and is
one open at all?"""


class OpenContainer(Protocol):
    """A container whose first `size` members are finished; `name` is that of the member that is being read."""

    @property
    def is_object(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    def value(self) -> Any: ...


class Scalars:
    """What has stood in one hole; of equal values, the place of the item in which it came first."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._places: dict[Hashable, int] = {}

    def add(self, place: int, value: Any) -> None:
        """The item at `place` has `value` there."""
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            if text not in self._places:
                insort(self._texts, text)
                self._places[text] = place
        else:
            self._places.setdefault(canonical(value), place)

    def among(self, texts: Iterable[bytes], size: int) -> list[bytes]:
        """Those of these texts that the first `size` items have there."""
        return [text for text in texts if self._places.get(text, size) < size]

    def holds(self, value: Any, size: int) -> bool:
        """Has one of the first `size` items this number or word there?"""
        return self._places.get(canonical(value), size) < size

    def rests(self, start: bytes, size: int, heads: Sequence[bytes]) -> list[bytes]:
        """What is missing of texts in the first `size` items that start so, the closing quote included.

        Args:
            heads: where there are very many, only these are looked for.
        """
        texts, places = self._texts, self._places
        first = bisect_left(texts, start)
        last = bisect_left(texts, start + b"\xff", first)
        if last - first > max(FEW, len(heads) // 8) and heads:
            return [head + b'"' for head in heads if places.get(start + head, size) < size]
        return [text[len(start) :] + b'"' for text in texts[first:last] if places[text] < size]


class Earlier:
    """The items of one array.

    Attributes:
        count: how many were entered.
        first_container: the place of the first one that is an array or object.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first_container: float = inf
        # By a way to a hole: without what stands beside it the first place, with it the first place or the scalars.
        self._shapes: dict[tuple[Level, ...], int] = {}
        self._whole: dict[tuple[Hashable, ...], int] = {}
        self._scalars: dict[tuple[Hashable, ...], Scalars] = {}

    def add(self, item: Any) -> None:
        """Enter the next item under each of its holes."""
        place = self.count
        if isinstance(item, (dict, list)):
            self.first_container = min(self.first_container, place)
        stack: list[tuple[Any, tuple[Level, ...], tuple[Hashable, ...]]] = [(item, (), ())]
        while stack:
            value, shape, path = stack.pop()
            if not isinstance(value, (dict, list)):
                self._shapes.setdefault(shape, place)
                self._scalars.setdefault(path, Scalars()).add(place, value)
                continue
            is_object, size = isinstance(value, dict), len(value)
            level: Level = is_object, size, None, False
            self._shapes.setdefault((*shape, level), place)
            self._whole.setdefault((*path, level, _hash_of(value)), place)
            if isinstance(value, dict):
                whole = _hash_of(value)
                for name, member in value.items():
                    level = True, size, name, True
                    stack.append((member, (*shape, level), (*path, level, whole - _member_hash(name, member))))
            elif value:
                level = False, size, None, True
                stack.append((value[-1], (*shape, level), (*path, level, _hash_of(value[:-1]))))
        self.count += 1  # last: what an exception has stopped is entered again

    def strings(self, texts: Iterable[bytes], size: int) -> list[bytes]:
        """Those of these texts that are among the first `size` items."""
        scalars = self._scalars.get(())
        return scalars.among(texts, size) if scalars else []

    def hole(self, size: int, within: Sequence[OpenContainer], *, pending: bool) -> Scalars | bool:
        """What has stood in the first `size` items where the one that is read is still open, all else being equal.

        Args:
            within: the containers open inside the item, the innermost first.
            pending: has a member of the innermost one begun?

        Returns:
            The scalars. Where none is open and the innermost container may be closed: was there one equal to it? False
            where there was nothing, or what is open has not begun: it could only come with a token that holds it whole.
        """
        shape: list[Level] = []
        for inner in reversed(within):
            open_ = pending or inner is not within[0]
            if inner.is_object and open_ == (inner.name is None):
                return False
            shape.append((inner.is_object, inner.size + open_, inner.name if open_ else None, open_))
        if self._shapes.get(tuple(shape), size) >= size:
            return False
        path: tuple[Hashable, ...] = ()
        for level, inner in zip(shape, reversed(within), strict=True):
            path = (*path, level, _hash_of(inner.value()))
        if shape and not shape[-1][3]:
            return self._whole.get(path, size) < size
        return self._scalars.get(path, False)


def _member_hash(name: str, value: Any) -> int:
    return hash((name, canonical(value)))


def _hash_of(value: Any) -> int:
    """A hash of a container; of an object, the sum of those of its members."""
    if isinstance(value, dict):
        return sum(_member_hash(name, member) for name, member in value.items())
    return hash(canonical(value))
