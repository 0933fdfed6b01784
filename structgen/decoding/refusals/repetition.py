"""Loops: does a text end in the same piece again and again, as that of a model that is stuck does?

A loop is a suffix of the text that has a period: each of its bytes equals the one `period` bytes before. It may be as
long as `allowed` says, which depends on its unit, the bytes of one period:

- a unit is repeated at least `TIMES` times, or `TIMES_OF_ITEMS` times where it is one or more items of an array. A
  chorus repeats a line four or six times.
- the loop has at least `LoopBounds.prose` bytes without blanks, or `LoopBounds.data` where its unit is not prose. A
  dump, an array in C, a ruler or a row of a table is as regular as a loop; nobody repeats a sentence that often.
- rows that are not prose, which are lines of a string or items of an array, may be repeated `TIMES_OF_ROWS` times, and
  lines of prose, too, if they are short: a board, a table, CSV, a matrix.
- `LOOPED_ITEMS` items in a row that hold a string whose own loop was cut end their array, be they equal or not.
- an item that is a short value, like 0, "" or null, counts as two bytes, since data is padded with such items, and one
  that is a word, such as a label, as four.

The smallest period is found by a search for the last `window` bytes in the bytes before them. If they occur at a
distance of at most half their length, the nearest occurrence gives the smallest period (Fine and Wilf, 1965). Windows
of doubling lengths find all periods of at most `LONGEST` bytes, and what was found bounds the number of bytes that may
follow before any loop can be too long. So a text is searched once in 64 bytes, or where a loop is at its end.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

TIMES, TIMES_OF_ITEMS, TIMES_OF_ROWS = 8, 16, 32
LOOPED_ITEMS = 3
TOKEN = 16
"""The most bytes by which a loop that was cut is shorter than its cap: those of a usual token."""
LONGEST = 1024
"""The most bytes of a unit that is looked for."""
MORE = 4
"""How many times as long a loop may be whose unit is not prose; and how much longer again its rows."""

_BLANKS = re.compile(rb"[ \n\t\r]|\\[nrt]")  # as escapes, too
_FILLING_ITEM = re.compile(rb',\s*("[^"\\]{0,6}"|[-+.0-9a-zA-Z]{1,8})')
_WORD_ITEM = re.compile(rb',\s*"[\w-]{7,12}"')
_END_OF_LINE = re.compile(rb"[^\"]*\\n[^\"]*")  # in a string: a quote ends it
_NOT_PROSE = re.compile(rb"[^A-Za-z\x80-\xed ,.;:!?'\"\\\n-]|\\[^n]|\xe2[^\x80]")  # \xe2: symbols, and quotes
_TWO_WORDS = re.compile(rb"[A-Za-z\x80-\xed]{3}[.!?]? [A-Za-z\xc3-\xed]")


class LoopBounds(NamedTuple):
    """The most bytes of a loop, blanks not counted: see `Limits(max_repeated=...)`.

    Attributes:
        prose: of one whose unit is prose: words with blanks between them.
        data: of any other.
    """

    prose: int
    data: int

    @classmethod
    def within(cls, most: int | None, budget: int) -> LoopBounds:
        """Those of a text with a budget of tokens, of which a loop takes no large part: a token has a byte or more."""
        prose = sys.maxsize if most is None else most
        return cls(prose, max(prose, min(MORE * prose, budget // MORE)))


def room(text: bytes | bytearray, bounds: LoopBounds, *, items: bool = False) -> int:
    """How many bytes may follow a text before it can end in a loop that is too long; below 0 where it does already.

    Args:
        items: the text is that of an array, up to the end of an item. Else it is any text.
    """
    left = bounds.prose - len(text)
    return left if left >= 0 else min([max(2, bounds.prose // 2) // 2, *_left_of_loops(text, bounds, items=items)])


def was_cut(text: bytes | bytearray, bounds: LoopBounds) -> bool:
    """Does a text, a whole string, end in a loop that its cap has cut: would the next token have made it too long?"""
    return len(text) > bounds.prose - TOKEN and any(left < TOKEN for left in _left_of_loops(text, bounds, items=False))


def _left_of_loops(text: bytes | bytearray, bounds: LoopBounds, *, items: bool) -> Iterator[int]:
    """For each period that the end of a text has, the bytes that may follow before its loop is too long."""
    least = bounds.prose  # no shorter loop is too long
    window = max(2, least // 2)
    # A loop with a period in (window / 4, window / 2] has TIMES * period > 2 * window bytes.
    while window <= 2 * LONGEST and (window <= least // 2 or 2 * window < len(text)):
        end = text[-window - window // 2 :][::-1]
        period = end.find(end[:window], 1)
        if period > 0:
            may_have = allowed(bytes(text[-period:]), bounds, items=items)
            longest = min(len(text), may_have + 1)
            is_over = range(window + period, longest + 1)
            yield may_have - (
                is_over.start - 1 + bisect_left(is_over, True, key=lambda n: not _has_period(text, n, period))
            )
        window *= 2


def allowed(unit: bytes, bounds: LoopBounds, *, items: bool = False) -> int:
    """How long a loop may be that repeats a unit."""
    if unit.endswith(b"\\"):  # before the letter of the escape, with which the unit begins
        unit = unit[-1:] + unit[:-1]
    size = len(_BLANKS.sub(b"", unit))
    if not size:
        return sys.maxsize  # blanks have a cap of their own
    is_prose = _is_prose(unit)
    most, times = bounds.prose if is_prose else bounds.data, TIMES_OF_ITEMS if items else TIMES
    if not is_prose if items else _END_OF_LINE.fullmatch(unit) is not None:
        times = max(times, min(TIMES_OF_ROWS, MORE * most // size))
    if items:
        size = 2 if _FILLING_ITEM.fullmatch(unit) else 4 if _WORD_ITEM.fullmatch(unit) else size
    return max(times * len(unit), -(-most * len(unit) // size))


def _is_prose(unit: bytes) -> bool:
    repeated = unit + unit
    return _TWO_WORDS.search(repeated) is not None and _NOT_PROSE.search(repeated) is None


def _has_period(text: bytes | bytearray, length: int, period: int) -> bool:
    return text[len(text) - length + period :] == text[len(text) - length : len(text) - period]
