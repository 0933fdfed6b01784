"""Which keywords exclude each other in a schema that no value satisfies, for the message of `UnsatisfiableSchema`.

Keywords are left out one by one, as long as the schema stays without values. The keywords that are left at the end
clash: without any one of them the schema would have a value. A branch of `allOf` has keywords of its own:
`{"allOf": [{"type": "string"}, {"type": "null"}]}` has two types that clash.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time
from typing import Any

from structgen.errors import QUOTED, RequestError, excerpt, quoted
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, STRUCTURE
from structgen.schema.left_out import LeftOut, Rule
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode
from structgen.values.emptiness import Emptiness

MAX_KEYWORDS, MAX_NAMES = 64, 64
"""The largest number of keywords, and of names of one `required`, that are tried. A longer `required` stays whole; with
more keywords, nothing is found."""
MAX_SECONDS = 1.0

_RESTRICTING = frozenset(row.name for row in KEYWORDS if row.how not in (STRUCTURE, ANNOTATION))
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


def clash(place: Node) -> str:
    """Names the keywords that exclude each other at a place without values, as part of a message.

    The text is empty where they are not found in `MAX_SECONDS`, or where the target of a reference depends on the
    route to the place (`$dynamicRef`).
    """
    if not isinstance(place, SchemaNode) or place.scope is not None:
        return ""
    left = _fewest(place)
    target = place.reader.target(place) if left.keys() == {"$ref"} else None
    if isinstance(target, SchemaNode):
        return f"$ref {quoted(place.schema['$ref'])}, where {_words(_fewest(target))}"
    return _words(left)


def _fewest(place: SchemaNode) -> dict[str, Any]:
    """The arguments of the keywords that clash, by the paths of the keywords; empty if they are not found."""
    until = thread_time() + MAX_SECONDS
    rules = dict(_rules(place, ""))
    left = set(rules)
    arguments: dict[str, Any] = {path: schema.schema[keyword] for path, (schema, keyword) in rules.items()}

    def clashes(kept: set[str], changed: dict[str, Any]) -> bool:
        """Has the place no value either, with these keywords alone? `changed` replaces arguments."""
        if thread_time() > until:
            return False
        without = [rule for path, rule in rules.items() if path not in kept]
        twin = LeftOut(place.reader, without, {rules[path]: value for path, value in changed.items()})
        try:
            return Emptiness(twin.algebra)(twin.twin(place))
        except RequestError:
            return False

    if len(left) > MAX_KEYWORDS or not clashes(left, {}):
        return {}
    for path in sorted(rules, key=lambda path: _rank(rules[path][1])):
        if _may_go(rules[path], {rules[other] for other in left}) and clashes(left - {path}, {}):
            left.remove(path)
    for path in [path for path in rules if path in left and rules[path][1] == "required"]:
        declared = path.removesuffix("required") + "properties"
        for name in arguments[path][:MAX_NAMES]:
            changed: dict[str, Any] = {path: [name]}
            if not clashes(left, changed):
                continue
            arguments[path] = [name]  # of the properties, it clashes with nothing, or with this one name
            if declared in left and clashes(left - {declared}, changed):
                left.remove(declared)
            elif declared in left and name in arguments[declared]:
                alone = {name: arguments[declared][name]}
                if clashes(left, {**changed, declared: alone}):
                    arguments[declared] = alone
            break
    if thread_time() > until:
        return {}
    inner = {path for path in left if any(other.startswith(f"{path}/") for other in left)}
    return {path: value for path, value in arguments.items() if path in left - inner}


def _rules(place: SchemaNode, above: str) -> Iterator[tuple[str, Rule]]:
    """The keywords that restrict values, by their paths: `type`, and `allOf/0/type` for one of a branch."""
    lone = place.reader.has_lone_reference(place.schema)
    for keyword in ["$ref"] if lone else place.schema:
        if keyword in _RESTRICTING:
            yield above + keyword, (place, keyword)
        for i, branch in enumerate(place.schema["allOf"] if keyword == "allOf" else ()):
            node = place.reader.node(branch, (place, keyword, i))
            if isinstance(node, SchemaNode):
                yield from _rules(node, f"{above}allOf/{i}/")


def _may_go(rule: Rule, left: set[Rule]) -> bool:
    """Do the other keywords keep their meaning when this one is left out?"""
    place, keyword = rule
    if keyword in _SCHEMAS and not _UNEVALUATED.isdisjoint({other for _, other in left} - {keyword}):
        return False
    return not any(keyword in read and (place, reader) in left for reader, read in _READS.items())


def _rank(keyword: str) -> int:
    """The order in which keywords are left out. A keyword that depends on others goes before them. A keyword that holds
    schemas goes before a plain one, because a message with the plain one is easier to read."""
    if keyword in _UNEVALUATED:
        return 0
    return 1 if keyword in _READS else 2 if keyword in _SCHEMAS else 3


def _words(arguments: dict[str, Any]) -> str:
    if not arguments:
        return ""
    quoting = [value for path, value in arguments.items() if path.rpartition("/")[2] == "x-quote"]
    if quoting and all(path.rpartition("/")[2] in ("type", "x-quote") for path in arguments):
        return f"there is nothing to quote in source={quoted(quoting[0].get('source'))}"
    bounds = {path.rpartition("/")[2]: value for path, value in arguments.items() if not path.endswith("type")}
    for low, high in ((low, high) for low in _LOW for high in _HIGH):
        if bounds.keys() == {low, high} and len(arguments) <= 3 and bounds[low] >= bounds[high]:
            return f"{low} {bounds[low]} {'>' if bounds[low] > bounds[high] else '>='} {high} {bounds[high]}"
    room = max(QUOTED // len(arguments) - 24, 16)
    texts = {path: quoted(value) for path, value in arguments.items()}
    parts = [f"{path} {text if len(text) <= room else f'{text[: room - 3]}...'}" for path, text in texts.items()]
    if len(parts) == 1:
        return f"{parts[0]} excludes every value"
    return excerpt(f"{', '.join(parts[:-1])} and {parts[-1]}") + " exclude each other"
