"""What the keywords of one schema object say, gathered, and turned into shapes.

One function per keyword of the standard, named as the keyword: it writes what the keyword says into `Facts`.
The table in `keywords.py` says which drafts know it. `Facts.shapes` is the conjunction of all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from structgen.schema.algebra import (
    FREE_NUMBERS,
    FREE_STRINGS,
    Algebra,
    Shapes,
    closed_arrays,
    closed_objects,
    exact,
    numbers_and,
    pack,
)
from structgen.schema.checks import ALL_TYPES, TYPES
from structgen.schema.literals import literal_shapes
from structgen.schema.normal import ANY, NEVER, Arrays, Node, Numbers, Objects, Property, Shape, Strings

_NUMBER, _INTEGER = TYPES["number"], TYPES["integer"]
_INTEGERS = Numbers(integer=True)
_PLAIN_INTEGERS = Numbers(integer=True, plain=True)
_ANY_ARRAYS = Arrays(rest=ANY)
_ANY_OBJECTS = Objects(rest=ANY)


# The place of a schema: a pointer, or the node above it with the tokens that lead down, or None for "to be
# found".
Where = str | tuple[Any, ...] | None


class Reader(Protocol):
    """What the facts of one place need of the whole."""

    algebra: Algebra

    def node(self, schema: Any, where: Where) -> Node: ...

    def target(self, schema: dict[str, Any]) -> Node: ...

    def exclusive(self, branches: list[Shapes], others: list[Shapes], place: Node) -> Shapes: ...


class Facts:
    """What is known of the values of one place.

    Attributes:
        types: bits of `TYPES`.
        integers: what "integer" means in this draft.
        strings, numbers, arrays, objects: fields of the normal form that keywords have restricted.
        factors: unions to be conjoined, in the order of the document.
        home: where among `factors` the plain keywords stand, so that members keep the document's order.
    """

    def __init__(self, reader: Reader, schema: dict[str, Any], place: Node) -> None:
        self.reader = reader
        self.schema = schema
        self.place = place
        self.types = ALL_TYPES
        self.integers = _INTEGERS
        self.strings: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.factors: list[Shapes] = []
        self.exclusive: list[Shapes] | None = None
        self.home = 0

    def child(self, keyword: str, schema: Any) -> Node:
        """The node of the schema that is the argument of `keyword`."""
        return self.reader.node(schema, (self.place, keyword))

    def children(self, keyword: str, schemas: list[Any]) -> tuple[Node, ...]:
        """The nodes of the schemas in the array that is the argument of `keyword`."""
        return tuple(self.reader.node(schema, (self.place, keyword, i)) for i, schema in enumerate(schemas))

    def pointer_to(self, keyword: str) -> Callable[[], str]:
        """The pointer to the argument of `keyword`, for when it is asked for."""
        return lambda: f"{self.place.pointer}/{keyword}"

    def shapes(self) -> Shapes:
        """The conjunction of everything gathered."""
        own = self._own()
        factors = self.factors
        if own is not ANY.shapes:
            factors.insert(self.home, own)
        if self.exclusive is not None:
            return self.reader.exclusive(self.exclusive, factors, self.place)
        return self.reader.algebra.product(factors)

    def _own(self) -> Shapes:
        types = self.types
        restricted = self.strings or self.numbers or self.arrays or self.objects
        if types == ALL_TYPES and not restricted:
            return ANY.shapes
        boolean = bool(types & 2)
        shape = Shape(
            bool(types & 1),
            boolean,
            boolean,
            self._number_set() if types & (_NUMBER | _INTEGER) else None,
            (Strings(**self.strings) if self.strings else FREE_STRINGS) if types & 16 else None,
            (self._array_set() if self.arrays else _ANY_ARRAYS) if types & 32 else None,
            (self._object_set() if self.objects else _ANY_OBJECTS) if types & 64 else None,
        )
        return (_consistent(shape),) if self.strings else (shape,)

    def _number_set(self) -> Numbers | None:
        allowed = FREE_NUMBERS if self.types & _NUMBER else self.integers
        for bound in self.numbers.values():
            both = numbers_and(allowed, bound)
            if both is None:
                return None
            allowed = both
        return allowed

    def _array_set(self) -> Arrays | None:
        return closed_arrays(Arrays(**{"rest": ANY, **self.arrays}))

    def _object_set(self) -> Objects | None:
        fields = dict(self.objects)
        rest = fields.setdefault("rest", ANY)
        required = fields.pop("required", ())
        declared = fields.pop("properties", {})
        node, place = self.reader.node, self.place
        members = [
            Property(name, node(schema, (place, "properties", name)), name in required)
            for name, schema in declared.items()
        ]
        members += [
            Property(name, rest or NEVER, required=True, declared=False)
            for name in required
            if name not in declared
        ]
        return closed_objects(Objects(tuple(members), **fields))


def _consistent(shape: Shape) -> Shape:
    """`shape` without strings when their lengths contradict each other."""
    strings = shape.strings
    if strings is None or strings.max_length is None or strings.min_length <= strings.max_length:
        return shape
    scalars = shape.null, shape.true, shape.false, shape.numbers
    return Shape(*scalars, arrays=shape.arrays, objects=shape.objects)


# In any schema.


def type_(facts: Facts, value: Any) -> None:
    facts.types = TYPES[value] if isinstance(value, str) else sum(TYPES[name] for name in value)


def type_4(facts: Facts, value: Any) -> None:
    """In draft 4 `1.0` is no integer."""
    type_(facts, value)
    facts.integers = _PLAIN_INTEGERS


def enum(facts: Facts, value: Any) -> None:
    facts.factors.append(literal_shapes(value, facts.pointer_to("enum")))


def const(facts: Facts, value: Any) -> None:
    facts.factors.append(literal_shapes((value,), facts.pointer_to("const")))


# Numbers.


@lru_cache(maxsize=4096)
def _bound(field: str, value: int | float, exclusive: bool) -> Numbers:
    return Numbers(**{field: exact(value), f"exclusive_{field}": exclusive})  # type: ignore[arg-type]


def minimum(facts: Facts, value: Any) -> None:
    facts.numbers["minimum"] = _bound("minimum", value, False)


def maximum(facts: Facts, value: Any) -> None:
    facts.numbers["maximum"] = _bound("maximum", value, False)


def exclusive_minimum(facts: Facts, value: Any) -> None:
    facts.numbers["exclusive_minimum"] = _bound("minimum", value, True)


def exclusive_maximum(facts: Facts, value: Any) -> None:
    facts.numbers["exclusive_maximum"] = _bound("maximum", value, True)


def exclusive_minimum_4(facts: Facts, value: Any) -> None:
    if value:
        facts.numbers["exclusive_minimum"] = _bound("minimum", facts.schema["minimum"], True)


def exclusive_maximum_4(facts: Facts, value: Any) -> None:
    if value:
        facts.numbers["exclusive_maximum"] = _bound("maximum", facts.schema["maximum"], True)


# Strings.


def min_length(facts: Facts, value: Any) -> None:
    facts.strings["min_length"] = int(value)


def max_length(facts: Facts, value: Any) -> None:
    facts.strings["max_length"] = int(value)


def pattern(facts: Facts, value: Any) -> None:
    facts.strings["patterns"] = (value,)


def format_(facts: Facts, value: Any) -> None:
    facts.strings["formats"] = (value,)


# Arrays.


def items(facts: Facts, value: Any) -> None:
    """Up to 2019-09 an array stands for what 2020-12 calls prefixItems."""
    if isinstance(value, list):
        facts.arrays["prefix"] = facts.children("items", value)
    else:
        facts.arrays["rest"] = facts.child("items", value)


def prefix_items(facts: Facts, value: Any) -> None:
    facts.arrays["prefix"] = facts.children("prefixItems", value)


def additional_items(facts: Facts, value: Any) -> None:
    """Has no effect unless `items` is an array."""
    if isinstance(facts.schema.get("items"), list):
        facts.arrays["rest"] = facts.child("additionalItems", value)


def min_items(facts: Facts, value: Any) -> None:
    facts.arrays["min_items"] = int(value)


def max_items(facts: Facts, value: Any) -> None:
    facts.arrays["max_items"] = int(value)


# Objects.


def properties(facts: Facts, value: Any) -> None:
    facts.objects["properties"] = value
    facts.home = len(facts.factors)


def required(facts: Facts, value: Any) -> None:
    facts.objects["required"] = dict.fromkeys(value)


def additional_properties(facts: Facts, value: Any) -> None:
    facts.objects["rest"] = None if value is False else facts.child("additionalProperties", value)


def min_properties(facts: Facts, value: Any) -> None:
    facts.objects["min_properties"] = int(value)


def max_properties(facts: Facts, value: Any) -> None:
    facts.objects["max_properties"] = int(value)


# Other schemas in the same place.


def ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.schema).shapes)


def all_of(facts: Facts, value: Any) -> None:
    facts.factors.extend(node.shapes for node in facts.children("allOf", value))


def any_of(facts: Facts, value: Any) -> None:
    facts.factors.append(pack([shape for node in facts.children("anyOf", value) for shape in node.shapes]))


def one_of(facts: Facts, value: Any) -> None:
    facts.exclusive = [node.shapes for node in facts.children("oneOf", value)]
