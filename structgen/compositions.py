"""Constraints made of constraints: free text, one part after the other, one of several, the same again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import abc
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from structgen.automaton.composed import Composed
from structgen.automaton.parts import Loop, Options, Plan, Series, Words
from structgen.automaton.texts import escaped, free_text
from structgen.constraints import Choice, Constraint, JsonSchema, Regex
from structgen.errors import OptionError
from structgen.masks.grammar import Grammar
from structgen.vocabulary import Vocabulary


@runtime_checkable
class Composable(Constraint, Protocol):
    """A constraint that may be a part of others."""

    def plan(self) -> Plan:
        """The constraint as a part."""
        ...


Given: TypeAlias = "Composable | str | abc.Sequence[str] | dict[str, Any] | type[Any]"
"""A part as it may be written: a constraint; a string, for that text; a list of strings, for one of them; a type or a
JSON Schema as a dict, for its JSON."""


@dataclass(frozen=True)
class Composition(ABC):
    """What all compositions share."""

    @abstractmethod
    def plan(self) -> Plan:
        """The composition as a part of another."""

    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar; nothing is expanded before a text needs it."""
        return Grammar(Composed(self.plan()), vocabulary)


@dataclass(frozen=True)
class Text(Composition):
    """Free text, up to a stop.

        Text(until="</think>")            # everything up to that, and that
        Text(before="{")                  # everything that has no brace in it

    Attributes:
        until: the text ends with the first of these: a string, a `Regex`, or several of them.
        before: none of these stands in the text; what follows it in a `Sequence` may begin with one.
        min_chars, max_chars: bounds of the length in characters, what it ends with included.

    Raises (when it is compiled):
        OptionError: a stop is empty or no pattern that can be looked for, or no text has that length.
    """

    until: str | Regex | abc.Sequence[str | Regex] = ()
    before: str | Regex | abc.Sequence[str | Regex] = ()
    min_chars: int = 0
    max_chars: int | None = None

    def __post_init__(self) -> None:
        for name in ("until", "before"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, (str, Regex)) else tuple(given))
        if self.min_chars < 0 or (self.max_chars is not None and self.max_chars < self.min_chars):
            raise OptionError(f"min_chars={self.min_chars}, max_chars={self.max_chars}: expected 0 <= min <= max")

    def plan(self) -> Plan:
        """The text as a part."""
        language = free_text(_patterns("until", self.until), _patterns("before", self.before), self.min_chars)
        if language.empty or (self.max_chars is not None and language.length_range()[0] > self.max_chars):
            raise OptionError(f"{self!r}: there is no such text")
        return Words(language, self.max_chars)


def _patterns(name: str, stops: Any) -> list[str]:
    for stop in stops:
        if not isinstance(stop, (str, Regex)) or stop in ("", Regex("")):
            raise OptionError(f"{name}={stop!r:.80}: expected a text or a Regex, not empty")
    return [escaped(stop) if isinstance(stop, str) else stop.pattern for stop in stops]


@dataclass(frozen=True, init=False)
class Sequence(Composition):
    """One part after the other.

        Sequence("Reasons: ", Text(until="\\n"), "Answer: ", City)

    Where one part ends and the next begins may be open: every way to read the text is followed, until one is left.

    Attributes:
        parts: constraints; strings stand for themselves, lists of strings for one of them, types and dicts for JSON.

    Raises:
        OptionError: something else was given. When it is compiled: whatever the parts raise.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Given) -> None:
        object.__setattr__(self, "parts", tuple(map(as_part, parts)))

    def plan(self) -> Plan:
        """The sequence as a part."""
        return Series(tuple(_plan(part) for part in self.parts))


@dataclass(frozen=True, init=False)
class Union(Composition):
    """One of several parts.

        Union(City, "I do not know")

    Attributes:
        parts: as for `Sequence`; at least one.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Given) -> None:
        if not parts:
            raise OptionError("Union(): expected at least one part")
        object.__setattr__(self, "parts", tuple(map(as_part, parts)))

    def plan(self) -> Plan:
        """The union as a part."""
        return Options(tuple(_plan(part) for part in self.parts))


@dataclass(frozen=True, init=False)
class Repeat(Composition):
    """A part several times.

        Repeat(Step, min=1, max=5, separator="\\n")

    Attributes:
        part: what comes again, as in a `Sequence`.
        min, max: how often; None for any number of times.
        separator: stands between two of them.
    """

    part: Any
    min: int
    max: int | None
    separator: Any

    def __init__(self, part: Given, min: int = 0, max: int | None = None, separator: Given = "") -> None:
        if min < 0 or (max is not None and max < min):
            raise OptionError(f"Repeat(min={min}, max={max}): expected 0 <= min <= max")
        for name, value in (("part", as_part(part)), ("min", min), ("max", max), ("separator", as_part(separator))):
            object.__setattr__(self, name, value)

    def plan(self) -> Plan:
        """The repetition as a part."""
        return Loop(_plan(self.part), self.min, self.max, _plan(self.separator) if self.separator else None)


def as_part(given: Any) -> Composable | str:
    """A part as it was written, as a constraint or a text."""
    if isinstance(given, str) or (isinstance(given, Composable) and not isinstance(given, type)):
        return given
    if isinstance(given, (list, tuple)) and given and all(isinstance(item, str) for item in given):
        return Union(*given)
    if isinstance(given, Constraint) and not isinstance(given, type):
        raise OptionError(f"{given!r:.80} cannot be a part: it has no plan()")
    if isinstance(given, (list, tuple, bytes, int, float)) or given is None:
        raise OptionError(f"{given!r:.80} cannot be a part: expected a constraint, a text, a type or a JSON Schema")
    return JsonSchema(given)


def _plan(part: Composable | str) -> Plan:
    if isinstance(part, Composable):
        return part.plan()
    return Words(Choice((part,)).language()) if part else Series(())
