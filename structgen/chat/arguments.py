"""How a call format writes arguments: as one JSON text, or key by key.

Qwen3 writes `{"city": "Paris"}`; MiniCPM5 writes `<param name="city">Paris</param>`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from structgen.chat.keyed.nested import Elements, Nested
from structgen.chat.pieces import Pieces, Slot, Spelling, filled
from structgen.chat.spellings import loosened, tidy

JSON_TYPES = ("string", "number", "boolean", "null", "array", "object")


def type_of(value: Any) -> str:
    """Returns the JSON type of a value."""
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return kinds.get(type(value), "array" if isinstance(value, (list, tuple)) else "object")


@dataclass(frozen=True)
class JsonLayout:
    """The options with which a chat template calls `json.dumps`.

    Attributes:
        ascii: are characters outside ASCII escaped?
        compact: are there no blanks after commas and colons?
        indent: number of blanks per level; None writes one line.
        margin: number of blanks before every line but the first.
    """

    ascii: bool = False
    compact: bool = False
    indent: int | None = None
    sorted: bool = False
    margin: int = 0

    def write(self, value: Any) -> str:
        separators = (",", ":") if self.compact else None
        text = json.dumps(
            value, ensure_ascii=self.ascii, separators=separators, indent=self.indent, sort_keys=self.sorted
        )
        return text.replace("\n", "\n" + " " * self.margin)


@dataclass(frozen=True)
class Raw:
    """Writes a string as it is, without quotes and escapes.

    Attributes:
        without: characters that the template changes or drops.
        trimmed: does the template cut white space off its ends?
        wrap: the texts around a string that has one of the characters in `without`; with them any string can be
            written that does not contain the second. None if such strings cannot be written.
        entities: are `&lt;`, `&amp;` and the like characters, as in XML?
    """

    without: frozenset[str] = frozenset()
    trimmed: bool = False
    wrap: tuple[str, str] | None = None
    entities: bool = False

    def write(self, value: Any) -> str:
        text = html.escape(str(value), quote=False) if self.entities else str(value)
        return text.join(self.wrap) if self.wrap and any(char in text for char in self.without) else text


class Around(NamedTuple):
    """What a model may write around a value, after its key.

    Attributes:
        head: the spellings between the key and the value.
        after: the spellings behind the value; empty if a value ends with no text of its own. It may have `Slot.KEY`.
        padded: may there be a line break on both sides of the value that does not belong to it?
    """

    head: Spelling
    after: Spelling
    padded: bool

    def after_key(self, key: str) -> Spelling:
        """Returns what is after the value of this key."""
        return tidy([key if piece is Slot.KEY else piece for piece in self.after])

    def stop(self, key: str) -> str:
        """Returns the text that ends a value of this key, and that no string has."""
        behind = self.after_key(key)
        return next((piece for piece in behind if isinstance(piece, str)), "")


def around(before: Pieces, after: Pieces) -> tuple[Spelling, Around]:
    """Returns what a model may write before a key, and around its value.

    Args:
        before, after: as in `ArgumentFormat`.
    """
    place = before.index(Slot.KEY)
    prefix, head = ("".join(str(piece) for piece in pieces) for pieces in (before[:place], before[place + 1 :]))
    padded = head.endswith("\n") and str(after[0] if after else "").startswith("\n")
    texts = list(after)
    if padded:
        head, texts[0] = head[:-1], str(texts[0])[1:]
    behind = [loosened(each, before=False, behind=False) if isinstance(each, str) else (each,) for each in texts]
    return loosened(prefix, behind=False), Around(loosened(head, behind=False), tidy(sum(behind, ())), padded)


ValueWriter = JsonLayout | Raw | Nested | Elements
Beside = tuple[Pieces, Pieces]
"""The texts before and after a value, with slots for the key."""
Groups = dict[Beside, dict[str, ValueWriter]]
"""The text next to the value -> the writers of values by JSON type."""


@dataclass(frozen=True)
class ArgumentFormat:
    """How an argument of one JSON type is written: `<param name="`, the key, `">`, the value, `</param>`.

    The texts before and after the value have slots for the key.
    """

    before: Pieces
    writer: ValueWriter
    after: Pieces

    def write(self, key: str, value: Any) -> str:
        named = {Slot.KEY: key}
        return filled(self.before, named) + self.writer.write(value) + filled(self.after, named)


@dataclass(frozen=True)
class KeyedArguments:
    """Writes arguments key by key.

    Attributes:
        formats: pairs of a JSON type and how its arguments are written. Values of a missing type cannot be written.
        sorted: are arguments sorted by key, upper and lower case alike?
    """

    formats: tuple[tuple[str, ArgumentFormat], ...]
    separator: str = ""
    sorted: bool = False

    def groups(self, types: Collection[str]) -> Groups:
        """Groups JSON types that have the same text before and after the value."""
        groups: Groups = {}
        for type_, format_ in self.formats:
            if type_ in types:
                groups.setdefault((format_.before, format_.after), {})[type_] = format_.writer
        return groups

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Returns the text of the arguments.

        Raises:
            ValueError: the format has no spelling for a value.
        """
        formats, texts = dict(self.formats), []
        for key in sorted(arguments, key=str.lower) if self.sorted else arguments:
            format_ = formats.get(type_of(arguments[key]))
            if format_ is None:
                raise ValueError(f"the format has no spelling for {key}: {arguments[key]!r}")
            texts.append(format_.write(key, arguments[key]))
        return self.separator.join(texts)


ArgumentWriter = JsonLayout | KeyedArguments
"""How a format writes all arguments: as one JSON object, or key by key."""
