"""The drafts of the standard as data: the keywords of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from structgen.errors import SchemaError, UnsupportedSchema, quoted
from structgen.schema.keywords import own
from structgen.schema.keywords.arguments import ArgumentCheck
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, STRUCTURE, VALIDATION, Apply, Keyword

if TYPE_CHECKING:
    from referencing import Registry


@dataclass(frozen=True)
class Dialect:
    """One draft.

    Attributes:
        number: 4, 6, 7, 2019 or 2020.
        keywords: its rows of the table by name.
        checks, applies: the two functions of each row by name. Annotations are not checked: `explain` lists those that
            are malformed.
        restricting: the keywords that can restrict values.
        booleans: are `true` and `false` schemas?
        lone_references: have keywords next to a `$ref` no effect?
        identifier: the keyword that names a schema, `id` or `$id`.
    """

    number: int
    keywords: dict[str, Keyword]
    checks: dict[str, ArgumentCheck]
    applies: dict[str, Apply]
    restricting: frozenset[str]
    booleans: bool
    lone_references: bool
    identifier: str

    @property
    def plain_integers(self) -> bool:
        """Is `1.0` not an integer?"""
        return self.applies.get("type") is own.type_4


def _dialect(number: int, rows: Iterable[Keyword] = KEYWORDS) -> Dialect:
    known = {row.name: row for row in rows if row.since <= number <= row.until}
    return Dialect(
        number=number,
        keywords=known,
        checks={name: row.check for name, row in known.items() if row.how != ANNOTATION or row.children},
        applies={name: row.apply for name, row in known.items() if row.apply is not None},
        restricting=frozenset(row.name for row in known.values() if row.how not in (STRUCTURE, ANNOTATION)),
        booleans=number > 4,
        lone_references=number <= 7,
        identifier="id" if number == 4 else "$id",
    )


DIALECTS = {number: _dialect(number) for number in (4, 6, 7, 2019, 2020)}
DEFAULT = DIALECTS[2020]
PLAIN_INTEGERS = replace(DEFAULT, applies={**DEFAULT.applies, "type": own.type_4})
"""2020-12 for schemas of Python types, whose validators may refuse `1.0` as an integer."""

URIS = {
    4: "http://json-schema.org/draft-04/schema",
    6: "http://json-schema.org/draft-06/schema",
    7: "http://json-schema.org/draft-07/schema",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
"""The URI of each draft's meta-schema."""
_NAMES = {"json-schema.org/schema": 2020, **{uri.partition("://")[2]: number for number, uri in URIS.items()}}


def dialect_of(schema: Any, default: Dialect = DEFAULT, registry: Registry[Any] | None = None) -> Dialect:
    """The draft that `$schema` names, `default` without one; an empty text names none, as for Ajv and jsonschema.

    Args:
        registry: it may hold the meta-schemas of other dialects.

    Raises:
        SchemaError: `$schema` is not a string. UnsupportedSchema: it names an unknown dialect, in which any keyword
            may have another meaning.
    """
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if name is None or name == "":
        return default
    expected = "the URI of draft 4, 6, 7, 2019-09 or 2020-12"
    if not isinstance(name, str):
        raise SchemaError(f"found {quoted(name)}; expected {expected}", "/$schema")
    number = _NAMES.get(name.removeprefix("http").removeprefix("s").removeprefix("://").rstrip("#"))
    if number is not None:
        return DIALECTS[number]
    if registry is None or name not in registry:
        raise UnsupportedSchema(f"the dialect {quoted(name)} is not supported; use {expected}", "/$schema")
    return _with_vocabularies(registry.contents(name), name, registry)


def _with_vocabularies(metaschema: Any, name: str, registry: Registry[Any]) -> Dialect:
    """The dialect of the user's own meta-schema, which lists its groups of keywords in `$vocabulary`."""
    base = dialect_of(metaschema, DEFAULT, registry)
    used = metaschema.get("$vocabulary") if isinstance(metaschema, dict) else None
    if base.number < 2019 or not isinstance(used, dict):
        return base
    known = {uri.rpartition("/")[2] for uri in used if uri.startswith("https://json-schema.org/draft/")}
    unknown = [uri for uri, needed in used.items() if needed and not uri.startswith("https://json-schema.org/draft/")]
    if unknown:
        raise UnsupportedSchema(f"the dialect {quoted(name)} needs the vocabulary {quoted(unknown[0])}", "/$schema")
    if "validation" in known:
        return base
    return _dialect(base.number, (row for row in base.keywords.values() if row.name not in VALIDATION))
