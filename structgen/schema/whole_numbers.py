"""Whole numbers of parsed JSON as ints where the schema says `integer`: in JSON Schema `5.0` is an integer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from structgen.errors import RequestError
from structgen.schema.normal import ANY, Arrays, Node, Objects
from structgen.schema.reader import read


def loads(text: str | bytes, schema: dict[str, Any] | bool) -> Any:
    """The value of a JSON text, with ints where the schema says `integer`.

    Args:
        text: JSON that satisfies the schema.

    Raises:
        ValueError: the text is no JSON.
    """
    value = json.loads(text)
    if not any(_whole_floats(value)):
        return value
    try:
        return with_ints(value, read(schema))
    except RequestError:  # the value was validated elsewhere; a schema that no mask supports converts nothing
        return value


def with_ints(value: Any, root: Node) -> Any:
    """A value that satisfies a schema, with ints where the schema says `integer`, and floats for other Decimals.

    A float stays where the value may satisfy a branch of the schema that takes any number.
    """
    return _converted(value, [root])


def _whole_floats(value: Any) -> Iterator[bool]:
    if isinstance(value, float):
        yield value.is_integer()
    elif isinstance(value, (list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _whole_floats(each)


def _converted(value: Any, nodes: Sequence[Node | None]) -> Any:
    """The value with ints. `nodes`: schemas, one of which the value satisfies; None is satisfied by no value."""
    if isinstance(value, (str, int)) or value is None:
        return value
    shapes = [shape for node in nodes if node is not None for shape in node.shapes]
    if isinstance(value, (float, Decimal)):
        numbers = [shape.numbers for shape in shapes if shape.numbers is not None]
        whole = numbers and all(each.integer for each in numbers) and Decimal(value).to_integral_value() == value
        return int(value) if whole else float(value)
    if isinstance(value, list):
        arrays = [shape.arrays for shape in shapes if shape.arrays is not None]
        return [_converted(item, [_item(each, place) for each in arrays]) for place, item in enumerate(value)]
    objects = [shape.objects for shape in shapes if shape.objects is not None]
    members = {name: [node for each in objects for node in _member(each, name)] for name in value}
    return {name: _converted(member, members[name]) for name, member in value.items()}


def _item(arrays: Arrays, place: int) -> Node | None:
    """A schema that an item satisfies."""
    if not arrays.only("prefix", "rest", "min_items", "max_items", "contains", "unique", "repeated", "without"):
        return ANY
    return arrays.prefix[place] if place < len(arrays.prefix) else arrays.rest


def _member(objects: Objects, name: str) -> list[Node | None]:
    """Schemas, one of which a member satisfies."""
    if not objects.only("properties", "rest", "min_properties", "max_properties", "patterns", "some", "without"):
        return [ANY]
    declared: list[Node | None] = [member.value for member in objects.properties if member.name == name]
    return declared or [*(named.value for named in objects.patterns), objects.rest]
