"""Caps on single values: they end the endless value of a model that is stuck. Read from the JSON text as it comes.

If a value grows beyond a cap of `Limits`, the token that does it is refused (see `budget`), and the value is closed.
A cap holds only if the value may be closed at once: what the schema requires is not capped.

Each count grows by at most one per byte. So at each place that was read it is known how many bytes may follow before a
cap can be exceeded, and these are not read: far from all caps a token costs one comparison.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

from structgen.options import Limits

NONE, STRING, SCALAR = range(3)
BLANKS = b" \n\t\r"
NUMBER = b"0123456789+-.eE"
ARRAY_CAPS = frozenset(("max_items", "max_equal_items"))

_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR = re.compile(rb"[-+.0-9a-zA-Z]*")
_MAY_BE_BLANK = BLANKS + b"\\nrt"
_DIGIT = re.compile(rb"[0-9]")


def in_escape(said: bytes) -> bool:
    """Does a text end in an odd number of backslashes, so within an escape?"""
    return (len(said) - len(said.rstrip(b"\\"))) % 2 == 1


class Level(NamedTuple):
    """An open container."""

    array: bool  # or an object
    start: int  # its first byte
    items: int  # complete items of an array
    equal: int  # how many of the last items are spelled alike
    last: tuple[int, int]  # where the last item starts and ends
    parent: Level | None  # the container around it


class CapState(NamedTuple):
    """The state behind the text that was read."""

    end: int  # bytes read
    kind: int  # STRING or SCALAR if the text ends within one, else NONE
    start: int  # the first byte of that value
    top: Level | None  # the innermost open container
    until: int = 0  # no text of at most `until` bytes that begins like this one exceeds a cap


class CapReader:
    """Watches one row's JSON text.

    Attributes:
        limits: the caps.
        until: a text of at most `until` bytes need not be read.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._characters = sys.maxsize if limits.max_characters is None else limits.max_characters + 1  # and a quote
        self._digits = sys.maxsize if limits.max_digits is None else limits.max_digits
        self._blanks = sys.maxsize if limits.max_blanks is None else limits.max_blanks
        self._items = [cap for cap in (limits.max_items, limits.max_equal_items) if cap is not None]
        self._states: list[CapState] = []
        self.until = 0
        self._full = -1  # the first byte of the array that has reached a cap
        self._add(CapState(0, NONE, 0, None), b"")

    def in_string(self, said: bytes | bytearray) -> bool:
        """Does the text end within a string or name?"""
        return _read_on(self._states[-1], said)[0].kind == STRING

    def read(self, said: bytes | bytearray, before: int) -> str | None:
        """Reads the new part of a text, and returns the name of the cap that it exceeds, if any.

        Args:
            before: the length of the text without its last token, which exceeds no cap.
        """
        if len(said) <= self.until:
            return None
        if self._states[-1].end < before:
            self._add(_read_on(self._states[-1], said[:before])[0], said[:before])
        state, continued = _read_on(self._states[-1], said)
        self._add(state, said)
        return self._exceeded(state, continued, said)

    def _add(self, state: CapState, said: bytes | bytearray) -> None:
        self.until = self._below_caps_until(state, said)
        self._states.append(state._replace(until=self.until))

    def _below_caps_until(self, state: CapState, said: bytes | bytearray) -> int:
        """See `CapState.until`."""
        string, scalar = (state.start if state.kind == kind else state.end for kind in (STRING, SCALAR))
        tail = said[-min(self._blanks, len(said)) - 1 :]
        blank = len(said) - len(tail) + len(tail.rstrip(_MAY_BE_BLANK))  # where the blanks at the end begin
        limits, level, items = self.limits, state.top, min(self._items, default=sys.maxsize)
        while level is not None:  # each open array may still begin so many items
            if level.array and limits.max_items is not None:
                items = min(items, limits.max_items - level.items)
            if level.array and limits.max_equal_items is not None:
                items = min(items, limits.max_equal_items - level.equal)
            level = level.parent
        of_items = state.end + max(items - 1, 0)
        return min(string + self._characters, scalar + self._digits, blank + self._blanks, of_items)

    def _exceeded(self, state: CapState, continued: Iterable[Level], said: bytes | bytearray) -> str | None:
        limits, length = self.limits, len(said) - state.start
        if state.kind == STRING and length > self._characters:
            return "max_characters"
        if state.kind == SCALAR and length > self._digits and len(_DIGIT.findall(said, state.start)) > self._digits:
            return "max_digits"
        if said[-1] in _MAY_BE_BLANK and _ends_blank(said, state.end, self._blanks):
            return "max_blanks"
        for array in continued:
            self._full = array.start
            if limits.max_items is not None and array.items >= limits.max_items:
                return "max_items"
            if limits.max_equal_items is not None and array.equal >= limits.max_equal_items:
                return "max_equal_items"
        return None

    def adds_items(self, length: int, said: bytes) -> bool:
        """Does the text behind the first `length` bytes add items to the array that has reached a cap?"""
        before = next(state for state in reversed(self._states) if state.end <= length)
        return any(array.start == self._full for array in _read_on(before, said)[1])

    def fork(self) -> CapReader:
        twin = copy(self)
        twin._states = self._states[:]
        return twin

    def truncate(self, length: int) -> None:
        """Goes back to the first `length` bytes."""
        while self._states[-1].end > length:
            self._states.pop()
        self.until = self._states[-1].until


def _read_on(state: CapState, said: bytes | bytearray) -> tuple[CapState, list[Level]]:
    """The state behind the whole text, and the arrays in which a comma announced another item."""
    offset, kind, start, top, _ = state
    continued: list[Level] = []
    while offset < len(said):
        if kind != NONE:
            offset = _end_of_value(kind, said, offset)
            is_over = offset < len(said) and (kind == SCALAR or said[offset] == 0x22)
            if not is_over:
                break
            offset += kind == STRING
            top, kind = _with_item(top, said, start, offset), NONE
        elif said[offset] in b" \n\t\r,:":
            if said[offset] == 0x2C and top is not None and top.array:
                continued.append(top)
            offset += 1
        elif said[offset] in b"]}":
            offset += 1
            if top is not None:
                top = _with_item(top.parent, said, top.start, offset)
        else:
            if said[offset] in b"[{":
                top = Level(said[offset] == 0x5B, offset, 0, 0, (0, 0), top)
            else:
                kind, start = STRING if said[offset] == 0x22 else SCALAR, offset
            offset += 1
    return CapState(offset, kind, start, top), continued


def _end_of_value(kind: int, said: bytes | bytearray, offset: int) -> int:
    """How far a string, number or word goes on. A backslash at the end is left for the byte behind it."""
    match = (_STRING if kind == STRING else _SCALAR).match(said, offset)
    return offset if match is None else match.end()


def _with_item(top: Level | None, said: bytes | bytearray, start: int, end: int) -> Level | None:
    """The container with one more item if it is an array, else as it is."""
    if top is None or not top.array:
        return top
    first, last = top.last
    again = top.items > 0 and said[first:last] == said[start:end]
    return top._replace(items=top.items + 1, equal=top.equal + 1 if again else 1, last=(start, end))


def _ends_blank(said: bytes | bytearray, end: int, cap: int) -> bool:
    """Does the text end in more than `cap` blanks and newlines, escaped ones included?

    A backslash behind them, at `end`, counts as the beginning of another one.
    """
    begun = end < len(said)
    offset, count = len(said) - begun, int(begun)
    while count <= cap and offset:
        if said[offset - 1] in BLANKS:
            offset -= 1
        elif offset > 1 and said[offset - 2] == 0x5C and said[offset - 1] in b"nrt":
            offset -= 2
        else:
            return False
        count += 1
    return count > cap
