"""`enum` and `const`: shapes that hold exactly the given JSON values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structgen.schema.algebra import Shapes
from structgen.schema.normal import Arrays, Listed, Node, Numbers, Objects, Property, Shape, Strings


def literal_node(value: Any, pointer: Callable[[], str]) -> Node:
    """The node that only `value` satisfies."""
    return Node(pointer, lambda: literal_shapes((value,), pointer))


def literal_shapes(values: Sequence[Any], pointer: Callable[[], str]) -> Shapes:
    """The union of `values`: all scalars are in the first shape; each further container has its own shape."""
    texts = dict.fromkeys([value for value in values if isinstance(value, str)])
    others = [value for value in values if not isinstance(value, str)]
    numbers = dict.fromkeys(
        [value for value in others if isinstance(value, (int, float)) and value is not True and value is not False]
    )
    arrays = [_array(value, pointer) for value in others if isinstance(value, list)]
    objects = [_object(value, pointer) for value in others if isinstance(value, dict)]
    scalars = Shape(
        null=any(value is None for value in others),
        true=any(value is True for value in others),
        false=any(value is False for value in others),
        numbers=Numbers(literals=Listed(numbers)) if numbers else None,
        strings=Strings(literals=Listed(texts)) if texts else None,
        arrays=arrays[0] if arrays else None,
        objects=objects[0] if objects else None,
    )
    more = [Shape(arrays=value) for value in arrays[1:]] + [Shape(objects=value) for value in objects[1:]]
    return (scalars, *more) if values else ()


def _array(value: list[Any], pointer: Callable[[], str]) -> Arrays:
    return Arrays(tuple(literal_node(item, pointer) for item in value), None, len(value), len(value))


def _object(value: dict[str, Any], pointer: Callable[[], str]) -> Objects:
    members = (Property(name, literal_node(item, pointer), required=True) for name, item in value.items())
    return Objects(tuple(members))
