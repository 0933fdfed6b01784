"""Checks: what no byte automaton can know, and is asked where the text is read.

A *test* (`Automaton.test`) asks a check about the text read so far: may this name come again, is this item new? It
stands right behind the thing that it asks about: behind the closing quote or bracket, or for a number before the byte
that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from structgen.automaton.finished_items import Scalars
from structgen.automaton.reading import WORDS, JsonReading, Open, number_value, spelled, unescaped, whole_number


class Check(Protocol):
    """A question about the text so far. Hashable: equal checks ask the same.

    A mask must not ask about each token. So `suspects` and `held` tell beforehand which tokens the answer may be "no"
    for; a check may name too many, but never too few.

    Attributes:
        escapes: may the value in question have another spelling than the ones that `suspects` and `held` give (a
            string with escapes, or a value that is no string)?
        rule: what is asked, for messages and traces.
    """

    rule: ClassVar[str]

    @property
    def escapes(self) -> bool: ...

    def holds(self, reading: JsonReading) -> bool:
        """The answer at a test."""

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        """The rests of the string or name that is being read for which the answer may be "no"; None: any token may.

        A rest goes from here to the closing quote, which it includes. For a token that starts with no rest the answer
        is "yes", unless there are rests, `escapes` is set, and the token has a backslash. A value that begins within
        the token is left to `held`.

        Args:
            heads: what tokens have before a quote. Where there are very many rests, only these need be told.
        """

    def held(self, reading: JsonReading, texts: Collection[bytes]) -> list[bytes] | None:
        """The texts for which the answer may be "no" where a token holds one of them whole, between two quotes.

        None: any token that holds a whole value or name must be asked about, and any that holds two of them.

        Args:
            texts: what tokens hold between quotes; no others need be told.
        """
        return None


@dataclass(frozen=True, slots=True)
class FreshName:
    """The name that has just ended is new in its object.

    Names have one spelling, that of `json.dumps(name, ensure_ascii=False)`.
    """

    rule: ClassVar[str] = "a name comes once in its object"
    escapes: ClassVar[bool] = False

    def holds(self, reading: JsonReading) -> bool:
        return reading.string() not in reading.names()

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        begun = reading.begun
        if begun is None or not reading.in_name:
            return []
        inner = reading.inner
        return [text[len(begun) :] + b'"' for text in inner.log.beginning(begun, inner.size)]

    def held(self, reading: JsonReading, texts: Collection[bytes]) -> list[bytes] | None:
        names: list[str] = []
        inner: Open | None = reading.inner
        while inner is not None:
            if inner.is_object:
                names += [name for name in inner.log.names(inner.size) if name is not None]
                if inner.name is not None:
                    names.append(inner.name)
            inner = inner.parent
        return list(map(spelled, names))


@dataclass(frozen=True, slots=True)
class FreshItem:
    """The item that ends here equals no earlier one of its array."""

    rule: ClassVar[str] = "uniqueItems: an item comes once in its array"
    escapes: bool = True

    def holds(self, reading: JsonReading) -> bool:
        return reading.item() not in reading.items()

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        rests: list[bytes] = []
        inner: Open | None = reading.inner
        within: list[Open] = []
        while inner is not None and inner.parent is not None:
            if not inner.is_object and inner.size and (within or reading.rest):
                hole = inner.log.earlier().hole(inner.size, within, pending=bool(reading.rest))
                more = _rests_of_scalar(hole, inner.size, reading, heads) if isinstance(hole, Scalars) else []
                if more is None or hole is True:
                    return None
                rests += more
            within.append(inner)
            inner = inner.parent
        return rests

    def held(self, reading: JsonReading, texts: Collection[bytes]) -> list[bytes] | None:
        held: list[bytes] = []
        inner: Open | None = reading.inner
        while inner is not None and inner.parent is not None:
            if not inner.is_object and inner.size:
                earlier = inner.log.earlier()
                if inner is not reading.inner and earlier.first_container < inner.size:
                    return None  # a text may be all that an open container lacks to equal an earlier one
                held += earlier.strings(texts, inner.size)
            inner = inner.parent
        return held


@dataclass(frozen=True, slots=True)
class TextCheck(Check):
    """The string or name that has just ended is as the predicate asks."""

    rule: ClassVar[str] = "a pattern or format is told at the end of its string"
    predicate: Callable[[str], bool]
    escapes: bool = True

    def holds(self, reading: JsonReading) -> bool:
        return self.predicate(reading.string())

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        return [] if reading.begun is None else None


@dataclass(frozen=True, slots=True)
class NumberCheck(Check):
    """The number that ends here is as the predicate asks, which gets its text."""

    rule: ClassVar[str] = "multipleOf or another rule is told at the end of its number"
    predicate: Callable[[str], bool]
    escapes: bool = False

    def holds(self, reading: JsonReading) -> bool:
        return self.predicate(reading.number())

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        # What takes more digits and ends within the token holds a number's end, which is asked in any case.
        rest = reading.rest
        known = not rest or reading.begun is not None or not whole_number(rest) or self.predicate(rest.decode())
        return [] if known else None


def _rests_of_scalar(scalars: Scalars, size: int, reading: JsonReading, heads: Sequence[bytes]) -> list[bytes] | None:
    """The rests with which the value being read would equal a string, number or word of the first `size` items."""
    if reading.begun is not None:
        start = unescaped(reading.begun)
        return None if start is None else scalars.rests(start, size, heads)
    if whole_number(reading.rest):
        return None if scalars.holds(number_value(reading.rest.decode()), size) else []
    words = [value for word, value in WORDS.items() if word.startswith(reading.rest)]
    return None if any(scalars.holds(value, size) for value in words) else []
