"""Targets: the constraint that `schema=` puts on a row's text, and the value that the text becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from structgen.arguments import require
from structgen.constraints.basic import Constraint, JsonSchema
from structgen.decoding.prompts.per_row import shared
from structgen.errors import OptionError
from structgen.options import Whitespace
from structgen.schema.asked import with_nulls, without_absent
from structgen.schema.python.types import from_type, value_type
from structgen.schema.python.validators import validated, validators_of
from structgen.schema.whole_numbers import loads


@dataclass(frozen=True, slots=True)
class Target:
    """What a row's text must be, and how it becomes a value."""

    constraint: Constraint | None  # None for plain text
    parse: Callable[[str], Any]  # text to value
    is_json: bool
    type: Any  # the Python type of the value; `Any` if there is none


def targets_of(schemas: Sequence[Any], whitespace: Whitespace, order: str | Sequence[str]) -> list[Target]:
    """The rows' targets. Rows with the same schema object share one.

    Raises:
        OptionError: `whitespace` or `order` do not apply to a schema.
        SchemaError: a schema is invalid.
    """
    return shared(partial(_target, whitespace=whitespace, order=order), schemas)


def asked_target(target: Target) -> Target:
    """A target whose members that may be null are all written.

    Raises:
        OptionError: it is no JSON Schema and no type.
    """
    if not isinstance(target.constraint, JsonSchema):
        raise OptionError("absent= is for a type or a JSON Schema with members that may be null")
    if target.constraint.nulls == "all":
        return target
    return replace(target, constraint=replace(target.constraint, nulls="written"))


def written_target(target: Target) -> Target:
    """A target whose optional members are all written, with null for those that the value is to be without.

    Raises:
        OptionError: it is no JSON Schema and no type, or a type with validators that null would come to.
    """
    if not isinstance(target.constraint, JsonSchema):
        raise OptionError('optional="write" is for a type or a JSON Schema with optional members')
    schema, parse = target.constraint.document(), target.parse
    if target.type is not Any and validators_of(target.type) is not None:
        needed = with_nulls(schema, everywhere=True) == with_nulls(schema)
        require(
            needed, "optional", "write", "a type whose optional members may be null: its validators would meet null"
        )
    constraint = replace(target.constraint, nulls="all")
    return replace(target, constraint=constraint, parse=lambda text: parse(without_absent(text, schema)))


def _target(schema: Any, whitespace: Whitespace, order: str | Sequence[str]) -> Target:
    """The target of a schema of any kind."""
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
    if isinstance(schema, (dict, bool)):
        return Target(constraint, partial(loads, schema=constraint.document()), is_json=True, type=Any)
    return Target(constraint, partial(validated, from_type(schema)[1]), is_json=True, type=value_type(schema))
