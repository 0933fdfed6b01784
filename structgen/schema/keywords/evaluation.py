"""`unevaluatedProperties` and `unevaluatedItems`: the members and items that no other keyword of the place evaluates.

Which members are evaluated depends on the branches of `anyOf`, `if` and so on that hold. So a place with one of the two
keywords is read as a union of *cases*: each case fixes the branches that hold, and so what is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from structgen.errors import LimitExceeded
from structgen.schema.algebra import Shapes, pack
from structgen.schema.keywords.facts import Reader
from structgen.schema.keywords.in_place import depending
from structgen.schema.normal import ANY, NEVER, Arrays, Listed, Named, Node, Objects, Property, Shape, Strings

if TYPE_CHECKING:
    from structgen.schema.keywords.dialects import Dialect

MAX_CASES = 256

APPLICATORS = frozenset("$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if dependentSchemas dependencies".split())
"""Keywords whose schemas apply to the same value, and so may evaluate parts of it."""
KEYWORDS = frozenset(("unevaluatedProperties", "unevaluatedItems"))


@dataclass(frozen=True)
class Evaluated:
    """The members and items that some keywords evaluate.

    Attributes:
        names, patterns: members of these names, and those whose names match one of these patterns.
        every_member: all members.
        items: the number of items that are evaluated from the beginning.
        every_item: all items.
        matching: items that satisfy one of these nodes.
    """

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    every_member: bool = False
    items: int = 0
    every_item: bool = False
    matching: frozenset[Node] = frozenset()

    def __or__(self, other: Evaluated) -> Evaluated:
        return Evaluated(
            self.names | other.names,
            self.patterns | other.patterns,
            self.every_member or other.every_member,
            max(self.items, other.items),
            self.every_item or other.every_item,
            self.matching | other.matching,
        )


Case = tuple[Shapes, Evaluated]
NOTHING = Evaluated()


def has_keywords(schema: dict[str, Any], dialect: Dialect) -> bool:
    """Has the schema one of the two keywords, in a draft that has it?"""
    return not KEYWORDS.isdisjoint(schema) and not KEYWORDS.isdisjoint(dialect.keywords)


def shapes(reader: Reader, place: Any) -> Shapes:
    """The shapes of a place that has `unevaluatedProperties` or `unevaluatedItems`.

    Raises:
        LimitExceeded: too many combinations of branches.
    """
    union: list[Shape] = []
    for case, evaluated in _Cases(reader).of_schema(place):
        union += reader.algebra.product([case, *((rule,) for rule in _rules(reader, place, evaluated))])
    return pack(union)


def _rules(reader: Reader, place: Any, evaluated: Evaluated) -> Iterable[Shape]:
    """What the two keywords demand of members and items that are not evaluated."""
    for keyword in KEYWORDS & place.schema.keys():
        node = reader.node(place.schema[keyword], (place, keyword))
        if node is ANY:
            continue
        if keyword == "unevaluatedItems":
            if not evaluated.every_item:
                rest = reader.algebra.union([*evaluated.matching, node])
                yield replace(ANY.shapes[0], arrays=Arrays((ANY,) * evaluated.items, rest))
        elif not evaluated.every_member:
            yield replace(ANY.shapes[0], objects=_other_members(evaluated, node))


def _other_members(evaluated: Evaluated, node: Node) -> Objects:
    names = sorted(evaluated.names)
    if not evaluated.patterns:
        known = tuple(Property(name, ANY, required=False, declared=False) for name in names)
        return Objects(known, None if node is NEVER else node)
    sets = [Strings(literals=Listed(names))] if names else []
    sets += [Strings(patterns=(pattern,)) for pattern in sorted(evaluated.patterns)]
    return Objects(rest=ANY, patterns=(Named(Strings(without=tuple(sets)), node),))


class _Cases:
    """Finds the cases of nodes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._algebra = reader.algebra

    def of(self, node: Node) -> list[Case]:
        """The ways in which `node` can hold, each with what it evaluates."""
        schema = getattr(node, "schema", None)
        if schema is None:
            return [(node.shapes, NOTHING)]
        cases = self.of_schema(node)
        if not has_keywords(schema, self._reader.dialect(schema)):
            return cases
        rest = Evaluated(every_member="unevaluatedProperties" in schema, every_item="unevaluatedItems" in schema)
        return [(node.shapes, evaluated) for evaluated in dict.fromkeys(own | rest for _, own in cases)]

    def of_schema(self, place: Any) -> list[Case]:
        """`of` for a schema object, without its own `unevaluated...` keywords."""
        cases: list[Case] = [(self._reader.plain(place), self._own(place))]
        if self._reader.dialect(place.schema).number <= 7 and "$ref" in place.schema:
            return self.of(self._reader.target(place, "$ref"))
        for keyword in place.schema:
            if keyword in APPLICATORS:
                for factor in self._applied(place, keyword):
                    cases = self._product(cases, factor)
        return cases

    def _own(self, place: Any) -> Evaluated:
        """What the keywords of one schema object evaluate in every value."""
        schema, draft = place.schema, self._reader.dialect(place.schema).number
        items = schema.get("items")
        listed = items if isinstance(items, list) else schema.get("prefixItems", ()) if draft >= 2020 else ()
        contains = "contains" in schema and draft >= 2020
        matching = [self._reader.node(schema["contains"], (place, "contains"))] if contains else []
        return Evaluated(
            frozenset(schema.get("properties", ())),
            frozenset(schema.get("patternProperties", ())),
            "additionalProperties" in schema,
            len(listed),
            isinstance(items, (dict, bool)) or (isinstance(items, list) and "additionalItems" in schema),
            frozenset(matching),
        )

    def _applied(self, place: Any, keyword: str) -> Iterable[list[Case]]:
        """The lists of cases of one applicator; a value is in one case of each list."""
        argument = place.schema[keyword]
        if keyword.endswith("Ref") or keyword == "$ref":
            yield self.of(self._reader.target(place, keyword))
        elif keyword == "not":
            yield [self._fails(self._child(place, keyword))]
        elif keyword == "if":
            yield self._if(place)
        elif keyword in ("dependentSchemas", "dependencies"):
            yield from self._dependent(place, keyword)
        else:
            branches = [self._reader.node(branch, (place, keyword, i)) for i, branch in enumerate(argument)]
            if keyword == "allOf":
                yield from map(self.of, branches)
            else:
                yield self._some(branches, exactly_one=keyword == "oneOf")

    def _child(self, place: Any, keyword: str) -> Node:
        return self._reader.node(place.schema.get(keyword, True), (place, keyword))

    def _fails(self, node: Node) -> Case:
        return self._algebra.negation(node).shapes, NOTHING

    def _if(self, place: Any) -> list[Case]:
        condition, then, otherwise = (self._child(place, keyword) for keyword in ("if", "then", "else"))
        met = self._product(self.of(condition), self.of(then))
        return met + self._product([self._fails(condition)], self.of(otherwise))

    def _dependent(self, place: Any, keyword: str) -> Iterable[list[Case]]:
        for name, schema in place.schema[keyword].items():
            absent, present = depending(name)
            if isinstance(schema, list):
                needed = Objects(tuple(Property(other, ANY, True, False) for other in schema), ANY)
                then: list[Case] = [((Shape(objects=needed),), NOTHING)]
            else:
                then = self.of(self._reader.node(schema, (place, keyword, name)))
            yield [(absent, NOTHING), *self._product([(present, NOTHING)], then)]

    def _some(self, branches: Sequence[Node], *, exactly_one: bool) -> list[Case]:
        """At least one of the branches holds, or exactly one."""
        none: list[Case] = [(ANY.shapes, NOTHING)]
        some: list[Case] = []
        for branch in branches:
            holds, fails = self.of(branch), [self._fails(branch)]
            kept = self._product(some, fails)
            some = kept + self._product(none if exactly_one else none + some, holds)
            none = self._product(none, fails)
        return some

    def _product(self, a: list[Case], b: list[Case]) -> list[Case]:
        if len(a) * len(b) > MAX_CASES:
            raise LimitExceeded(f"more than {MAX_CASES} combinations of branches under one unevaluated keyword")
        pairs = [(self._algebra.product([x[0], y[0]]), x[1] | y[1]) for x in a for y in b]
        merged: dict[Evaluated, list[Shape]] = {}
        for union, evaluated in pairs:
            if union:
                merged.setdefault(evaluated, []).extend(union)
        return [(pack(union), evaluated) for evaluated, union in merged.items()]
