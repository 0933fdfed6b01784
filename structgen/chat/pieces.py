"""The pieces of a call format: literal text, and slots that each call fills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    """Returns the text of pieces, with these values in their slots."""
    return "".join(piece if isinstance(piece, str) else values[piece] for piece in pieces)


def read_off(text: str, values: Mapping[str, Slot]) -> Pieces:
    """Returns the pieces of a text, with slots in place of known values.

    If two values overlap, the earlier one becomes a slot, or else the longer one.
    """
    pieces: list[Piece] = []
    offset = 0
    while offset < len(text):
        starts = [(text.find(value, offset), -len(value), value) for value in values if value]
        place, _, value = min(
            ((place, size, value) for place, size, value in starts if place >= 0), default=(-1, 0, "")
        )
        if place < 0:
            break
        pieces += [text[offset:place], values[value]]
        offset = place + len(value)
    return joined([*pieces, text[offset:]])


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
