"""The normal form: a schema is a union of shapes; a shape holds one independent set per JSON type.

JSON's types differ in their first byte, so a shape is deterministic by type. Everything here is a value that knows no
byte and no token and is never changed (those made for every place are not `frozen`, which would take five times as
long to make). Nodes are read lazily and interned: the same place in a schema is the
same `Node`, so recursion is a cycle of nodes, and a huge schema costs what a document visits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

Value = TypeVar("Value", str, "int | float")


class Node:
    """A schema, read when it is first asked for. Compared by identity.

    Attributes:
        pointer: JSON pointer of the place in the user's schema that this node stands for.
        shapes: the union; empty when the schema is plainly unsatisfiable (`false`).
    """

    def __init__(self, pointer: str | Callable[[], str], read: Callable[[], tuple[Shape, ...]]) -> None:
        self._pointer = pointer
        self._read = read

    @cached_property
    def pointer(self) -> str:
        return self._pointer if isinstance(self._pointer, str) else self._pointer()

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        return self._read()

    @property
    def bare(self) -> tuple[Shape, ...] | None:
        """The shapes of a schema that says a type and nothing else, where a glance tells."""
        return None

    @property
    def is_any(self) -> bool:
        """True for the schema that every JSON value satisfies."""
        return self is ANY

    def __repr__(self) -> str:
        return f"Node({self.pointer!r})"


class Listed(tuple[Value, ...]):
    """Different strings or numbers: a tuple that is hashed once, and in which a value is found by its hash."""

    def __hash__(self) -> int:
        return self._hash

    def __contains__(self, value: object) -> bool:
        return value in self._values

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    @cached_property
    def _values(self) -> frozenset[Value]:
        return frozenset(self)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers within bounds, or one of finitely many. A bound of None is no bound.

    `plain` (only with `integer`): spelled without fraction and exponent, since in draft 4 `1.0` is no
    integer. `multiples`: whole multiples of each of these. `without`: in none of these sets.
    """

    integer: bool = False
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    literals: Listed[int | float] | None = None
    plain: bool = False
    multiples: tuple[Fraction, ...] = ()
    without: tuple[Numbers, ...] = ()


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings that satisfy every field at once.

    Attributes:
        min_length, max_length: in code points.
        patterns: ECMA-262 regular expressions that must all match somewhere in the string.
        formats: names of formats that must all hold.
        literals: when given, only these strings (still subject to the other fields).
        without: strings that are in none of these sets.
    """

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    literals: Listed[str] | None = None
    without: tuple[Strings, ...] = ()

    @property
    def free(self) -> bool:
        """True when nothing but the length is restricted."""
        return not self.patterns and not self.formats and self.literals is None and not self.without


class Contains(NamedTuple):
    """From item `start` on, at least `least` and at most `most` items satisfy `value` (None: any number)."""

    value: Node
    least: int = 1
    most: int | None = None
    start: int = 0


@dataclass(slots=True, eq=False)
class Arrays:
    """Arrays: `prefix[i]` holds for item i, `rest` for every later one (None: there may be none).

    Attributes:
        contains: each of these holds.
        unique, repeated: no two items are equal; some two items are.
        without: arrays that satisfy none of these. Told only when an array is closed: the last resort of the algebra.
    """

    prefix: tuple[Node, ...] = ()
    rest: Node | None = None
    min_items: int = 0
    max_items: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool = False
    repeated: bool = False
    without: tuple[Node, ...] = ()


class Property(NamedTuple):
    """A member of an object that has a value of its own. A tuple, since an object may have hundreds.

    `declared` is False for a name that only `required` mentions: it comes after the declared ones.
    """

    name: str
    value: Node
    required: bool
    declared: bool = True


class Named(NamedTuple):
    """The members whose names are among `names`, and a schema for their values."""

    names: Strings
    value: Node


@dataclass(slots=True, eq=False)
class Objects:
    """Objects: declared properties in order, `rest` for every other name (None: there may be none).

    Attributes:
        patterns: each member whose name is among `names`, declared or not, satisfies `value`. `rest` is for the
            names that are neither declared nor in any of these.
        some: for each of these there is a member whose name is among `names` and whose value satisfies `value`.
        without: objects that satisfy none of these. Told only when an object is closed: the last resort of the
            algebra.
    """

    properties: tuple[Property, ...] = ()
    rest: Node | None = None
    min_properties: int = 0
    max_properties: int | None = None
    patterns: tuple[Named, ...] = ()
    some: tuple[Named, ...] = ()
    without: tuple[Node, ...] = ()
    _required_from: list[int] | None = field(default=None, init=False, repr=False)
    _required_bits: int | None = field(default=None, init=False, repr=False)

    @property
    def required_from(self) -> list[int]:
        """How many of `properties[i:]` are required, for every `i`; the last is 0."""
        if self._required_from is None:
            backwards = accumulate((member.required for member in reversed(self.properties)), initial=0)
            self._required_from = list(backwards)[::-1]
        return self._required_from

    @property
    def required_bits(self) -> int:
        """The members that are required, as bits."""
        if self._required_bits is None:
            digits = "".join("01"[member.required] for member in reversed(self.properties))
            self._required_bits = int(digits or "0", 2)
        return self._required_bits


@dataclass(slots=True, eq=False)
class Shape:
    """One set per JSON type; None or False means that no value of that type is in the shape."""

    null: bool = False
    true: bool = False
    false: bool = False
    numbers: Numbers | None = None
    strings: Strings | None = None
    arrays: Arrays | None = None
    objects: Objects | None = None


def _any_shapes() -> tuple[Shape, ...]:
    return (Shape(True, True, True, Numbers(), Strings(), Arrays(rest=ANY), Objects(rest=ANY)),)


ANY = Node("", _any_shapes)
NEVER = Node("", tuple)
