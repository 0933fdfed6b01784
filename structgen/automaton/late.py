"""Checks: what no byte automaton can know, and is asked where the text is read.

A *test* (`Automaton.test`) asks a check about the text read so far: may this name come again, is this item new? It
stands right behind the thing that it asks about: behind the closing quote or bracket, or for a number before the byte
that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Protocol

from structgen.automaton.reading import JsonReading


class Reading(Protocol):
    """What a check may ask about the text up to its test."""

    def string(self) -> str:
        """The string or name that has just ended."""

    def number(self) -> str:
        """The text of the number that ends here."""

    def names(self) -> Collection[Hashable]:
        """The names taken in the innermost open object, without the one that has just ended."""

    def items(self) -> Collection[Hashable]:
        """The finished items of the innermost open array in canonical form, without the one that ends here."""

    def item(self) -> Hashable:
        """The canonical form of the item that ends here; equal for equal JSON values."""


class Check(Protocol):
    """A question to the text so far. Hashable: equal checks ask the same.

    Attributes:
        escapes: may what is asked about be spelled with escapes where `suspects` has none?
    """

    @property
    def escapes(self) -> bool: ...

    def holds(self, reading: Reading) -> bool:
        """The answer at a test."""

    def suspects(self, reading: JsonReading) -> list[bytes] | None:
        """The continuations of the text for which the answer may be "no"; None when nothing is known.

        Only what has begun already is meant. A token that starts with none of them (nor has a backslash, where
        `escapes` and there are any) is answered "yes" there; what begins within a token is asked in any case.
        """


@dataclass(frozen=True, slots=True)
class FreshName:
    """The name that has just ended is new in its object.

    Attributes:
        escapes: names may be spelled with any escapes. Otherwise (the free name, declared names) each has one
            spelling, that of `json.dumps(name, ensure_ascii=False)`.
    """

    escapes: bool = False

    def holds(self, reading: Reading) -> bool:
        return reading.string() not in reading.names()

    def suspects(self, reading: JsonReading) -> list[bytes] | None:
        return None


@dataclass(frozen=True, slots=True)
class FreshItem:
    """The item that ends here equals no earlier one of its array."""

    escapes: bool = True

    def holds(self, reading: Reading) -> bool:
        return reading.item() not in reading.items()

    def suspects(self, reading: JsonReading) -> list[bytes] | None:
        return None


@dataclass(frozen=True, slots=True)
class TextCheck:
    """The string or name that has just ended is as the predicate asks."""

    predicate: Callable[[str], bool]
    escapes: bool = True

    def holds(self, reading: Reading) -> bool:
        return self.predicate(reading.string())

    def suspects(self, reading: JsonReading) -> list[bytes] | None:
        return None


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """The number that ends here is as the predicate asks, which gets its text."""

    predicate: Callable[[str], bool]
    escapes: bool = False

    def holds(self, reading: Reading) -> bool:
        return self.predicate(reading.number())

    def suspects(self, reading: JsonReading) -> list[bytes] | None:
        return None
