"""Python types -> JSON Schema, for anything that `pydantic.TypeAdapter` takes.

What the schema admits, the type's own validator accepts: where Pydantic's JSON Schema says less than its
validator demands, `pydantic_schema.py` says the rest. pydantic is imported when the first type is read.
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
        tp: a Pydantic model, dataclass, TypedDict, or any other type; of a function its arguments are described (see
            `functions`). The schema may be shared between calls for one type: it must not be changed.
        closed: objects of models, dataclasses and typed dicts take no undeclared members, unless the type
            says `extra="allow"`. A `dict[str, T]` is open.

    Raises:
        SchemaError: it is no type. OptionError: a function that no mapping of arguments can call.
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
