"""JSON Schema -> normal form, lazily.

`read` scans the whole schema once (`scan.py`), finds where references lead (`references.py`), and returns a
node. A node's keywords are turned into shapes when they are first asked for. Nesting and chains of references
of any depth are followed with a stack of our own, never by recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from structgen.errors import OptionError, UnsupportedSchema
from structgen.schema.algebra import Algebra, Shapes, pack
from structgen.schema.dialects import dialect_of
from structgen.schema.disjoint import Disjointness
from structgen.schema.facts import Facts, Where
from structgen.schema.inhabited import plainly_inhabited
from structgen.schema.normal import ANY, NEVER, Node
from structgen.schema.references import Target, resolve
from structgen.schema.scan import SchemaScan, escaped

if TYPE_CHECKING:
    from referencing import Registry

_IN_PLACE = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_MAX_NESTED = 8


def read(
    schema: dict[str, Any] | bool,
    *,
    registry: Registry[Any] | None = None,
    order: str | Sequence[str] = "schema",
) -> Node:
    """The root of the normal form of `schema`.

    Args:
        schema: a JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12, by its `$schema`; 2020-12 without one.
            It must not be changed while the node is in use.
        registry: other documents that `$ref` may lead to. Nothing is ever fetched.
        order: "schema" keeps the schema's own order of members; a list of names puts those first, in its
            order; "any" is read like "schema" here, and the automaton frees it.

    Raises:
        SchemaError: malformed, or a reference leads nowhere.
        UnsupportedSchema: a keyword is not enforced yet.
        LimitExceeded: too many schemas or alternatives. OptionError: `order` is none of these.
    """
    dialect = dialect_of(schema)
    scan = SchemaScan(schema)
    scan.walk(schema, "", dialect)
    targets = resolve(scan, dialect, registry)
    reader = SchemaReader(scan, targets, Algebra(_ranks(order)))
    root = reader.node(schema, "")
    for exclusive in scan.exclusive:  # whether branches are disjoint must be known before anything runs
        _ = reader.node(exclusive, None).shapes
    return root


def patterns(root: Node) -> dict[str, Node]:
    """Every distinct `pattern` of the schema that `root` was read from, with a place that holds it.

    For whoever must refuse a bad pattern before anything runs; nothing is read here.
    """
    if not isinstance(root, Place):
        return {}
    reader = root.reader
    return {schema["pattern"]: reader.node(schema, None) for schema in reader.patterned}


def _ranks(order: str | Sequence[str]) -> dict[str, int] | None:
    if isinstance(order, str):
        if order not in ("schema", "any"):
            raise OptionError(f"order={order!r}: expected 'schema', 'any' or a list of member names")
        return None
    listed = isinstance(order, Sequence) and all(isinstance(name, str) for name in order)
    if not listed or len(set(order)) != len(order):
        raise OptionError(f"order={order!r}: expected each member name once, as strings")
    return {name: rank for rank, name in enumerate(order)}


class _Unknown(Exception):
    """The shapes of a node that is still being read were asked for."""


class Place(Node):
    """The node of one schema object. Keeps that object alive, since places are known by its id."""

    def __init__(self, schema: dict[str, Any], where: Where, reader: SchemaReader) -> None:
        self.schema = schema
        self.where = where
        self.reader = reader

    @cached_property
    def pointer(self) -> str:
        return self.reader.pointer_of(self)

    @cached_property
    def shapes(self) -> Shapes:
        return self.reader.shapes_of(self)

    @property
    def inhabited(self) -> bool:
        """Does a glance at the schema tell that some value satisfies it?"""
        return plainly_inhabited(self.schema, self.reader.target_schema)

    @property
    def known(self) -> bool:
        """Whether the shapes have been read."""
        return "shapes" in self.__dict__


class SchemaReader:
    """All places of one root schema; each schema object is one node."""

    def __init__(self, scan: SchemaScan, targets: dict[int, Target], algebra: Algebra) -> None:
        self.algebra = algebra
        self._scan = scan
        self._drafts = scan.seen
        self.patterned = scan.patterned
        self._targets = targets
        self._places: dict[int, Place] = {}
        self._open: set[int] = set()
        self._disjointness = Disjointness(algebra, self._peek)

    def node(self, schema: Any, where: Where) -> Node:
        """The node of `schema`, which stands at `where`."""
        if schema is True:
            return ANY
        if not schema:
            return NEVER if schema is False else ANY
        place = self._places.get(id(schema))
        if place is None:
            place = self._places[id(schema)] = Place(schema, where, self)
        return place

    def pointer_of(self, place: Place) -> str:
        """The JSON pointer of `place`, put together from the places above it."""
        tokens: list[object] = []
        where = place.where
        while isinstance(where, tuple):
            tokens = [*where[1:], *tokens]
            place = where[0]
            where = place.where
        start = self._scan.pointer_of(place.schema) if where is None else where
        return start + "".join(f"/{escaped(token)}" for token in tokens)

    def target_schema(self, schema: dict[str, Any]) -> Any:
        """The schema that the `$ref` of `schema` leads to."""
        return self._targets[id(schema)][0]

    def target(self, schema: dict[str, Any]) -> Node:
        """The node that the `$ref` of `schema` leads to."""
        return self.node(*self._targets[id(schema)])

    def shapes_of(self, place: Place) -> Shapes:
        """Read `place`, after every place that applies to the same value."""
        if place.schema.keys().isdisjoint(_IN_PLACE):
            return self._build(place)
        stack = [place]
        shapes: Shapes = ()
        while stack:
            top = stack[-1]
            if id(top) in self._open:
                raise _Unknown
            waiting = self._unread(top)
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if not top.known:
                shapes = self._build(top)
                if stack:
                    top.__dict__["shapes"] = shapes
        return shapes

    def _unread(self, place: Place) -> list[Place]:
        schema = place.schema
        if schema.keys().isdisjoint(_IN_PLACE):
            return []
        nodes = [self.target(schema)] if "$ref" in schema else []
        if not nodes or not self._drafts[id(schema)].lone_references:
            for name in ("allOf", "anyOf", "oneOf"):
                nodes.extend(
                    self.node(branch, (place, name, i)) for i, branch in enumerate(schema.get(name, ()))
                )
        return [node for node in nodes if isinstance(node, Place) and not node.known]

    def _build(self, place: Place) -> Shapes:
        schema = place.schema
        dialect = self._drafts[id(schema)]
        facts = Facts(self, schema, place)
        if dialect.lone_references and "$ref" in schema:
            return self.target(schema).shapes
        applies = dialect.applies
        self._open.add(id(place))
        try:
            for name, value in schema.items():
                apply = applies.get(name)
                if apply is not None:
                    apply(facts, value)
            return facts.shapes()
        finally:
            self._open.discard(id(place))

    def _peek(self, node: Node) -> Shapes | None:
        """The shapes of `node`, or None where reading them would need a place that is still being read."""
        if len(self._open) > _MAX_NESTED:
            return None
        try:
            return node.shapes
        except _Unknown:
            return None

    def exclusive(self, branches: list[Shapes], others: list[Shapes], place: Node) -> Shapes:
        """What satisfies every one of `others` and exactly one of `branches` at `place`.

        Raises:
            UnsupportedSchema: two branches are not provably disjoint.
        """
        if self._disjointness.overlap(branches) is None:
            return self.algebra.product([*others, pack([shape for branch in branches for shape in branch])])
        beside = self.algebra.product(others)
        together = [self.algebra.product([beside, branch]) for branch in branches]
        pair = self._disjointness.overlap(together)
        if pair is not None:
            message = f"the branches {pair[0]} and {pair[1]} of 'oneOf' may hold at once, and exactly one"
            raise UnsupportedSchema(
                f"{message} is not supported yet (use anyOf where either will do)", f"{place.pointer}/oneOf"
            )
        return self.algebra.product([pack([shape for branch in together for shape in branch])])
