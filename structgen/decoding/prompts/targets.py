"""What a caller's `schema=` asks of a row: the constraint of its text, and the value that the text becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from structgen.constraints.basic import Constraint, JsonSchema
from structgen.errors import OptionError
from structgen.options import Whitespace
from structgen.schema.python.functions import value_type
from structgen.schema.python.types import from_type
from structgen.schema.python.users_code import validated
from structgen.schema.whole_numbers import loads


@dataclass(frozen=True, slots=True)
class Target:
    """What a row's text must be, and how it becomes a value."""

    constraint: Constraint | None  # None for plain text
    parse: Callable[[str], Any]  # text to value
    is_json: bool  # the text is JSON
    type: Any  # of the value, where JSON is read as a Python type; `Any` elsewhere


def targets_of(schemas: Sequence[Any], whitespace: Whitespace, order: str | Sequence[str]) -> list[Target]:
    """The rows' targets: one object for the rows whose schema is one.

    Raises:
        OptionError: `whitespace` or `order` are nothing that shapes these schemas' texts.
        SchemaError: a schema is none.
    """
    known = {id(schema): _target(schema, whitespace, order) for schema in schemas}
    return [known[id(schema)] for schema in schemas]


def _target(schema: Any, whitespace: Whitespace, order: str | Sequence[str]) -> Target:
    """What a schema of any kind asks of the text."""
    given = isinstance(schema, Constraint) and not isinstance(schema, type)
    if given or schema is None:
        if whitespace != Whitespace.SPACED or order != "schema":
            where = f"give them to {type(schema).__name__}(...)" if given else "plain text has none"
            raise OptionError(f"whitespace= and order= shape a schema's JSON: {where}")
        if not isinstance(schema, JsonSchema):
            return Target(schema, str, is_json=False, type=Any)
        constraint, schema = schema, schema.schema
    else:
        constraint = JsonSchema(schema, order=order, whitespace=whitespace)
    tp = Any if isinstance(schema, (dict, bool)) else value_type(schema)
    return Target(constraint, _json_parser(schema), is_json=True, type=tp)


def _json_parser(schema: Any) -> Callable[[str], Any]:
    """Parsed JSON for a JSON Schema, a validated value for a type."""
    if isinstance(schema, (dict, bool)):
        return partial(loads, schema=schema)
    return partial(validated, from_type(schema)[1])
