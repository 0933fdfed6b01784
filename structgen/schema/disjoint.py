"""When no value can be in two sets at once: what turns `oneOf` into `anyOf`.

`True` is a proof; `False` only means that none was found at an acceptable price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from structgen.memo import cached_method
from structgen.schema.algebra import Algebra, Shapes
from structgen.schema.normal import NEVER, Arrays, Node, Objects, Property, Shape
from structgen.schema.scalars import numbers_and, strings_and

Peek = Callable[[Node], Shapes | None]

MAX_BRANCHES = 256
_DEPTH = 4
_ITEMS = 4


class Disjointness:
    """Proofs for one schema. `peek` gives a node's shapes, or None where they are not known yet."""

    def __init__(self, algebra: Algebra, peek: Peek) -> None:
        self._algebra = algebra
        self._peek = peek
        self._apart: dict[tuple[Node, Node], bool] = {}

    def overlap(self, branches: Sequence[Shapes]) -> tuple[int, int] | None:
        """The first two branches that are not provably disjoint, or None when all are."""
        if self._told_apart(branches):
            return None
        if len(branches) > MAX_BRANCHES:
            return 0, 1
        pairs = combinations(range(len(branches)), 2)
        return next((pair for pair in pairs if not self.unions(branches[pair[0]], branches[pair[1]])), None)

    def _told_apart(self, branches: Sequence[Shapes]) -> bool:
        """Whether a member that every branch requires has texts of its own in each: the usual tag. Or whether all
        branches are literals, and different ones."""
        every = [shape for shapes in branches for shape in shapes]
        if all(_only_literals(shape) for shape in every):
            listed = [value for shapes in branches for value in {v for shape in shapes for v in _literals(shape)}]
            return len(set(listed)) == len(listed)
        if len(branches) < 3 or not every or not all(_only_objects(shape) for shape in every):
            return False
        first = every[0].objects
        names = [member.name for member in first.properties if member.required] if first else []
        return any(self._tells_apart(name, branches) for name in names)

    def _tells_apart(self, name: str, branches: Sequence[Shapes]) -> bool:
        taken: set[str] = set()
        for shapes in branches:
            texts: set[str] = set()
            for shape in shapes:
                values = self._texts(name, shape.objects)
                if values is None or not taken.isdisjoint(values):
                    return False
                texts.update(values)
            taken |= texts
        return True

    def _texts(self, name: str, objects: Objects | None) -> tuple[str, ...] | None:
        """All values of the required member `name`, when they are finitely many texts."""
        member = self._members(objects).get(name) if objects else None
        shapes = self._peek(member.value) if member and member.required else None
        if shapes is None or not all(_only_texts(shape) for shape in shapes):
            return None
        return tuple(text for shape in shapes for text in (shape.strings and shape.strings.literals) or ())

    def unions(self, a: Shapes, b: Shapes, depth: int = _DEPTH) -> bool:
        """Whether no value is in both unions."""
        return all(self._shapes(x, y, depth) for x in a for y in b)

    def _shapes(self, a: Shape, b: Shape, depth: int) -> bool:
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
        """Whether a member that `a` requires has no value that `b` admits too."""
        theirs = self._members(b)
        for member in a.properties:
            if member.required:
                other = theirs.get(member.name)
                if other is None and b.patterns:
                    continue  # what a pattern says of the name is not known here
                value = other.value if other else b.rest
                if value is None or value is NEVER or self._nodes(member.value, value, depth):
                    return True
        return False

    def _nodes(self, a: Node, b: Node, depth: int) -> bool:
        if a is b or a.is_any or b.is_any or depth == 0:
            return False
        pair = (a, b)
        known = self._apart.get(pair)
        if known is None:
            x, y = self._peek(a), self._peek(b)
            known = x is not None and y is not None and self.unions(x, y, depth - 1)
            self._apart[pair] = known
        return known


def _counts_apart(a: Objects, b: Objects) -> bool:
    return a.max_properties is not None and a.max_properties < b.min_properties


def _only_objects(shape: Shape) -> bool:
    scalar = shape.null or shape.true or shape.false or shape.numbers is not None or shape.strings is not None
    return shape.objects is not None and shape.arrays is None and not scalar


def _only_literals(shape: Shape) -> bool:
    other = shape.null or shape.true or shape.false or shape.arrays is not None or shape.objects is not None
    return not other and all(each is None or each.literals is not None for each in (shape.strings, shape.numbers))


def _literals(shape: Shape) -> tuple[str | int | float, ...]:
    """The texts and numbers of a shape of literals; what else is said of them only takes some away."""
    strings, numbers = shape.strings, shape.numbers
    return (*(strings.literals or () if strings else ()), *(numbers.literals or () if numbers else ()))


def _only_texts(shape: Shape) -> bool:
    other = shape.null or shape.true or shape.false or shape.numbers is not None
    if other or shape.arrays is not None or shape.objects is not None:
        return False
    return shape.strings is not None and shape.strings.literals is not None
