"""The conjunction of the normal form: one function per field, and its lift to unions of shapes.

The law of every function here: a value is in `f(a, b)` exactly when it is in `a` and in `b`; None is the
empty set. Conjunctions of nodes are lazy and interned by the *set* of places they stand for, so a recursive
schema conjoined with another has finitely many nodes and becomes a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import zip_longest

from structgen.errors import LimitExceeded
from structgen.schema.normal import ANY, NEVER, Arrays, Node, Numbers, Objects, Property, Shape, Strings

MAX_SHAPES = 4096
MAX_PAIRS = 1 << 18

Shapes = tuple[Shape, ...]

FREE_NUMBERS = Numbers()
FREE_STRINGS = Strings()


def exact(value: int | float) -> Fraction:
    """The number that the decimal text of `value` means: 0.1 is one tenth."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _tighter(a: Numbers, b: Numbers, sign: int) -> tuple[Fraction | None, bool]:
    """The tighter of two lower (`sign` 1) or upper (-1) bounds, and whether it is exclusive."""
    if sign > 0:
        sides = [(a.minimum, a.exclusive_minimum), (b.minimum, b.exclusive_minimum)]
    else:
        sides = [(a.maximum, a.exclusive_maximum), (b.maximum, b.exclusive_maximum)]
    bounds = [(bound * sign, exclusive) for bound, exclusive in sides if bound is not None]
    if not bounds:
        return None, False
    bound, exclusive = max(bounds)
    return bound * sign, exclusive


def holds(numbers: Numbers, value: int | float) -> bool:
    """Whether `value` is in the set."""
    if numbers.plain and not isinstance(value, int):
        return False
    if numbers.literals is not None:
        return value in numbers.literals
    point = exact(value)
    if numbers.integer and point.denominator != 1:
        return False
    low, high = numbers.minimum, numbers.maximum
    if low is not None and (point < low or (numbers.exclusive_minimum and point == low)):
        return False
    return high is None or not (point > high or (numbers.exclusive_maximum and point == high))


def _same(value: int | float) -> int | float:
    return value


def _whole(value: int | float) -> int | float:
    """An integral value as an int, which is spelled without a fraction."""
    return int(value) if value == int(value) else value


def _void(numbers: Numbers) -> bool:
    """Whether no number lies within the bounds."""
    low, high = numbers.minimum, numbers.maximum
    if low is None or high is None:
        return False
    if not numbers.integer:
        return low > high or (low == high and (numbers.exclusive_minimum or numbers.exclusive_maximum))
    first = math.floor(low) + 1 if numbers.exclusive_minimum else math.ceil(low)
    last = math.ceil(high) - 1 if numbers.exclusive_maximum else math.floor(high)
    return first > last


def numbers_and(a: Numbers | None, b: Numbers | None) -> Numbers | None:
    """The numbers that are in both sets."""
    if a is None or b is None or a is FREE_NUMBERS:
        return None if a is None else b
    if b is FREE_NUMBERS:
        return a
    if a.literals is not None or b.literals is not None:
        listed, other = (a, b) if a.literals is not None else (b, a)
        plain = a.plain or b.plain
        kept = tuple(
            value for value in map(_whole if plain else _same, listed.literals or ()) if holds(other, value)
        )
        return Numbers(plain, literals=kept, plain=plain) if kept else None
    minimum, exclusive_minimum = _tighter(a, b, 1)
    maximum, exclusive_maximum = _tighter(a, b, -1)
    bounds = minimum, maximum, exclusive_minimum, exclusive_maximum
    both = Numbers(a.integer or b.integer, *bounds, plain=a.plain or b.plain)
    return None if _void(both) else both


def least(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds, where None is no bound."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def strings_and(a: Strings | None, b: Strings | None) -> Strings | None:
    """The strings that are in both sets."""
    if a is None or b is None or a is FREE_STRINGS:
        return None if a is None else b
    if b is FREE_STRINGS:
        return a
    shortest, longest = max(a.min_length, b.min_length), least(a.max_length, b.max_length)
    literals = a.literals if b.literals is None else b.literals
    if literals is not None:
        among = set(literals) if a.literals is None or b.literals is None else set(a.literals)
        literals = tuple(text for text in literals if text in among and _fits(text, shortest, longest))
        shortest, longest = 0, None
    if literals == () or (longest is not None and shortest > longest):
        return None
    patterns = tuple(dict.fromkeys(a.patterns + b.patterns))
    formats = tuple(dict.fromkeys(a.formats + b.formats))
    return Strings(shortest, longest, patterns, formats, literals)


def _fits(text: str, shortest: int, longest: int | None) -> bool:
    return shortest <= len(text) and (longest is None or len(text) <= longest)


def closed_arrays(arrays: Arrays) -> Arrays | None:
    """`arrays` cut at the first item that can never be, or None when the counts leave nothing."""
    if NEVER in arrays.prefix or arrays.rest is NEVER:
        cut = arrays.prefix.index(NEVER) if NEVER in arrays.prefix else len(arrays.prefix)
        arrays = Arrays(arrays.prefix[:cut], None, arrays.min_items, arrays.max_items)
    most = arrays.max_items
    if arrays.rest is None:
        most = least(most, len(arrays.prefix))
    return None if most is not None and arrays.min_items > most else arrays


def closed_objects(objects: Objects) -> Objects | None:
    """`objects` without members that can never be, or None when what is required leaves nothing."""
    never = [member for member in objects.properties if member.value is NEVER]
    if any(member.required for member in never):
        return None
    most = objects.max_properties
    if objects.rest is None or objects.rest is NEVER:
        if never or objects.rest is NEVER:
            kept = tuple(member for member in objects.properties if member.value is not NEVER)
            objects = Objects(kept, None, objects.min_properties, most)
        most = least(most, len(objects.properties))
    if most is None:
        return objects
    needed = len([member for member in objects.properties if member.required])
    return None if max(needed, objects.min_properties) > most else objects


class Both(Node):
    """The lazy conjunction of several places; never nested."""

    def __init__(self, operands: tuple[Node, ...], algebra: Algebra) -> None:
        super().__init__(
            lambda: operands[0].pointer, lambda: algebra.product([node.shapes for node in operands])
        )
        self.operands = operands


class Algebra:
    """Conjunction of nodes and of what holds nodes; owns the interned conjunctions of one schema.

    `ranks` gives the user's own order of member names, where there is one.
    """

    def __init__(self, ranks: dict[str, int] | None = None) -> None:
        self._interned: dict[frozenset[Node], Node] = {}
        self._ranks = ranks

    def node(self, a: Node, b: Node) -> Node:
        """The node of what satisfies both `a` and `b`."""
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
            known = self._interned[key] = Both(operands, self)
        return known

    def optional(self, a: Node | None, b: Node | None) -> Node | None:
        """The same for a `rest`, where None admits nothing."""
        return None if a is None or b is None else self.node(a, b)

    def arrays(self, a: Arrays | None, b: Arrays | None) -> Arrays | None:
        """The arrays that are in both sets."""
        if a is None or b is None:
            return None
        prefix = []
        for i in range(max(len(a.prefix), len(b.prefix))):
            left = a.prefix[i] if i < len(a.prefix) else a.rest
            right = b.prefix[i] if i < len(b.prefix) else b.rest
            prefix.append(self.optional(left, right) or NEVER)
        rest = self.optional(a.rest, b.rest)
        counts = max(a.min_items, b.min_items), least(a.max_items, b.max_items)
        return closed_arrays(Arrays(tuple(prefix), rest, *counts))

    def objects(self, a: Objects | None, b: Objects | None) -> Objects | None:
        """The objects in both sets. A member stands where the first of `a` and `b` that declares it has it."""
        if a is None or b is None:
            return None
        both = (*a.properties, *b.properties)
        mine, theirs = ({member.name: member for member in side.properties} for side in (a, b))
        order = dict.fromkeys(member.name for member in sorted(both, key=lambda member: not member.declared))
        merged = [
            self._member(mine[name], theirs.get(name), b.rest)
            if name in mine
            else self._member(theirs[name], None, a.rest)
            for name in order
        ]
        rest = self.optional(a.rest, b.rest)
        counts = max(a.min_properties, b.min_properties), least(a.max_properties, b.max_properties)
        return closed_objects(Objects(tuple(merged), rest, *counts))

    def _member(self, mine: Property, theirs: Property | None, rest: Node | None) -> Property:
        other = theirs.value if theirs else rest
        value = self.node(mine.value, other) if other is not None else NEVER
        required = mine.required or (theirs is not None and theirs.required)
        declared = mine.declared or (theirs is not None and theirs.declared)
        return Property(mine.name, value, required, declared)

    def shape(self, a: Shape, b: Shape) -> Shape | None:
        """The values that are in both shapes."""
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
            LimitExceeded: that takes too many shapes.
        """
        shapes = ANY.shapes
        for factor in factors:
            if factor is ANY.shapes or factor is shapes:
                continue
            if shapes is ANY.shapes:
                shapes = factor
                continue
            if len(shapes) * len(factor) > MAX_PAIRS:
                raise LimitExceeded(f"conjoined unions have more than {MAX_PAIRS} pairs of alternatives")
            pairs = (self.shape(a, b) for a in shapes for b in factor)
            shapes = _bounded(pack([shape for shape in pairs if shape is not None]))
        return self._ordered(_bounded(shapes))

    def _ordered(self, shapes: Shapes) -> Shapes:
        """The same shapes with members in the user's own order: listed names first."""
        ranks = self._ranks
        if not ranks or shapes is ANY.shapes:
            return shapes
        last = len(ranks)
        return tuple(_sorted_members(shape, ranks, last) for shape in shapes)


def _bounded(shapes: Shapes) -> Shapes:
    if len(shapes) > MAX_SHAPES:
        raise LimitExceeded(
            f"{len(shapes)} alternatives in one place of the schema; the limit is {MAX_SHAPES}"
        )
    return shapes


def _sorted_members(shape: Shape, ranks: dict[str, int], last: int) -> Shape:
    objects = shape.objects
    if objects is None:
        return shape
    members = tuple(sorted(objects.properties, key=lambda member: ranks.get(member.name, last)))
    counts = objects.min_properties, objects.max_properties
    ordered = Objects(members, objects.rest, *counts)
    scalars = shape.null, shape.true, shape.false, shape.numbers, shape.strings
    return Shape(*scalars, arrays=shape.arrays, objects=ordered)


def is_empty(shape: Shape) -> bool:
    """Whether plainly no value is in the shape."""
    scalar = shape.null or shape.true or shape.false or shape.numbers is not None or shape.strings is not None
    return not scalar and shape.arrays is None and shape.objects is None


def pack(shapes: Sequence[Shape]) -> Shapes:
    """The same union in as few shapes as there are different sets of one JSON type.

    A shape is itself a union over JSON types, so sets of different types may share one.
    """
    if len(shapes) < 2:
        return tuple(shapes)
    null, true, false = (any(getattr(shape, name) for shape in shapes) for name in ("null", "true", "false"))
    columns = zip_longest(
        _united_numbers(shape.numbers for shape in shapes if shape.numbers is not None),
        _united_strings(shape.strings for shape in shapes if shape.strings is not None),
        dict.fromkeys(shape.arrays for shape in shapes if shape.arrays is not None),
        dict.fromkeys(shape.objects for shape in shapes if shape.objects is not None),
    )
    rows = list(columns) or [(None, None, None, None)]
    first = Shape(null, true, false, *rows[0])
    packed = (first, *(Shape(False, False, False, *row) for row in rows[1:]))
    return packed if not is_empty(first) else ()


def _united_numbers(sets: Iterable[Numbers]) -> list[Numbers]:
    different = list(dict.fromkeys(sets))
    if FREE_NUMBERS in different:
        return [FREE_NUMBERS]
    ranges = [numbers for numbers in different if numbers.literals is None or numbers.plain]
    listed = [value for numbers in different if not numbers.plain for value in numbers.literals or ()]
    listed = [
        value for value in dict.fromkeys(listed) if not any(holds(numbers, value) for numbers in ranges)
    ]
    return ranges + ([Numbers(literals=tuple(listed))] if listed else [])


def _united_strings(sets: Iterable[Strings]) -> list[Strings]:
    different = list(dict.fromkeys(sets))
    if FREE_STRINGS in different:
        return [FREE_STRINGS]
    plain = [strings for strings in different if strings == Strings(literals=strings.literals)]
    texts = dict.fromkeys(text for strings in plain for text in strings.literals or ())
    others = [strings for strings in different if strings not in plain]
    return others + ([Strings(literals=tuple(texts))] if texts else [])
