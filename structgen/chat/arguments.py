"""How a format writes a call's arguments: as one JSON text, or key by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from structgen.chat.nested import Nested
from structgen.chat.pieces import Pieces, Slot, filled


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return kinds.get(type(value), "array" if isinstance(value, (list, tuple)) else "object")


@dataclass(frozen=True)
class JsonLayout:
    """How `json.dumps` is called.

    Attributes:
        ascii: are other characters escaped?
        compact: without blanks behind commas and colons?
        indent: blanks by level; None for one line.
        sorted: are members sorted by name?
        margin: blanks before every line but the first.
    """

    ascii: bool = False
    compact: bool = False
    indent: int | None = None
    sorted: bool = False
    margin: int = 0

    def write(self, value: Any) -> str:
        """The JSON text of a value."""
        separators = (",", ":") if self.compact else None
        text = json.dumps(
            value, ensure_ascii=self.ascii, separators=separators, indent=self.indent, sort_keys=self.sorted
        )
        return text.replace("\n", "\n" + " " * self.margin)


@dataclass(frozen=True)
class Raw:
    """A string as it is.

    Attributes:
        without: characters that the template does not keep.
        trimmed: does the template cut white space off its ends?
    """

    without: frozenset[str] = frozenset()
    trimmed: bool = False

    def write(self, value: Any) -> str:
        """The string."""
        return str(value)


@dataclass(frozen=True)
class PythonText:
    """A value as Python's `str` writes it: `True`, `None`, `['a', 1]`."""

    def write(self, value: Any) -> str:
        """The text of a value."""
        return str(value)


ValueWriter = JsonLayout | Raw | PythonText | Nested


@dataclass(frozen=True)
class ArgumentFormat:
    """One argument of a type.

    Attributes:
        before: what stands before the value, the key in it.
        writer: of the value.
        after: what stands behind it.
    """

    before: Pieces
    writer: ValueWriter
    after: Pieces

    def write(self, key: str, value: Any) -> str:
        """The text of one argument."""
        named = {Slot.KEY: key}
        return filled(self.before, named) + self.writer.write(value) + filled(self.after, named)


@dataclass(frozen=True)
class JsonArguments:
    """All arguments as one JSON object.

    Attributes:
        layout: of the JSON.
    """

    layout: JsonLayout = JsonLayout()

    def write(self, arguments: Mapping[str, Any]) -> str:
        """The text of the arguments."""
        return self.layout.write(dict(arguments))


@dataclass(frozen=True)
class KeyedArguments:
    """Arguments key by key.

    Attributes:
        formats: how a value of each JSON type is written; a type that is missing has no spelling that can be read back.
        separator: between two arguments.
        sorted: are arguments sorted by key, upper and lower case alike?
    """

    formats: tuple[tuple[str, ArgumentFormat], ...]
    separator: str = ""
    sorted: bool = False

    def format_of(self, type_: str) -> ArgumentFormat | None:
        """How a value of a JSON type is written."""
        return dict(self.formats).get(type_)

    def write(self, arguments: Mapping[str, Any]) -> str:
        """The text of the arguments.

        Raises:
            ValueError: the format has no spelling for a value.
        """
        keys = sorted(arguments, key=str.lower) if self.sorted else list(arguments)
        return self.separator.join(self._written(key, arguments[key]) for key in keys)

    def _written(self, key: str, value: Any) -> str:
        format_ = self.format_of(type_of(value))
        if format_ is None:
            raise ValueError(f"the format has no spelling for {key}: {value!r}")
        return format_.write(key, value)


ArgumentWriter = JsonArguments | KeyedArguments
Write = Callable[[Mapping[str, Any]], str]
