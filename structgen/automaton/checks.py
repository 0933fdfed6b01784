"""Checks: questions about the text that no byte automaton can answer.

A *test* (`Automaton.test`) is a state that asks a check about the text read so far: is this name new in its object, is
this item new in its array? A test comes right after the value that it asks about: after the closing quote or bracket;
for a number, before the byte that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from structgen.json_text.finished_items import Scalars
from structgen.json_text.lexer import WORDS, number_value, spelled, unescaped, whole_number
from structgen.json_text.reading import JsonReading, Open


class Check(Protocol):
    """A question about the text so far. Checks are hashable; equal checks ask the same.

    Asking about each token of a mask would be slow. So `suspects` and `held` name in advance the tokens for which the
    answer may be "no". They may name too many tokens, but never too few.

    Attributes:
        escapes: may the value have a spelling other than those that `suspects` and `held` give (a string with escapes,
            or a value that is not a string)?
        rule: the rule that the check enforces, for messages and traces.
    """

    rule: ClassVar[str]

    @property
    def escapes(self) -> bool: ...

    def holds(self, reading: JsonReading) -> bool:
        """The answer: does the text read so far satisfy the rule?"""

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        """The rests of the current string or name for which the answer may be "no"; None: any token may get a "no".

        A rest is the text from here to the closing quote, inclusive. If a token does not start with a rest, the answer
        is "yes"; the exception is a token with a backslash, if there are rests and `escapes` is set. Values that begin
        within the token are the subject of `held`.

        Args:
            heads: the texts that tokens have before a quote. If there are very many rests, only these are needed.
        """

    def held(self, reading: JsonReading, texts: Collection[bytes]) -> list[bytes] | None:
        """The texts for which the answer may be "no" if a token contains one of them whole, between two quotes.

        None: each token that contains one or more whole values or names must be asked about.

        Args:
            texts: the texts that tokens contain between quotes. Only these are needed.
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
        begun = reading.open_string
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
                    return None  # the open container may lack only this text to equal an earlier one
                held += earlier.strings(texts, inner.size)
            inner = inner.parent
        return held


@dataclass(frozen=True, slots=True)
class TextCheck(Check):
    """The string or name that has just ended satisfies a predicate."""

    rule: ClassVar[str] = "a pattern or format is decided at the end of its string"
    predicate: Callable[[str], bool]
    escapes: bool = True

    def holds(self, reading: JsonReading) -> bool:
        return self.predicate(reading.string())

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        return [] if reading.open_string is None else None


@dataclass(frozen=True, slots=True)
class NumberCheck(Check):
    """The number that ends here satisfies a predicate, which is given the number's text."""

    rule: ClassVar[str] = "multipleOf or another rule is decided at the end of its number"
    predicate: Callable[[str], bool]
    escapes: bool = False

    def holds(self, reading: JsonReading) -> bool:
        return self.predicate(reading.number())

    def suspects(self, reading: JsonReading, heads: Sequence[bytes] = ()) -> list[bytes] | None:
        # A token with more digits and the number's end contains a whole value; such tokens are asked about in any case.
        rest = reading.rest
        known = not rest or reading.open_string is not None or not whole_number(rest) or self.predicate(rest.decode())
        return [] if known else None


def _rests_of_scalar(scalars: Scalars, size: int, reading: JsonReading, heads: Sequence[bytes]) -> list[bytes] | None:
    """The rests with which the current value would equal a string, number or word among the first `size` items."""
    if reading.open_string is not None:
        start = unescaped(reading.open_string)
        return None if start is None else scalars.rests(start, size, heads)
    if whole_number(reading.rest):
        return None if scalars.holds(number_value(reading.rest.decode()), size) else []
    words = [value for word, value in WORDS.items() if word.startswith(reading.rest)]
    return None if any(scalars.holds(value, size) for value in words) else []
