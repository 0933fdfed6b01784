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
from functools import lru_cache
from typing import NamedTuple, TypeVar

from structgen.decoding.refusals.repetition import LOOPED_ITEMS, LoopBounds, room, was_cut
from structgen.decoding.refusals.transcript import Transcript
from structgen.options import LONGEST_JSON, Limits
from structgen.parts.part_reading import PartReading
from structgen.vocabulary import Vocabulary

T = TypeVar("T")

NONE, STRING, SCALAR = range(3)
BLANKS = b" \n\t\r"
NUMBER = b"0123456789+-.eE"
ANY = LoopBounds.within(None, LONGEST_JSON)

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
    looped: int = 0  # the last items of an array of which each has a string whose loop was cut
    cut: bool = False  # has any member such a string?


class CapState(NamedTuple):
    """The state after the text that was read."""

    end: int  # bytes read
    kind: int  # STRING or SCALAR if the text ends within one, else NONE
    start: int  # the first byte of that value
    top: Level | None  # the innermost open container
    until: int = 0  # no text of at most `until` bytes that begins like this one exceeds a cap
    far: int = 0  # nor does one of at most `far` bytes, but for digits and blanks


class Reached(NamedTuple):
    """What the end of a text has reached.

    Attributes:
        name: of the cap that it exceeds; None for none.
        array: the first byte of the array whose cap is exceeded; -1 if it is a value's own.
        bare: the text ends within a string without quotes.
    """

    name: str | None = None
    array: int = -1
    bare: bool = False


class CapReader:
    """Watches a JSON text. Its states are `CapState`s; only some tokens have one.

    Args:
        budget: of tokens: see `LoopBounds`.

    Attributes:
        limits: the caps.
    """

    def __init__(self, limits: Limits, budget: int = LONGEST_JSON) -> None:
        self.limits = limits
        self._characters = sys.maxsize if limits.max_characters is None else limits.max_characters + 1  # and a quote
        self._digits = sys.maxsize if limits.max_digits is None else limits.max_digits
        self._blanks = sys.maxsize if limits.max_blanks is None else limits.max_blanks
        self._loops = LoopBounds.within(limits.max_repeated, budget)
        self._items = sys.maxsize if limits.max_items is None else limits.max_items

        self._start = self._bounded(CapState(0, NONE, 0, None), b"")

    def start(self, prompt: Sequence[int]) -> CapState:
        return self._start

    def in_string(self, text: Transcript) -> bool:
        """Does the text end within a string or name?"""
        return _read_on(_last(text.states[self]), text.said)[0].kind == STRING

    def read(self, text: Transcript) -> Reached | None:
        """Reads on in a text that exceeded no cap before its last token. None if it is far from all caps."""
        states, said, count = text.states[self], text.said, len(text.tokens)
        state: CapState = states[next(reversed(states))]
        if len(said) <= state.until:
            return None
        if (until := min(state.far, len(said) + _spare(said, self._digits, self._blanks))) > len(said):
            states[count] = state._replace(until=until)
            return None
        before = text.said_before_last
        if state.end < before and next(reversed(states)) < count:
            state = states[count - 1] = self.after(state, said[:before])[0]
        states[count], reached = self.after(state, said)
        return reached

    def after(self, state: CapState, said: bytes | bytearray) -> tuple[CapState, Reached]:
        """The state after more of a text, and what that has reached."""
        after, continued = _read_on(state, said, self._loops)
        after = self._bounded(after, said)
        name, array = self._exceeded(after, continued, said)
        return after, Reached(name, array)

    def _bounded(self, state: CapState, said: bytes | bytearray) -> CapState:
        """The state with `until`, see `CapState`."""
        string = state.start if state.kind == STRING else state.end
        level, items = state.top, self._items
        while level is not None:  # each open array may still begin this many items
            if level.array:
                items = min(items, self._items - level.items) if level.looped < LOOPED_ITEMS - 1 else 0
            level = level.parent
        of_items = state.end + max(items - 1, 0)
        repeated = len(said) + max(room(said, self._loops), 0)  # a loop of items may be longer
        far = min(string + self._characters, repeated, of_items)
        return state._replace(until=min(far, len(said) + _spare(said, self._digits, self._blanks)), far=far)

    def _exceeded(self, state: CapState, continued: Iterable[Level], said: bytes | bytearray) -> tuple[str | None, int]:
        """The cap that a text exceeds, and the first byte of the array; see `Reached`."""
        length = len(said) - state.start
        if state.kind == STRING and length > self._characters:
            return "max_characters", -1
        if state.kind == STRING and room(said[state.start + 1 :], self._loops) < 0:
            return "max_repeated", -1
        if state.kind == SCALAR and length > self._digits and len(_DIGIT.findall(said, state.start)) > self._digits:
            return "max_digits", -1
        if said[-1] in _MAY_BE_BLANK and _ends_blank(said, state.end, self._blanks):
            return "max_blanks", -1
        for array in continued:
            too_long = array.items >= self._items
            if (
                too_long
                or array.looped >= LOOPED_ITEMS
                or room(said[array.start + 1 : array.end], self._loops, items=True) < 0
            ):
                return "max_items" if too_long else "max_repeated", array.start
        return None, -1

    def adds_items(self, text: Transcript, length: int, said: bytes, array: int) -> bool:
        """Does `said` add items to an array after the first `length` bytes of the text?"""
        return _adds_items(text.states[self], length, said, array)


class PartState(NamedTuple):
    """What was read of a text of a composition."""

    reading: PartReading  # up to the last place where it had to be known which part of the text is a value
    tokens: int = 0  # the number of tokens before that place
    until: int = 0  # as in `CapState`
    start: int = 0  # the first byte of the JSON value in which the text is
    inner: CapState | None = None  # after the text of that value; None outside of one
    close: tuple[int, bytes] | None = None  # where the end of a bare string began at a cap, and this end


class PartCaps:
    """Watches the values within a text of a composition, as `CapReader` does for JSON alone. States are `PartState`s.

    Which part of the text is a value is read only where a long run of digits, blanks or commas ends the text. Free text
    has no caps.

    Args:
        reading: that of the composition, before the first byte.
        vocabulary: that of the grammar, in which special tokens have a text.
        budget: of tokens: see `LoopBounds`.
    """

    def __init__(self, limits: Limits, reading: PartReading, vocabulary: Vocabulary, budget: int) -> None:
        self.limits, self._reading, self._vocabulary = limits, reading, vocabulary
        self._json, self._loops = json_caps(limits, budget), LoopBounds.within(limits.max_repeated, budget)
        caps = limits.max_digits, limits.max_blanks, limits.max_characters, limits.max_items
        self._digits, self._blanks, self._characters, self._items = (
            sys.maxsize if cap is None else cap for cap in caps
        )

    def start(self, prompt: Sequence[int]) -> PartState:
        return PartState(self._reading)

    def in_string(self, text: Transcript) -> bool:
        """Does the text end within a string or name in quotes?"""
        state = _last(text.states[self])
        return state.inner is not None and _read_on(state.inner, text.said[state.start :])[0].kind == STRING

    def read(self, text: Transcript) -> Reached | None:
        """See `CapReader.read`."""
        states, said, count = text.states[self], text.said, len(text.tokens)
        state = _last(states)
        if len(said) <= state.until:
            return None
        until = len(said) + (0 if state.close else self._below_caps_for(said))
        if until > len(said):
            states[count] = state._replace(until=until)
            return None
        state = self._before_last(state, text)
        states[count - 1] = state
        states[count], reached = self._reached(state, text)
        return reached

    def _before_last(self, state: PartState, text: Transcript) -> PartState:
        """The state before the last token: which part of the text is a value there, and the JSON of that value."""
        before, count = text.said_before_last, len(text.tokens) - 1
        pieces = b"".join(map(self._vocabulary.token, text.tokens[state.tokens : count]))
        reading = state.reading.feed(pieces) if state.tokens < count else state.reading
        state, value = state._replace(reading=reading, tokens=count), reading.open_value
        if state.close is not None:
            return state
        if value is None or not value[1]:
            return state._replace(inner=None)
        start = before - (reading.length - value[0])
        inner = self._json.start(()) if state.inner is None or start != state.start else state.inner
        if inner.end < before - start and len(text.said) - start > inner.until:
            inner = self._json.after(inner, text.said[start:before])[0]
        return state._replace(start=start, inner=inner)

    def _reached(self, state: PartState, text: Transcript) -> tuple[PartState, Reached]:
        """The state after the last token, and what that has reached; `state` has read the text before it."""
        said, value, before = text.said, state.reading.open_value, text.said_before_last
        if state.close is not None:
            return self._read_closing(state, text)
        if value is None:
            free = before + min(self._digits, self._blanks, self._loops.prose, self._items)
            return state._replace(until=free), Reached()
        if state.inner is None:
            start = before - (state.reading.length - value[0])
            too_long = len(said) - start > self._characters
            blank = _ends_blank(said[start:], len(said) - start, self._blanks)
            looping = room(said[start:], self._loops) < 0
            name = "max_characters" if too_long else "max_blanks" if blank else "max_repeated" if looping else None
            return state._replace(until=len(said)), Reached(name, bare=True)
        inner, start, reached = state.inner, state.start, Reached()
        if len(said) - start > inner.until:
            inner, reached = self._json.after(inner, said[start:])
        array = reached.array if reached.array < 0 else start + reached.array
        return state._replace(inner=inner, until=start + inner.until), reached._replace(array=array)

    def _read_closing(self, state: PartState, text: Transcript) -> tuple[PartState, Reached]:
        """Keeps the text to the end that closes a bare string, until it is over."""
        assert state.close is not None
        place, close = state.close
        if close.startswith(text.said[place:]):
            return state, Reached(bare=True)
        reading = state.reading.feed(self._vocabulary.token(text.tokens[-1]), keep=False)
        if reading.open_value is not None:
            return state, Reached("max_blanks", bare=True)
        return state._replace(close=None), Reached()

    def close_by(self, end: bytes, text: Transcript) -> bytes:
        """Returns what is left of the end that closes a bare string which has reached a cap.

        Args:
            end: the shortest end of the text.
        """
        states = text.states[self]
        state = _last(states)
        place, close = state.close or (len(text.said), end)
        states[len(text.tokens)] = state._replace(close=(place, close), until=0)
        return close[len(text.said) - place :]

    def _below_caps_for(self, said: bytes | bytearray) -> int:
        """Returns a number of bytes that may follow without exceeding a cap, whatever is a value; 0 for none."""
        left = (
            _spare(said, self._digits, self._blanks),
            room(said, self._loops),
            self._items - said.count(b","),
            self._characters - len(said),
        )
        return max(0, min(left))

    def adds_items(self, text: Transcript, length: int, said: bytes, array: int) -> bool:
        """See `CapReader.adds_items`."""
        states, start = self._inner(text)
        return _adds_items(states, length - start, said[start:], array - start)

    def _inner(self, text: Transcript) -> tuple[dict[int, CapState], int]:
        """The states within the JSON value in which the text is, and its first byte."""
        states, last = text.states[self], _last(text.states[self])
        if last.inner is None:
            return {}, 0
        inside = [each.inner for each in states.values() if each.inner is not None and each.start == last.start]
        return dict(enumerate([self._json.start(()), *inside])), last.start


json_caps = lru_cache(64)(CapReader)
"""The reader of the caps of some limits: it has no state of its own."""


def _spare(said: bytes | bytearray, digits: int, blanks: int) -> int:
    """How many bytes may follow a text before the number or the blanks at its end exceed their cap."""
    number, blank = (said[-min(cap, len(said)) - 1 :] for cap in (digits, blanks))
    return min(
        digits - len(number) + len(number.rstrip(NUMBER)), blanks - len(blank) + len(blank.rstrip(_MAY_BE_BLANK))
    )


def _last(states: dict[int, T]) -> T:
    return states[next(reversed(states))]


def _adds_items(states: dict[int, CapState], length: int, said: bytes, array: int) -> bool:
    before = next(state for state in reversed(states.values()) if state.end <= length)
    return any(each.start == array for each in _read_on(before, said)[1])


def _read_on(state: CapState, said: bytes | bytearray, loops: LoopBounds = ANY) -> tuple[CapState, list[Level]]:
    """The state after the whole text, and the arrays in which a comma announced another item.

    Args:
        loops: strings whose loops these have cut are counted.
    """
    offset, kind, start, top, *_ = state
    continued: list[Level] = []
    while offset < len(said):
        if kind != NONE:
            offset = _end_of_value(kind, said, offset)
            is_over = offset < len(said) and (kind == SCALAR or said[offset] == 0x22)
            if not is_over:
                break
            cut = kind == STRING and was_cut(said[start + 1 : offset], loops)
            offset += kind == STRING
            top, kind = _with_item(top, offset, cut=cut), NONE
        elif said[offset] in b" \n\t\r,:":
            if said[offset] == 0x2C and top is not None and top.array:
                continued.append(top)
            offset += 1
        elif said[offset] in b"]}":
            offset += 1
            if top is not None:
                top = _with_item(top.parent, offset, cut=top.cut)
        else:
            if said[offset] in b"[{":
                top = Level(said[offset] == 0x5B, offset, 0, offset, top)
            else:
                kind, start = STRING if said[offset] == 0x22 else SCALAR, offset
            offset += 1
    return CapState(offset, kind, start, top), continued


def _end_of_value(kind: int, said: bytes | bytearray, offset: int) -> int:
    """How far a string, number or word continues. A backslash at the end is left for the byte after it."""
    match = (_STRING if kind == STRING else _SCALAR).match(said, offset)
    return offset if match is None else match.end()


def _with_item(top: Level | None, end: int, *, cut: bool) -> Level | None:
    """The container with one more item if it is an array; `cut`: the item or member has a string whose loop was cut."""
    if top is None or not top.array:
        return top._replace(cut=True) if top is not None and cut else top
    return top._replace(items=top.items + 1, end=end, looped=top.looped + 1 if cut else 0, cut=top.cut or cut)


def _ends_blank(said: bytes | bytearray, end: int, cap: int) -> bool:
    """Does the text end in more than `cap` blanks and newlines, escaped ones included?

    A backslash after them, at `end`, counts as the beginning of another one.
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
