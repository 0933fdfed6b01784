"""JSON in a call as parts of a composition, and the members of the arguments' schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

from structgen.constraints.basic import JsonSchema
from structgen.options import Whitespace
from structgen.parts.parts import JsonValue, Plan
from structgen.regular.quotes import Source
from structgen.schema.algebra import Algebra
from structgen.schema.keywords.table import CHECKED, KEYWORDS, MASKED, SPEAKS_OF
from structgen.schema.normal import Shape
from structgen.schema.places import quotes
from structgen.schema.written import Schema, mapped
from structgen.values.emptiness import Emptiness

_FIELDS = {
    "string": ("strings",), "number": ("numbers",), "boolean": ("true", "false"), "null": ("null",),
    "array": ("arrays",), "object": ("objects",),
}  # fmt: skip
"""A JSON type -> the attributes of `Shape` that have its values."""
_BINDING = frozenset(
    row.name for row in KEYWORDS if row.how in (MASKED, CHECKED) and SPEAKS_OF.get(row.name, "object") == "object"
) - {"type", "properties", "patternProperties", "required", "additionalProperties"}
"""Keywords of an object that relate several members to each other, or rule their names."""
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


def value_plan(values: JsonSchema) -> Plan:
    """Returns JSON values as a part of a call, where integers are written in digits alone."""
    plan = values.plan()
    return replace(plan, plain=True) if isinstance(plan, JsonValue) else plan


def possible(plan: Plan) -> Plan:
    """Returns a plan as it is.

    Raises:
        UnsatisfiableSchema: it is JSON, and no value satisfies its schema.
    """
    if isinstance(plan, JsonValue):
        Emptiness(plan.algebra or Algebra()).require(plan.root)
    return plan


def types_of(shapes: Sequence[Shape]) -> list[str]:
    """Returns the JSON types of a schema's values; integers count as numbers."""
    return [
        type_ for type_, fields in _FIELDS.items() if any(getattr(each, name) for each in shapes for name in fields)
    ]


def only(shape: Shape, type_: str) -> Shape:
    """Returns the values of one JSON type."""
    return Shape(**{field: getattr(shape, field) for field in _FIELDS[type_]})


class ArgumentSchemas(NamedTuple):
    """The arguments of a tool, one by one.

    Attributes:
        declared: the schema of each argument by its name, without notes for readers, with the definitions it refers to.
        required: the names of those that must be there.
        others: what arguments of other names may be: pairs of a pattern of names and a schema.
        unmasked: keywords that relate several arguments to each other. Only a complete call can be held to them.
    """

    declared: dict[str, dict[str, Any]]
    required: set[str]
    others: list[tuple[str, dict[str, Any]]]
    unmasked: list[str]


def members_of(schema: Mapping[str, Any]) -> ArgumentSchemas:
    """Returns the arguments that a schema of an object describes; those of alternatives, too."""
    if re.search(r'"\$ref": "#(?!/\$defs/|/definitions/)', json.dumps(schema)):
        schema = _with_root(schema)
    definitions: dict[str, Any] = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}

    def resolved(branch: Any) -> dict[str, Any]:
        """A branch, or the definition that it refers to."""
        reference = branch.get("$ref") if isinstance(branch, Mapping) else None
        for key in ("$defs", "definitions"):
            if isinstance(reference, str) and reference.startswith(f"#/{key}/"):
                branch = definitions.get(key, {}).get(reference.removeprefix(f"#/{key}/"), {})
        return dict(branch) if isinstance(branch, Mapping) else {}

    def whole(member: Any) -> dict[str, Any]:
        return {**definitions, "allOf": [_without_notes(member)]}

    root = resolved(schema)
    joint = [root, *map(resolved, root.get("allOf", ()))]
    either = [resolved(each) for key in ("anyOf", "oneOf") for each in root.get(key, ())]
    either += [resolved(root[key]) for key in ("then", "else") if key in root]
    either += [resolved(each) for each in root.get("dependentSchemas", {}).values()]
    found: dict[str, Any] = {}
    for branch in joint:
        found |= {name: member for name, member in branch.get("properties", {}).items() if name not in found}
    optional: dict[str, list[Any]] = {}
    for branch in either:
        for name, member in branch.get("properties", {}).items():
            optional.setdefault(name, []).append(member)
    found |= {name: {"anyOf": members} for name, members in optional.items() if name not in found}
    others = [(pattern, whole(each)) for pattern, each in root.get("patternProperties", {}).items()]
    rest = root.get("additionalProperties", False)
    others += [] if rest is False else [("", whole(rest))]
    required = {name for each in joint for name in each.get("required", ())}
    found |= {name: {} if rest is False else rest for name in sorted(required) if name not in found}
    declared = {name: whole(member) for name, member in found.items()}
    return ArgumentSchemas(declared, required, others, sorted(root.keys() & _BINDING))


def _with_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema that has itself as a definition, to which its references lead: its members are moved."""
    root = "the arguments"

    def led(part: Schema, _: str) -> Schema:
        target: Any = part.get("$ref")
        inside = isinstance(target, str) and re.match(r"#(?!/\$defs/|/definitions/)", target)
        return {**part, "$ref": f"#/$defs/{quote(root)}{target[1:]}"} if inside else part

    moved: dict[str, Any] = mapped(schema, led)
    return {**moved, "$defs": {**moved.get("$defs", {}), root: moved}}


def _without_notes(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    return {key: value for key, value in schema.items() if key not in _NOTES}
