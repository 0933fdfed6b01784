"""Schemas without schemas in them: read once for each content, and shared by all schemas in which they stand.

A leaf says the same wherever it stands. Leaves that say the same have the same tuple of shapes, so that whatever is
known of one, in any schema, is found for the other by the tuple's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.memo import BoundedCache
from structgen.schema.algebra import Shapes

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
_BARE = _ANNOTATIONS | {"type"}
MOST_LITERALS = 64
"""A longer `enum` is read anew each time."""
_read: BoundedCache[Any, tuple[object, Shapes]] = BoundedCache(4096)
_canonical: BoundedCache[Any, Shapes] = BoundedCache(4096)
_bare: dict[Any, Shapes] = {}
"""The shapes of leaves that say a type and nothing else: those are never forgotten."""


def leaf_content(schema: dict[str, Any]) -> tuple[Any, ...] | None:
    """What a schema without schemas in it says of values, hashable; None for another one.

    Literals that are no strings are left out: Python takes `1`, `1.0` and `True` for equal.
    """
    if not schema.keys() <= _KEYWORDS:
        return None
    content: list[Any] = []
    for name, value in schema.items():
        if name in _ANNOTATIONS:
            continue
        if name in _LITERALS:
            texts = value if name == "enum" else [value]
            if len(texts) > MOST_LITERALS or not all(isinstance(text, str) for text in texts):
                return None
            content += (name, *texts)
        else:
            content += (name, tuple(value) if isinstance(value, list) else value)
    return tuple(content)


def bare_shapes(schema: dict[str, Any], draft: object, formats: bool) -> Shapes | None:
    """The shapes of a schema that says a type and nothing else; None for another one, and where none was read yet."""
    kind = schema.get("type")
    if not isinstance(kind, str) or not schema.keys() <= _BARE:
        return None
    known = _read.get((("type", kind), id(draft), formats))
    return None if known is None else known[1]


def leaf_shapes(content: tuple[Any, ...], draft: object, formats: bool, read: Callable[[], Shapes]) -> Shapes:
    """The shapes of a leaf.

    Args:
        draft, formats: what else decides how it is read: the draft, by its identity, and whether formats count.
        read: reads it, where it is new.
    """
    key = content, id(draft), formats
    known = _read.get(key)
    if known is None:  # the draft is kept, so that no other one gets its identity
        known = _read.keep(key, (draft, _unique(read(), bare=content[::2] == ("type",))))
    return known[1]


def _unique(shapes: Shapes, *, bare: bool) -> Shapes:
    """The one tuple of shapes that says this."""
    value = tuple([(s.null, s.true, s.false, s.numbers, s.strings, s.arrays, s.objects) for s in shapes])
    known = _bare.get(value) or _canonical.get(value)
    if known is None:
        known = _canonical.keep(value, shapes)
    if bare:
        _bare[value] = known
    return known
