"""Values of a type while they are being written: complete parts are typed, missing ones are unset."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json
from typing_extensions import NotRequired, ReadOnly, Required, is_typeddict

from structgen.automaton.pointers import Span
from structgen.errors import ValidatorError
from structgen.memo import kept_where_hashable
from structgen.schema.python.validators import validated

UNSET: Any = object()
"""Stands for a value that is not there yet."""
ANY: Any = Any
"""The type of parsed JSON that no type describes."""


def completed(tp: Any, text: bytes, span: Span) -> Any:
    """The value of a span of the text; parsed JSON if `tp` has no type for it or refuses it."""
    raw, inner = text[span.start : span.end], reduce(_child, span.path, tp)
    try:
        return json.loads(raw) if inner is ANY else validated(_adapter(inner), raw)
    except (ValidationError, ValidatorError, PydanticUserError):
        return json.loads(raw)


_NO_VALUE_YET = frozenset(word[:n] for word in (b"true", b"false", b"null") for n in range(len(word)))
"""Documents without a value yet. `from_json` takes the beginning of a word only inside a container."""


def partial(tp: Any, text: bytes) -> Any:
    """The value that the beginning of a JSON text spells so far; None before there is one.

    Args:
        tp: its type; `Any` gives parsed JSON.
        text: JSON up to any byte but within a number. An unfinished string counts as far as it goes.
    """
    if text.strip() in _NO_VALUE_YET:
        return None
    characters = text.decode("utf-8", errors="ignore")  # without an incomplete one at the end
    value = _typed(tp, from_json(characters, allow_partial="trailing-strings"))
    return None if value is UNSET else value


def _typed(tp: Any, raw: Any) -> Any:
    """The raw value as `tp`: validated if it is complete, else built of its complete parts."""
    if tp is ANY:
        return raw
    try:
        return validated(_adapter(tp), json.dumps(raw))
    except (ValidationError, ValidatorError, PydanticUserError):
        pass
    if isinstance(raw, list):
        items = [_typed(_child(tp, i), item) for i, item in enumerate(raw)]
        return [item for item in items if item is not UNSET]
    if not isinstance(raw, dict):
        return UNSET
    arm = _arm(tp, raw)
    parts = {name: _typed(_child(arm, name), value) for name, value in raw.items()}
    return _built(arm, {name: part for name, part in parts.items() if part is not UNSET})


def _built(tp: Any, parts: Mapping[str, Any]) -> Any:
    """A model with only these members; a dict for other types, whose objects cannot lack a member."""
    tp = _plain(tp)
    names = {_spelled(field, name): name for name, field in _fields(tp).items()}
    attributes = {names.get(name, name): part for name, part in parts.items()}
    if isinstance(tp, type) and issubclass(tp, BaseModel):
        return tp.model_construct(_fields_set=set(attributes), **attributes)
    return attributes


def _child(tp: Any, key: str | int) -> Any:
    """The type of a member or an item; `Any` if it is not known."""
    tp = _plain(tp)
    origin, given = get_origin(tp), get_args(tp)
    if origin in (Union, types.UnionType):
        inner = [_child(arm, key) for arm in given if arm is not type(None)]
        known = [tp for tp in inner if tp is not ANY]
        return known[0] if known and all(tp == known[0] for tp in known) else ANY
    if isinstance(key, int):
        if origin is tuple and not (len(given) == 2 and given[1] is Ellipsis):
            return given[key] if key < len(given) else ANY
        return given[0] if given and origin is not dict else ANY
    for name, field in _fields(tp).items():
        if _spelled(field, name) == key:
            if not isinstance(field, FieldInfo):
                return field
            typed: Any = (field.annotation, *field.metadata)  # with its bounds, without a default or an alias
            return Annotated[typed] if field.metadata else field.annotation
    return given[1] if origin is not None and len(given) == 2 and issubclass(origin, Mapping) else ANY


def _arm(tp: Any, raw: Mapping[str, Any]) -> Any:
    """The first type of a union that has all the members; a type that is no union as it is."""
    tp = _plain(tp)
    if get_origin(tp) in (Union, types.UnionType):
        for arm in get_args(tp):
            fields = _fields(_plain(arm))
            if fields and set(raw) <= {_spelled(field, name) for name, field in fields.items()}:
                return arm
    return tp


def _plain(tp: Any) -> Any:
    """The type without `Annotated` and type aliases."""
    while True:
        if get_origin(tp) is Annotated:
            tp = get_args(tp)[0]
        elif hasattr(tp, "__value__"):
            tp = tp.__value__
        else:
            return tp


@lru_cache(maxsize=256)
def _fields(tp: Any) -> Mapping[str, Any]:
    """The members that a type declares, each as pydantic's `FieldInfo` or as its type."""
    if isinstance(tp, type) and issubclass(tp, BaseModel):
        return tp.model_fields
    if isinstance(tp, type) and (dataclasses.is_dataclass(tp) or is_typeddict(tp)):
        hints = get_type_hints(tp, include_extras=True)
        for name in hints:
            while get_origin(hints[name]) in (Required, NotRequired, ReadOnly):
                (hints[name],) = get_args(hints[name])
        return hints
    return {}


def _spelled(field: Any, name: str) -> str:
    """A member's name in JSON."""
    alias = (field.validation_alias or field.alias) if isinstance(field, FieldInfo) else None
    return alias if isinstance(alias, str) else name


@kept_where_hashable(1024)
def _adapter(tp: Any) -> TypeAdapter[Any]:
    return TypeAdapter(tp)
