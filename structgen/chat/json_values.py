"""JSON in a call as parts of a composition, and the members of the arguments' schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.options import Whitespace
from structgen.schema.keywords.table import CHECKED, KEYWORDS, MASKED, SPEAKS_OF
from structgen.schema.normal import Shape
from structgen.schema.places import quotes
from structgen.schema.quotes import Source

_FIELDS = {
    "string": ("strings",), "number": ("numbers",), "boolean": ("true", "false"), "null": ("null",),
    "array": ("arrays",), "object": ("objects",),
}  # fmt: skip
"""A JSON type -> the attributes of `Shape` that have its values."""
_BINDING = frozenset(
    row.name for row in KEYWORDS if row.how in (MASKED, CHECKED) and SPEAKS_OF.get(row.name, "object") == "object"
) - {"type", "properties", "required", "additionalProperties"}
"""Keywords of an object that relate several members to each other, or rule members by their names."""
_NOTES = frozenset(("title", "description", "default", "examples", "$comment"))
"""Keywords that change no value."""


def json_values(
    schema: Any,
    order: str | Sequence[str] = "any",
    whitespace: Whitespace = Whitespace.FLEXIBLE,
    source: Source | None = None,
) -> JsonSchema:
    """Returns the JSON values of a schema or Python type.

    Args:
        source: what is quoted, if the schema quotes.
    """
    values = JsonSchema(schema, order=order, whitespace=whitespace)
    return replace(values, source=source) if source is not None and quotes(values.document()) else values


def types_of(shapes: Sequence[Shape]) -> list[str]:
    """Returns the JSON types of a schema's values; integers count as numbers."""
    return [
        type_ for type_, fields in _FIELDS.items() if any(getattr(each, name) for each in shapes for name in fields)
    ]


def only(shape: Shape, type_: str) -> Shape:
    """Returns the values of one JSON type."""
    return Shape(**{field: getattr(shape, field) for field in _FIELDS[type_]})


def members_of(schema: Mapping[str, Any], tool: str) -> dict[str, dict[str, Any]]:
    """Returns the schema of each argument by its name, with the definitions it may refer to, without notes for readers.

    Raises:
        UnsupportedSchema: one argument's value depends on another's, or a required one is not declared.
    """
    root = dict(schema)
    reference = root.get("$ref")
    definitions: dict[str, Any] = {key: root[key] for key in ("$defs", "definitions") if key in root}
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        root = dict(root["$defs"][reference.removeprefix("#/$defs/")])
    more = sorted(root.keys() & _BINDING)
    if more:
        raise UnsupportedSchema(
            f"{more[0]} rules several arguments of {tool} together: the model's call format writes them one by one"
        )
    members = root.get("properties", {})
    lost = [name for name in root.get("required", ()) if name not in members]
    if lost:
        raise UnsupportedSchema(f"the required argument {quoted(lost[0])} of {tool} is not declared in properties")
    return {name: {**definitions, "allOf": [_without_notes(member)]} for name, member in members.items()}


def _without_notes(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    return {key: value for key, value in schema.items() if key not in _NOTES}
