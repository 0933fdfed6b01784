"""JSON Schema -> normal form, lazily.

`read` scans the whole schema once (`scan.py`), resolves its references (`references.py`), and returns the root node.
The keywords of a node become shapes when the shapes are first asked for. Deep nesting and long chains of references
use a stack of our own, not recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from structgen.arguments import is_listed, nearest, require
from structgen.errors import LimitExceeded, OptionError, RequestError, SchemaError, quoted
from structgen.json_text.pointers import escaped
from structgen.patience import check_patience
from structgen.schema.algebra import MAX_CONTAINERS, Algebra, Shapes, TypeColumns, is_empty, pack
from structgen.schema.disjoint import MAX_BRANCHES, Disjointness
from structgen.schema.keywords import evaluation
from structgen.schema.keywords.arguments import ALL_TYPES
from structgen.schema.keywords.dialects import DEFAULT, PLAIN_INTEGERS, Dialect, dialect_of
from structgen.schema.keywords.facts import Facts, Where, applied_kinds
from structgen.schema.keywords.table import speaks_of
from structgen.schema.leaves import leaf_content, leaf_shapes
from structgen.schema.normal import ANY, NEVER, Node, Shape
from structgen.schema.references import IN_PLACE, DynamicScopes, ReferenceTarget, in_place, references, resolve
from structgen.schema.scan import SchemaScan

if TYPE_CHECKING:
    from referencing import Registry

_OPTIONAL_MEMBERS = frozenset(("type", "properties", "additionalProperties"))
"""Keywords of objects that the object without members satisfies."""
_OBJECT = _OPTIONAL_MEMBERS | {"required"}
_ARRAY = frozenset(("type", "items", "prefixItems", "additionalItems", "maxItems", "uniqueItems"))
"""Keywords of arrays that the empty array satisfies."""
_ENUM = frozenset(("type", "enum"))
_ANY_OF = {"anyOf"}
_TYPE = frozenset(("type",))
_BOUNDS = frozenset(
    ("minLength", "maxLength", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
)
"""One of these alone leaves values of every type."""
_MAX_NESTED = 8
MAX_IN_PLACE = 20_000
MAX_OVERLAPS = 8
"""The most overlaps of one `oneOf` that are noted."""


def read(
    schema: dict[str, Any] | bool,
    *,
    registry: Registry[Any] | None = None,
    order: str | Sequence[str] = "schema",
    formats: bool = True,
    plain_integers: bool = False,
) -> Node:
    """The root of the normal form of `schema`.

    Args:
        schema: a JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12, as its `$schema` says (2020-12 without one).
            It must not be changed while the node is in use.
        registry: other documents that a `$ref` may lead to. Nothing is ever fetched.
        order: "schema" keeps the schema's own order of members; a list of names puts these names first. "any" is
            read like "schema": the automaton allows the other orders.
        formats: does `format` restrict strings? Else it annotates only.
        plain_integers: in a schema without `$schema`, `1.0` is not an integer.

    Raises:
        SchemaError: malformed, or a reference leads nowhere. UnsupportedSchema: an unknown dialect.
        LimitExceeded: too many schemas or alternatives. OptionError: `order` is malformed, or has a name that no
            object of the schema declares.
    """
    dialect = dialect_of(schema, PLAIN_INTEGERS if plain_integers else DEFAULT, registry)
    scan = SchemaScan(schema)
    scan.walk(schema, "", dialect)
    targets = resolve(scan, dialect, registry)
    ranks = _ranks(order, scan)
    scopes = DynamicScopes(scan, dialect, registry) if scan.dynamic else None
    return SchemaReader(scan, targets, Algebra(ranks), scopes, formats=formats).node(schema, "")


def algebra_of(root: Node) -> Algebra:
    """The algebra that interned the nodes of the schema of `root`."""
    return root.reader.algebra if isinstance(root, SchemaNode) else Algebra()


def require_order(order: object) -> None:
    """Raises an OptionError where `order` is not an order of members."""
    if isinstance(order, str):
        require(order in ("schema", "any"), "order", order, "'schema', 'any' or a list of member names")
    else:
        names = is_listed(order, str) and isinstance(order, (list, tuple)) and len(set(order)) == len(order)
        require(names, "order", order, "'schema', 'any', or a list with each member name once")


def _ranks(order: str | Sequence[str], scan: SchemaScan) -> dict[str, int] | None:
    """The rank of each name in `order`, each of which an object of the schema or of its references must declare."""
    require_order(order)
    if isinstance(order, str) or not order:
        return None
    declared = {name for schema, _, _ in scan.places() for name in schema.get("properties", ())}
    for name in order:
        if name not in declared:
            near = nearest(name, sorted(declared)) or "none"
            raise OptionError(f"order: no object of the schema declares {quoted(name)}; it declares {near}")
    return {name: rank for rank, name in enumerate(order)}


class _Unknown(Exception):
    """Reading a node needs the shapes of a node that is still being read."""


class SchemaNode(Node):
    """The node of one schema object. It keeps the object alive, because the reader finds nodes by the object's id.

    Attributes:
        kinds: the JSON types of its values, as bits of `TYPES`. Where a keyword asks about values of one type alone, as
            `propertyNames` does, nothing of the schema is read that speaks of others.
    """

    def __init__(
        self, schema: dict[str, Any], where: Where, reader: SchemaReader, kinds: int, scope: Any = None
    ) -> None:
        self.schema = schema
        self.where = where
        self.reader = reader
        self.kinds = kinds
        self.scope = scope

    @cached_property
    def pointer(self) -> str:
        return self.reader.pointer_of(self)

    @cached_property
    def shapes(self) -> Shapes:
        return self.reader.shapes_of(self)

    def needs(self) -> Sequence[Node] | None:
        return None if "shapes" in self.__dict__ else self.reader.needs(self)


class SchemaReader:
    """The nodes of one root schema, one for each schema object.

    Attributes:
        overlaps: places whose `oneOf` has two branches that may share values, with the indexes of these branches, and
            nodes of the common values and of each branch's.
    """

    def __init__(
        self, scan: SchemaScan, targets: dict[int, ReferenceTarget], algebra: Algebra,
        scopes: DynamicScopes | None = None, *, formats: bool = True,
    ) -> None:  # fmt: skip
        self.algebra = algebra
        self.formats = formats
        self.scan = scan
        self._drafts = scan.seen
        self._targets = targets
        self._scopes = scopes
        self._places: dict[Any, SchemaNode] = {}  # by hand: schemas are dictionaries, which have no hash
        self._open: frozenset[int] = frozenset()
        self._disjointness = Disjointness(algebra, self._peek)
        self.overlaps: list[tuple[SchemaNode, tuple[int, int], list[Node]]] = []

    def node(self, schema: Any, where: Where, kinds: int = ALL_TYPES) -> Node:
        """The node of `schema`, which is at `where`: its values of these JSON types (of `{}`, all values)."""
        if schema is True:
            return ANY
        if not schema:
            return NEVER if schema is False else ANY
        if self._scopes is not None:
            within = self._scopes.entered(schema, where[0].scope) if isinstance(where, tuple) else None
            return self._scoped(schema, where, within or self._scopes.first(schema), kinds)
        key = id(schema) if kinds == ALL_TYPES else (id(schema), kinds)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = SchemaNode(schema, where, self, kinds)
        return place

    def _scoped(self, schema: dict[str, Any], where: Where, scope: Any, kinds: int) -> Node:
        """The node of `schema` in a dynamic scope."""
        assert self._scopes is not None
        key = *self._scopes.key(schema, scope), kinds
        if key not in self._places:
            self._places[key] = SchemaNode(schema, where, self, kinds, scope)
        return self._places[key]

    def of_kinds(self, place: SchemaNode, kinds: int) -> SchemaNode:
        """The node of the values of `place` that are of these JSON types."""
        if self._scopes is None:
            node = self.node(place.schema, place.where, kinds)
        else:
            node = self._scoped(place.schema, place.where, place.scope, kinds)
        assert isinstance(node, SchemaNode)
        return node

    def pointer_of(self, place: SchemaNode) -> str:
        """The JSON pointer of `place`, built from the places above it."""
        tokens: list[object] = []
        where = place.where
        while isinstance(where, tuple):
            tokens += reversed(where[1:])
            place = where[0]
            where = place.where
        is_name = where is None or (where[:1] not in ("", "/") and "#" not in where)  # the name of an anchor
        start = self.scan.pointer_of(place.schema) if where is None or is_name else where
        return start + "".join(f"/{escaped(token)}" for token in reversed(tokens))

    def has_lone_reference(self, schema: dict[str, Any]) -> bool:
        """Has the schema a `$ref`, and nothing else that has an effect? (Up to draft 7 nothing next to it has one.)"""
        if "$ref" not in schema:
            return False
        draft = self._drafts[id(schema)]
        return draft.lone_references or len(schema.keys() & draft.restricting) == 1

    def target_of(self, schema: dict[str, Any]) -> ReferenceTarget:
        """The schema that the `$ref` of `schema` leads to, and its pointer."""
        return self._targets[id(schema)]

    def target_schema(self, schema: dict[str, Any]) -> Any:
        """The schema that the `$ref` of `schema` leads to."""
        return self._targets[id(schema)][0]

    def target(self, place: SchemaNode, keyword: str = "$ref") -> Node:
        """The node that the reference of `place` leads to."""
        if self._scopes is None:
            return self.node(*self._targets[id(place.schema)], place.kinds)
        contents, scope = self._scopes.target(place.schema, keyword, place.scope)
        if not isinstance(contents, dict) or not contents:
            return self.node(contents, None)
        return self._scoped(contents, None, scope, place.kinds)

    def needs(self, place: SchemaNode) -> Sequence[Node] | None:
        """See `Node.needs`. The keywords of most schemas tell, so shapes that no text comes to are never read."""
        schema = place.schema
        if place.kinds != ALL_TYPES:
            return None
        if self._has_values(schema):
            return ()
        if "$ref" in schema:
            return (self.target(place),) if self.has_lone_reference(schema) else None
        if schema.get("type") != "object" or not schema.keys() & self._drafts[id(schema)].restricting <= _OBJECT:
            return None
        declared, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return [
            self.node(declared[name], (place, "properties", name))
            if name in declared
            else self.node(rest, (place, "additionalProperties"))
            for name in schema["required"]
            if not self._has_values(declared.get(name, rest))
        ]

    def _has_values(self, schema: Any) -> bool:
        """Is it plain from the keywords of `schema` that a value satisfies it? False where they do not tell."""
        if not isinstance(schema, dict):
            return schema is True
        restricting, kind = schema.keys() & self._drafts[id(schema)].restricting, schema.get("type")
        if kind == "object":
            return restricting <= _OPTIONAL_MEMBERS
        if kind == "array":
            return restricting <= _ARRAY
        if restricting == _ANY_OF:
            branches = schema["anyOf"]  # those that are unions themselves are not asked: they may nest deeply
            return any(self._has_values(each) for each in branches if isinstance(each, dict) and "anyOf" not in each)
        if "enum" in restricting:
            return kind == "string" and restricting == _ENUM and isinstance(next(iter(schema["enum"]), None), str)
        bounds = restricting - _TYPE
        return bounds <= _BOUNDS and len(bounds) <= 1

    def dialect(self, schema: dict[str, Any]) -> Dialect:
        """The draft that `schema` is written in."""
        return self._drafts[id(schema)]

    def shapes_of(self, place: SchemaNode) -> Shapes:
        """Read `place`, after every place that must be read before it."""
        content = leaf_content(place.schema) if place.kinds == ALL_TYPES else None
        if content == ():
            return ANY.shapes
        if content is not None:
            draft = self._drafts[id(place.schema)]
            return leaf_shapes(content, draft, self.formats, lambda: self._build(place))
        if place.schema.keys().isdisjoint(IN_PLACE):
            return self._build(place)
        stack, path = [place], set[int]()
        shapes: Shapes = ()
        while stack:
            top = stack[-1]
            if id(top) in self._open:
                raise _Unknown
            waiting = self._unread(top)
            if waiting:
                path.add(id(top))
                if len(path) > MAX_IN_PLACE:
                    problem = f"schemas for one value stand more than {MAX_IN_PLACE:,} deep within each other"
                    raise LimitExceeded(f"{problem} (by allOf, anyOf, oneOf, not, if, $ref)", top.pointer)
                if any(id(node) in path for node in waiting):
                    raise SchemaError("a reference leads back to itself and describes no value", top.pointer)
                stack.extend(waiting)
                continue
            stack.pop()
            path.discard(id(top))
            if not top.known:
                shapes = self._build(top)
                if stack:
                    top.__dict__["shapes"] = shapes
        return shapes

    def _unread(self, place: SchemaNode) -> list[SchemaNode]:
        nodes = () if place.schema.keys().isdisjoint(IN_PLACE) else self.applied(place)
        return list(dict.fromkeys(node for node in nodes if isinstance(node, SchemaNode) and not node.known))

    def applied(self, place: SchemaNode) -> list[Node]:
        """The nodes of the schemas that `place` applies to the same value, or to member names."""
        schema = place.schema
        draft = self._drafts[id(schema)]
        parts = evaluation.parts(place, draft)
        if len(parts) > 1:
            return [self.of_kinds(place, kinds) for kinds in parts]
        nodes = [self.target(place, keyword) for keyword in references(schema, draft)]
        if not self.has_lone_reference(schema):
            for branch, tokens in in_place(schema, draft):
                kinds = applied_kinds(str(tokens[0]), place.kinds)
                nodes += [self.node(branch, (place, *tokens), kinds)] if kinds else []
        return nodes

    def are_disjoint(self, branches: Iterable[Any]) -> bool:
        """Is it plain that no value satisfies two of these schemas?"""
        try:
            return self._disjointness.overlap([self.node(branch, None).shapes for branch in branches]) is None
        except RequestError:
            return False

    def _build(self, place: SchemaNode) -> Shapes:
        check_patience()
        schema = place.schema
        if self.has_lone_reference(schema):
            return self.target(place).shapes
        open_before = self._open
        try:
            parts = evaluation.parts(place, self._drafts[id(schema)])
            if len(parts) > 1:
                return pack([shape for kinds in parts for shape in self.of_kinds(place, kinds).shapes])
            if evaluation.keyword_of(place, self._drafts[id(schema)]):
                return evaluation.shapes(self, place)
            self._open = open_before | {id(place)}
            return self._gathered(place, schema.items())
        except LimitExceeded as error:
            raise error.at(place.pointer) from error.__cause__
        finally:
            self._open = open_before

    def plain(self, place: SchemaNode) -> Shapes:
        """The shapes of the keywords of `place` that apply no other schemas to the same value."""
        kept = [item for item in place.schema.items() if item[0] not in evaluation.APPLICATORS]
        return self._gathered(place, kept)

    def _gathered(self, place: SchemaNode, keywords: Iterable[tuple[str, Any]]) -> Shapes:
        facts = Facts(self, place.schema, place)
        applies, kinds = self._drafts[id(place.schema)].applies, place.kinds
        for name, value in keywords:
            apply = applies.get(name)
            if apply is not None and (kinds == ALL_TYPES or speaks_of(name, kinds)):
                apply(facts, value)
        return facts.shapes()

    def _peek(self, node: Node) -> Shapes | None:
        """The shapes of `node`; None where reading them needs a place that is still being read."""
        if len(self._open) > _MAX_NESTED:
            return None
        try:
            return node.shapes
        except _Unknown:
            return None

    def exclusive(
        self, place: SchemaNode, branches: Sequence[Node], unions: list[Shapes], others: list[Shapes]
    ) -> Shapes:
        """The values that are in all of `others` and in exactly one of `branches`.

        Objects are compared apart from other values: branches that do not say `type` share all values of other types,
        and often no object.

        Args:
            unions: the shapes of each branch, or those of some JSON types only.
        """
        if self._disjointness.overlap(unions) is None:
            return self.algebra.product([*others, pack([shape for union in unions for shape in union])])
        objects = [tuple(Shape(objects=shape.objects) for shape in union if shape.objects) for union in unions]
        rest = [tuple(replace(shape, objects=None) for shape in union) for union in unions]
        rest = [tuple(shape for shape in union if not is_empty(shape)) for union in rest]
        if any(objects) and any(rest):
            return pack([shape for part in (objects, rest) for shape in self.exclusive(place, branches, part, others)])
        _check_size(unions)
        apart = self._disjointness.unions
        beside = self.algebra.product(others)
        together = [self.algebra.product([beside, union]) for union in unions]
        sharing = [
            [j for j, rival in enumerate(together) if j != i and union and rival and not apart(union, rival)]
            for i, union in enumerate(together)
        ]
        pairs = [(i, j) for i, rivals in enumerate(sharing) for j in rivals if i < j]
        for i, j in pairs[:MAX_OVERLAPS]:
            common = partial(self.algebra.product, [together[i], together[j]])
            each = (common, partial(tuple, together[i]), partial(tuple, together[j]))
            self.overlaps.append((place, (i, j), [Node(lambda: place.pointer, read) for read in each]))
        alone = [self.algebra.union(branches[j] for j in rivals) for rivals in sharing]
        shapes: list[Shape] = []
        for union, rivals in zip(together, alone, strict=True):
            shapes += self.algebra.product([union, self.algebra.negation(rivals).shapes])
        if len(shapes) > MAX_CONTAINERS:
            shapes = []  # too many: the other branches are checked at the closing bracket
            for union, rivals in zip(together, alone, strict=True):
                shapes += self.algebra.product([union, self.algebra.negated(rivals, limit=1)])
        return pack(shapes)


def _check_size(branches: list[Shapes]) -> None:
    """Raises LimitExceeded for many branches that overlap: each is compared with all others."""
    columns = TypeColumns.of([shape for union in branches for shape in union])
    scalars = max(len(columns.strings), len(columns.numbers))
    if len(branches) > MAX_BRANCHES or scalars > MAX_CONTAINERS:
        limits = f"{MAX_BRANCHES}, or {MAX_CONTAINERS} sets of strings or numbers"
        raise LimitExceeded(f"oneOf with {len(branches)} branches that may overlap; the limit is {limits}")
