"""The facts of one schema object: what its keywords say, gathered and turned into shapes.

For each keyword one function, named as the keyword, writes into `Facts`. Functions for the value itself and its parts
are in `own.py`, those that apply other schemas to the same value in `in_place.py`; `table.py` has the drafts of each
keyword. `Facts.shapes` is the conjunction of all facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from structgen.schema.algebra import Algebra, Shapes
from structgen.schema.containers import FREE_ARRAYS, FREE_OBJECTS, closed_arrays, closed_objects, other_names
from structgen.schema.keywords.arguments import ALL_TYPES, TYPES
from structgen.schema.normal import ANY, NEVER, Arrays, Named, Node, Numbers, Objects, Property, Shape, Strings
from structgen.schema.scalars import FREE_NUMBERS, FREE_STRINGS, numbers_and

_NUMBER, _INTEGER = TYPES["number"], TYPES["integer"]
_APPLIED_TO = {"propertyNames": "string", "dependentSchemas": "object", "dependencies": "object"}
_INTEGERS = Numbers(integer=True)


# The place of a schema: a pointer; or the node above it and the tokens that lead down from there; or None where it must
# be searched for.
Where = str | tuple[Any, ...] | None


def applied_kinds(keyword: str, kinds: int) -> int:
    """The JSON types of the values to which a keyword applies its schemas, where its own values are of these types."""
    kind = _APPLIED_TO.get(keyword)
    return kinds if kind is None else TYPES[kind] if kinds & TYPES["object"] else 0


class KeywordReader(Protocol):
    """What reading the keywords of one place needs of the whole schema: see `SchemaReader`."""

    algebra: Algebra
    formats: bool

    def node(self, schema: Any, where: Where, kinds: int = ALL_TYPES) -> Node: ...

    def target(self, place: Any, keyword: str) -> Node: ...

    def dialect(self, schema: dict[str, Any]) -> Any: ...

    def plain(self, place: Any) -> Shapes: ...

    def exclusive(self, place: Any, branches: Sequence[Node], unions: list[Shapes], others: list[Shapes]) -> Shapes: ...


class Facts:
    """What the keywords of one place say about its values.

    Attributes:
        types: the allowed types, as bits of `TYPES`.
        integers: the set of the type "integer" in this draft.
        strings, numbers, arrays, objects: fields of the normal form that keywords restrict.
        factors: unions to conjoin, in the order of the document.
        exclusive: the branches of `oneOf`.
        home: the index in `factors` for the plain keywords, at which members keep the document's order.
    """

    def __init__(self, reader: KeywordReader, schema: dict[str, Any], place: Any) -> None:
        self.reader = reader
        self.schema = schema
        self.place = place
        self.types: int = place.kinds
        self.integers = _INTEGERS
        self.strings: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.factors: list[Shapes] = []
        self.exclusive: Sequence[Node] = ()
        self.home = 0

    def child(self, keyword: str, schema: Any) -> Node:
        """The node of a schema that is the argument of `keyword`."""
        return self.reader.node(schema, (self.place, keyword))

    def children(self, keyword: str, schemas: list[Any]) -> tuple[Node, ...]:
        """The nodes of an array of schemas that is the argument of `keyword`."""
        return tuple(self.reader.node(schema, (self.place, keyword, i)) for i, schema in enumerate(schemas))

    def branch(self, schema: Any, keyword: str, *tokens: object) -> Node:
        """The node of a schema that `keyword` applies to the same value, or to its members' names."""
        kinds = applied_kinds(keyword, self.place.kinds)
        return self.reader.node(schema, (self.place, keyword, *tokens), kinds)

    def branches(self, keyword: str) -> list[Node]:
        """The nodes of an array of schemas that `keyword` applies to the same value."""
        return [self.branch(schema, keyword, i) for i, schema in enumerate(self.schema[keyword])]

    def pointer_to(self, keyword: str) -> Callable[[], str]:
        """A function that returns the pointer to the argument of `keyword`."""
        return lambda: f"{self.place.pointer}/{keyword}"

    def shapes(self) -> Shapes:
        """The conjunction of all facts."""
        own = self._own()
        factors = self.factors
        if own is not ANY.shapes:
            factors.insert(self.home, own)
        if self.exclusive:
            unions = [branch.shapes for branch in self.exclusive]
            return self.reader.exclusive(self.place, self.exclusive, unions, factors)
        return self.reader.algebra.product(factors)

    def _own(self) -> Shapes:
        types = self.types
        restricted = self.strings or self.numbers or self.arrays or self.objects
        if types == ALL_TYPES and not restricted:
            return ANY.shapes
        boolean = bool(types & TYPES["boolean"])
        shape = Shape(
            bool(types & TYPES["null"]),
            boolean,
            boolean,
            self._number_set() if types & (_NUMBER | _INTEGER) else None,
            self._string_set() if types & TYPES["string"] else None,
            (self._array_set() if self.arrays else FREE_ARRAYS) if types & TYPES["array"] else None,
            (self._object_set() if self.objects else FREE_OBJECTS) if types & TYPES["object"] else None,
        )
        return (shape,)

    def _number_set(self) -> Numbers | None:
        allowed = FREE_NUMBERS if self.types & _NUMBER else self.integers
        for bound in self.numbers.values():
            both = numbers_and(allowed, bound)
            if both is None:
                return None
            allowed = both
        return allowed

    def _string_set(self) -> Strings | None:
        if not self.strings:
            return FREE_STRINGS
        strings = Strings(**self.strings)
        contradictory = strings.max_length is not None and strings.min_length > strings.max_length
        return None if contradictory else strings

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
        if absent and rest is not ANY and "patterns" in fields:  # a pattern may match the name
            rule = Named(other_names(Objects(tuple(members), **fields)), rest or NEVER)
            rest = fields["rest"] = ANY
            fields["patterns"] = (*fields["patterns"], rule)
        members += [Property(name, rest or NEVER, required=True, declared=False) for name in absent]
        return closed_objects(Objects(tuple(members), **fields))
