"""Objects that are often passed as a schema by mistake, and what to pass instead."""

from __future__ import annotations

import re
from collections.abc import Set as AnySet
from dataclasses import is_dataclass
from enum import Enum
from itertools import islice
from typing import Any

from structgen.errors import SchemaError, quoted
from structgen.schema.written import wrapped_in

_WRAPPERS = {
    "json_schema": "it is the response_format of an API, without a schema",
    "json_object": "it is the response_format of an API; for any JSON object pass {'type': 'object'}",
    "text": "it is the response_format of an API; for plain text leave schema= out",
    "function": "it is the description of a tool, without parameters",
}
"""What a dict with this `type` is: none of these is a type of JSON Schema."""
_TYPES = {"str", "int", "float", "bool", "list", "dict", "string", "integer", "number", "boolean", "array", "object"}
"""The texts that stand for a type, in Python or in JSON Schema."""


def require_schema(schema: Any) -> None:
    """Refuses objects that are often mistaken for a schema.

    Raises:
        SchemaError: such an object; the message says what to pass instead.
    """
    advice = _about_dict(schema) if isinstance(schema, dict) else _about_text(schema) or _about_value(schema)
    if advice and not isinstance(schema, dict):
        advice = f"expected a type, a JSON Schema dict or a constraint; {advice}"
    if advice:
        raise SchemaError(f"{quoted(schema)} is not a schema: {advice}")


def _about_dict(schema: dict[Any, Any]) -> str:
    kind = schema.get("type")
    if wrapped_in(schema):
        return ""
    if isinstance(kind, str) and kind in _WRAPPERS:
        return _WRAPPERS[kind]
    if "openapi" in schema and "$ref" not in schema:
        names = ", ".join(map(str, islice((schema.get("components") or {}).get("schemas") or ("NAME",), 4)))
        return f"it is an OpenAPI document; pass {{'$ref': '#/components/schemas/NAME', **document}}: {names}, ..."
    if schema and "type" not in schema and all(isinstance(value, str) and value in _TYPES for value in schema.values()):
        return "its members are names of types; pass a TypedDict, or {'type': 'object', 'properties': {...}}"
    for name, value in schema.items():
        if isinstance(value, type):
            return f"{name!r} holds the class {value.__name__}; pass a TypedDict or a Pydantic model"
    return ""


def _about_text(schema: Any) -> str:
    """Advice for a text, a pattern or a list of texts."""
    if isinstance(schema, re.Pattern):
        return f"pass sg.Regex({quoted(schema.pattern)})"
    if isinstance(schema, (str, bytes, bytearray)):
        if schema.lstrip()[:1] in ("{", b"{"):
            return "pass json.loads(text)"
        return "pass sg.Regex(text) for a pattern, sg.Choice([...]) for one of several texts"
    if isinstance(schema, (list, tuple, AnySet)):
        if schema and all(isinstance(item, str) for item in schema):
            return f"pass sg.Choice({quoted(list(schema))}) for one of these texts"
        if len(schema) == 1 and isinstance(next(iter(schema)), type):
            return f"pass list[{next(iter(schema)).__name__}]"
        return "pass list[T] for an array, A | B for one of several types, {'enum': [...]} for these values"
    return ""


def _about_value(schema: Any) -> str:
    """Advice for an instance in place of its class."""
    kind = type(schema)
    if isinstance(schema, type):
        return ""
    if isinstance(schema, Enum):
        return f"pass the class, schema={kind.__name__}, or Literal[{kind.__name__}.{schema.name}]"
    if is_dataclass(schema) or hasattr(kind, "__pydantic_fields__"):
        return f"it is an instance of {kind.__name__}: pass the class, schema={kind.__name__}"
    if kind.__name__ == "TypeAdapter":
        return "pass the type that it adapts, or its json_schema()"
    if isinstance(schema, (int, float)):
        return f"pass {{'const': {quoted(schema)}}}"
    return ""
