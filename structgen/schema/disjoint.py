"""Proofs that no value is in two sets at once. They turn `oneOf` into `anyOf`.

`True` is a proof; `False` only means that no proof was found at an acceptable price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from structgen.memo import cached_method
from structgen.patience import check_patience
from structgen.schema.algebra import Algebra, Shapes, is_empty
from structgen.schema.normal import NEVER, Arrays, Node, Objects, Property, Shape
from structgen.schema.scalars import numbers_and, strings_and

KnownShapes = Callable[[Node], Shapes | None]
Literal = str | int | float

MAX_BRANCHES = 256
_DEPTH = 4
_ITEMS = 4


class Disjointness:
    """Proofs for one schema. `peek` returns the shapes of a node, or None where they are not known yet."""

    def __init__(self, algebra: Algebra, peek: KnownShapes) -> None:
        self._algebra = algebra
        self._peek = peek
        self._apart: dict[tuple[Node, Node], bool] = {}

    def overlap(self, branches: Sequence[Shapes]) -> tuple[int, int] | None:
        """The indexes of two branches that are not provably disjoint; None when all branches are disjoint."""
        if self._told_apart(branches):
            return None
        if len(branches) > MAX_BRANCHES:
            return 0, 1
        pairs = combinations(range(len(branches)), 2)
        return next((pair for pair in pairs if not self.unions(branches[pair[0]], branches[pair[1]])), None)

    def _told_apart(self, branches: Sequence[Shapes]) -> bool:
        """Are all branches different literals, or do all require a member that has other literals in each (a tag)?"""
        if _all_different(map(_literals, branches)):
            return True
        first = next((shape.objects for shapes in branches for shape in shapes), None)
        if len(branches) < 3 or first is None:
            return False
        names = [member.name for member in first.properties if member.required]
        return any(_all_different(self._tags(name, shapes) for shapes in branches) for name in names)

    def _tags(self, name: str, shapes: Shapes) -> list[Literal] | None:
        """The values of the required member `name`; None unless all shapes are objects and all values literals."""
        tags: list[Literal] = []
        for shape in shapes:
            member = self._members(shape.objects).get(name) if shape.objects else None
            if member is None or not member.required or not is_empty(replace(shape, objects=None)):
                return None
            values = self._peek(member.value)
            literals = None if values is None else _literals(values)
            if literals is None:
                return None
            tags += literals
        return tags

    def unions(self, a: Shapes, b: Shapes, depth: int = _DEPTH) -> bool:
        """Is no value in both unions?"""
        return all(self._shapes(x, y, depth) for x in a for y in b)

    def _shapes(self, a: Shape, b: Shape, depth: int) -> bool:
        check_patience()
        if (a.null and b.null) or (a.true and b.true) or (a.false and b.false):
            return False
        if numbers_and(a.numbers, b.numbers) is not None or strings_and(a.strings, b.strings) is not None:
            return False
        return self._arrays(a.arrays, b.arrays, depth) and self._objects(a.objects, b.objects, depth)

    @cached_method
    def _members(self, objects: Objects) -> dict[str, Property]:
        return {member.name: member for member in objects.properties}

    def _arrays(self, a: Arrays | None, b: Arrays | None, depth: int) -> bool:
        both = self._algebra.arrays(a, b)
        if a is None or b is None or both is None:
            return True
        for i in range(min(both.min_items, _ITEMS)):
            left = a.prefix[i] if i < len(a.prefix) else a.rest
            right = b.prefix[i] if i < len(b.prefix) else b.rest
            if left is None or right is None or self._nodes(left, right, depth):
                return True
        return False

    def _objects(self, a: Objects | None, b: Objects | None, depth: int) -> bool:
        if a is None or b is None or _counts_apart(a, b) or _counts_apart(b, a):
            return True
        return self._required_apart(a, b, depth) or self._required_apart(b, a, depth)

    def _required_apart(self, a: Objects, b: Objects, depth: int) -> bool:
        """Does `a` require a member whose values `b` does not allow?"""
        theirs = self._members(b)
        for member in a.properties:
            if member.required:
                other = theirs.get(member.name)
                if other is None and not b.only(
                    "properties", "rest", "min_properties", "max_properties", "some", "without"
                ):
                    continue  # another rule of `b`, such as a pattern, may take the name
                value = other.value if other else b.rest
                if value is None or value is NEVER or self._nodes(member.value, value, depth):
                    return True
        return False

    def _nodes(self, a: Node, b: Node, depth: int) -> bool:
        if a is b or a.is_any or b.is_any or depth == 0:
            return False
        pair = (a, b)
        known = self._apart.get(pair)  # by hand: an answer stands for every depth
        if known is None:
            x, y = self._peek(a), self._peek(b)
            known = x is not None and y is not None and self.unions(x, y, depth - 1)
            self._apart[pair] = known
        return known


def _counts_apart(a: Objects, b: Objects) -> bool:
    return a.max_properties is not None and a.max_properties < b.min_properties


def _literals(shapes: Shapes) -> list[Literal] | None:
    """Texts and numbers, of which all values of the shapes are some; None where there may be other values."""
    literals: list[Literal] = []
    for shape in shapes:
        if not is_empty(replace(shape, numbers=None, strings=None)):
            return None
        for scalars in (shape.numbers, shape.strings):
            if scalars is not None:
                if scalars.literals is None:
                    return None
                literals += scalars.literals
    return literals


def _all_different(branches: Iterable[list[Literal] | None]) -> bool:
    """Are the literals of all branches known, and is none in two of them?"""
    taken: set[Literal] = set()
    for literals in branches:
        if literals is None or not taken.isdisjoint(literals):
            return False
        taken.update(literals)
    return True
