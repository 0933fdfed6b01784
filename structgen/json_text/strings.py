"""A scanner that finds the strings of a JSON text, and decodes them. The text may arrive in pieces.

A `Scan` is a value: `feed` does not change it. The JSON is not checked; other text is read as far as possible.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from structgen.json_text.lexer import ESCAPE, decoded
from structgen.json_text.pointers import Container, path_of, pointer_of

BETWEEN, VALUE, ASIDE, NAME = 0, 1, 2, 3
"""Modes of a scan: between strings; in a string that is wanted; in another string value; in a name that is not, or may
be one that is not."""
OPEN, TEXT, CLOSE = 0, 1, 2
"""Kinds of pieces: the start of a string, some of its text, its end."""

_STRUCTURE = re.compile(rb'["{}\[\],:]')
_STOPS = re.compile(rb'["\\]')
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\?u?[dD]?[c-fC-F]?[0-9a-fA-F]{0,2}\Z")


class StringPiece(NamedTuple):
    """Part of a wanted string."""

    kind: int  # OPEN, TEXT or CLOSE
    text: bytes  # what is spelled
    offset: int  # the place in the JSON text where the piece begins
    one: bool = False  # the piece is an escape: all its bytes have that place


class Scan(NamedTuple):
    """The state of the scanner after some bytes."""

    mode: int = BETWEEN  # BETWEEN, VALUE, ASIDE or NAME
    frame: Container | None = None  # the innermost open container
    rest: bytes = b""  # the begin of an incomplete escape; in a name, the name so far


class StringFinder:
    """Finds string values, and names of members.

    Args:
        where: a glob over JSON pointers, `*` is any one part, `**` any number of them; None for all values.
        declared: names that are not wanted, all others are; None if no name is.
    """

    def __init__(self, where: str | None, declared: Iterable[str] | None = None) -> None:
        self._matches = None if where is None else _glob(where)
        self.declared = None if declared is None else tuple(sorted(set(declared)))

    def finds(self, pointer: str) -> bool:
        """Is a value at a JSON pointer wanted?"""
        return self._matches is None or _is_match(self._matches, pointer)

    def feed(self, scan: Scan, text: bytes, base: int) -> tuple[Scan, list[StringPiece]]:
        """The scan after further bytes, and the pieces of the wanted values.

        Args:
            base: the offset of the bytes in the whole text.
        """
        pieces: list[StringPiece] = []
        data, offset = scan.rest + text, 0
        base -= len(scan.rest)
        scan = Scan(scan.mode, scan.frame)
        while offset < len(data):
            read = self._between if scan.mode == BETWEEN else self._inside
            scan, offset = read(scan, data, offset, base, pieces)
        return scan, pieces

    def _between(self, scan: Scan, data: bytes, offset: int, base: int, pieces: list[StringPiece]) -> tuple[Scan, int]:
        """Reads up to and including the next quote, bracket, colon or comma."""
        frame, sign = scan.frame, _STRUCTURE.search(data, offset)
        if sign is None:
            return Scan(BETWEEN, frame), len(data)
        if sign[0] != b'"':
            return Scan(BETWEEN, _after_sign(frame, sign[0])), sign.end()
        if frame is not None and frame.key is None:
            return Scan(NAME, frame), sign.end()
        if self._matches is not None and not self.finds(pointer_of(path_of(frame))):
            return Scan(ASIDE, frame), sign.end()
        pieces.append(StringPiece(OPEN, b"", base + sign.end()))
        return Scan(VALUE, frame), sign.end()

    def _inside(self, scan: Scan, data: bytes, offset: int, base: int, pieces: list[StringPiece]) -> tuple[Scan, int]:
        """Reads up to and including the closing quote of a string, or to the end of the data."""
        mode, frame, start = scan.mode, scan.frame, offset
        while True:
            stop = _STOPS.search(data, offset)
            end = len(data) if stop is None else stop.start()
            if mode == NAME and self._is_wanted(data[start:end], whole=stop is not None and stop[0] == b'"'):
                mode, offset = VALUE, start
                pieces.append(StringPiece(OPEN, b"", base + start))
                continue
            if mode == VALUE and end > offset:
                pieces.append(StringPiece(TEXT, data[offset:end], base + offset))
            if stop is None:
                return Scan(mode, frame, data[start:] if mode == NAME else b""), end
            if stop[0] == b'"':
                if mode == VALUE:
                    pieces.append(StringPiece(CLOSE, b"", base + end))
                if frame is not None and frame.key is None:
                    frame = frame._replace(key=_name(data[start:end]))
                return Scan(BETWEEN, frame), end + 1
            escape = ESCAPE.match(data, end)
            if escape is None or (escape.end() == end + 6 and _HIGH.match(data, end)):  # more of it has to come
                return Scan(mode, frame, data[start if mode == NAME else end :]), len(data)
            if mode == VALUE:
                pieces.append(StringPiece(TEXT, decoded(escape[0]), base + end, one=True))
            offset = escape.end()

    def _is_wanted(self, spelled: bytes, *, whole: bool) -> bool:
        """Is a name wanted that begins so, whatever follows?"""
        if self.declared is None:
            return False
        name = _name(spelled)
        at = bisect_left(self.declared, name)
        nearest = self.declared[at] if at < len(self.declared) else None
        return name != nearest if whole else nearest is None or not nearest.startswith(name)


def _after_sign(frame: Container | None, sign: bytes) -> Container | None:
    """The innermost container after a bracket, colon or comma."""
    if sign in b"{[":
        return Container.opened(frame, is_object=sign == b"{")
    if frame is None or sign == b":":
        return frame
    return frame.parent if sign in b"}]" else frame.next()


@lru_cache(maxsize=4096)
def _name(spelled: bytes) -> str:
    """A name, or what is known of one whose last character is incomplete."""
    text = spelled.decode("utf-8", errors="ignore")
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _glob(where: str) -> re.Pattern[str]:
    """The pattern of pointers that match a glob."""
    parts = [re.escape(part).replace(r"\*\*", "\0").replace(r"\*", "[^/]*") for part in where.split("/")]
    return re.compile("/".join(parts).replace("/\0", "(?:/[^/]*)*"))


@lru_cache(maxsize=4096)
def _is_match(pattern: re.Pattern[str], pointer: str) -> bool:
    return pattern.fullmatch(pointer) is not None
