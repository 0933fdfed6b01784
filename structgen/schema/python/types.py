"""Python types and functions -> JSON Schema, for anything that `pydantic.TypeAdapter` takes.

The type's validator accepts every value of the schema: where Pydantic's JSON Schema demands less than its validator,
`pydantic_schema.py` adds the rest. The schema of a function is that of the keyword arguments it can be called with; the
function itself is never called. Pydantic is imported when the first type is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from inspect import Parameter, signature
from types import GenericAlias, new_class
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from typing_extensions import NotRequired, TypedDict, Unpack

from structgen.errors import OptionError, UnsupportedSchema, quoted
from structgen.memo import kept_where_hashable
from structgen.schema.python.mistaken import require_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_TYPES_OF_TYPING = ("types", "typing", "typing_extensions")
"""Modules whose objects (`Literal[...]`, `NewType(...)`) are types, although many can be called."""


def from_type(tp: Any, *, closed: bool = True) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """The JSON Schema of `tp` (2020-12, validation mode), and the adapter that turns JSON into it.

    Args:
        tp: a Pydantic model, dataclass, TypedDict, or any other type; for a function, the schema describes its
            arguments (see `value_type`). Calls with one type may share the schema: it must not be changed.
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


def is_function(schema: Any) -> bool:
    """Is it a function, a method, or another callable that Pydantic does not take as a type?"""
    if not callable(schema) or isinstance(schema, (type, GenericAlias)) or get_origin(schema) is not None:
        return False
    described = hasattr(schema, "__get_pydantic_core_schema__")
    return not described and type(schema).__module__ not in _TYPES_OF_TYPING


def value_type(schema: Any) -> Any:
    """The type of a schema's values: for a function a typed dict of its arguments, else the schema itself.

    `Iterable[T]` is `list[T]`: Pydantic's value could be read only once, and validates an item when it is read.

    Raises:
        OptionError: no mapping of keyword arguments can call the function, or its signature cannot be read.
    """
    origin = get_origin(schema) or schema
    if origin is Iterable or origin is Iterator or origin is Collection:
        return list[get_args(schema) or Any]  # type: ignore[misc]
    return _arguments(schema) if is_function(schema) else schema


@kept_where_hashable(256)
def _arguments(function: Callable[..., Any]) -> Any:
    """A typed dict that the function can be called with: `function(**value)`.

    Parameters without an annotation take any JSON; those with a default may be missing. `*args` and `**kwargs` are left
    out, and so are positional-only parameters with a default, and what a partial binds. `**kwargs: Unpack[Options]` are
    the members of `Options`.
    """
    name = getattr(function, "__name__", type(function).__name__)
    members: dict[str, Any] = {}
    options: Any = TypedDict
    bound = function.keywords if isinstance(function, partial) else ()
    for parameter in _parameters(function, name):
        if parameter.name in bound:
            continue
        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        has_default = parameter.default is not Parameter.empty
        if hasattr(parameter.default, "is_required"):  # Pydantic's `Field(...)`, as `validate_call` reads it
            annotation, has_default = Annotated[annotation, parameter.default], not parameter.default.is_required()
        if parameter.kind is Parameter.POSITIONAL_ONLY and not has_default:
            where = f"schema={name}: its parameter {parameter.name!r} is positional-only"
            raise OptionError(f"{where}, no mapping can call the function; pass a function that takes it by name")
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            members[parameter.name] = NotRequired[annotation] if has_default else annotation
        elif parameter.kind is Parameter.VAR_KEYWORD and get_origin(annotation) is Unpack:
            (options,) = get_args(annotation)
    module = getattr(function, "__module__", None) or __name__  # where the names in its annotations are looked up
    return new_class(name, (options,), exec_body=lambda body: body.update(__annotations__=members, __module__=module))


def _parameters(function: Callable[..., Any], name: str) -> list[Parameter]:
    try:
        return list(signature(function, eval_str=True).parameters.values())
    except (ValueError, TypeError, NameError, AttributeError, SyntaxError) as error:
        advice = "pass a TypedDict of its arguments, or a function with annotations that can be read"
        raise OptionError(f"schema={name}: the signature of the function cannot be read: {error}; {advice}") from error
