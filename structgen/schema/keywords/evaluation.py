"""`unevaluatedProperties` and `unevaluatedItems`: the members and items that no other keyword of the place evaluates.

Which members are evaluated depends on the branches of `anyOf`, `if` and so on that hold. So the objects, or arrays, of
a place with one of the two keywords are read as a union of *cases*: each case fixes the branches that hold, and so what
is evaluated. Values of other types are read as everywhere else.

What `contains` found counts as evaluated from 2020-12 on. In 2019-09 the annotations of `items`, `additionalItems` and
`unevaluatedItems` count, and `contains` has none (core, 9.3.1.3 and 9.3.1.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.errors import LimitExceeded
from structgen.schema.algebra import Shapes, pack
from structgen.schema.keywords.arguments import TYPES
from structgen.schema.keywords.facts import KeywordReader
from structgen.schema.keywords.in_place import depending
from structgen.schema.keywords.table import speaks_of
from structgen.schema.normal import ANY, NEVER, Arrays, Listed, Named, Node, Objects, Property, Shape, Strings

if TYPE_CHECKING:
    from structgen.schema.keywords.dialects import Dialect

MAX_CASES = 256

APPLICATORS = frozenset("$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if dependentSchemas dependencies".split())
"""Keywords whose schemas apply to the same value, and so may evaluate parts of it."""
KEYWORDS = {"unevaluatedItems": TYPES["array"], "unevaluatedProperties": TYPES["object"]}
"""The two keywords, and the JSON type that each speaks of."""


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
        every_member, every_item = self.every_member or other.every_member, self.every_item or other.every_item
        return Evaluated(
            frozenset() if every_member else self.names | other.names,
            frozenset() if every_member else self.patterns | other.patterns,
            every_member,
            0 if every_item else max(self.items, other.items),
            every_item,
            frozenset() if every_item else self.matching | other.matching,
        )


BranchCase = tuple[Shapes, Evaluated]
NOTHING = Evaluated()


def parts(place: Any, dialect: Dialect) -> list[int]:
    """The JSON types of a place, as bits of `TYPES`, in the groups in which they are read."""
    told = [kind for keyword, kind in KEYWORDS.items() if keyword in place.schema and keyword in dialect.keywords]
    rest = place.kinds & ~sum(told)
    return [kinds for kinds in (rest, *(kind & place.kinds for kind in told)) if kinds]


def keyword_of(place: Any, dialect: Dialect) -> str | None:
    """The one of the two keywords that restricts the values of a place of one JSON type."""
    keywords = (keyword for keyword, kind in KEYWORDS.items() if kind == place.kinds and keyword in dialect.keywords)
    return next((keyword for keyword in keywords if keyword in place.schema), None)


def shapes(reader: KeywordReader, place: Any) -> Shapes:
    """The shapes of a place of one JSON type that has the keyword for it.

    Raises:
        LimitExceeded: too many combinations of branches.
    """
    return pack([shape for case, _ in _Cases(reader).of(place) for shape in case])


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

    def __init__(self, reader: KeywordReader) -> None:
        self._reader = reader
        self._algebra = reader.algebra

    def of(self, node: Node) -> list[BranchCase]:
        """The ways in which `node` can hold, each with what it evaluates."""
        schema = getattr(node, "schema", None)
        if schema is None:
            return [(node.shapes, NOTHING)]
        place: Any = node
        dialect = self._reader.dialect(schema)
        if dialect.lone_references and "$ref" in schema:
            return self.of(self._reader.target(place, "$ref"))
        cases: list[BranchCase] = [(self._reader.plain(place), self._own(place))]
        for keyword in schema:
            if keyword in APPLICATORS and keyword in dialect.applies and speaks_of(keyword, place.kinds):
                for factor in self._applied(place, keyword):
                    cases = self._product(cases, factor)
        keyword = keyword_of(place, dialect)
        return cases if keyword is None else self._merged(self._closed(place, keyword, cases))

    def _closed(self, place: Any, keyword: str, cases: list[BranchCase]) -> Iterable[BranchCase]:
        """The cases in which what is not evaluated satisfies the argument of `keyword`; it then counts as evaluated."""
        node = self._reader.node(place.schema[keyword], (place, keyword))
        every = Evaluated(every_item=keyword == "unevaluatedItems", every_member=keyword == "unevaluatedProperties")
        for case, evaluated in cases:
            if evaluated | every == evaluated:
                rule = ANY.shapes
            elif keyword == "unevaluatedItems":
                rest = self._algebra.union([*evaluated.matching, node])
                rule = (Shape(arrays=Arrays((ANY,) * evaluated.items, rest)),)
            else:
                rule = (Shape(objects=_other_members(evaluated, node)),)
            yield self._algebra.product([case, rule]), evaluated | every

    def _own(self, place: Any) -> Evaluated:
        """What the keywords of one schema object evaluate in every value."""
        schema, draft = place.schema, self._reader.dialect(place.schema).number
        if place.kinds == TYPES["object"]:
            names, patterns = (frozenset(schema.get(name, ())) for name in ("properties", "patternProperties"))
            return Evaluated(names, patterns, "additionalProperties" in schema) | NOTHING
        items = schema.get("items")
        listed = items if isinstance(items, list) else schema.get("prefixItems", ()) if draft >= 2020 else ()
        contains = "contains" in schema and draft >= 2020
        matching = [self._reader.node(schema["contains"], (place, "contains"))] if contains else []
        every = isinstance(items, (dict, bool)) or (isinstance(items, list) and "additionalItems" in schema)
        return Evaluated(items=len(listed), every_item=every, matching=frozenset(matching)) | NOTHING

    def _applied(self, place: Any, keyword: str) -> Iterable[list[BranchCase]]:
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
            branches = [self._node(place, branch, keyword, i) for i, branch in enumerate(argument)]
            if keyword == "allOf":
                yield from map(self.of, branches)
            else:
                yield self._some(branches, exactly_one=keyword == "oneOf")

    def _child(self, place: Any, keyword: str) -> Node:
        return self._node(place, place.schema.get(keyword, True), keyword)

    def _node(self, place: Any, schema: Any, *tokens: object) -> Node:
        return self._reader.node(schema, (place, *tokens), place.kinds)

    def _fails(self, node: Node) -> BranchCase:
        return self._algebra.negation(node).shapes, NOTHING

    def _if(self, place: Any) -> list[BranchCase]:
        condition, then, otherwise = (self._child(place, keyword) for keyword in ("if", "then", "else"))
        met = self._product(self.of(condition), self.of(then))
        return met + self._product([self._fails(condition)], self.of(otherwise))

    def _dependent(self, place: Any, keyword: str) -> Iterable[list[BranchCase]]:
        for name, schema in place.schema[keyword].items():
            absent, present = depending(name)
            if isinstance(schema, list):
                needed = Objects(tuple(Property(other, ANY, True, False) for other in schema), ANY)
                then: list[BranchCase] = [((Shape(objects=needed),), NOTHING)]
            else:
                then = self.of(self._node(place, schema, keyword, name))
            yield [(absent, NOTHING), *self._product([(present, NOTHING)], then)]

    def _some(self, branches: Sequence[Node], *, exactly_one: bool) -> list[BranchCase]:
        """At least one of the branches holds, or exactly one."""
        none: list[BranchCase] = [(ANY.shapes, NOTHING)]
        some: list[BranchCase] = []
        for branch in branches:
            holds, fails = self.of(branch), [self._fails(branch)]
            kept = self._product(some, fails)
            some = kept + self._product(none if exactly_one else none + some, holds)
            none = self._product(none, fails)
        return some

    def _product(self, a: list[BranchCase], b: list[BranchCase]) -> list[BranchCase]:
        if len(a) * len(b) > MAX_CASES:
            raise LimitExceeded(f"more than {MAX_CASES} combinations of branches under one unevaluated keyword")
        return self._merged((self._algebra.product([x[0], y[0]]), x[1] | y[1]) for x in a for y in b)

    def _merged(self, cases: Iterable[BranchCase]) -> list[BranchCase]:
        """One case for all that evaluate the same."""
        merged: dict[Evaluated, list[Shape]] = {}
        for union, evaluated in cases:
            if union:
                merged.setdefault(evaluated, []).extend(union)
        return [(pack(union), evaluated) for evaluated, union in merged.items()]
