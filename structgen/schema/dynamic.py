"""References that depend on the way that led to them: `$dynamicRef` of 2020-12 and `$recursiveRef` of 2019-09.

In a schema that has one, a place is a schema object together with its *scope*: the documents that were entered on the
way to it. Scopes are the resolvers of the `referencing` library, which also says what a reference means in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from structgen.errors import excerpt, quoted
from structgen.schema.keywords.dialects import Dialect, dialect_of
from structgen.schema.references import refused, root_resolver, specification
from structgen.schema.scan import SchemaScan

if TYPE_CHECKING:
    from referencing import Registry
    from referencing._core import Resolver

Key = tuple[int, tuple[str, ...]]


class DynamicScopes:
    """The scopes of one schema with dynamic references."""

    def __init__(self, scan: SchemaScan, dialect: Dialect, registry: Registry[Any] | None) -> None:
        self._scan = scan
        self._dialect = dialect
        self.root = root_resolver(scan.root, dialect, registry)

    def entered(self, schema: dict[str, Any], outer: Resolver[Any]) -> Resolver[Any]:
        """The scope of `schema`, which stands inside a schema of scope `outer`."""
        dialect = self._scan.seen.get(id(schema), self._dialect)
        if dialect.identifier not in schema or schema is self._scan.root:
            return outer
        return outer.in_subresource(specification(dialect).create_resource(schema))

    def key(self, schema: dict[str, Any], scope: Resolver[Any]) -> Key:
        """What tells places apart: only the first entry into each document matters."""
        outermost_first = [uri for uri, _ in scope.dynamic_scope()][::-1]
        base = str(scope.lookup("#").resolver._base_uri)
        return id(schema), (*dict.fromkeys(outermost_first), base)

    def target(self, schema: dict[str, Any], keyword: str, scope: Resolver[Any]) -> tuple[Any, Resolver[Any]]:
        """Where the reference of `schema` leads in `scope`, and the scope there.

        Raises:
            SchemaError: nowhere.
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
        return resolved.contents, resolved.resolver
