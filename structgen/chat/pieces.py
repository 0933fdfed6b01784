"""The pieces of a call format: literal text, and slots that each call fills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Slot(Enum):
    """A place in a format that a call fills."""

    NAME = "name"
    ID = "id"
    INDEX = "index"
    ARGUMENTS = "arguments"
    KEY = "key"
    VALUE = "value"


TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
"""Matches text that looks like a control token, such as `<tool_call>` and `[TOOL_CALLS]`."""

Piece = str | Slot
Pieces = tuple[Piece, ...]


@dataclass(frozen=True)
class Blank:
    """A place where a model may put any white space. A template writes `text` there."""

    text: str = ""


@dataclass(frozen=True)
class Maybe:
    """Pieces that a model may leave out.

    Attributes:
        written: does the format write them itself?
    """

    pieces: Spelling
    written: bool = True


@dataclass(frozen=True)
class OneOf:
    """Alternatives. The format writes the first one."""

    options: tuple[Spelling, ...]


Spelling = tuple["str | Slot | Blank | Maybe | OneOf", ...]
"""The spellings of a part of a call that a model may choose from."""


def joined(pieces: Iterable[Piece]) -> Pieces:
    """Returns the pieces without empty literals, with neighbouring literals joined."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif piece != "":
            merged.append(piece)
    return tuple(merged)


def filled(pieces: Iterable[Piece], values: Mapping[Slot, str]) -> str:
    """Returns the text of the pieces, with the slots replaced by these values."""
    return "".join(piece if isinstance(piece, str) else values[piece] for piece in pieces)


def read_off(text: str, values: Mapping[str, Slot]) -> Pieces:
    """Returns the pieces of a text, with slots in place of known values.

    If two values overlap, the earlier one becomes a slot, or else the longer one.
    """
    return joined(values.get(part, part) if part else "" for part in one_of(values).split(text))


def one_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern that matches any of the texts, the longest first. Its only group is the matched text.

    Empty texts are ignored.
    """
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def between(text: str, before: str, behind: str) -> str:
    """Returns the text between two texts.

    Raises:
        ValueError: the text does not begin and end with them.
    """
    if not (text.startswith(before) and text.endswith(behind) and len(text) >= len(before) + len(behind)):
        raise ValueError(f"{text!r} does not stand between {before!r} and {behind!r}")
    return text[len(before) : len(text) - len(behind)]


def common_prefix(a: str, b: str) -> int:
    """Returns the length of the longest common prefix of two texts."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def common_suffix(a: str, b: str) -> int:
    """Returns the length of the longest common suffix of two texts."""
    return common_prefix(a[::-1], b[::-1])


def shown(pieces: Iterable[Piece]) -> str:
    """Returns pieces as text for a person to read: slots in braces, control characters escaped."""
    return "".join(repr(piece)[1:-1] if isinstance(piece, str) else "{" + piece.value + "}" for piece in pieces)
