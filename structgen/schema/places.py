"""Places of a schema that are prepared when it is compiled: patterns, long lists, and what may exceed a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import chain, islice
from typing import Any

from structgen.errors import LimitExceeded, OptionError, SchemaError, UnsupportedSchema
from structgen.json_text.pointers import escaped
from structgen.memo import schema_cache
from structgen.regular.quotes import Source
from structgen.regular.regex.compiler import check
from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.schema.keywords.dialects import DEFAULT, dialect_of
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode, SchemaReader
from structgen.schema.references import in_place
from structgen.schema.scan import SchemaScan

NOTHING_QUOTES = "source= is for schemas that quote it: no string of this one has sg.Quote()"
MAX_PLACES = 200
"""The most places that `limited_places` returns."""


def check_patterns(root: Node) -> None:
    """Refuses a pattern of a schema that cannot be compiled, before anything runs.

    Raises:
        SchemaError, UnsupportedSchema, LimitExceeded: with the pattern's pointer.
    """
    for pattern, (node, path) in patterns(root).items():
        try:
            _checked(pattern)
        except PatternUnsupported as error:
            raise UnsupportedSchema(str(error), node.pointer + path) from error
        except PatternError as error:
            raise SchemaError(str(error), node.pointer + path) from error
        except LimitExceeded as error:
            raise error.at(node.pointer + path) from error


@schema_cache(4096)
def _checked(pattern: str) -> None:
    check(pattern)


def patterns(root: Node) -> dict[str, tuple[Node, str]]:
    """Each distinct pattern of the schema of `root`, with a node that holds it, and the pointer from there.

    No node is read.
    """
    if not isinstance(root, SchemaNode):
        return {}
    nodes: dict[str, tuple[Node, str]] = {}
    for schema in root.reader.scan.patterned:
        texts = [(text, f"/patternProperties/{escaped(text)}") for text in schema.get("patternProperties", ())]
        texts += [(schema["pattern"], "/pattern")] if "pattern" in schema else []
        nodes.update((text, (root.reader.node(schema, None), path)) for text, path in texts if text not in nodes)
    return nodes


def has_plain_integers(root: Node) -> bool:
    """Is there a place in the schema of `root` whose dialect does not take `1.0` for an integer?"""
    return isinstance(root, SchemaNode) and any(each.plain_integers for each in root.reader.scan.seen.values())


def quotes_a_source(root: Node) -> bool:
    """Does the schema of `root` quote a source that it does not have itself?"""
    return isinstance(root, SchemaNode) and bool(root.reader.scan.quoting)


def quotes(schema: Any) -> bool:
    """Does a JSON Schema quote a source that it does not have itself?"""
    return bool(scanned(schema).quoting)


def scanned(schema: Any, registry: Any = None) -> SchemaScan:
    """The scan of a JSON Schema.

    Raises:
        SchemaError: it is malformed.
    """
    scan = SchemaScan(schema)
    scan.walk(schema, "", dialect_of(schema, DEFAULT, registry))
    return scan


def sourced(schema: Any, source: Source | dict[str, str], registry: Any = None) -> Any:
    """A copy of a JSON Schema whose quotes have this source where they have none themselves.

    Raises:
        OptionError: there are none.
    """
    copy = deepcopy(schema)
    quoting = scanned(copy, registry).quoting
    if not quoting:
        raise OptionError(NOTHING_QUOTES)
    for place in quoting:
        place["x-quote"] = {**place["x-quote"], "source": source}
    return copy


def long_places(root: Node) -> list[Node]:
    """The values with long lists in the schema of `root`: their schemas, and those that apply them to the same value.

    They are read before anything runs, because reading 100,000 values takes long. The values around them are not, nor
    those that refer to them, which copy what is written: a published schema refers to a union from 1,700 places.
    """
    if not isinstance(root, SchemaNode) or not root.reader.scan.long:
        return []
    reader, scan = root.reader, root.reader.scan
    applying: dict[int, list[dict[str, Any]]] = {}  # by schema: those that apply it to their own value
    for schema in scan.references:
        applying.setdefault(id(reader.target_schema(schema)), []).append(schema)
    for schema in chain(scan.unions, scan.negations):
        for branch, _ in in_place(schema, reader.dialect(schema)):
            applying.setdefault(id(branch), []).append(schema)
    wanted: dict[int, dict[str, Any]] = {}
    left = [*scan.long]
    while left:
        schema = left.pop()
        if id(schema) not in wanted:
            wanted[id(schema)] = schema
            left += applying.get(id(schema), ())
    return _values(reader, [schema for schema in wanted.values() if "$ref" not in schema])


def limited_places(root: Node) -> list[Node]:
    """The places, at most `MAX_PLACES`, of a schema that may exceed a limit; none for nearly every schema.

    Their states are written when the schema is compiled, so that the limit is not exceeded in the middle of a text. One
    automaton tells the sets of these keywords apart, and its size is a product over those of a value and of the values
    directly in it.
    """
    if not isinstance(root, SchemaNode) or not _may_be_large(_heavy_keywords(root.reader)):
        return []
    values = _Values(root.reader)
    return [root.reader.node(schema, None) for schema in islice(values.large(), MAX_PLACES)]


Heavy = tuple[str, object]
"""A keyword whose automata multiply, and what tells it from others of its kind."""
_FEW = {"contains": 2, "not": 8, "multipleOf": 3, "pattern": 6}
"""The most of them in one place that exceed no limit."""


def _may_be_large(keywords: Iterable[Heavy]) -> bool:
    counts = Counter(kind for kind, _ in set(keywords))
    return any(counts[kind] > few for kind, few in _FEW.items())


def _heavy_keywords(reader: SchemaReader) -> Iterator[Heavy]:
    """Those of the whole schema, without walking it."""
    scan = reader.scan
    for schema in chain(scan.contains, scan.negations, scan.multiples, scan.patterned):
        yield from _heavy(schema)


def _heavy(schema: dict[str, Any]) -> Iterator[Heavy]:
    """Those of one schema object."""
    yield from ((name, id(schema)) for name in ("contains", "not") if name in schema)
    if "multipleOf" in schema:
        yield "multipleOf", schema["multipleOf"]
    patterns = [*schema.get("patternProperties", ()), *([schema["pattern"]] if "pattern" in schema else ())]
    yield from (("pattern", pattern) for pattern in patterns if "{" in pattern or "(?" in pattern)


class _Values:
    """The values that a schema describes, each with the schema objects that apply to it, and the values in it."""

    def __init__(self, reader: SchemaReader) -> None:
        self._reader = reader
        self._schemas: dict[int, list[dict[str, Any]]] = {}  # by value: it and its branches
        self._inner: dict[int, list[int]] = {}  # by value: the values directly in it
        value_at: dict[int, int] = {}  # by trail
        self._value_of: dict[int, int] = {}  # by schema
        branches = set[int]()
        for schema, trail, dialect in reader.scan.places():
            branches |= {id(branch) for branch, _ in in_place(schema, dialect)}
            above = None if isinstance(trail, str) else value_at.get(id(trail[0]))
            value = above if above is not None and id(schema) in branches else id(schema)
            value_at[id(trail)] = self._value_of[id(schema)] = value
            self._schemas.setdefault(value, []).append(schema)
            if above is not None and value != above:
                self._inner.setdefault(above, []).append(value)

    def large(self) -> Iterator[dict[str, Any]]:
        """The schemas of the values that may exceed a limit."""
        for value, (schema, *_) in self._schemas.items():
            around = self._with_targets([value])
            inner = self._with_targets([each for other in around for each in self._inner.get(other, ())])
            if _may_be_large(chain.from_iterable(map(_heavy, self._objects({*around, *inner})))):
                yield schema

    def _objects(self, values: Iterable[int]) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(self._schemas[value] for value in values)

    def _with_targets(self, values: list[int]) -> set[int]:
        """Values, and those whose schemas their references lead to."""
        reached, left = set(values), values
        while left:
            targets = [self._reader.target_schema(each) for each in self._objects(left) if "$ref" in each]
            left = list({self._value_of[id(each)] for each in targets if id(each) in self._value_of} - reached)
            reached.update(left)
        return reached


def _values(reader: SchemaReader, schemas: list[dict[str, Any]]) -> list[Node]:
    """The nodes of schemas; not of branches, which are read with the schema around them."""
    branches = {id(branch) for schema in schemas for branch, _ in in_place(schema, reader.dialect(schema))}
    return [reader.node(schema, None) for schema in schemas if id(schema) not in branches]
