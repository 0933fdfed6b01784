"""The keys of a `dict`: from member names, which are strings, the validator reads an int, a date, an enum's member.

Pydantic's JSON Schema omits most of this. Here the core schema of keys becomes a schema of names, all of which the
validator accepts. Several names may mean the same key: where entries are counted, the validator judges the mapping (see
`core_parts.is_custom`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, core_schema

from structgen.errors import UnsupportedSchema
from structgen.schema.python.bounded_text import integers, text, within
from structgen.schema.python.core_parts import INNER, WRAPPERS, choices_of
from structgen.schema.python.python_types import float_bounds

Describe = Callable[[Any], dict[str, Any]]

_FLOAT = r"-?(?:0|[1-9][0-9]{0,200})(?:\.[0-9]+)?"


def names(keys: Any, describe: Describe, *, strict: bool = False) -> dict[str, Any] | None:
    """The JSON Schema of the member names for a core schema of keys; None where every name is a key.

    Args:
        describe: returns the JSON Schema of a core schema.
        strict: are keys read in Pydantic's strict mode?

    Raises:
        UnsupportedSchema: no name is such a key.
    """
    kind = keys["type"]
    if kind in WRAPPERS and "json_schema_input_schema" not in keys:
        return names(keys[INNER.get(kind, "schema")], describe, strict=strict)
    if kind == "union":
        return _any_of(choices_of(keys), describe, strict)
    if kind == "none":
        raise UnsupportedSchema("no member name of JSON is None")
    if kind == "bool":
        return {"enum": ["true", "false"]}
    if kind in ("int", "float"):
        if keys.get("multiple_of") is not None:
            raise UnsupportedSchema("keys that are multiples of a number")
        return _int_names(keys) if kind == "int" else _float_names(keys)
    if kind in ("literal", "enum"):
        return {"enum": _finite(keys, describe(keys), strict)}
    return _strings(describe(keys), kind)


def _any_of(choices: list[Any], describe: Describe, strict: bool) -> dict[str, Any] | None:
    branches = []
    for choice in choices:
        if choice["type"] == "none":
            continue
        schema = names(choice, describe, strict=strict)
        if schema is None:
            return None
        branches.append(schema)
    return {"anyOf": branches}


def _int_names(keys: Any) -> dict[str, Any]:
    lows = [math.ceil(keys["ge"])] if "ge" in keys else []
    lows += [math.floor(keys["gt"]) + 1] if "gt" in keys else []
    highs = [math.floor(keys["le"])] if "le" in keys else []
    highs += [math.ceil(keys["lt"]) - 1] if "lt" in keys else []
    return text(integers(max(lows, default=None), min(highs, default=None)))


def _float_names(keys: Any) -> dict[str, Any]:
    described = float_bounds({name: value for name, value in keys.items() if name != "allow_inf_nan"})
    ends = (("ge", "minimum"), ("le", "maximum"))
    bounds = {name: Decimal(repr(described[keyword])) for name, keyword in ends if keyword in described}
    return text(_FLOAT, *within(bounds))


def _finite(keys: Any, described: dict[str, Any], strict: bool) -> list[str]:
    """The values as names, without those that the validator does not accept."""
    values = described.get("enum", [described["const"]] if "const" in described else [])
    written = [value if isinstance(value, str) else json.dumps(value) for value in values]
    validator = SchemaValidator(core_schema.dict_schema(keys, core_schema.any_schema()), {"strict": strict})
    texts = []
    for name in dict.fromkeys(written):
        try:
            validator.validate_json(json.dumps({name: 0}))
        except ValidationError:
            continue
        texts.append(name)
    if not texts:
        raise UnsupportedSchema("no member name of JSON is such a key")
    return texts


def _strings(described: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The strings of a schema; None where it allows every string."""
    if "anyOf" in described:
        branches = [branch for branch in described["anyOf"] if branch.get("type") == "string"]
        if branches:
            return {"anyOf": branches}
    if described.get("type") == "string":
        free = described.keys() <= {"type", "title", "description", "format", "writeOnly"}
        return None if free else described
    if not described.keys() & {"type", "anyOf", "allOf", "oneOf", "$ref", "enum", "const", "not"}:
        return None
    raise UnsupportedSchema(f"no member name of JSON is a key of this type ({kind})")
