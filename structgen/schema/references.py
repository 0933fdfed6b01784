"""The target of every reference of a schema.

The targets of static references are found before anything runs. Nearly all are local, JSON pointers and anchors in the
same document, and are resolved here. As soon as a reference leads to another document, or is below a base URI of
its own, the `referencing` library resolves all of them. It is imported only then: the import takes as long as reading
fifty schemas. Nothing is ever fetched: other documents come from the registry that the user passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from structgen.errors import SchemaError, excerpt, quoted
from structgen.json_text.pointers import unescaped
from structgen.schema.keywords.dialects import URIS, Dialect, dialect_of
from structgen.schema.scan import SchemaScan, Trail, every, joined, subschemas

if TYPE_CHECKING:
    from referencing import Registry
    from referencing._core import Resolver

ReferenceTarget = tuple[Any, str]

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DYNAMIC = frozenset(REFERENCES[1:])
_LISTS, _ONES, _MAPS = ("allOf", "anyOf", "oneOf"), ("not", "if", "then", "else"), ("dependentSchemas", "dependencies")
IN_PLACE = frozenset((*REFERENCES, *_LISTS, *_ONES, *_MAPS, "propertyNames"))
"""Keywords whose schemas must be read before the schema that holds them."""


ANCHORS = frozenset(("$anchor", "$dynamicAnchor"))
NO_SCHEMA = (
    "a document of the registry is not a schema of its draft; in draft 4 a schema is an object everywhere, {} in place "
    'of true and {"not": {}} in place of false'
)


def in_place(schema: dict[str, Any], dialect: Dialect) -> list[tuple[Any, tuple[object, ...]]]:
    """The schemas in `schema` that must be read before it, with the pointer tokens that lead to them; no references."""
    schemas: list[tuple[Any, tuple[object, ...]]] = []
    for name in [name for name in schema if name in IN_PLACE and name in dialect.keywords]:
        value = schema[name]
        if name in _LISTS:
            schemas += [(branch, (name, i)) for i, branch in enumerate(value)]
        elif name in _MAPS:
            schemas += [(branch, (name, key)) for key, branch in value.items() if not isinstance(branch, list)]
        elif name not in REFERENCES:
            schemas.append((value, (name,)))
    return schemas


def resolve(scan: SchemaScan, dialect: Dialect, registry: Registry[Any] | None) -> dict[int, ReferenceTarget]:
    """The target of each schema that holds a reference, by the id of that schema, with the target's pointer.

    Targets in places where the draft expects no schema are scanned here, and so are their references.

    Raises:
        SchemaError: a reference leads nowhere, or only in a circle.
    """
    targets: dict[int, ReferenceTarget] = {}
    if not scan.references:
        _refuse_repeated(scan, targets)
        return targets
    if not scan.identified and not _any_rebased(scan):
        _follow_local(scan, dialect, targets)
    if len(targets) < len(scan.references):
        _follow_uris(scan, dialect, registry, targets)
    _refuse_repeated(scan, targets)
    _refuse_circles(scan, targets)
    return targets


def _refuse_repeated(scan: SchemaScan, targets: dict[int, ReferenceTarget]) -> None:
    """Refuses two schemas with one name: two equal identifiers, or two equal anchors in one resource.

    Up to draft 7 only where a reference leads to one of the two: published schemas of these drafts repeat names.
    """
    if not (scan.identified or scan.rebased):
        return
    wanted = {id(contents) for contents, _ in targets.values()}
    for start, pointer, dialect in scan.starts:
        if dialect.number < 2019 and not wanted:
            continue
        first: dict[tuple[str, str], tuple[dict[str, Any], Trail]] = {}
        for schema, trail, keyword, name in _names(start, pointer, dialect):
            other, there = first.setdefault(name, (schema, trail))
            if other is not schema and (dialect.number >= 2019 or not wanted.isdisjoint((id(schema), id(other)))):
                place = excerpt(joined(there)) or "the root"
                why = f"{keyword}: {quoted(schema[keyword])} names the schema at {place}, too"
                raise SchemaError(why, f"{joined(trail)}/{keyword}")


def _names(start: Any, pointer: str, dialect: Dialect) -> Iterator[tuple[dict[str, Any], Trail, str, tuple[str, str]]]:
    """The names of `start` and of all schemas below it: schema, trail, keyword, and (base URI, fragment)."""
    stack: list[tuple[Any, Trail, str]] = [(start, pointer, "")]
    seen = set()
    while stack:
        schema, trail, base = stack.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        identifier = schema.get(dialect.identifier)
        if isinstance(identifier, str) and not (dialect.lone_references and "$ref" in schema):
            uri, fragment = urldefrag(urljoin(base, identifier))
            if identifier[:1] != "#":
                base = uri
            yield schema, trail, dialect.identifier, (base, fragment)
        for keyword in (name for name in ANCHORS.intersection(schema) if name in dialect.keywords):
            yield schema, trail, keyword, (base, str(schema[keyword]))
        below = [(child, (trail, step), base) for child, step in subschemas(schema, dialect)]
        stack.extend(reversed(below))


def references(schema: dict[str, Any], dialect: Dialect) -> list[str]:
    """The keywords of `schema` that are references in its draft."""
    if _DYNAMIC.isdisjoint(schema):
        return ["$ref"] if "$ref" in schema else []
    return [name for name in REFERENCES if name in schema and name in dialect.applies]


def _reference(scan: SchemaScan, schema: dict[str, Any]) -> str:
    """The first reference of a schema that has one; any further ones are dynamic (see `DynamicScopes`)."""
    return str(schema[references(schema, scan.seen[id(schema)])[0]])


def refused(scan: SchemaScan, schema: dict[str, Any], why: str, keyword: str | None = None) -> SchemaError:
    """The error for a reference that cannot be followed, at the place of the reference."""
    name = keyword or references(schema, scan.seen[id(schema)])[0]
    return SchemaError(why, f"{scan.pointer_of(schema)}/{name}")


def _any_rebased(scan: SchemaScan) -> bool:
    """Is a reference below a base URI that is not the root's?"""
    if not scan.rebased:
        return False
    below = {id(schema) for top in scan.rebased for schema, _ in every(top, "", scan.seen[id(top)])}
    return any(id(schema) in below for schema in scan.references)


def _follow_local(scan: SchemaScan, dialect: Dialect, targets: dict[int, ReferenceTarget]) -> None:
    """Resolve pointers and anchors; stop at the first reference, or target, that needs `_follow_uris`."""
    names = {} if scan.rebased else dict(scan.names)  # without the anchors of targets that are scanned below
    known: dict[str, ReferenceTarget] = {}
    rebased = len(scan.rebased)
    for source in scan.references:  # grows while new targets are scanned
        reference = _reference(scan, source)
        target = known.get(reference)
        if target is None:
            pointer = unquote(reference[1:])
            if reference in names:
                contents: Any = names[reference]
            elif reference[:1] == "#" and (len(reference) == 1 or reference[1] == "/"):
                try:
                    contents = value_at(scan.root, pointer)
                except LookupError as missing:
                    why = f"the reference {quoted(reference)} leads nowhere: there is no {quoted(missing.args[0])}"
                    raise refused(scan, source, why) from None
            else:
                return
            target = known[reference] = (contents, pointer)
            if id(contents) not in scan.seen:
                scan.walk(contents, pointer, dialect)
            if scan.identified or len(scan.rebased) != rebased:
                return
        targets[id(source)] = target


def value_at(root: Any, pointer: str) -> Any:
    """Returns the value at a JSON pointer.

    Raises:
        LookupError: with the token that leads nowhere.
    """
    value = root
    for token in pointer.split("/")[1:]:
        if "~" in token:
            token = unescaped(token)
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and len(token) < 12 and int(token) < len(value):
            value = value[int(token)]
        else:
            raise LookupError(token)
    return value


def _follow_uris(
    scan: SchemaScan, dialect: Dialect, registry: Registry[Any] | None, targets: dict[int, ReferenceTarget]
) -> None:
    from referencing.exceptions import Unresolvable

    resolvers: dict[int, Resolver[Any]] = scan.resolvers
    _note_resolvers(scan.root, dialect, root_resolver(scan.root, dialect, registry), resolvers)
    for source in scan.references:  # grows while new targets are scanned
        reference = _reference(scan, source)
        try:
            resolved = resolvers[id(source)].lookup(reference)
            home = resolved.resolver.lookup("#").contents
        except (Unresolvable, ValueError) as error:
            why = f"the reference {quoted(reference)} leads nowhere: {excerpt(error)}"
            more = "" if reference[:1] == "#" else "; nothing is fetched: other documents come from registry="
            raise refused(scan, source, why + more) from None
        except (TypeError, AttributeError) as error:  # raised by the library for a document that is no schema
            why = f"the reference {quoted(reference)} cannot be followed: {NO_SCHEMA} ({excerpt(error)})"
            raise refused(scan, source, why) from None
        document, _, fragment = reference.partition("#")
        pointer = unquote(fragment) if home is scan.root else f"{document}#{fragment}"
        if isinstance(resolved.contents, (bool, dict)) and id(resolved.contents) not in scan.seen:
            draft = dialect_of(home, scan.seen[id(source)])
            scan.walk(resolved.contents, pointer, draft)
        if id(resolved.contents) not in resolvers:
            seen_in = scan.seen.get(id(resolved.contents), dialect)
            _note_resolvers(resolved.contents, seen_in, resolved.resolver, resolvers)
        targets[id(source)] = (resolved.contents, pointer)


def root_resolver(root: Any, dialect: Dialect, registry: Registry[Any] | None) -> Resolver[Any]:
    """The resolver of the references in `root`, which looks for the schemas with names of their own once."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    known = REGISTRY if registry is None else registry.combine(REGISTRY)
    resource = specification(dialect).create_resource(root)
    base = resource.id() or ""
    known = known.with_resource(base, resource)
    with suppress(TypeError, AttributeError, ValueError):  # some document is not a schema: a reference to it says so
        known = known.crawl()
    resolver: Resolver[Any] = known.resolver(base_uri=base)
    return resolver


def specification(dialect: Dialect) -> Any:
    """The draft as an object of the `referencing` library."""
    from referencing.jsonschema import specification_with

    return specification_with(URIS[dialect.number])


def _note_resolvers(start: Any, dialect: Dialect, resolver: Resolver[Any], resolvers: dict[int, Resolver[Any]]) -> None:
    """Note the resolver (the base URI) that applies at `start` and at every schema below it."""
    known = specification(dialect)
    stack = [(start, resolver)]
    while stack:
        schema, outer = stack.pop()
        if not isinstance(schema, dict) or id(schema) in resolvers:
            continue
        if dialect.identifier in schema and schema is not start:
            outer = outer.in_subresource(known.create_resource(schema))
        resolvers[id(schema)] = outer
        stack.extend((child, outer) for child, _ in subschemas(schema, dialect))


def _refuse_circles(scan: SchemaScan, targets: dict[int, ReferenceTarget]) -> None:
    """Refuse references that lead back to themselves within one value."""
    finished: set[int] = set()
    for source in scan.references:
        target, _ = targets[id(source)]
        static = "$ref" in source and isinstance(target, dict) and not target.keys().isdisjoint(IN_PLACE)
        if not static or id(target) in finished:
            continue
        path: set[int] = set()
        stack = [(target, iter(_applied(scan, target, targets)))]
        while stack:
            schema, rest = stack[-1]
            path.add(id(schema))
            following = next(rest, None)
            if following is None:
                stack.pop()
                path.discard(id(schema))
                finished.add(id(schema))
            elif id(following) in path:
                why = f"$ref {quoted(source['$ref'])} leads back to itself and describes no value"
                raise refused(scan, source, why, "$ref")
            elif id(following) not in finished:
                stack.append((following, iter(_applied(scan, following, targets))))


def _applied(scan: SchemaScan, schema: dict[str, Any], targets: dict[int, ReferenceTarget]) -> list[dict[str, Any]]:
    """The schemas that must be read before `schema`."""
    branches = [branch for branch, _ in in_place(schema, scan.seen[id(schema)])]
    if id(schema) in targets:
        branches.append(targets[id(schema)][0])
    return [branch for branch in branches if isinstance(branch, dict)]


class DynamicScopes:
    """References whose target depends on the way to them: `$dynamicRef` of 2020-12 and `$recursiveRef` of 2019-09.

    In a schema that has one, a place is a schema object together with its *scope*: the documents that were entered on
    the way to it. A scope is a resolver of the `referencing` library, which finds the target of a reference in it.
    """

    def __init__(self, scan: SchemaScan, dialect: Dialect, registry: Registry[Any] | None) -> None:
        self._scan = scan
        self._dialect = dialect
        self.root = root_resolver(scan.root, dialect, registry)

    def entered(self, schema: dict[str, Any], outer: Resolver[Any]) -> Resolver[Any]:
        """The scope of `schema`, a schema within one whose scope is `outer`."""
        dialect = self._scan.seen.get(id(schema), self._dialect)
        if dialect.identifier not in schema or schema is self._scan.root:
            return outer
        return outer.in_subresource(specification(dialect).create_resource(schema))

    def first(self, schema: dict[str, Any]) -> Resolver[Any]:
        """The scope of a schema by the first way to it."""
        return self._scan.resolvers.get(id(schema)) or self.entered(schema, self.root)

    def key(self, schema: dict[str, Any], scope: Resolver[Any]) -> tuple[int, tuple[str, ...]]:
        """The identity of a place: of its scope only the first entry into each document matters."""
        outermost_first = [uri for uri, _ in scope.dynamic_scope()][::-1]
        base = str(scope.lookup("#").resolver._base_uri)
        return id(schema), (*dict.fromkeys(outermost_first), base)

    def target(self, schema: dict[str, Any], keyword: str, scope: Resolver[Any]) -> tuple[Any, Resolver[Any]]:
        """The target of the reference of `schema` in `scope`, and the scope of the target.

        Raises:
            SchemaError: the reference leads nowhere.
        """
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import lookup_recursive_ref

        try:
            resolved = lookup_recursive_ref(scope) if keyword == "$recursiveRef" else scope.lookup(schema[keyword])
        except (Unresolvable, ValueError) as error:
            why = f"{keyword} {quoted(schema[keyword])} leads nowhere: {excerpt(error)}"
            raise refused(self._scan, schema, why, keyword) from None
        if isinstance(resolved.contents, (bool, dict)) and id(resolved.contents) not in self._scan.seen:
            home = resolved.resolver.lookup("#").contents
            self._scan.walk(resolved.contents, schema[keyword], dialect_of(home, self._dialect))
            seen_in = self._scan.seen.get(id(resolved.contents), self._dialect)
            _note_resolvers(resolved.contents, seen_in, resolved.resolver, self._scan.resolvers)
        return resolved.contents, resolved.resolver
