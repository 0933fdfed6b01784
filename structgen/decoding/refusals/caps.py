"""Caps on single values: they end the endless value of a model that is stuck. Read from the text as it comes.

If a value grows beyond a cap of `Limits`, the token that does it is refused (see `budget`), and the value is closed.
A cap holds only if the value may be closed at once: what the schema requires is not capped.

Each count grows by at most one per byte. So at each place that was read it is known how many bytes may follow before a
cap can be exceeded, and these are not read: far from all caps a token costs one comparison.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

from structgen.decoding.refusals.repetition import room
from structgen.options import Limits
from structgen.parts.part_reading import PartReading
from structgen.vocabulary import Vocabulary

NONE, STRING, SCALAR = range(3)
BLANKS = b" \n\t\r"
NUMBER = b"0123456789+-.eE"
MAX_DEPTH = "max_depth"

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
    end: int  # the byte after the last of them
    parent: Level | None  # the container around it
    depth: int  # how many containers are open with it


class CapState(NamedTuple):
    """The state behind the text that was read."""

    end: int  # bytes read
    kind: int  # STRING or SCALAR if the text ends within one, else NONE
    start: int  # the first byte of that value
    top: Level | None  # the innermost open container
    deepest: int = 0  # the most containers that were open in the part that was read last
    until: int = 0  # no text of at most `until` bytes that begins like this one exceeds a cap


class CapReader:
    """Watches one row's JSON text.

    Attributes:
        limits: the caps.
        until: a text of at most `until` bytes need not be read.
        bare: does the text end within a string without quotes?
        array: the first byte of the array whose cap was exceeded last; -1 if it was a value's own.
    """

    bare = False

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._characters = sys.maxsize if limits.max_characters is None else limits.max_characters + 1  # and a quote
        self._digits = sys.maxsize if limits.max_digits is None else limits.max_digits
        self._blanks = sys.maxsize if limits.max_blanks is None else limits.max_blanks
        self._repeated = sys.maxsize if limits.max_repeated is None else limits.max_repeated
        self._items = sys.maxsize if limits.max_items is None else limits.max_items
        self._deep = limits.max_depth // 2
        self._states: list[CapState] = []
        self.until = 0
        self.array = -1
        self._add(CapState(0, NONE, 0, None), b"")

    def in_string(self, said: bytes | bytearray) -> bool:
        """Does the text end within a string or name?"""
        return _read_on(self._states[-1], said)[0].kind == STRING

    def read(self, said: bytes | bytearray, before: int, tokens: Sequence[int] = ()) -> str | None:
        """Reads the new part of a text, and returns the name of the cap that it exceeds, if any.

        Args:
            before: the length of the text without its last token, which exceeds no cap.
            tokens: those of the text; JSON alone does not need them.
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
        level, items = state.top, self._items
        while level is not None:  # each open array may still begin so many items
            if level.array:
                items = min(items, self._items - level.items)
            level = level.parent
        of_items = state.end + max(items - 1, 0)
        of_depth = state.end + self._deep - (0 if state.top is None else state.top.depth)
        repeated = len(said) + max(room(said, self._repeated), 0)  # a loop of items may be longer
        return min(string + self._characters, scalar + self._digits, blank + self._blanks, repeated, of_items, of_depth)

    def _exceeded(self, state: CapState, continued: Iterable[Level], said: bytes | bytearray) -> str | None:
        length, self.array = len(said) - state.start, -1
        if state.deepest > self.limits.max_depth:
            return MAX_DEPTH
        if state.kind == STRING and length > self._characters:
            return "max_characters"
        if state.kind == STRING and room(said[state.start + 1 :], self._repeated) < 0:
            return "max_repeated"
        if state.kind == SCALAR and length > self._digits and len(_DIGIT.findall(said, state.start)) > self._digits:
            return "max_digits"
        if said[-1] in _MAY_BE_BLANK and _ends_blank(said, state.end, self._blanks):
            return "max_blanks"
        for array in continued:
            too_long = array.items >= self._items
            if too_long or room(said[array.start + 1 : array.end], self._repeated, items=True) < 0:
                self.array = array.start
                return "max_items" if too_long else "max_repeated"
        return None

    @property
    def is_deep(self) -> bool:
        """Are so many containers open that the end of the text may exceed `max_depth`?"""
        top = self._states[-1].top
        return top is not None and top.depth > self._deep

    def deepest(self, said: bytes | bytearray, end: bytes) -> int:
        """The most containers that are open at once in the end of a text."""
        before = next(state for state in reversed(self._states) if state.end <= len(said))
        return _read_on(before, said + end)[0].deepest

    def adds_items(self, length: int, said: bytes) -> bool:
        """Does the text behind the first `length` bytes add items to the array that has reached a cap?"""
        before = next(state for state in reversed(self._states) if state.end <= length)
        return any(array.start == self.array for array in _read_on(before, said)[1])

    def fork(self) -> CapReader:
        twin = copy(self)
        twin._states = self._states[:]
        return twin

    def truncate(self, length: int, count: int = 0) -> None:
        """Goes back to the first `length` bytes, which are `count` tokens."""
        while self._states[-1].end > length:
            self._states.pop()
        self.until = self._states[-1].until


class PartCaps:
    """Watches the values within one row's text of a composition, as `CapReader` does for JSON alone.

    Which part of the text is a value is read only where a long run of digits, blanks or commas ends the text. Free text
    has no caps.

    Args:
        reading: that of the composition, before the first byte.
        vocabulary: that of the grammar, in which special tokens have a text.
    """

    def __init__(self, limits: Limits, reading: PartReading, vocabulary: Vocabulary) -> None:
        self.limits, self._vocabulary = limits, vocabulary
        caps = limits.max_digits, limits.max_blanks, limits.max_repeated, limits.max_characters, limits.max_items
        bounds = (sys.maxsize if cap is None else cap for cap in caps)
        self._digits, self._blanks, self._repeated, self._characters, self._items = bounds
        self._deep = limits.max_depth // 2
        self._readings: list[tuple[int, PartReading]] = [(0, reading)]  # behind so many tokens
        self._start, self.bare = 0, False
        self._close: tuple[int, bytes] | None = None  # where the end of a bare string began at a cap, and this end
        self._inner: CapReader | None = None
        self.until = 0

    def in_string(self, said: bytes | bytearray) -> bool:
        """Does the text end within a string or name in quotes?"""
        return self._inner is not None and self._inner.in_string(said[self._start :])

    def read(self, said: bytes | bytearray, before: int, tokens: Sequence[int]) -> str | None:
        """Returns the name of the cap that a text exceeds, if any. See `CapReader.read`."""
        if len(said) <= self.until:
            return None
        self.until = len(said) + (0 if self._close else self._below_caps_for(said))
        if self.until > len(said):
            return None
        reading = self._reading_of(tokens[:-1])
        if self._close is not None:
            return self._read_closing(said, reading.feed(self._vocabulary.token(tokens[-1]), keep=False))
        value = reading.open_value
        if value is None:
            self._inner = None
            self.until = before + min(self._digits, self._blanks, self._repeated, self._items, self._deep)
            return None
        offset, is_json = value
        start = before - (reading.length - offset)
        self.bare = not is_json
        if self.bare:
            self._inner = None
            too_long = len(said) - start > self._characters
            blank = _ends_blank(said[start:], len(said) - start, self._blanks)
            looping = room(said[start:], self._repeated) < 0
            return "max_characters" if too_long else "max_blanks" if blank else "max_repeated" if looping else None
        if self._inner is None or start != self._start:
            self._start, self._inner = start, CapReader(self.limits)
        name = self._inner.read(said[start:], before - start)
        self.until = start + self._inner.until
        return name

    def _read_closing(self, said: bytes | bytearray, reading: PartReading) -> str | None:
        """Keeps the text to the end that closes a bare string, until it is over."""
        assert self._close is not None
        place, close = self._close
        if close.startswith(said[place:]):
            return None
        if reading.open_value is not None:
            return "max_blanks"
        self._close = None
        return None

    def close_by(self, end: bytes, said: bytes | bytearray) -> bytes:
        """Returns what is left of the end that closes a bare string which has reached a cap.

        Args:
            end: the shortest end of the text.
        """
        if self._close is None:
            self._close = len(said), end
        return self._close[1][len(said) - self._close[0] :]

    def _below_caps_for(self, said: bytes | bytearray) -> int:
        """Returns a number of bytes that may follow without exceeding a cap, whatever is a value; 0 for none."""
        number, blank = (said[-min(cap, len(said)) - 1 :] for cap in (self._digits, self._blanks))
        left = (
            self._digits - len(number) + len(number.rstrip(NUMBER)),
            self._blanks - len(blank) + len(blank.rstrip(_MAY_BE_BLANK)),
            room(said, self._repeated),
            self._items - said.count(b","),
            self._deep - sum(map(said.count, b"[{")) + sum(map(said.count, b"]}")),
            self._characters - len(said),
        )
        return max(0, min(left))

    def _reading_of(self, tokens: Sequence[int]) -> PartReading:
        count, reading = self._readings[-1]
        if count < len(tokens):
            reading = reading.feed(b"".join(map(self._vocabulary.token, tokens[count:])))
            self._readings.append((len(tokens), reading))
        return reading

    @property
    def array(self) -> int:
        """See `CapReader.array`; the byte is one of the whole text."""
        return -1 if self._inner is None or self._inner.array < 0 else self._start + self._inner.array

    @property
    def is_deep(self) -> bool:
        """See `CapReader.is_deep`."""
        return self._inner is not None and self._inner.is_deep

    def deepest(self, said: bytes | bytearray, end: bytes) -> int:
        """See `CapReader.deepest`."""
        return 0 if self._inner is None else self._inner.deepest(said[self._start :], end)

    def adds_items(self, length: int, said: bytes) -> bool:
        """See `CapReader.adds_items`."""
        assert self._inner is not None, "only JSON has items"
        return self._inner.adds_items(length - self._start, said[self._start :])

    def fork(self) -> PartCaps:
        twin = copy(self)
        twin._readings = self._readings[:]
        twin._inner = None if self._inner is None else self._inner.fork()
        return twin

    def truncate(self, length: int, count: int) -> None:
        """Goes back to the first `length` bytes, which are `count` tokens."""
        while self._readings[-1][0] > count:
            self._readings.pop()
        if self._close is not None and self._close[0] > length:
            self._close = None
        if self._inner is not None and self._start > length:
            self._inner = None
        if self._inner is not None:
            self._inner.truncate(length - self._start)
        self.until = 0


def _read_on(state: CapState, said: bytes | bytearray) -> tuple[CapState, list[Level]]:
    """The state behind the whole text, and the arrays in which a comma announced another item."""
    offset, kind, start, top, _, _ = state
    deepest = 0 if top is None else top.depth
    continued: list[Level] = []
    while offset < len(said):
        if kind != NONE:
            offset = _end_of_value(kind, said, offset)
            is_over = offset < len(said) and (kind == SCALAR or said[offset] == 0x22)
            if not is_over:
                break
            offset += kind == STRING
            top, kind = _with_item(top, offset), NONE
        elif said[offset] in b" \n\t\r,:":
            if said[offset] == 0x2C and top is not None and top.array:
                continued.append(top)
            offset += 1
        elif said[offset] in b"]}":
            offset += 1
            if top is not None:
                top = _with_item(top.parent, offset)
        else:
            if said[offset] in b"[{":
                top = Level(said[offset] == 0x5B, offset, 0, offset, top, 1 if top is None else top.depth + 1)
                deepest = max(deepest, top.depth)
            else:
                kind, start = STRING if said[offset] == 0x22 else SCALAR, offset
            offset += 1
    return CapState(offset, kind, start, top, deepest), continued


def _end_of_value(kind: int, said: bytes | bytearray, offset: int) -> int:
    """How far a string, number or word goes on. A backslash at the end is left for the byte behind it."""
    match = (_STRING if kind == STRING else _SCALAR).match(said, offset)
    return offset if match is None else match.end()


def _with_item(top: Level | None, end: int) -> Level | None:
    """The container with one more item if it is an array, else as it is."""
    return top if top is None or not top.array else top._replace(items=top.items + 1, end=end)


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
