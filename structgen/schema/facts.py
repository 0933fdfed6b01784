"""What the keywords of one schema object say, gathered, and turned into shapes.

One function per keyword of the standard, named as the keyword: it writes what the keyword says into `Facts`.
The table in `keywords.py` says which drafts know it. `Facts.shapes` is the conjunction of all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from structgen.schema.algebra import Algebra, Shapes, pack
from structgen.schema.checks import ALL_TYPES, TYPES
from structgen.schema.containers import FREE_ARRAYS, FREE_OBJECTS, closed_arrays, closed_objects, other_names
from structgen.schema.literals import literal_shapes
from structgen.schema.normal import (
    ANY,
    NEVER,
    Arrays,
    Contains,
    Named,
    Node,
    Numbers,
    Objects,
    Property,
    Shape,
    Strings,
)
from structgen.schema.scalars import FREE_NUMBERS, FREE_STRINGS, exact, numbers_and

_NUMBER, _INTEGER = TYPES["number"], TYPES["integer"]
_INTEGERS = Numbers(integer=True)
_PLAIN_INTEGERS = Numbers(integer=True, plain=True)


# The place of a schema: a pointer, or the node above it with the tokens that lead down, or None for "to be
# found".
Where = str | tuple[Any, ...] | None


class Reader(Protocol):
    """What the facts of one place need of the whole."""

    algebra: Algebra
    formats: bool

    def node(self, schema: Any, where: Where) -> Node: ...

    def target(self, place: Any, keyword: str) -> Node: ...

    def draft(self, schema: dict[str, Any]) -> int: ...

    def exclusive(self, branches: Sequence[Node], others: list[Shapes]) -> Shapes: ...


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
        self.exclusive: Sequence[Node] = ()
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
        if self.exclusive:
            return self.reader.exclusive(self.exclusive, factors)
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
            (self._array_set() if self.arrays else FREE_ARRAYS) if types & 32 else None,
            (self._object_set() if self.objects else FREE_OBJECTS) if types & 64 else None,
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
        absent = [name for name in required if name not in declared]
        if absent and rest is not ANY and "patterns" in fields:  # a pattern may know what `declared` does not
            rule = Named(other_names(Objects(tuple(members), **fields)), rest or NEVER)
            rest = fields["rest"] = ANY
            fields["patterns"] = (*fields["patterns"], rule)
        members += [Property(name, rest or NEVER, required=True, declared=False) for name in absent]
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


def multiple_of(facts: Facts, value: Any) -> None:
    facts.numbers["multiple"] = Numbers(multiples=(exact(value),))


# Strings.


def min_length(facts: Facts, value: Any) -> None:
    facts.strings["min_length"] = int(value)


def max_length(facts: Facts, value: Any) -> None:
    facts.strings["max_length"] = int(value)


def pattern(facts: Facts, value: Any) -> None:
    facts.strings["patterns"] = (value,)


def format_(facts: Facts, value: Any) -> None:
    if facts.reader.formats:
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


def unique_items(facts: Facts, value: Any) -> None:
    if value:
        facts.arrays["unique"] = True


def contains(facts: Facts, value: Any) -> None:
    """`minContains` and `maxContains` stand beside it, from 2019-09 on."""
    least, most = 1, None
    if facts.reader.draft(facts.schema) >= 2019:
        least, most = int(facts.schema.get("minContains", 1)), facts.schema.get("maxContains")
    if least or most is not None:
        most = None if most is None else int(most)
        facts.arrays["contains"] = (Contains(facts.child("contains", value), least, most),)


# Objects.


def properties(facts: Facts, value: Any) -> None:
    facts.objects["properties"] = value
    facts.home = len(facts.factors)


def required(facts: Facts, value: Any) -> None:
    facts.objects["required"] = dict.fromkeys(value)


def additional_properties(facts: Facts, value: Any) -> None:
    facts.objects["rest"] = None if value is False else facts.child("additionalProperties", value)


def pattern_properties(facts: Facts, value: Any) -> None:
    _add_patterns(
        facts,
        [
            Named(Strings(patterns=(pattern,)), facts.reader.node(schema, (facts.place, "patternProperties", pattern)))
            for pattern, schema in value.items()
        ],
    )


def property_names(facts: Facts, value: Any) -> None:
    """A member whose name is none of the strings of the schema can never be."""
    strings = [shape.strings for shape in facts.child("propertyNames", value).shapes if shape.strings]
    if FREE_STRINGS not in strings:
        _add_patterns(facts, [Named(Strings(without=tuple(strings)), NEVER)])


def _add_patterns(facts: Facts, patterns: list[Named]) -> None:
    if patterns:
        facts.objects["patterns"] = (*facts.objects.get("patterns", ()), *patterns)


def min_properties(facts: Facts, value: Any) -> None:
    facts.objects["min_properties"] = int(value)


def max_properties(facts: Facts, value: Any) -> None:
    facts.objects["max_properties"] = int(value)


# Other schemas in the same place.


def ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$ref").shapes)


def dynamic_ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$dynamicRef").shapes)


def recursive_ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$recursiveRef").shapes)


def all_of(facts: Facts, value: Any) -> None:
    facts.factors.extend(node.shapes for node in facts.children("allOf", value))


def any_of(facts: Facts, value: Any) -> None:
    facts.factors.append(pack([shape for node in facts.children("anyOf", value) for shape in node.shapes]))


def one_of(facts: Facts, value: Any) -> None:
    facts.exclusive = facts.children("oneOf", value)


def not_(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.algebra.negation(facts.child("not", value)).shapes)


def if_(facts: Facts, value: Any) -> None:
    """(if and then) or (not if and else)."""
    schema, algebra = facts.schema, facts.reader.algebra
    if "then" in schema or "else" in schema:
        condition = facts.child("if", value)
        then, otherwise = (facts.child(name, schema.get(name, True)) for name in ("then", "else"))
        met = algebra.product([condition.shapes, then.shapes])
        unmet = algebra.product([algebra.negation(condition).shapes, otherwise.shapes])
        facts.factors.append(pack([*met, *unmet]))


# Members that depend on others.


def dependent_required(facts: Facts, value: Any) -> None:
    for name, needed in value.items():
        also = tuple(Property(other, ANY, True, False) for other in needed if other != name)
        if also:
            _depend(facts, name, (Shape(objects=Objects(also, ANY)),))


def dependent_schemas(facts: Facts, value: Any) -> None:
    for name, schema in value.items():
        if schema is not True:
            _depend(facts, name, facts.reader.node(schema, (facts.place, "dependentSchemas", name)).shapes)


def dependencies(facts: Facts, value: Any) -> None:
    """Up to draft 7: schemas or arrays of names."""
    dependent_required(facts, {name: needed for name, needed in value.items() if isinstance(needed, list)})
    for name, schema in value.items():
        if not isinstance(schema, list):
            _depend(facts, name, facts.reader.node(schema, (facts.place, "dependencies", name)).shapes)


def depending(name: str) -> tuple[Shapes, Shapes]:
    """The values that are no object with a member `name`, and the objects that have it."""
    without = Objects((Property(name, NEVER, required=False, declared=False),), ANY)
    present = Objects((Property(name, ANY, required=True, declared=False),), ANY)
    return (replace(ANY.shapes[0], objects=without),), (Shape(objects=present),)


def _depend(facts: Facts, name: str, then: Shapes) -> None:
    """An object without the member, or one that has it and is in `then`."""
    absent, present = depending(name)
    facts.factors.append(pack([*absent, *facts.reader.algebra.product([present, then])]))
