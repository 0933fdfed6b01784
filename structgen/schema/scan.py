"""One cheap pass over the whole schema before anything runs.

It finds everything that is malformed, so that reading can be lazy and does not fail in the middle of a text. It takes
time before the first mask: less than a microsecond per keyword, because it builds no pointers. Where it finds an
error, a second, slow walk finds the pointer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structgen.errors import LimitExceeded, SchemaError
from structgen.json_text.pointers import escaped
from structgen.schema.keywords.arguments import TYPES, Malformed, ScanContext, keys, text, type_names
from structgen.schema.keywords.dialects import Dialect
from structgen.schema.keywords.table import ANNOTATION

MAX_SCHEMAS = 1_000_000

Trail = str | tuple[Any, str]
"""The way to a schema: a JSON pointer, or the trail of the schema above it and the tokens that lead down from there."""


class SchemaScan(ScanContext):
    """The scan of one root schema and of the targets of its references.

    Attributes:
        seen: the draft of every schema object that was scanned, by its id (the root keeps the objects alive).
        starts: the schemas at which walks began, with their pointers and drafts.
        resolvers: by the id of a schema, the resolver of its references, where they need the `referencing` library.
    """

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.seen: dict[int, Dialect] = {}
        self.starts: list[tuple[Any, str, Dialect]] = []
        self.resolvers: dict[int, Any] = {}

    def walk(self, start: Any, pointer: str, dialect: Dialect) -> None:
        """Check `start`, whose JSON pointer is `pointer`, and all schemas below it.

        Raises:
            SchemaError: a malformed argument. LimitExceeded: too many schemas.
        """
        seen, stack, get = self.seen, self.stack, dialect.checks.get
        self.lone_references = dialect.lone_references
        self.starts.append((start, pointer, dialect))
        stack.append(start)
        schema: Any = start
        name = ""
        try:
            while stack:
                schema = stack.pop()
                if isinstance(schema, dict):
                    place = id(schema)
                    if place in seen:
                        continue
                    seen[place] = dialect
                    for name, value in schema.items():
                        check = get(name)
                        if type(value) is str and (check is text or (check is type_names and value in TYPES)):
                            continue  # most values are prose and names of types
                        if check is None:
                            if type(name) is not str or not name.isascii():
                                name = ""
                                keys(schema)
                            continue
                        check(self, schema, value)
                elif (schema is not True and schema is not False) or not dialect.booleans:
                    raise _not_a_schema(schema, start, pointer, dialect)
        except (Malformed, LimitExceeded) as error:
            place_of = joined(next(trail for other, trail in every(start, pointer, dialect) if other is schema))
            if isinstance(error, LimitExceeded):
                raise error.at(f"{place_of}/{escaped(name)}") from None
            if not name:
                raise SchemaError(str(error), place_of) from None
            raise SchemaError(f"{name}: {error}", f"{place_of}/{escaped(name)}") from None
        if len(seen) > MAX_SCHEMAS:
            raise LimitExceeded(f"found {len(seen):,} schemas in one schema; the limit is {MAX_SCHEMAS:,}")

    def pointer_of(self, schema: dict[str, Any]) -> str:
        """The JSON pointer of a schema that was scanned. Slow."""
        places = (place for start in self.starts for place in every(*start))
        return joined(next(trail for other, trail in places if other is schema))

    def places(self) -> Iterator[tuple[dict[str, Any], Trail, Dialect]]:
        """Every schema object that was scanned, with its trail and its draft. Slow."""
        met: set[int] = set()
        for start in self.starts:
            for schema, trail in every(*start):
                if isinstance(schema, dict) and id(schema) in self.seen and id(schema) not in met:
                    met.add(id(schema))
                    yield schema, trail, self.seen[id(schema)]


def texts_in(value: Any) -> Iterator[str]:
    """All strings and names of members in a JSON value."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            yield from item
            stack += item.values()


def joined(trail: Trail) -> str:
    """The JSON pointer of a trail."""
    steps: list[str] = []
    while not isinstance(trail, str):
        trail, step = trail
        steps.append(step)
    return trail + "".join(reversed(steps))


def subschemas(schema: Any, dialect: Dialect) -> Iterator[tuple[Any, str]]:
    """The values directly below `schema` where its draft expects schemas, with the pointers from `schema`."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        row = dialect.keywords.get(name)
        if row is None:
            continue
        path = f"/{escaped(name)}"
        if isinstance(value, list) and "list" in row.children:
            yield from ((item, f"{path}/{i}") for i, item in enumerate(value))
        elif isinstance(value, dict) and "map" in row.children:
            yield from ((item, f"{path}/{escaped(key)}") for key, item in value.items())
        elif "one" in row.children and (row.how != ANNOTATION or isinstance(value, dict)):
            yield value, path


def every(start: Any, pointer: str, dialect: Dialect) -> Iterator[tuple[Any, Trail]]:
    """`start` and, at any depth, the values below it where its draft expects schemas, with their trails."""
    stack: list[tuple[Any, Trail]] = [(start, pointer)]
    seen = set()
    while stack:
        schema, trail = stack.pop()
        if id(schema) not in seen:
            if isinstance(schema, dict):
                seen.add(id(schema))
            yield schema, trail
            stack.extend((child, (trail, step)) for child, step in subschemas(schema, dialect))


def _not_a_schema(value: Any, start: Any, pointer: str, dialect: Dialect) -> SchemaError:
    """The error for the place that holds something else than a schema."""
    expected = "an object, true or false" if dialect.booleans else "an object"
    for schema, trail in every(start, pointer, dialect):
        boolean = schema is True or schema is False
        step = trail if isinstance(trail, str) else trail[1]
        allowed = dialect.booleans or step.endswith(("/additionalProperties", "/additionalItems"))
        if not isinstance(schema, dict) and not (boolean and allowed):
            return SchemaError(str(Malformed(schema, f"a schema: {expected}")), joined(trail))
    return SchemaError(str(Malformed(value, f"a schema: {expected}")), pointer)
