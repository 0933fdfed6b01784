"""The normal form: a schema is a union of shapes; a shape holds one independent set per JSON type.

JSON types differ in their first byte, so the first byte of a value selects the set. Everything here is an immutable
value and knows no bytes and no tokens. (The classes of which every place has one are not `frozen`: making a frozen
object takes five times as long.) Nodes are lazy and interned: one place in a schema is one `Node`, so recursion is a
cycle of nodes, and of a huge schema only the places that a document visits are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from structgen.errors import UnsupportedSchema
from structgen.regular.quotes import Quotation

Value = TypeVar("Value", str, "int | float")


class Node:
    """A schema that is read when its shapes are first asked for. Compared by identity.

    Attributes:
        pointer: JSON pointer of its place in the user's schema.
        shapes: the union; empty where the schema is plainly unsatisfiable (as `false` is).
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
    def known(self) -> bool:
        """Have the shapes been read?"""
        return "shapes" in self.__dict__

    def needs(self) -> Sequence[Node] | None:
        """Nodes all of which have a value exactly if this node has one; None where only the shapes tell."""
        return None

    @property
    def is_any(self) -> bool:
        """Is this the schema that every JSON value satisfies?"""
        return self is ANY

    def __repr__(self) -> str:
        return f"Node({self.pointer!r})"


class Listed(tuple[Value, ...]):
    """Different strings or numbers: a tuple that is hashed once and finds values by their hash."""

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


class ValueSet:
    """A set of values that satisfy several rules at once: one for each field, which has a neutral value.

    Whoever reads such a set says which fields it honours, by `only` or `check_only`. So a reader that misses a field,
    as all do when a field is new, refuses the sets that use it.
    """

    __slots__ = ()

    def only(self, *honoured: str) -> bool:
        """Are all fields but these neutral?"""
        record: Any = type(self)
        _, values_of, neutral = _other_fields(record, honoured)
        return bool(values_of(self) == neutral)

    def check_only(self, reader: str, *honoured: str) -> None:
        """For a reader that has to know every field.

        Raises:
            UnsupportedSchema: it does not know a field that is not neutral.
        """
        if not self.only(*honoured):
            record: Any = type(self)
            names, values_of, neutral = _other_fields(record, honoured)
            others = [name for name, *both in zip(names, values_of(self), neutral, strict=True) if both[0] != both[1]]
            raise UnsupportedSchema(f"{reader} cannot read {record.__name__.lower()} with {', '.join(others)}")


@lru_cache(256)
def _other_fields(
    record: type[Any], honoured: tuple[str, ...]
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]:
    """The other fields of a record, a function that gives their values, and the neutral values; that of `rest` allows
    everything."""
    others = [each for each in fields(record) if each.init and each.name not in honoured]
    names = [each.name for each in others] + ["__class__"] * 2  # of fewer than two names it would give no tuple
    return (
        names,
        attrgetter(*names),
        (*(ANY if each.name == "rest" else each.default for each in others), record, record),
    )


@dataclass(frozen=True, slots=True)
class Numbers(ValueSet):
    """Numbers that satisfy every field at once. A bound of None is no bound.

    Attributes:
        literals: when given, only these numbers.
        plain: (only with `integer`) written without fraction and exponent; in draft 4 `1.0` is not an integer.
        multiples: whole multiples of each of these numbers.
        without: numbers that are in none of these sets.
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
class Strings(ValueSet):
    """Strings that satisfy every field at once.

    Attributes:
        min_length, max_length: in code points.
        patterns: ECMA-262 regular expressions that must all match somewhere in the string.
        formats: names of formats that must all hold.
        literals: when given, only these strings (still subject to the other fields).
        without: strings that are in none of these sets.
        quotes: pieces of a source, of each of these.
    """

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    literals: Listed[str] | None = None
    without: tuple[Strings, ...] = ()
    quotes: tuple[Quotation, ...] = ()

    @property
    def free(self) -> bool:
        """Is nothing but the length restricted?"""
        return self.only("min_length", "max_length")


class Contains(NamedTuple):
    """From item `start` on, at least `minimum` and at most `maximum` items satisfy `value` (None: no upper bound)."""

    value: Node
    minimum: int = 1
    maximum: int | None = None
    start: int = 0


@dataclass(slots=True, eq=False)
class Arrays(ValueSet):
    """Arrays: `prefix[i]` holds for item i, `rest` for every later one (None: there may be none).

    Attributes:
        contains: each of these holds.
        unique, repeated: no two items are equal; some two items are.
        without: arrays that satisfy none of these. Checked when an array is closed: the last resort of the algebra.
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
    """A named member of an object. A tuple, because an object may have hundreds.

    `declared` is False for a name that only `required` mentions; it comes after the declared names.
    """

    name: str
    value: Node
    required: bool
    declared: bool = True


class Named(NamedTuple):
    """The set of the names of some members, and the schema of their values."""

    names: Strings
    value: Node


@dataclass(slots=True, eq=False)
class Objects(ValueSet):
    """Objects: declared properties in order, `rest` for every other name (None: there may be none).

    Attributes:
        patterns: each member whose name is among `names`, declared or not, satisfies `value`. `rest` is for the
            names that are neither declared nor in any of these.
        some: existential rules: for each there is a member whose name is among `names` and whose value satisfies
            `value`.
        without: objects that satisfy none of these. Checked when an object is closed: the last resort of the algebra.
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
        """The number of required members in `properties[i:]`, for every `i`; the last is 0."""
        if self._required_from is None:
            backwards = accumulate([member.required for member in reversed(self.properties)], initial=0)
            self._required_from = list(backwards)[::-1]
        return self._required_from

    @property
    def required_bits(self) -> int:
        """Bit `i` is set where `properties[i]` is required."""
        if self._required_bits is None:
            digits = "".join(["01"[member.required] for member in reversed(self.properties)])
            self._required_bits = int(digits or "0", 2)
        return self._required_bits


@dataclass(slots=True, eq=False)
class Shape:
    """One set per JSON type; None or False where the shape has no value of that type."""

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
