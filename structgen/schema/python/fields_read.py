"""Which fields a type's own code reads when it judges a value.

A rule of a model says only that the model is wrong. Which of its fields decide is seen by judging the value again
with classes that note each attribute that is read. Code that reads the same values comes to the same verdict, so a
change to any other field cannot help.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from pydantic_core import SchemaValidator

from structgen.schema.python.core_parts import FIELDS, CorePart

CLASSES = frozenset({"model", "dataclass"})
_WHOLE = frozenset({"__dict__", "__pydantic_serializer__", "__pydantic_extra__"})
"""Attributes through which every field is read."""
_PLAIN = frozenset({"default", "default_factory", "metadata", "serialization", "expected", "config", "cls"})
"""The keys of a core schema that hold no core schema."""

_read: ContextVar[set[tuple[type, str]]] = ContextVar("_read")


class _Noting:
    """The first base of a class whose attributes are noted when they are read."""

    __slots__ = ()

    def __init_subclass__(cls, **_: object) -> None:
        """Does not call the user's `__init_subclass__`: that class stays unknown to the user's code."""

    def __getattribute__(self, name: str) -> Any:
        if (read := _read.get(None)) is not None:
            read.add((type(self).__mro__[2], name))
        return super().__getattribute__(name)


class FieldsRead:
    """Notes the fields that are read when values of one core schema are judged.

    Args:
        node: the core schema of the value.
        definitions: what its references lead to.
        config: the configuration of the model around it.

    Raises:
        TypeError, ValueError: a class of the schema cannot be a base of another.
    """

    def __init__(self, node: CorePart, definitions: list[Any], config: Any) -> None:
        self._classes = dict[type, type]()
        self.owners = dict[int, type]()
        schema: Any = self._noting(node)
        if definitions:
            schema = {"type": "definitions", "schema": schema, "definitions": [*map(self._noting, definitions)]}
        self._validator = SchemaValidator(schema, config)

    def note(self, text: bytes, read: set[tuple[type, str]]) -> None:
        """Adds the fields that are read while a text is judged, each with its class.

        Raises:
            Exception: whatever the user's code raises.
        """
        token = _read.set(read)
        try:
            self._validator.validate_json(text)
        finally:
            _read.reset(token)

    def is_read(self, owner: CorePart, name: str, read: set[tuple[type, str]]) -> bool:
        """Does the verdict depend on a field?

        Args:
            owner: the core schema of the fields around it.
        """
        cls = self.owners.get(id(owner))
        return cls is None or (cls, name) in read or any((cls, every) in read for every in _WHOLE)

    def _noting(self, node: Any) -> Any:
        """A core schema with classes that note what is read in place of the user's."""
        if isinstance(node, (list, tuple)):
            return type(node)(map(self._noting, node))
        if not isinstance(node, Mapping):
            return node
        made = {key: value if key in _PLAIN else self._noting(value) for key, value in node.items()}
        if node.get("type") in CLASSES:
            cls = node["cls"]
            self.owners.update((id(fields), cls) for fields in _fields_of(node["schema"]))
            if cls not in self._classes:
                # Neither the metaclass of the user's class nor its `__init_subclass__` runs.
                metaclass = type(cls)
                new = ABCMeta.__new__ if issubclass(metaclass, ABCMeta) else type.__new__
                self._classes[cls] = new(
                    metaclass, cls.__name__, (_Noting, cls), {"__slots__": (), "__pydantic_complete__": False}
                )
            made["cls"] = self._classes[cls]
        return made


def _fields_of(node: CorePart) -> Iterator[CorePart]:
    """The fields of a model below the validators around them."""
    while node["type"] not in FIELDS and isinstance(node.get("schema"), Mapping):
        node = node["schema"]
    if node["type"] in FIELDS:
        yield node
