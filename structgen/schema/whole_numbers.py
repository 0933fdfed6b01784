"""Whole numbers of parsed JSON as ints where the schema says `integer`: in JSON Schema `5.0` is an integer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from structgen.errors import RequestError
from structgen.schema.normal import Node, Shape
from structgen.schema.reader import read


def loads(text: str | bytes, schema: dict[str, Any] | bool) -> Any:
    """The value of a JSON text, with ints where the schema says `integer`.

    Args:
        text: JSON that satisfies the schema.

    Raises:
        ValueError: the text is no JSON.
    """
    return with_ints(json.loads(text), schema)


def with_ints(value: Any, schema: dict[str, Any] | bool) -> Any:
    """A value that satisfies a JSON Schema, with ints where the schema says `integer`.

    A float stays where the value may satisfy a branch of the schema that takes any number.
    """
    if not any(_whole_floats(value)):
        return value
    try:
        return _converted(value, [read(schema)])
    except RequestError:  # the value was validated elsewhere; a schema that no mask supports converts nothing
        return value


def _whole_floats(value: Any) -> Iterator[bool]:
    if isinstance(value, float):
        yield value.is_integer()
    elif isinstance(value, (list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _whole_floats(each)


def _converted(value: Any, nodes: list[Node]) -> Any:
    """The value with ints. `nodes`: schemas, one of which the value satisfies."""
    shapes = [shape for node in nodes for shape in node.shapes]
    if isinstance(value, float) and value.is_integer():
        numbers = [shape.numbers for shape in shapes if shape.numbers is not None]
        return int(value) if numbers and all(each.integer for each in numbers) else value
    if isinstance(value, list):
        return [_converted(item, _items(shapes, place)) for place, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {name: _converted(member, _members(shapes, name)) for name, member in value.items()}
    return value


def _items(shapes: list[Shape], place: int) -> list[Node]:
    arrays = [shape.arrays for shape in shapes if shape.arrays is not None]
    nodes = [each.prefix[place] if place < len(each.prefix) else each.rest for each in arrays]
    return [node for node in nodes if node is not None]


def _members(shapes: list[Shape], name: str) -> list[Node]:
    nodes: list[Node | None] = []
    for objects in (shape.objects for shape in shapes if shape.objects is not None):
        declared = [member.value for member in objects.properties if member.name == name]
        nodes += declared or [named.value for named in objects.patterns] + [objects.rest]
    return [node for node in nodes if node is not None]
