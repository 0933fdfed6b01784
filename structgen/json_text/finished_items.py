"""The finished items of an array. They tell which values would make the current item equal to an earlier one.

Comparing the new item with each earlier one would make an array of n items cost n * n. So each finished item is indexed
by its *holes*. A hole is a place in the item that may be written last: the last item of an array, or any member of an
object (their order does not matter), and so on inwards. For example, `{"a": 1, "b": 2}` is indexed as `{"b": 2}` with a
hole at "a", which held 1, and as `{"a": 1}` with a hole at "b", which held 2. Everything but one hole of the current
item is known, so one look-up finds the values that the hole held. A chance collision of hashes only makes a check ask
again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import Any, Protocol

from structgen.json_text.lexer import canonical

FEW = 32
"""Up to this many rests are listed without looking at the tokens."""

HoleLevel = tuple[bool, int, str | None, bool]
"""A container on the path to a hole: is it an object; the number of its members; the name of the open member; is a
member open?"""


class OpenContainer(Protocol):
    """A container whose first `size` members are finished; `name` is the name of the current member."""

    @property
    def is_object(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    def value(self) -> Any: ...


class Scalars:
    """The values that one hole held, each with the index of the first item that had it there."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._places: dict[Hashable, int] = {}

    def add(self, place: int, value: Any) -> None:
        """Notes that the item at index `place` has `value` in the hole."""
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            if text not in self._places:
                insort(self._texts, text)
                self._places[text] = place
        else:
            self._places.setdefault(canonical(value), place)

    def among(self, texts: Iterable[bytes], size: int) -> list[bytes]:
        """Those of the texts that the hole held in one of the first `size` items."""
        return [text for text in texts if self._places.get(text, size) < size]

    def holds(self, value: Any, size: int) -> bool:
        """Did the hole hold this number or word in one of the first `size` items?"""
        return self._places.get(canonical(value), size) < size

    def rests(self, start: bytes, size: int, heads: Sequence[bytes]) -> list[bytes]:
        """The rests of texts that the hole held in the first `size` items and that begin with `start`.

        A rest includes the closing quote.

        Args:
            heads: if there are very many rests, only these are looked for.
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
        count: the number of items that were added.
        first_container: the index of the first item that is an array or object.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first_container: float = inf
        # The containers around a hole -> the first index. These and the hashes of the values next to the hole -> the
        # first index of a whole container, and the scalars.
        self._shapes: dict[tuple[HoleLevel, ...], int] = {}
        self._whole: dict[tuple[Hashable, ...], int] = {}
        self._scalars: dict[tuple[Hashable, ...], Scalars] = {}

    def add(self, item: Any) -> None:
        """Adds the next item, indexed by each of its holes."""
        place = self.count
        if isinstance(item, (dict, list)):
            self.first_container = min(self.first_container, place)
        stack: list[tuple[Any, tuple[HoleLevel, ...], tuple[Hashable, ...]]] = [(item, (), ())]
        while stack:
            value, shape, path = stack.pop()
            if not isinstance(value, (dict, list)):
                self._shapes.setdefault(shape, place)
                self._scalars.setdefault(path, Scalars()).add(place, value)
                continue
            is_object, size = isinstance(value, dict), len(value)
            level: HoleLevel = is_object, size, None, False
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
        self.count += 1  # last: if an exception comes before, the item is added again

    def strings(self, texts: Iterable[bytes], size: int) -> list[bytes]:
        """Those of these texts that are among the first `size` items."""
        scalars = self._scalars.get(())
        return scalars.among(texts, size) if scalars else []

    def hole(self, size: int, within: Sequence[OpenContainer], *, pending: bool) -> Scalars | bool:
        """What the first `size` items held at the place where the current item is open, everything else being equal.

        Args:
            within: the open containers inside the item, the innermost first.
            pending: has a member of the innermost container started?

        Returns:
            If a member has started: the scalars at its place. If none has: did an item hold a container there that
            equals the innermost one? False if no item matches, or if a member's value comes next: then only a token
            that contains the whole value could complete it.
        """
        shape: list[HoleLevel] = []
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
    """A hash of a container. The hash of an object is the sum of the hashes of its members."""
    if isinstance(value, dict):
        return sum(_member_hash(name, member) for name, member in value.items())
    return hash(canonical(value))
