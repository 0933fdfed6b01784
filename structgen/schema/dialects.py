"""The drafts of the standard, as data: which keywords each knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from structgen.errors import SchemaError, UnsupportedSchema
from structgen.schema.checks import Check
from structgen.schema.keywords import KEYWORDS, Apply, Keyword


@dataclass(frozen=True)
class Dialect:
    """One draft.

    Attributes:
        number: 4, 6, 7, 2019 or 2020.
        keywords: its rows by name.
        checks, applies: the two functions of each row, by name.
        booleans: `true` and `false` are schemas.
        lone_references: what stands beside a `$ref` has no effect.
        identifier: the keyword that names a schema.
    """

    number: int
    keywords: dict[str, Keyword]
    checks: dict[str, Check]
    applies: dict[str, Apply]
    booleans: bool
    lone_references: bool
    identifier: str


def _dialect(number: int) -> Dialect:
    rows = {row.name: row for row in KEYWORDS if row.since <= number <= row.until}
    return Dialect(
        number=number,
        keywords=rows,
        checks={name: row.check for name, row in rows.items()},
        applies={name: row.apply for name, row in rows.items() if row.apply is not None},
        booleans=number > 4,
        lone_references=number <= 7,
        identifier="id" if number == 4 else "$id",
    )


DIALECTS = {number: _dialect(number) for number in (4, 6, 7, 2019, 2020)}
DEFAULT = DIALECTS[2020]

_NAMES = {
    "json-schema.org/schema": 2020,
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}


def dialect_of(schema: Any, default: Dialect = DEFAULT) -> Dialect:
    """The draft that `$schema` names, `default` without one.

    Raises:
        SchemaError: `$schema` is not a string. UnsupportedSchema: it names another dialect, which may give
            any keyword another meaning.
    """
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if name is None:
        return default
    expected = "the URI of draft 4, 6, 7, 2019-09 or 2020-12"
    if not isinstance(name, str):
        raise SchemaError(f"found {name!r}; expected {expected}", "/$schema")
    number = _NAMES.get(name.removeprefix("http").removeprefix("s").removeprefix("://").rstrip("#"))
    if number is None:
        raise UnsupportedSchema(f"the dialect {name!r} is not supported; use {expected}", "/$schema")
    return DIALECTS[number]
