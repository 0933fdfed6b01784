"""The syntax tree of a pattern: what it matches, and nothing about how it was written."""

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
    """Every item, one after the other; no item at all is the empty string."""

    items: tuple[Node, ...]


class Alternation(NamedTuple):
    """Any one of the options."""

    options: tuple[Node, ...]


class Repetition(NamedTuple):
    """`item`, `least` to `most` times (None: any number of times); `lazy` prefers fewer."""

    item: Node
    least: int
    most: int | None
    lazy: bool = False


class Assertion(NamedTuple):
    """The empty string where `place` holds."""

    place: Anchor


class Look(NamedTuple):
    """The empty string where `item` matches next (before it, when `behind`), or where it does not when `negative`."""

    item: Node
    negative: bool
    behind: bool = False
    offset: int = 0


class Group(NamedTuple):
    """`item`, remembered as group `number`. Only in patterns with back-references; elsewhere groups leave no trace."""

    item: Node
    number: int


class BackReference(NamedTuple):
    """What one of the groups (of one name, at most one of them takes part) matched last; empty when none did.

    `fold`: in any case.
    """

    numbers: tuple[int, ...]
    fold: bool = False
    offset: int = 0


class Atomic(NamedTuple):
    """`item` as it matches first, without a second try."""

    item: Node
    offset: int = 0


Node: TypeAlias = Chars | Concatenation | Alternation | Repetition | Assertion | Look | Group | BackReference | Atomic


def children(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` is made of."""
    if isinstance(node, Concatenation):
        return node.items
    if isinstance(node, Alternation):
        return node.options
    return (node.item,) if isinstance(node, (Repetition, Look, Group, Atomic)) else ()


def everywhere(node: Node) -> Iterator[Node]:
    """`node` and all below it."""
    todo = [node]
    while todo:
        here = todo.pop()
        yield here
        todo += children(here)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """`node` with each of its children changed."""
    if isinstance(node, Concatenation):
        return Concatenation(tuple(map(change, node.items)))
    if isinstance(node, Alternation):
        return Alternation(tuple(map(change, node.options)))
    if isinstance(node, (Repetition, Look, Group, Atomic)):
        return node._replace(item=change(node.item))
    return node
