"""What is often passed as a schema by mistake, and what to pass instead."""

from __future__ import annotations

import re
from collections.abc import Set as AnySet
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from structgen.errors import SchemaError, quoted

_WRAPPERS = {
    "json_schema": "the response_format of an API",
    "json_object": "the response_format of an API; for any JSON object pass {'type': 'object'}",
    "text": "the response_format of an API; for plain text leave schema= out",
    "function": "the description of a tool",
}
"""What a dict with this `type` is, which is no type of JSON Schema."""
_INNER = (("json_schema", "schema"), ("function", "parameters"), ("schema",), ("parameters",), ("input_schema",))
"""Where such a dict holds the schema."""
_DESCRIPTION = {"name", "description", "strict", "schema", "parameters", "input_schema"}
"""The members of a schema with a name, as APIs take it."""


def require_schema(schema: Any) -> None:
    """Refuses what is no schema, but is often taken for one.

    Raises:
        SchemaError: it says what to pass instead.
    """
    advice = _about_dict(schema) if isinstance(schema, dict) else _about_text(schema) or _about_value(schema)
    if advice:
        raise SchemaError(f"{quoted(schema)} is {advice}")


def _about_dict(schema: dict[Any, Any]) -> str:
    kind = schema.get("type")
    what = _WRAPPERS.get(kind, "") if isinstance(kind, str) else ""
    if not what and "name" in schema and schema.keys() <= _DESCRIPTION:
        what = "the description of a schema"
    for path in _INNER if what else ():
        inner: Any = schema
        for name in path:
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            return what + "; pass its " + "".join(f"[{name!r}]" for name in path)
    for name, value in schema.items():
        if isinstance(value, type):
            return f"no JSON Schema: {name!r} holds the class {value.__name__}; pass a TypedDict or a Pydantic model"
    return what if isinstance(kind, str) else ""


def _about_text(schema: Any) -> str:
    """Of texts, patterns and lists of texts."""
    if isinstance(schema, re.Pattern):
        return f"a compiled pattern; pass sg.Regex({quoted(schema.pattern)})"
    if isinstance(schema, (str, bytes, bytearray)):
        if schema.lstrip()[:1] in ("{", b"{"):
            return "text, no schema; pass json.loads(text)"
        return "text, no schema; pass sg.Regex(text) for a pattern, sg.Choice([...]) for one of several texts"
    if isinstance(schema, (list, tuple, AnySet)):
        if schema and all(isinstance(item, str) for item in schema):
            return f"no schema; pass sg.Choice({quoted(list(schema))}) for one of these texts"
        if len(schema) == 1 and isinstance(next(iter(schema)), type):
            return f"no schema; pass list[{next(iter(schema)).__name__}]"
        return "no schema; pass list[T] for an array, A | B for one of several types, {'enum': [...]} for these values"
    return ""


def _about_value(schema: Any) -> str:
    """Of instances, whose class is meant."""
    kind = type(schema)
    if isinstance(schema, type):
        return ""
    if isinstance(schema, Enum):
        return f"one value of {kind.__name__}; pass schema={kind.__name__}, or Literal[{kind.__name__}.{schema.name}]"
    if is_dataclass(schema) or hasattr(kind, "__pydantic_fields__"):
        return f"an instance of {kind.__name__}; pass the class: schema={kind.__name__}"
    if isinstance(schema, (int, float)):
        return f"a value, no schema; pass {{'const': {schema!r}}}"
    return ""
