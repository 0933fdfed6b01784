"""Validators of a Python type, of its fields and of its models, whose demands no schema can express.

A value is judged as soon as it is complete, by the part of the type that describes it: a field by its validators, an
object by those of its model. A value that its part refuses is refused by the whole type. Where that does not follow (a
validator of the whole runs first, or another alternative of a union may accept the value), the value is judged with
the value around it; the whole is always judged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json

from structgen.errors import StructgenError, ValidatorError
from structgen.memo import cached_up_to, kept_where_hashable
from structgen.schema.python.core_parts import CorePart, CoreParts, ValuePart, spellings
from structgen.schema.python.fields_read import FieldsRead
from structgen.schema.python.object_fields import fields_of, with_fields
from structgen.schema.python.types import from_type

Path = tuple[str | int, ...]
REMEMBERED = 4096
"""The most paths whose parts are cached."""


class users_code:  # noqa: N801 - a block
    """A `with` block in which validators run: validation errors pass, others become a `ValidatorError`.

    It is no generator, since these do not pass a `StopIteration`.
    """

    def __init__(self, type_name: str, pointer: str, text: bytes) -> None:
        self._of = type_name, pointer, text

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, (ValidationError, StructgenError)):
            type_name, pointer, text = self._of
            raise ValidatorError(type_name, pointer, text.decode("utf-8", errors="replace"), error) from error


def validated(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """The value of a JSON text. `NaN` and `Infinity`, which Pydantic would read, are not JSON.

    Raises:
        pydantic.ValidationError: the text is refused. ValidatorError: a validator raised another exception.
    """
    written = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if b"NaN" in written or b"Infinity" in written:
        try:
            from_json(written, allow_inf_nan=False)
        except ValueError as error:
            wrong: Any = {"type": "json_invalid", "input": text, "ctx": {"error": str(error)}}
            raise ValidationError.from_exception_data("JSON", [wrong]) from error
    with users_code("the type", "", written):
        return adapter.validate_json(text)


@kept_where_hashable(256)
def validators_of(tp: Any) -> Validators | None:
    """The validators of a type; None where its schema expresses all its demands."""
    validators = Validators(from_type(tp)[1], getattr(tp, "__name__", repr(tp)))
    return validators if validators.exist else None


class Validators:
    """Judges the values of one type.

    Args:
        name: the type's name for messages.
    """

    def __init__(self, adapter: TypeAdapter[Any], name: str) -> None:
        self._name = name
        self._whole = adapter.validator
        self._core = CoreParts(adapter.core_schema)
        self._is_tagged = self._core.is_tagged
        self._validators: dict[tuple[int, frozenset[str]], SchemaValidator] = {}
        self._reads: dict[int, FieldsRead] = {}

    @property
    def exist(self) -> bool:
        """Does the type demand anything beyond its schema?"""
        return self._core.asks_anywhere(self._core.root.node)

    def judges(self, path: Path, before: bytes = b"") -> bool:
        """Will a value at this path be judged when it is complete?

        Args:
            path: the names and indexes that lead to it.
            before: the text before it; its tags select alternatives of discriminated unions.
        """
        return not path or self._ask(self._described(path, before))

    def judges_alone(self, path: Path, before: bytes = b"") -> bool:
        """Does nothing but the value's own text decide? `path` and `before` as for `judges`."""
        parts = self._described(path, before) if path else []
        return bool(parts) and not any(part.owner is not None and self._core.wants_data(part.node) for part in parts)

    def whole(self, text: bytes) -> tuple[Any, str | None]:
        """The value of a whole text and None; or None and the reason why it is refused.

        Raises:
            ValidatorError: a validator raised an exception that is no validation error.
        """
        with users_code(self._name, "", text):
            return _judged(self._whole, text)

    def failed(self, text: bytes) -> list[tuple[Path, str]]:
        """The rules that a whole text fails: the place that the rule names, and its message."""
        try:
            with users_code(self._name, "", text):
                self._whole.validate_json(text)
        except ValidationError as error:
            return [(each["loc"], each["msg"]) for each in error.errors(include_url=False, include_input=False)]
        return []

    def unread(self, path: Path, text: bytes, inner: Sequence[Path], before: bytes = b"") -> set[Path]:
        """The values within a refused value that its verdict does not depend on: those of fields that no code reads.

        Args:
            inner: the paths of the values within it, those around others first.
            before: as for `refusal`.
        """
        parts = self._described(path, before) if path else [self._core.root]
        if len(parts) != 1 or (parts[0].owner is not None and self._core.wants_data(parts[0].node)):
            return set()
        watched, read, unread = self._watched(parts[0]), set[tuple[type, str]](), set[Path]()
        with suppress(ValidationError, StructgenError), users_code(self._name, "", text):
            watched.note(text, read)
        for each in inner:
            if each[:-1] in unread:
                unread.add(each)
                continue
            described = self._described(each, before + text)
            owners = [(part.owner, part.name) for part in described if part.owner is not None]
            is_read = any(watched.is_read(owner, name, read) for owner, name in owners)
            if described and len(owners) == len(described) and not is_read:
                unread.add(each)
        return unread

    def _watched(self, part: ValuePart) -> FieldsRead:
        key = id(part.node)  # nodes are dictionaries, which have no hash
        if key not in self._reads:
            self._reads[key] = FieldsRead(part.node, self._core.definitions, part.config)
        return self._reads[key]

    def refusal(self, path: Path, text: bytes, members: bytes, pointer: str, before: bytes = b"") -> str | None:
        """The reason why a complete value is refused; None where nothing refuses it yet.

        Args:
            members: the text of the object around the value, with the members that are complete; read only where the
                value is in an object.
            before: the text before the value.

        Raises:
            ValidatorError: a validator raised an exception that is no validation error.
        """
        if not path:
            return self.whole(text)[1]
        parts = self._described(path, before)
        if not self._ask(parts):
            return None
        with users_code(self._name, pointer, text):
            refusals: list[str] = []
            for part in parts:
                refusal = self._refusal(part, text, path[-1], members)
                if refusal is None:
                    return None
                refusals.append(refusal)
        return "; or ".join(dict.fromkeys(refusals))

    def _ask(self, parts: Sequence[ValuePart]) -> bool:
        """Do all ways to read a value run code that may refuse it?"""
        return bool(parts) and all(self._core.asks(part.node) for part in parts)

    def _described(self, path: Path, before: bytes) -> list[ValuePart]:
        """What may describe the value at a path; nothing where it cannot be judged."""
        if self._is_tagged:
            return self._members(path, from_json(before, allow_partial=True) if before.strip() else None)
        return self._untagged(path)

    @cached_up_to(REMEMBERED)
    def _untagged(self, path: Path) -> list[ValuePart]:
        return self._members(path, None)

    def _members(self, path: Path, value: Any) -> list[ValuePart]:
        """The parts that may describe the value at a path; [] where it cannot be judged.

        Args:
            value: the whole value as far as it is written; None where it has no tags.
        """
        described = [self._core.root]
        for key in path:
            inner = [self._core.members(part, key, value) for part in described]
            if any(parts is None for parts in inner):
                return []
            described = [part for parts in inner for part in parts or ()]
            value = _at(value, key)
        return described

    def value(self, part: ValuePart, text: bytes, members: bytes) -> Any:
        """The value of a complete text of a part.

        Args:
            members: as for `refusal`.

        Raises:
            pydantic.ValidationError: the part, or one that it reads, refuses it. ValidatorError: a validator raised
                another exception.
        """
        with users_code(self._name, "", text):
            if part.owner is None or not self._core.wants_data(part.node):
                return self._validator(part.node, part.config, frozenset()).validate_json(text)
            found = self._with_data(part, members).validate_json(members)
        return (found[0] if isinstance(found, tuple) else found)[part.name]

    def _refusal(self, part: ValuePart, text: bytes, key: str | int, members: bytes) -> str | None:
        if part.owner is None or not self._core.wants_data(part.node):
            return _judged(self._validator(part.node, part.config, frozenset()), text)[1]
        return _judged(self._with_data(part, members), members, {key, part.name})[1]

    def _with_data(self, part: ValuePart, members: bytes) -> SchemaValidator:
        """The validator of the fields that `members` sets, for a field whose validators read those before it."""
        assert part.owner is not None
        fields = _present(part.owner, part.config, json.loads(members))
        return self._validator(part.owner, part.config, frozenset(fields))

    def _validator(self, node: CorePart, config: Any, fields: frozenset[str]) -> SchemaValidator:
        """The validator of a node; only of some of its fields where `fields` are given."""
        known = self._validators.get((id(node), fields))  # by hand: nodes are dictionaries, which have no hash
        if known is None:
            schema: Any = _only(node, fields) if fields else node
            if self._core.definitions:
                definitions = self._core.definitions
                schema = {"type": "definitions", "schema": schema, "definitions": definitions}
            known = self._validators[id(node), fields] = SchemaValidator(schema, config)
        return known


def _present(owner: CorePart, config: Any, members: dict[str, Any]) -> list[str]:
    """The names of the fields that `members` sets."""
    return [
        name for name, field in fields_of(owner) if any(key in members for key in spellings(field, name, config) or ())
    ]


def _only(owner: CorePart, names: frozenset[str]) -> dict[str, Any]:
    """The core schema `owner` with only the fields of these names."""
    schema = {key: value for key, value in owner.items() if key not in ("extras_schema", "ref", "computed_fields")}
    kept = with_fields(schema, {name: field for name, field in fields_of(owner) if name in names})
    return {**kept, "extra_behavior": "ignore"}


def _at(value: Any, key: str | int) -> Any:
    """A member or an item of a JSON value; None where it is not there yet."""
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _judged(validator: Any, text: bytes, keys: Collection[Any] = ()) -> tuple[Any, str | None]:
    """The validated value and None; or None and the message, which with `keys` is only about these members."""
    try:
        return validator.validate_json(text), None
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        about = [(one["loc"], one["msg"]) for one in errors if not keys or (one["loc"] and one["loc"][0] in keys)]
        return None, "; ".join(_message(place[1:] if keys else place, message) for place, message in about) or None


def _message(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place))}: {message}" if place else message
