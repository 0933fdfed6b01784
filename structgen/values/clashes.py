"""Which keywords exclude each other in a schema that no value satisfies, for the message of `UnsatisfiableSchema`.

Keywords are left out one by one, as long as the schema stays without values. The keywords that are left at the end
clash: without any one of them the schema would have a value. A branch of `allOf` counts as keywords of its own:
`{"allOf": [{"type": "string"}, {"type": "null"}]}` has two types that clash.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time
from typing import Any

from structgen.values.emptiness import Emptiness
from structgen.errors import QUOTED, RequestError, excerpt, quoted
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, STRUCTURE
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode

Path = tuple[object, ...]
"""Where a keyword stands: `("type",)`, or `("allOf", 0, "type")` for a keyword of the first branch of `allOf`."""

MAX_KEYWORDS, MAX_NAMES = 64, 64
"""The largest number of keywords, and of names of one `required`, that are tried. A longer `required` stays whole; with
more keywords, nothing is found."""
MAX_SECONDS = 1.0

_IDLE = frozenset(row.name for row in KEYWORDS if row.how in (STRUCTURE, ANNOTATION))
_RESTRICTING = frozenset(row.name for row in KEYWORDS) - _IDLE
_SCHEMAS = frozenset(row.name for row in KEYWORDS if row.children) | {"$ref"}
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_READS = {
    "additionalProperties": {"properties", "patternProperties"},
    "additionalItems": {"items"},
    "items": {"prefixItems"},
    "contains": {"minContains"},
    "exclusiveMinimum": {"minimum"},
    "exclusiveMaximum": {"maximum"},
}
"""A keyword -> the keywords that change its meaning. Those are left out only after the keyword itself is."""

_LOW = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_HIGH = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")


def clash(place: Node, is_empty: Emptiness) -> str:
    """Names the keywords that exclude each other at a place without values, as part of a message.

    The text is empty where they are not found in `MAX_SECONDS`, or where the target of a reference depends on the
    route to the place (`$dynamicRef`).
    """
    if not isinstance(place, SchemaNode) or place.scope is not None:
        return ""
    search = _ClashSearch(place, is_empty)
    words = search.words()
    target = place.reader.target(place) if search.left == {("$ref",)} else None
    if isinstance(target, SchemaNode):
        return f"$ref {quoted(place.schema['$ref'])}, where " + _ClashSearch(target, is_empty).words()
    return words


class _ClashSearch:
    """The search at one place of a schema.

    Attributes:
        left: the keywords that have not been left out.
    """

    def __init__(self, place: SchemaNode, is_empty: Emptiness) -> None:
        self._place, self._is_empty = place, is_empty
        self._until = thread_time() + MAX_SECONDS
        self._arguments = dict(_keywords(place.schema, (), lone=place.reader.has_lone_reference(place.schema)))
        self.left = set(self._arguments)

    def words(self) -> str:
        if len(self.left) > MAX_KEYWORDS or not self._clashes(self.left, {}):
            return ""
        for path in sorted(self._arguments, key=lambda path: _rank(str(path[-1]))):
            if self._may_go(path) and self._clashes(self.left - {path}, {}):
                self.left.remove(path)
        if thread_time() > self._until:
            return ""
        for path in self._arguments:
            if path in self.left and path[-1] == "required":
                self._name_one(path)
        return _words({path: value for path, value in self._arguments.items() if path in self.left})

    def _may_go(self, path: Path) -> bool:
        """Do the other keywords keep their meaning when this one is left out?"""
        name = path[-1]
        names = {other[-1] for other in self.left}
        if name in _SCHEMAS and names & _UNEVALUATED - {name}:
            return False
        return not any(name in read and (*path[:-1], reader) in self.left for reader, read in _READS.items())

    def _name_one(self, path: Path) -> None:
        """Reduce a `required`, and the `properties` beside it, to one name that clashes, if there is one."""
        beside = (*path[:-1], "properties")
        for name in self._arguments[path][:MAX_NAMES]:
            changed: dict[Path, Any] = {path: [name]}
            if self._clashes(self.left, changed):
                self._arguments[path] = [name]
                self._declare_one(beside, name, changed)
                return

    def _declare_one(self, path: Path, name: str, changed: dict[Path, Any]) -> None:
        """Reduce `properties` to what the clash needs: nothing, or this one name."""
        if path not in self.left:
            return
        if self._clashes(self.left - {path}, changed):
            self.left.remove(path)
        elif name in self._arguments[path] and self._clashes(
            self.left, {**changed, path: {name: self._arguments[path][name]}}
        ):
            self._arguments[path] = {name: self._arguments[path][name]}

    def _clashes(self, left: set[Path], changed: dict[Path, Any]) -> bool:
        """Has the place no value either, if it has these keywords alone? `changed` replaces arguments."""
        if thread_time() > self._until:
            return False
        schema = self._copy(self._place.schema, (), left, changed)
        try:
            return bool(schema) and self._is_empty(SchemaNode(schema, self._place.pointer, self._place.reader))
        except RequestError:
            return False

    def _copy(self, schema: dict[str, Any], above: Path, left: set[Path], changed: dict[Path, Any]) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for name, value in schema.items():
            path = (*above, name)
            if path in left:
                copy[name] = changed.get(path, value)
            elif name == "allOf":
                branches = [self._branch(branch, (*path, i), left, changed) for i, branch in enumerate(value)]
                copy[name] = [branch for branch in branches if branch is not True] or [True]
            elif name in _IDLE:
                copy[name] = value
        return self._place.reader.adopted(copy, schema)

    def _branch(self, branch: Any, path: Path, left: set[Path], changed: dict[Path, Any]) -> Any:
        if isinstance(branch, dict):
            return self._copy(branch, path, left, changed)
        return branch if path in left else True


def _keywords(schema: dict[str, Any], above: Path, *, lone: bool) -> Iterator[tuple[Path, Any]]:
    """The keywords that restrict values, with their arguments. `allOf` is replaced by the keywords of its branches.

    Args:
        lone: does a `$ref` make the reader ignore the keywords beside it, as in draft 7?
    """
    for name, value in schema.items():
        path = (*above, name)
        if lone and "$ref" in schema and name != "$ref":
            continue
        if name == "allOf":
            for i, branch in enumerate(value):
                if isinstance(branch, dict):
                    yield from _keywords(branch, (*path, i), lone=lone)
                else:
                    yield (*path, i), branch
        elif name in _RESTRICTING:
            yield path, value


def _rank(name: str) -> int:
    """The order in which keywords are left out. A keyword that depends on others goes before them. A keyword that holds
    schemas goes before a plain one, because a message with the plain one is easier to read."""
    if name in _UNEVALUATED:
        return 0
    return 1 if name in _READS else 2 if name in _SCHEMAS else 3


def _words(arguments: dict[Path, Any]) -> str:
    bounds = {str(path[-1]): value for path, value in arguments.items() if path[-1] != "type"}
    for low, high in ((low, high) for low in _LOW for high in _HIGH):
        if bounds.keys() == {low, high} and len(arguments) <= 3 and bounds[low] >= bounds[high]:
            return f"{low} {bounds[low]} {'>' if bounds[low] > bounds[high] else '>='} {high} {bounds[high]}"
    room = max(QUOTED // len(arguments) - 24, 16)
    texts = {path: quoted(value) for path, value in arguments.items()}
    shortened = {path: text if len(text) <= room else f"{text[: room - 3]}..." for path, text in texts.items()}
    parts = [f"{'/'.join(map(str, path))} {text}" for path, text in shortened.items()]
    if len(parts) == 1:
        return f"{parts[0]} excludes every value"
    return excerpt(f"{', '.join(parts[:-1])} and {parts[-1]}") + " exclude each other"
