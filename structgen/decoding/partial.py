"""Values of a type while they are being written: what cannot become another value is typed, the rest is unset.

One rule: a scalar appears when its text is closed. An object or array appears once only one alternative of a union is
left for it, with those of its members that have appeared. Only free strings (see `MatcherPlaces.is_free`) appear as far
as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import RootModel, ValidationError
from pydantic_core import from_json

from structgen.errors import StructgenError
from structgen.json_text.pointers import Span
from structgen.memo import kept_where_hashable
from structgen.schema.python.core_parts import (
    FIELDS,
    FUNCTIONS,
    INNER,
    UNIONS,
    CoreParts,
    ValuePart,
    choices_of,
    spellings,
)
from structgen.schema.python.object_fields import fields_of
from structgen.schema.python.types import from_type
from structgen.schema.python.validators import Validators

UNSET: Any = object()
"""Stands for a value that has not appeared yet."""
ANY: Any = Any
"""The type of parsed JSON that no type describes."""
_ARRAYS = {"list": list, "set": set, "frozenset": frozenset, "tuple": tuple}
"""The types of core schemas for arrays, and what an unfinished one is."""
_OBJECTS = FIELDS | {"dict"}
_NO_TEXTS = frozenset({"none", "bool", "int", "float", "literal", "model", "dataclass", *_OBJECTS, *_ARRAYS})
"""Alternatives of a union that make nothing else of a free string than the text."""
_ANYTHING, _OPAQUE = ValuePart({"type": "any"}), ValuePart({"type": "opaque"})
_REWRITING = "strip_whitespace", "to_lower", "to_upper"
"""Options of a text that make another text of it, once it is complete."""


class Container(NamedTuple):
    """An open object or array.

    Attributes:
        start: its first byte.
        members: the places of its complete members, and perhaps of later ones.
        complete: the number of complete members.
        key: the name or index of the member that is being read or comes next; None before a name.
    """

    start: int
    members: list[Span]
    complete: int
    key: str | int | None


class Unfinished(NamedTuple):
    """A JSON text up to some byte.

    Attributes:
        text: it may continue beyond that byte.
        containers: the open ones, outermost first.
        whole: the place of the whole value; None while it is not complete.
        growing: the spelling of an unfinished free string, with its opening quote; else empty.
    """

    text: bytes
    containers: tuple[Container, ...]
    whole: Span | None = None
    growing: bytes = b""

    def is_object(self, depth: int) -> bool:
        """Is the open container at a depth an object?"""
        return self.text.startswith(b"{", self.containers[depth].start)


@kept_where_hashable(256)
def partial_type(tp: Any) -> PartialType:
    """Reads unfinished values of a type; `Any` gives parsed JSON."""
    return PartialType(tp)


class PartialType:
    """Reads unfinished values of one type, see the module."""

    def __init__(self, tp: Any) -> None:
        adapter = None if tp is ANY else from_type(tp)[1]
        schema = _ANYTHING.node if adapter is None else adapter.core_schema
        self._core = CoreParts(schema, through=True)
        self._validators = None if adapter is None else Validators(adapter, getattr(tp, "__name__", repr(tp)))

    def value(self, now: Unfinished) -> Any:
        """The value as far as it has appeared; None before it has."""
        if now.whole is not None:
            return self.completed(now, now.whole)
        found = self._open(self._core.root, 0, now) if now.containers else self._growing([self._core.root], now)
        return None if found is UNSET else found

    def completed(self, now: Unfinished, span: Span) -> Any:
        """The value that has just been completed; parsed JSON where its type is not known yet, or refuses it."""
        parts = [self._core.root]
        for depth, key in enumerate(span.path):
            ways = [way for part in parts for way in self._ways(part, depth, now)]
            parts = [inner for way in ways for inner in self._member(way, key) or [_ANYTHING]]
        found = self._closed(parts, span, now) if len({id(part.node) for part in parts}) == 1 else UNSET
        return json.loads(now.text[span.start : span.end]) if found is UNSET else found

    def _open(self, part: ValuePart, depth: int, now: Unfinished) -> Any:
        """The open container at a depth; UNSET while several alternatives are left."""
        ways = self._ways(part, depth, now)
        if len({(id(way.node), way.models) for way in ways}) != 1:
            return UNSET
        way, container = ways[0], now.containers[depth]
        kind = way.node["type"]
        if kind == "any":
            kind = "dict" if now.is_object(depth) else "list"
        elif kind not in (_OBJECTS if now.is_object(depth) else _ARRAYS) or (
            way.changed and not way.models and kind not in FIELDS
        ):
            return UNSET  # nobody knows what code will make of it
        members = dict[Any, Any]()
        for span in container.members[: container.complete]:
            key, inner = span.path[-1], self._member(way, span.path[-1])
            self._put(members, way, inner, key, self._closed(inner, span, now))
        if container.key is not None and kind not in ("set", "frozenset"):
            inner = self._member(way, container.key)
            found = [self._open(each, depth + 1, now) for each in inner] if now.containers[depth + 1 :] else None
            value = self._growing(inner, now) if found is None else found[0] if found else UNSET
            self._put(members, way, inner, container.key, value)
        value = _ARRAYS[kind](members.values()) if kind in _ARRAYS else members
        for model in reversed(way.models):
            value = _instance(model, {"root": value} if issubclass(model, RootModel) else value)
        return value

    def _ways(self, part: ValuePart, depth: int, now: Unfinished, *, alone: bool = True) -> list[ValuePart]:
        """The alternatives that are left for the open container at a depth.

        Args:
            alone: a single alternative needs no proof that it fits.
        """
        ways = [_OPAQUE if way is None else way for way in self._core.ways(part)]
        return ways if len(ways) == 1 and alone else [way for way in ways if self._fits(way, depth, now)]

    def _fits(self, way: ValuePart, depth: int, now: Unfinished) -> bool:
        """May the open container at a depth become a value of this alternative?"""
        kind, container = way.node["type"], now.containers[depth]
        if kind in ("any", "opaque", "generator"):
            return True
        if kind not in (_OBJECTS if now.is_object(depth) else _ARRAYS):
            return False
        for span in container.members[: container.complete]:
            if self._closed(self._member(way, span.path[-1]), span, now) is UNSET:
                return False
        inner = [_ANYTHING] if container.key is None else self._member(way, container.key)
        if now.containers[depth + 1 :]:
            return any(self._ways(each, depth + 1, now, alone=False) for each in inner)
        return bool(inner) or not now.is_object(depth)  # an array may end before its next item

    def _member(self, way: ValuePart, key: str | int) -> list[ValuePart]:
        """The part of a member; nothing where such a value has no such member."""
        inner = self._core.member(way, key) if way.node["type"] != "opaque" else None
        if inner is None and way.node["type"] in FIELDS and not (way.ordered or _allows_more(way) or _reads_paths(way)):
            return []
        return [_ANYTHING] if inner is None else inner

    def _put(self, members: dict[Any, Any], way: ValuePart, inner: Sequence[ValuePart], key: Any, value: Any) -> None:
        """Adds a member that has appeared, under the name that it has in Python."""
        if way.node["type"] == "dict" and "keys_schema" in way.node and value is not UNSET:
            spelled = json.dumps(key).encode()
            key = self._validated(ValuePart(way.node["keys_schema"], way.config), spelled, b"")
        is_known = way.node["type"] not in FIELDS or inner[:1] != [_ANYTHING] or _allows_more(way)
        if value is not UNSET and key is not UNSET and is_known:
            members[(inner[0].name if inner else "") or key] = value

    def _closed(self, parts: Sequence[ValuePart], span: Span, now: Unfinished) -> Any:
        """A complete value; UNSET if its type refuses it."""
        text = now.text[span.start : span.end]
        if not parts or parts[0].node["type"] != "any":
            return self._validated(parts[0], text, now.text[span.around : span.end] + b"}") if parts else UNSET
        return json.loads(text)

    def _validated(self, part: ValuePart, text: bytes, members: bytes) -> Any:
        assert self._validators is not None
        try:
            return self._validators.value(part, text, members)
        except (ValidationError, StructgenError):
            return UNSET

    def _growing(self, parts: Sequence[ValuePart], now: Unfinished) -> Any:
        """The unfinished string at the end of the text, if it is free."""
        if not now.growing or not parts or not all(self._is_text(part) for part in parts):
            return UNSET
        return from_json(now.growing.decode(errors="ignore"), allow_partial="trailing-strings")

    def _is_text(self, part: ValuePart) -> bool:
        """Does the type make nothing else of a free string than its text?"""
        node, config = self._core.resolved(part.node), part.config or {}
        kind = node["type"]
        if kind in UNIONS:
            texts = [self._is_text(part._replace(node=choice)) for choice in choices_of(node)]
            kinds = [self._core.resolved(choice)["type"] for choice in choices_of(node)]
            return any(texts) and all(text or kind in _NO_TEXTS for text, kind in zip(texts, kinds, strict=True))
        if kind == "str":
            return not any(node.get(name, config.get(f"str_{name}")) for name in _REWRITING)
        if kind in INNER and kind not in FUNCTIONS:
            return self._is_text(part._replace(node=node[INNER[kind]]))
        return bool(kind == "any")


def _allows_more(way: ValuePart) -> bool:
    """May an object have members that its type does not declare?"""
    behaviour = way.node.get("extra_behavior") or (way.config or {}).get("extra_fields_behavior")
    return bool(behaviour == "allow")


def _reads_paths(way: ValuePart) -> bool:
    """May a path of aliases read a member that its type does not declare?"""
    return any(spellings(field, name, way.config) is None for name, field in fields_of(way.node))


def _instance(model: Any, values: dict[str, Any]) -> Any:
    """A model with only these members: without defaults, validators or `model_post_init`."""
    made = model.__new__(model)
    extra = {name: value for name, value in values.items() if name not in model.model_fields}
    fields = {name: value for name, value in values.items() if name in model.model_fields}
    for name, value in {
        "__dict__": fields,
        "__pydantic_fields_set__": set(values),
        "__pydantic_extra__": extra or None,
        "__pydantic_private__": None,
    }.items():
        object.__setattr__(made, name, value)
    return made
