"""Loops: does a text end in the same piece again and again, as that of a model that is stuck does?

A loop is a suffix of the text that has a period: each of its bytes equals the one `period` bytes before. It may be as
long as `allowed` says, which depends on its unit, the bytes of one period:

- a unit is said at least `TIMES` times, or `TIMES_OF_ITEMS` times where it is one or more items of an array. A chorus
  repeats a line four or six times, and a matrix of zeros has a row for each of its columns.
- lines of a string may be said `TIMES_OF_LINES` times in up to four times `max_repeated` bytes: the rows of a board, a
  table or CSV may be equal.
- the loop has at least `max_repeated` bytes without blanks. Rulers, the lines of tables and empty cells have fewer.
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

TIMES, TIMES_OF_ITEMS, TIMES_OF_LINES = 8, 16, 32
LOOPED_ITEMS = 3
TOKEN = 16
"""The most bytes by which a loop that was cut is shorter than its cap: those of a usual token."""
LONGEST = 1024
"""The most bytes of a unit that is looked for."""

_BLANKS = re.compile(rb"[ \n\t\r]|\\[nrt]")  # as escapes, too
_FILLING_ITEM = re.compile(rb',\s*("[^"\\]{0,6}"|[-+.0-9a-zA-Z]{1,8})')
_WORD_ITEM = re.compile(rb',\s*"[\w-]{7,12}"')
_END_OF_LINE = re.compile(rb"[^\"]*\\n[^\"]*")  # in a string: a quote ends it


def room(text: bytes | bytearray, most: int, *, items: bool = False) -> int:
    """How many bytes may follow a text before it can end in a loop that is too long; below 0 where it does already.

    Args:
        most: see `Limits(max_repeated=...)`.
        items: the text is that of an array, up to the end of an item. Else it is any text.
    """
    left = most - len(text)
    return left if left >= 0 else min([max(2, most // 2) // 2, *_left_of_loops(text, most, items=items)])


def was_cut(text: bytes | bytearray, most: int) -> bool:
    """Does a text, a whole string, end in a loop that its cap has cut: would the next token have made it too long?"""
    return len(text) > most - TOKEN and any(left < TOKEN for left in _left_of_loops(text, most, items=False))


def _left_of_loops(text: bytes | bytearray, most: int, *, items: bool) -> Iterator[int]:
    """For each period that the end of a text has, the bytes that may follow before its loop is too long."""
    window = max(2, most // 2)
    # A loop with a period in (window / 4, window / 2] has TIMES * period > 2 * window bytes.
    while window <= 2 * LONGEST and (window <= most // 2 or 2 * window < len(text)):
        end = text[-window - window // 2 :][::-1]
        period = end.find(end[:window], 1)
        if period > 0:
            may_have = allowed(bytes(text[-period:]), most, items=items)
            longest = min(len(text), may_have + 1)
            is_over = range(window + period, longest + 1)
            yield may_have - (
                is_over.start - 1 + bisect_left(is_over, True, key=lambda n: not _has_period(text, n, period))
            )
        window *= 2


def allowed(unit: bytes, most: int, *, items: bool = False) -> int:
    """How long a loop may be that repeats a unit."""
    if unit.endswith(b"\\"):  # before the letter of the escape, with which the unit begins
        unit = unit[-1:] + unit[:-1]
    size = len(_BLANKS.sub(b"", unit))
    if not size:
        return sys.maxsize  # blanks have a cap of their own
    length = (TIMES_OF_ITEMS if items else TIMES) * len(unit)
    if items:
        size = 2 if _FILLING_ITEM.fullmatch(unit) else 4 if _WORD_ITEM.fullmatch(unit) else size
    elif _END_OF_LINE.fullmatch(unit):
        length = max(length, min(TIMES_OF_LINES * len(unit), 4 * most))
    return max(length, -(-most * len(unit) // size))


def _has_period(text: bytes | bytearray, length: int, period: int) -> bool:
    return text[len(text) - length + period :] == text[len(text) - length : len(text) - period]
