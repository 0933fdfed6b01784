"""The normal form, evaluated on a parsed value: what every test of `structgen.schema` compares with."""

from __future__ import annotations

from typing import Any

import regex

from structgen.json_text.lexer import canonical
from structgen.schema.normal import NEVER, Arrays, Node, Objects, Shape, Strings
from structgen.schema.scalars import holds


def accepts(node: Node, value: Any) -> bool:
    """Whether the JSON value `value` is in `node`; formats annotate only."""
    return any(_in_shape(shape, value) for shape in node.shapes)


def _in_shape(shape: Shape, value: Any) -> bool:
    if value is None:
        return shape.null
    if value is True or value is False:
        return shape.true if value else shape.false
    if isinstance(value, (int, float)):
        return shape.numbers is not None and holds(shape.numbers, value)
    if isinstance(value, str):
        return shape.strings is not None and _in_strings(shape.strings, value)
    if isinstance(value, list):
        return shape.arrays is not None and _in_arrays(shape.arrays, value)
    return shape.objects is not None and _in_objects(shape.objects, value)


def _in_strings(strings: Strings, value: str) -> bool:
    if len(value) < strings.min_length or (strings.max_length is not None and len(value) > strings.max_length):
        return False
    if strings.literals is not None and value not in strings.literals:
        return False
    if any(_in_strings(other, value) for other in strings.without):
        return False
    return all(regex.search(pattern, value) for pattern in strings.patterns)


def _in_arrays(arrays: Arrays, value: list[Any]) -> bool:
    if len(value) < arrays.min_items or (arrays.max_items is not None and len(value) > arrays.max_items):
        return False
    for i, item in enumerate(value):
        node = arrays.prefix[i] if i < len(arrays.prefix) else arrays.rest
        if node is None or not accepts(node, item):
            return False
    for each in arrays.contains:
        count = sum(accepts(each.value, item) for item in value[each.start :])
        if count < each.minimum or (each.maximum is not None and count > each.maximum):
            return False
    repeats = len({canonical(item) for item in value}) < len(value)
    if (arrays.unique and repeats) or (arrays.repeated and not repeats):
        return False
    return not any(accepts(node, value) for node in arrays.without)


def _in_objects(objects: Objects, value: dict[str, Any]) -> bool:
    most = objects.max_properties
    if len(value) < objects.min_properties or (most is not None and len(value) > most):
        return False
    members = {member.name: member for member in objects.properties}
    if any(member.required and member.name not in value for member in objects.properties):
        return False
    for name, item in value.items():
        rules = [pattern.value for pattern in objects.patterns if _in_strings(pattern.names, name)]
        if name in members:
            rules.append(members[name].value)
        elif not rules:
            rules = [NEVER if objects.rest is None else objects.rest]
        if not all(accepts(node, item) for node in rules):
            return False
    for names, node in objects.some:
        if not any(_in_strings(names, name) and accepts(node, item) for name, item in value.items()):
            return False
    return not any(accepts(node, value) for node in objects.without)
