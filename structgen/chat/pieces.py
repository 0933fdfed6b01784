"""What call formats are written in: literal text, and slots that each call fills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum


class Slot(Enum):
    """What a call fills in."""

    NAME = "name"
    ID = "id"
    INDEX = "index"
    ARGUMENTS = "arguments"
    KEY = "key"
    VALUE = "value"


TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
"""What looks like a control token."""

Piece = str | Slot
Pieces = tuple[Piece, ...]


def joined(pieces: Iterable[Piece]) -> Pieces:
    """The same without empty literals, neighbours made one."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif piece != "":
            merged.append(piece)
    return tuple(merged)


def filled(pieces: Iterable[Piece], values: Mapping[Slot, str]) -> str:
    """The text of pieces with these values in their slots."""
    return "".join(piece if isinstance(piece, str) else values[piece] for piece in pieces)


def read_off(text: str, values: Mapping[str, Slot]) -> Pieces:
    """The pieces of a text in which known values stand; of two that overlap the earlier, then the longer one."""
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


def common_prefix(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def common_suffix(a: str, b: str) -> int:
    """How many characters two texts end with alike."""
    return common_prefix(a[::-1], b[::-1])


def shown(pieces: Iterable[Piece]) -> str:
    """Pieces for a person to read: slots in braces, control characters escaped."""
    return "".join(repr(piece)[1:-1] if isinstance(piece, str) else "{" + piece.value + "}" for piece in pieces)
