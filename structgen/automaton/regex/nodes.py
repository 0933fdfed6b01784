"""The syntax tree of a pattern: what it matches, and nothing about how it was written."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from structgen.automaton.regex.charsets import Ranges


class Place(IntEnum):
    """What an assertion asks of the place between two characters."""

    START = 0
    END = 1
    BOUNDARY = 2
    NO_BOUNDARY = 3


class Chars(NamedTuple):
    """One code point of a set."""

    ranges: Ranges


class Sequence(NamedTuple):
    """Every item, one after the other; no item at all is the empty string."""

    items: tuple[Node, ...]


class Choice(NamedTuple):
    """Any one of the options."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """`item`, `least` to `most` times (None: any number of times)."""

    item: Node
    least: int
    most: int | None


class Assertion(NamedTuple):
    """The empty string where `place` holds."""

    place: Place


class LookAhead(NamedTuple):
    """The empty string where `item` matches next, or where it does not when `negative`."""

    item: Node
    negative: bool
    offset: int


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Assertion | LookAhead
