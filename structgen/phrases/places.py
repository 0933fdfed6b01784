"""Whether a schema has strings where a phrase is bound to, and whether these may have the phrase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from structgen.errors import LimitExceeded
from structgen.regular.string_sets import string_is_empty
from structgen.schema.normal import Node, Strings

MOST_PLACES = 500
"""Places of a schema that are looked at; behind more it counts as unknown, and so as possible."""


def may_have_strings(root: Node, pointer: str) -> bool:
    """May a string stand at a JSON pointer, in which `*` is any member or item and `**` any number of them?"""
    strings = _strings(root, pointer)
    return strings is None or bool(strings)


def may_have(root: Node, pointer: str, patterns: Sequence[str], banned: Sequence[str] = ()) -> bool:
    """May a string at a JSON pointer match all of some ECMA-262 patterns, and none of others?"""
    without = tuple(Strings(patterns=(pattern,)) for pattern in banned)
    strings = _strings(root, pointer)
    try:
        return strings is None or any(
            not string_is_empty(replace(each, patterns=(*each.patterns, *patterns), without=(*each.without, *without)))
            for each in strings
        )
    except LimitExceeded:
        return True


def _strings(root: Node, pointer: str) -> list[Strings] | None:
    """The sets of strings at a JSON pointer; None where they are not known."""
    nodes = [root]
    try:
        for step in pointer.split("/")[1:]:
            nodes = list(dict.fromkeys(part for node in nodes for part in _parts(node, step)))
            if step == "**" or len(nodes) > MOST_PLACES:
                return None
        return [shape.strings for node in nodes for shape in node.shapes if shape.strings is not None]
    except LimitExceeded:  # it is raised again where a text comes there
        return None


def _parts(node: Node, step: str) -> Iterator[Node]:
    """The nodes of the members and items that a step leads to; of names in patterns those that may have it."""
    name = step.replace("~1", "/").replace("~0", "~")
    for shape in node.shapes:
        if (arrays := shape.arrays) is not None and (step == "*" or step.isdigit()):
            prefix = arrays.prefix if step == "*" else arrays.prefix[int(step) : int(step) + 1]
            yield from prefix
            if arrays.rest is not None and (step == "*" or not prefix):
                yield arrays.rest
        if (objects := shape.objects) is not None:
            named = [each.value for each in objects.properties if step in ("*", "**") or each.name == name]
            yield from named
            if not named or step == "*":
                yield from (each.value for each in objects.patterns)
                if objects.rest is not None:
                    yield objects.rest
