"""The syntax tree of a pattern: what it matches, not how it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from structgen.regular.regex.charsets import Ranges


class Anchor(IntEnum):
    """What an assertion asks of the place between two characters."""

    START = 0
    END = 1
    BOUNDARY = 2
    NO_BOUNDARY = 3


class Chars(NamedTuple):
    """One code point of a set."""

    ranges: Ranges


class Concatenation(NamedTuple):
    """All items in a row; without items, the empty string."""

    items: tuple[PatternNode, ...]


class Alternation(NamedTuple):
    """Any one of the options."""

    options: tuple[PatternNode, ...]


class Repetition(NamedTuple):
    """`item`, `minimum` to `maximum` times (None: any number of times); `lazy` prefers fewer."""

    item: PatternNode
    minimum: int
    maximum: int | None
    lazy: bool = False


class Assertion(NamedTuple):
    """The empty string where `place` holds."""

    place: Anchor


class Look(NamedTuple):
    """The empty string where `item` matches ahead (or `behind`); where it does not, if `negative`."""

    item: PatternNode
    negative: bool
    behind: bool = False
    offset: int = 0


class Group(NamedTuple):
    """`item` as group `number`; only in patterns with back-references."""

    item: PatternNode
    number: int


class BackReference(NamedTuple):
    """The text that the group matched last; empty when it matched none. `fold`: case is ignored.

    Several groups may have the name that is referred to; at most one of them takes part in a match.
    """

    numbers: tuple[int, ...]
    fold: bool = False
    offset: int = 0


class Atomic(NamedTuple):
    """`item` in the way that it matches first; no other way is tried."""

    item: PatternNode
    offset: int = 0


PatternNode: TypeAlias = (
    Chars | Concatenation | Alternation | Repetition | Assertion | Look | Group | BackReference | Atomic
)


def children(node: PatternNode) -> tuple[PatternNode, ...]:
    """The nodes right below `node`."""
    if isinstance(node, Concatenation):
        return node.items
    if isinstance(node, Alternation):
        return node.options
    return (node.item,) if isinstance(node, (Repetition, Look, Group, Atomic)) else ()


def everywhere(node: PatternNode) -> Iterator[PatternNode]:
    """`node` and all nodes below it."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo += children(node)


def rebuilt(node: PatternNode, change: Callable[[PatternNode], PatternNode]) -> PatternNode:
    """`node` with each of its children changed."""
    if isinstance(node, Concatenation):
        return Concatenation(tuple(map(change, node.items)))
    if isinstance(node, Alternation):
        return Alternation(tuple(map(change, node.options)))
    if isinstance(node, (Repetition, Look, Group, Atomic)):
        return node._replace(item=change(node.item))
    return node
