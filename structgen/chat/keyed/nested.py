"""How a format writes values in a syntax other than JSON, such as `[<|"|>a<|"|>,1]` and `{'k': True}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCALAR_WORDS = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
"""What models write for booleans and null -> their JSON."""
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "/": "/"}
"""The letter after a backslash -> the character."""


@dataclass(frozen=True)
class Nested:
    """How a format writes arrays and objects, or booleans and null.

    Attributes:
        string: the texts before and after a string.
        array: the texts before the items, between two of them, and after them.
        object: the texts before the members, between two of them, and after them.
        key: the texts before and after a member's name.
        scalars: the texts of `true`, `false` and `null`, in this order.
        without: characters that the template changes or drops in strings.
        escaped: are strings quoted as in Python, with either quote and escapes?
    """

    string: tuple[str, str]
    array: tuple[str, str, str]
    object: tuple[str, str, str]
    key: tuple[str, str]
    scalars: tuple[str, str, str]
    without: frozenset[str] = frozenset()
    sorted: bool = False
    escaped: bool = False

    @property
    def words(self) -> dict[str, str]:
        """The texts of `true`, `false` and `null` -> their JSON."""
        return dict(zip(self.scalars, ("true", "false", "null"), strict=True))

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False) if self.escaped else value.join(self.string)
        if isinstance(value, bool) or value is None:
            return self.scalars[[True, False, None].index(value)]
        if isinstance(value, Mapping):
            names = sorted(value, key=str.lower) if self.sorted else list(value)
            opening, separator, closing = self.object
            written = [json.dumps(name)[1:-1] if self.escaped else name for name in names]
            members = zip(written, names, strict=True)
            return (
                opening
                + separator.join(key.join(self.key) + self.write(value[name]) for key, name in members)
                + closing
            )
        if isinstance(value, (list, tuple)):
            opening, separator, closing = self.array
            return opening + separator.join(map(self.write, value)) + closing
        return str(value)


@dataclass(frozen=True)
class Elements:
    """Writes arrays and objects as elements: an item is `<item>`, the value, `</item>`, a member likewise by its name.

    Attributes:
        opening, closing: the texts before and after a name in the tags of an element.
        end: the text after the name in both tags.
        item: the name of an array's items.
    """

    opening: str
    closing: str
    end: str
    item: str = "item"

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, Mapping):
            return "".join(self._element(name, each) for name, each in value.items())
        if isinstance(value, (list, tuple)):
            return "".join(self._element(self.item, each) for each in value)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def _element(self, name: str, value: Any) -> str:
        return self.opening + name + self.end + self.write(value) + self.closing + name + self.end


PYTHON = Nested(("'", "'"), ("[", ", ", "]"), ("{", ", ", "}"), ("'", "': "), ("True", "False", "None"))
"""Writes values as Python's `str` does."""
LITERALS = Nested(
    ('"', '"'), ("[", ", ", "]"), ("{", ", ", "}"), ('"', '": '), ("True", "False", "None"), escaped=True
)  # fmt: skip
"""Writes values as literals of Python."""
