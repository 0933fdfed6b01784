"""Leaves: schemas without subschemas, and the shapes of literals.

Each different content of a leaf is read once, for all schemas in which it is.

Leaves with the same meaning have the identical tuple of shapes, in all schemas. So whatever is stored for one leaf
under the identity of its tuple is found for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structgen.memo import BoundedCache
from structgen.patience import check_patience
from structgen.schema.algebra import Shapes
from structgen.schema.normal import Arrays, Listed, Node, Numbers, Objects, Property, Shape, Strings

_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly")
)
_LITERALS = frozenset(("enum", "const"))
_KEYWORDS = (
    _ANNOTATIONS
    | _LITERALS
    | frozenset(("type", "minLength", "maxLength", "pattern", "format", "multipleOf"))
    | frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
)
MAX_LITERALS = 64
"""A longer `enum` is read again each time."""
_read: BoundedCache[Any, tuple[object, Shapes]] = BoundedCache(4096, of_schemas=True)
_canonical: BoundedCache[Any, Shapes] = BoundedCache(4096, of_schemas=True)
_bare: dict[Any, Shapes] = {}
"""The shapes of leaves that say a type and nothing else. They are never evicted."""


def leaf_content(schema: dict[str, Any]) -> tuple[Any, ...] | None:
    """The keywords and arguments of a leaf, without annotations, as a hashable; None for other schemas.

    Also None where a literal is not a string: in Python `1`, `1.0` and `True` are equal.
    """
    if not schema.keys() <= _KEYWORDS:
        return None
    content: list[Any] = []
    for name, value in schema.items():
        if name in _ANNOTATIONS:
            continue
        if name in _LITERALS:
            texts = value if name == "enum" else [value]
            if len(texts) > MAX_LITERALS or not all(isinstance(text, str) for text in texts):
                return None
            content += (name, *texts)
        else:
            content += (name, tuple(value) if isinstance(value, list) else value)
    return tuple(content)


def leaf_shapes(content: tuple[Any, ...], draft: object, formats: bool, read: Callable[[], Shapes]) -> Shapes:
    """The shapes of a leaf.

    Args:
        draft, formats: what else the shapes depend on: the draft, and whether `format` restricts strings.
        read: reads the leaf where its content is new.
    """
    key = content, id(draft), formats
    known = _read.get(key)  # by hand: a closure for each leaf would take as long as the look-up
    if known is None:  # keeping the draft keeps its id from being used again
        known = _read.keep(key, (draft, _unique(read(), bare=content[::2] == ("type",))))
    return known[1]


def _unique(shapes: Shapes, *, bare: bool) -> Shapes:
    """The one tuple for equal shapes."""
    value = tuple([(s.null, s.true, s.false, s.numbers, s.strings, s.arrays, s.objects) for s in shapes])
    known = _bare.get(value) or _canonical.kept(value, lambda: shapes)
    if bare:
        _bare[value] = known
    return known


def literal_node(value: Any, pointer: Callable[[], str]) -> Node:
    """The node that only `value` satisfies."""
    return Node(pointer, lambda: literal_shapes((value,), pointer))


def literal_shapes(values: Sequence[Any], pointer: Callable[[], str]) -> Shapes:
    """The union of `values`: all scalars are in the first shape; each further container has its own shape."""
    check_patience()
    texts = dict.fromkeys([value for value in values if isinstance(value, str)])
    others = [value for value in values if not isinstance(value, str)]
    numbers = dict.fromkeys(
        [value for value in others if isinstance(value, (int, float)) and value is not True and value is not False]
    )
    arrays = [
        Arrays(tuple(literal_node(item, pointer) for item in value), None, len(value), len(value))
        for value in others
        if isinstance(value, list)
    ]
    objects = [
        Objects(tuple(Property(name, literal_node(item, pointer), required=True) for name, item in value.items()))
        for value in others
        if isinstance(value, dict)
    ]
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
