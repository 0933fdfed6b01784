"""A schema as short text with descriptions, for a model to read in its prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from structgen.constraints.basic import JsonSchema
from structgen.errors import SchemaError, quoted
from structgen.schema.python.mistaken import require_schema
from structgen.schema.python.types import from_type
from structgen.schema.references import value_at
from structgen.schema.written import as_written

LEAD = "Answer with JSON of this form:"
_BOUNDS = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
}
_LENGTHS = {"minLength": "at least {} characters", "maxLength": "at most {} characters", "minItems": "at least {}",
            "maxItems": "at most {}", "pattern": "matching {}", "format": "a {}"}  # fmt: skip


def render(schema: Any) -> str:
    """A type or a JSON Schema in few words, for a prompt.

        print(render(City))
        # {
        #   "name": string,  // its name, in English
        #   "tags"?: [string, ...],  // at most 3
        # }

    A question mark is after names of members that may be missing.

    Args:
        schema: a Pydantic model or any other type that Pydantic knows, a function (its arguments), a JSON Schema as a
            dict, or a `JsonSchema`.

    Raises:
        SchemaError: no schema. UnsupportedSchema: no JSON Schema describes the type.
    """
    if isinstance(schema, JsonSchema):
        schema = schema.document() if isinstance(schema.schema, dict) else schema.schema
    if isinstance(schema, bool):
        return "any JSON" if schema else "nothing"
    if not isinstance(schema, type) and callable(getattr(schema, "compile", None)):
        advice = "say in the prompt what the text is to look like"
        raise SchemaError(f"{quoted(schema)} has no JSON Schema to show: {advice}")
    require_schema(schema)
    root = as_written(schema).schema if isinstance(schema, dict) else from_type(schema)[0]
    return _Renderer(root).text(root, 0, ())


def schema_text(schema: Any, lead: str = LEAD) -> str:
    """What `GivenPrompt.with_schema` adds to a prompt: a schema, and that the answer is to have its form."""
    return f"{lead}\n{render(schema)}"


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Renders the parts of one schema, the root, which references point into."""

    root: Mapping[str, Any]

    def text(self, schema: Any, depth: int, within: tuple[str, ...]) -> str:
        """A schema, its lines indented by `depth`. `within` holds the references followed so far."""
        if schema is True or schema == {}:
            return "any JSON"
        if not isinstance(schema, Mapping):
            return "nothing"
        if isinstance(schema.get("$ref"), str):
            reference = schema["$ref"]
            return "..." if reference in within else self.text(self._referred(reference), depth, (*within, reference))
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        if "enum" in schema:
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        if alternatives := schema.get("anyOf") or schema.get("oneOf"):
            return " | ".join(dict.fromkeys(self.text(each, depth, within) for each in alternatives))
        if len(schema.get("allOf", ())) == 1:
            return self.text(schema["allOf"][0], depth, within)
        types = schema.get("type", "object" if "properties" in schema else "any JSON")
        each_type = [types] if isinstance(types, str) else types
        return " | ".join(self._typed(schema, type_, depth, within) for type_ in each_type)

    def _referred(self, reference: str) -> Any:
        try:
            return value_at(self.root, reference.removeprefix("#"))
        except LookupError:
            return None

    def _typed(self, schema: Mapping[str, Any], type_: str, depth: int, within: tuple[str, ...]) -> str:
        if type_ == "object":
            return self._object(schema, depth, within)
        if type_ == "array":
            first = [self.text(each, depth, within) for each in schema.get("prefixItems", ())]
            rest = schema.get("items", not first)
            more = [] if rest is False else [self.text(rest, depth, within), "..."]
            return "[" + ", ".join(first + more) + "]"
        return type_

    def _object(self, schema: Mapping[str, Any], depth: int, within: tuple[str, ...]) -> str:
        required = set(schema.get("required", ()))
        inside, outside = "  " * (depth + 1), "  " * depth
        lines = []
        for name, member in schema.get("properties", {}).items():
            key = json.dumps(name, ensure_ascii=False) + ("" if name in required else "?")
            notes = _notes(member)
            lines.append(f"{inside}{key}: {self.text(member, depth + 1, within)},{f'  // {notes}' if notes else ''}\n")
        more = schema.get("additionalProperties", None if lines else True)
        if more is not None and more is not False:
            lines.append(f"{inside}[name]: {self.text(more, depth + 1, within)},\n")
        return "{\n" + "".join(lines) + outside + "}" if lines else "{}"


def _notes(schema: Any) -> str:
    """The description, bounds, default and first example of a member."""
    if not isinstance(schema, Mapping):
        return ""
    notes: list[str] = [" ".join(str(schema["description"]).split())] if schema.get("description") else []
    notes += [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema]
    notes += [form.format(schema[key]) for key, form in _LENGTHS.items() if key in schema]
    if "default" in schema:
        notes.append(f"{json.dumps(schema['default'], ensure_ascii=False, default=str)} by default")
    if schema.get("examples") and isinstance(schema["examples"], list):
        notes.append(f"as {json.dumps(schema['examples'][0], ensure_ascii=False, default=str)}")
    return "; ".join(notes)
