"""Python types -> JSON Schema, for anything that `pydantic.TypeAdapter` takes.

The type's validator accepts every value of the schema: where Pydantic's JSON Schema demands less than its validator,
`pydantic_schema.py` adds the rest. Pydantic is imported when the first type is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from structgen.errors import UnsupportedSchema, quoted
from structgen.memo import kept_where_hashable
from structgen.schema.python.functions import value_type
from structgen.schema.python.mistaken import require_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def from_type(tp: Any, *, closed: bool = True) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """The JSON Schema of `tp` (2020-12, validation mode), and the adapter that turns JSON into it.

    Args:
        tp: a Pydantic model, dataclass, TypedDict, or any other type; for a function, the schema describes its
            arguments (see `functions`). Calls with one type may share the schema: it must not be changed.
        closed: allow no undeclared members in objects of models, dataclasses and typed dicts, unless the type says
            `extra="allow"`. A `dict[str, T]` is open.

    Raises:
        SchemaError: `tp` is not a type. OptionError: a function that no mapping of arguments can call.
        UnsupportedSchema: no JSON Schema describes the type.
    """
    require_schema(tp)
    return _describe(value_type(tp), closed)


@kept_where_hashable(256)
def _describe(tp: Any, closed: bool) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    from structgen.schema.python.pydantic_schema import describe

    try:
        return describe(tp, closed=closed)
    except RecursionError:
        raise UnsupportedSchema(f"the type {quoted(tp)} nests too deeply for pydantic") from None
