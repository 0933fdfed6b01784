"""Which keyword of a schema, or which option, refuses the next byte of a JSON text.

The keywords that speak of the value are left out of the schema one after the other, innermost value first, until the
same text would have been taken. That is exact, and costs nothing until somebody asks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from structgen.automaton.expected import Walk
from structgen.automaton.machine import Automaton, Blame
from structgen.automaton.pointers import PointerReader
from structgen.errors import StructgenError
from structgen.options import Whitespace
from structgen.regular.patterns import pattern_language
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode
from structgen.schema.references import REFERENCES, in_place, references
from structgen.schema.scan import escaped

MOST_TRIED = 8
"""Places of one keyword that are tried one by one."""
SECONDS = 2.0
"""No further keyword is tried after this CPU time: then none is named."""

_LAST = ("if", "not", "allOf", "anyOf", "oneOf", "type", *REFERENCES)
"""Without these a value may be anything; what other schemas say is to be blamed there."""
_OTHERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("prefixItems", "items", "additionalItems", "contains", "unevaluatedItems")


def blamed(
    root: Node, whitespace: Whitespace, again: Callable[..., Automaton], taken: bytes, refused: bytes,
    *, any_order: bool, ends: bool,
) -> Blame:  # fmt: skip
    """The place, and the keyword or option without which the text would be taken.

    Args:
        root, whitespace, any_order: of the automaton that refuses it.
        again: the automaton of another root, or with another `whitespace=` or `any_order=`.
        taken: the text, as far as it is taken.
        refused: the byte behind it; empty where that is the end.
        ends: the text is to end there.
    """
    until = time.thread_time() + SECONDS

    def would_do(*others: Node, **options: Any) -> bool:
        if time.thread_time() > until:
            return False
        try:
            walk = Walk(again(*(others or (root,)), **options), taken + refused)
        except StructgenError:  # so it is no schema, or beyond a limit
            return False
        return walk.taken == len(taken + refused) and (not ends or walk.may_end)

    def would_do_without(rules: Iterable[str]) -> bool:
        assert isinstance(root, SchemaNode)
        schema = reduce(without, rules, root.schema)
        try:
            return would_do(root.reader.again(schema))
        except StructgenError:
            return False

    reader = PointerReader()
    reader.feed(taken)
    place, nobody = reader.pointer, Blame(reader.pointer, "", "", None)
    if not any_order and would_do(any_order=True):
        return Blame(place, "order", "", "schema")
    if not whitespace.bound and would_do(whitespace=Whitespace.FLEXIBLE):
        return Blame(place, "whitespace", "", whitespace.kind)
    if not isinstance(root, SchemaNode):  # true, or {}
        return nobody
    for level in _speaking(root, reader.path):
        keywords = _keywords(level)
        for keyword, rules in keywords.items():
            if would_do_without(rules):  # of all schemas of the value: each of several alternatives may have it
                alone = (rule for rule in list(rules)[:MOST_TRIED] if len(rules) > 1 and would_do_without([rule]))
                rule = next(alone, next(iter(rules)))
                return Blame(place, keyword, rule, rules[rule])
        types = keywords.pop("type", {})  # an enum has a type of its own, so both stand in the way
        if any(would_do_without([*types, *rules]) for rules in keywords.values() if types):
            return Blame(place, "type", next(iter(types)), types[next(iter(types))])
    return nobody


def _keywords(level: Sequence[SchemaNode]) -> dict[str, dict[str, Any]]:
    """By keyword, the JSON pointers to its arguments in some schemas, and these."""
    places = [(place.pointer, place.schema) for place in level if place.pointer[:1] in ("", "/")]  # of this document
    known: dict[str, dict[str, Any]] = {}
    ranks = {keyword: rank for rank, keyword in enumerate(_LAST, 1)}
    names = dict.fromkeys(keyword for _, schema in places for keyword in schema)
    for keyword in sorted(names, key=lambda name: ranks.get(name, 0)):
        rules = {f"{pointer}/{escaped(keyword)}": schema[keyword] for pointer, schema in places if keyword in schema}
        known[keyword] = rules
    return known


def without(schema: Any, pointer: str) -> Any:
    """A copy of a schema without what a JSON pointer leads to; what is not on the way is shared."""
    name, _, rest = pointer[1:].partition("/")
    key: Any = name.replace("~1", "/").replace("~0", "~")
    if isinstance(schema, list):
        index = int(key)
        return [*schema[:index], *([without(schema[index], f"/{rest}")] if rest else []), *schema[index + 1 :]]
    if not rest:
        return {other: value for other, value in schema.items() if other != key}
    return {**schema, key: without(schema[key], f"/{rest}")}


def _speaking(root: SchemaNode, path: tuple[str | int, ...]) -> Iterator[list[SchemaNode]]:
    """The schemas that speak of a value, then those of the value around it, and so on."""
    levels = [_in_place([root])]
    for step in path:
        levels.append(_in_place([part for node in levels[-1] for part in _parts(node, step)]))
    for level in reversed(levels):
        yield level[::-1]


def _in_place(nodes: Sequence[Node]) -> list[SchemaNode]:
    """Schemas, and those that they apply to the same value."""
    known: list[SchemaNode] = []
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, SchemaNode) and all(node is not other for other in known):
            known.append(node)
            dialect = node.reader.dialect(node.schema)
            waiting += [node.reader.target(node, keyword) for keyword in references(node.schema, dialect)]
            waiting += [node.reader.node(branch, (node, *tokens)) for branch, tokens in in_place(node.schema, dialect)]
    return known


def _parts(node: SchemaNode, step: str | int) -> list[Node]:
    """The schemas that a schema applies to the member or item of this name or index."""
    schema, read = node.schema, node.reader.node
    if isinstance(step, int):
        parts = []
        for keyword in _ITEMS:
            value = schema.get(keyword, True)
            if isinstance(value, list):
                parts += [read(value[step], (node, keyword, step))] if step < len(value) else []
            else:
                parts.append(read(value, (node, keyword)))
        return parts
    if step in schema.get("properties", {}):
        return [read(schema["properties"][step], (node, "properties", step))]
    patterned = schema.get("patternProperties", {})
    matching = [pattern for pattern in patterned if pattern_language(pattern).matches(step)]
    parts = [read(patterned[pattern], (node, "patternProperties", pattern)) for pattern in matching]
    return parts + [read(schema.get(keyword, True), (node, keyword)) for keyword in _OTHERS]
