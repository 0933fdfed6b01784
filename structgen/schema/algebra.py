"""Conjunction, complement and union of nodes and of unions of shapes.

The laws: a value is in `and(a, b)` exactly when it is in `a` and in `b`, and in `not(a)` exactly when it is not in
`a`; None is the empty set. Combined nodes are lazy and interned by their operands, so a recursive schema combined with
another has finitely many nodes, which form a cycle. Complements are pushed to the leaves (Attouche et al., *Witness
generation for JSON Schema*). Where that takes too many shapes, the complement of a container is checked at its closing
bracket (`without`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, TypeVar

from structgen.errors import LimitExceeded
from structgen.memo import cached_method
from structgen.memory import BYTES_OF_NODE, spend
from structgen.schema.containers import FREE_ARRAYS, FREE_OBJECTS, ContainerAlgebra
from structgen.schema.normal import ANY, NEVER, Arrays, Node, Numbers, Objects, Shape, Strings
from structgen.schema.scalars import (
    FREE_NUMBERS,
    FREE_STRINGS,
    numbers_and,
    numbers_not,
    strings_and,
    strings_not,
    united_numbers,
    united_strings,
)

MAX_SHAPES = 4096
"""The most alternatives of one JSON type in one place."""
MAX_NAMES = 1 << 22
"""The most alternatives that are objects, times the number of names that they declare together."""
MAX_PAIRS = 1 << 18
"""The most pairs of alternatives that one conjunction may compare."""
MANY_FACTORS = 32
"""Longer products are computed as a balanced tree."""
MAX_CONTAINERS = 64
"""The most arrays, or objects, of a product of unions; larger products are checked at the closing bracket."""

Shapes = tuple[Shape, ...]
_Set = TypeVar("_Set")


class TypeColumns(NamedTuple):
    """A union of shapes by JSON type: the sets in one list are alternatives."""

    null: bool
    true: bool
    false: bool
    numbers: list[Numbers]
    strings: list[Strings]
    arrays: list[Arrays]
    objects: list[Objects]

    @staticmethod
    def of(shapes: Sequence[Shape]) -> TypeColumns:
        """The columns of a union."""
        null = true = false = False
        numbers: list[Numbers] = []
        strings: list[Strings] = []
        arrays: list[Arrays] = []
        objects: list[Objects] = []
        for shape in shapes:
            null, true, false = null or shape.null, true or shape.true, false or shape.false
            if shape.numbers is not None:
                numbers.append(shape.numbers)
            if shape.strings is not None:
                strings.append(shape.strings)
            if shape.arrays is not None:
                arrays.append(shape.arrays)
            if shape.objects is not None:
                objects.append(shape.objects)
        return TypeColumns(
            null, true, false, united_numbers(numbers), united_strings(strings),
            _united(FREE_ARRAYS, arrays), _united(FREE_OBJECTS, objects),
        )  # fmt: skip

    def packed(self) -> Shapes:
        """The fewest shapes that hold the union: as many as the longest list."""
        alternatives = max(len(self.numbers), len(self.strings), len(self.arrays), len(self.objects))
        if alternatives > MAX_SHAPES:
            raise LimitExceeded(f"{alternatives} alternatives in one place; the limit is {MAX_SHAPES}")
        names = sum(len(objects.properties) for objects in self.objects)
        if len(self.objects) * names > MAX_NAMES:
            objects_and_names = f"{len(self.objects):,} alternatives that are objects, with {names:,} names together"
            raise LimitExceeded(f"{objects_and_names}; the limit of their product is {MAX_NAMES:,}")
        columns = zip_longest(self.numbers, self.strings, self.arrays, self.objects)
        rows = list(columns) or [(None, None, None, None)]
        first = Shape(self.null, self.true, self.false, *rows[0])
        return () if is_empty(first) else (first, *(Shape(False, False, False, *row) for row in rows[1:]))


def _united(free: _Set, sets: list[_Set]) -> list[_Set]:
    """The sets without repetitions; only `free` where it is one of them."""
    return [free] if free in sets else list(dict.fromkeys(sets))


class Both(Node):
    """The lazy conjunction of several nodes, none of which is a conjunction."""

    def __init__(self, operands: tuple[Node, ...], algebra: Algebra) -> None:
        super().__init__(lambda: operands[0].pointer, lambda: algebra.product([node.shapes for node in operands]))
        self.operands = operands


class Not(Node):
    """The lazy complement of a node."""

    def __init__(self, operand: Node, algebra: Algebra) -> None:
        super().__init__(lambda: operand.pointer, lambda: algebra.negated(operand))
        self.operand = operand


class UnionNode(Node):
    """The lazy union of several nodes."""

    def __init__(self, members: tuple[Node, ...]) -> None:
        super().__init__(lambda: members[0].pointer, lambda: pack([shape for node in members for shape in node.shapes]))
        self.members = members


class Algebra(ContainerAlgebra):
    """Conjunction, complement and union for one schema; it interns the nodes that it makes.

    Attributes:
        ranks: the position of each member name in the user's own order, where there is one.
    """

    def __init__(self, ranks: dict[str, int] | None = None) -> None:
        # By hand: the keys have no order, but the operands of the first call with a key keep theirs.
        self._interned: dict[frozenset[Node], Node] = {}
        self._unions: dict[frozenset[Node], Node] = {}
        self.ranks = ranks

    @cached_property
    def _arrays(self) -> _Kind[Arrays]:
        return _Kind("arrays", self.arrays, self.arrays_not, FREE_ARRAYS)

    @cached_property
    def _objects(self) -> _Kind[Objects]:
        return _Kind("objects", self.objects, self.objects_not, FREE_OBJECTS)

    def node(self, a: Node, b: Node) -> Node:
        """The node of the values that satisfy both `a` and `b`."""
        if a is b or b is ANY:
            return a
        if a is ANY:
            return b
        if a is NEVER or b is NEVER:
            return NEVER
        left = a.operands if isinstance(a, Both) else (a,)
        right = b.operands if isinstance(b, Both) else (b,)
        operands = tuple(dict.fromkeys(left + right))
        key = frozenset(operands)
        known = self._interned.get(key)
        if known is None:
            spend(BYTES_OF_NODE)
            against = any(isinstance(node, Not) and node.operand in key for node in operands)
            known = self._interned[key] = NEVER if against else Both(operands, self)
        return known

    @cached_method
    def negation(self, node: Node) -> Node:
        """The node of the values that do not satisfy `node`."""
        if node is ANY or node is NEVER:
            return NEVER if node is ANY else ANY
        if isinstance(node, Not):
            return node.operand
        spend(BYTES_OF_NODE)
        return Not(node, self)

    def union(self, nodes: Iterable[Node]) -> Node:
        """The node of the values that satisfy one of `nodes`."""
        nodes = tuple(nodes)
        key = frozenset(node for node in nodes if node is not NEVER)
        if ANY in key or len(key) < 2:
            return ANY if ANY in key else next(iter(key), NEVER)
        known = self._unions.get(key)
        if known is None:
            spend(BYTES_OF_NODE)
            known = self._unions[key] = UnionNode(tuple(dict.fromkeys(node for node in nodes if node in key)))
        return known

    def shape(self, a: Shape, b: Shape) -> Shape | None:
        """The values that are in both shapes."""
        spend(BYTES_OF_NODE // 4)
        both = Shape(
            a.null and b.null,
            a.true and b.true,
            a.false and b.false,
            numbers_and(a.numbers, b.numbers),
            strings_and(a.strings, b.strings),
            self.arrays(a.arrays, b.arrays),
            self.objects(a.objects, b.objects),
        )
        return None if is_empty(both) else both

    def product(self, factors: Sequence[Shapes]) -> Shapes:
        """The values that are in every one of the unions.

        Raises:
            LimitExceeded: the product has too many alternatives.
        """
        if len(factors) > MANY_FACTORS:  # each of many objects is merged log(n) times, not n times
            middle = len(factors) // 2
            factors = (self.product(factors[:middle]), self.product(factors[middle:]))
        shapes = ANY.shapes
        for factor in factors:
            if factor is ANY.shapes or factor is shapes:
                continue
            if shapes is ANY.shapes:
                shapes = factor
            elif len(shapes) == 1 and len(factor) == 1:
                both = self.shape(shapes[0], factor[0])
                shapes = () if both is None else (both,)
            else:
                shapes = self._conjoined(TypeColumns.of(shapes), TypeColumns.of(factor))
        return self._ordered(shapes)

    def _conjoined(self, a: TypeColumns, b: TypeColumns) -> Shapes:
        return TypeColumns(
            a.null and b.null,
            a.true and b.true,
            a.false and b.false,
            united_numbers(_NUMBERS.pairs(a.numbers, b.numbers)),
            united_strings(_STRINGS.pairs(a.strings, b.strings)),
            self._arrays.all_in(a.arrays, b.arrays),
            self._objects.all_in(a.objects, b.objects),
        ).packed()

    def negated(self, node: Node, limit: int = MAX_CONTAINERS) -> Shapes:
        """The shapes of the values that do not satisfy `node`.

        Where arrays or objects need more than `limit` alternatives, they are checked at the closing bracket.
        """
        columns = TypeColumns.of(node.shapes)
        return TypeColumns(
            not columns.null,
            not columns.true,
            not columns.false,
            united_numbers(_NUMBERS.none_in(columns.numbers)),
            united_strings(_STRINGS.none_in(columns.strings)),
            self._arrays.none_in(columns.arrays, node, limit),
            self._objects.none_in(columns.objects, node, limit),
        ).packed()

    def _ordered(self, shapes: Shapes) -> Shapes:
        """The shapes with the members that the user's own order lists first."""
        ranks = self.ranks
        if not ranks or shapes is ANY.shapes:
            return shapes
        ordered = []
        for shape in shapes:
            if shape.objects is not None:
                members = sorted(shape.objects.properties, key=lambda member: ranks.get(member.name, len(ranks)))
                shape = replace(shape, objects=replace(shape.objects, properties=tuple(members)))
            ordered.append(shape)
        return tuple(ordered)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[_Set]):
    """The algebra of the sets of one JSON type.

    Attributes:
        field: of a `Shape` that holds such a set.
        conjoin, negate: the two laws.
        free: the set of all values of the type.
    """

    field: str
    conjoin: Callable[[_Set | None, _Set | None], _Set | None]
    negate: Callable[[_Set], list[_Set]]
    free: Any

    def pairs(self, a: list[_Set], b: list[_Set]) -> list[_Set]:
        """The conjunction of two unions: that of each pair of alternatives."""
        if len(a) * len(b) > MAX_PAIRS:
            raise LimitExceeded(f"conjoined unions have more than {MAX_PAIRS} pairs of alternatives")
        pairs = [both for x in a for y in b if (both := self.conjoin(x, y)) is not None]
        if len(pairs) > MAX_SHAPES:
            raise LimitExceeded(f"{len(pairs)} alternatives in one place; the limit is {MAX_SHAPES}")
        return pairs

    def all_in(self, a: list[_Set], b: list[_Set]) -> list[_Set]:
        """`pairs`; where there are too many, `b` is checked at the closing bracket."""
        if len(a) > 1 < len(b) and len(a) * len(b) > MAX_CONTAINERS:
            inside = tuple(self._shape(each) for each in b)
            outside = (self._shape(self._barring(Node("", lambda: inside))),)
            b = [self._barring(Node("", lambda: outside))]
        return self.pairs(a, b)

    def none_in(self, sets: list[_Set], node: Node = NEVER, limit: int | None = None) -> list[_Set]:
        """The complement of a union; with more than `limit` alternatives it is checked at the closing bracket.

        Args:
            node: the node that the sets are from.
        """
        sets_left: list[_Set] = [self.free]
        for each in sets:
            outside = self.negate(each)
            if limit is not None and len(sets_left) * len(outside) > limit:
                return [self._barring(node)]
            sets_left = self.pairs(sets_left, outside)
        return sets_left

    def _barring(self, node: Node) -> Any:
        """The containers that do not satisfy `node`, which is checked at the closing bracket."""
        return replace(self.free, without=(node,))

    def _shape(self, value: _Set) -> Shape:
        return Shape(**{self.field: value})  # type: ignore[arg-type]


_NUMBERS = _Kind("numbers", numbers_and, numbers_not, FREE_NUMBERS)
_STRINGS = _Kind("strings", strings_and, strings_not, FREE_STRINGS)


def is_empty(shape: Shape) -> bool:
    """Is every field of the shape empty?"""
    scalar = shape.null or shape.true or shape.false or shape.numbers is not None or shape.strings is not None
    return not scalar and shape.arrays is None and shape.objects is None


def pack(shapes: Sequence[Shape]) -> Shapes:
    """The same union in fewer shapes: one shape can hold one set of each JSON type."""
    return tuple(shapes) if len(shapes) < 2 else TypeColumns.of(shapes).packed()
