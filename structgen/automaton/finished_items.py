"""The finished items of an array, to find those that the item being read could still come to equal.

To compare the new item with each earlier one would make an array of n items cost n * n. So each item is entered under
its *holes*. A hole is a place in an item that may be written last: the last item of an array, or any member of an
object (their order does not matter), and so on inwards. Example: `{"a": 1, "b": 2}` is entered as `{"b": 2}` with a
hole at "a" where 1 stood, and as `{"a": 1}` with a hole at "b". Of an item that is being read everything but one hole
is known, so one look-up finds what has stood there. Two equal hashes by chance only make a check ask once more.
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
"""A container on the way to a hole: is it an object, the number of its members, the name of the open one, and is one
open?"""


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
    """The values that stood in one hole, each with the place of the first item that had it there."""

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
        """The texts that stood there in one of the first `size` items."""
        return [text for text in texts if self._places.get(text, size) < size]

    def holds(self, value: Any, size: int) -> bool:
        """Has one of the first `size` items this number or word there?"""
        return self._places.get(canonical(value), size) < size

    def rests(self, start: bytes, size: int, heads: Sequence[bytes]) -> list[bytes]:
        """The rests, closing quote included, of texts that stood there in the first `size` items and start so.

        Args:
            heads: where there are very many rests, only these are looked for.
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
        # By the containers around a hole: the first place. With hashes of what stands beside it: the first place of a
        # whole container, and the scalars.
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
        """What stood in the first `size` items at the place where the item being read is open, all else being equal.

        Args:
            within: the containers open inside the item, the innermost first.
            pending: has a member of the innermost one begun?

        Returns:
            The scalars that stood there. Where no member has begun: did a container equal to the innermost one stand
            there? False where nothing did, or where a member's value comes next: only a token that holds it whole could
            complete it.
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
