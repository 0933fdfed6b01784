"""Exits: the characters that lead away from a state of a `CharDfa`.

Free text up to a stop stays in one state for most characters. So for a mask, a walk must only look at tokens with a
character that leads away. To find these tokens fast, each character belongs to a *bucket*, a bit of an int64. There is
a bucket for each letter (both cases), for the blank and for nearly each punctuation mark; one for the digits, one for
the line feed, one for the other control characters; and two for characters beyond ASCII: the blocks with Unicode's line
ends have their own, since the dot of a pattern takes all others.

In the middle of a stop, most characters lead to the same state as from the state of the free text.

Inside the quotes of a JSON string it is the same, except that the quote, the backslash and control characters always
lead to other states.
"""

from __future__ import annotations

import string

import numpy as np

from structgen.automaton.step import int64
from structgen.automaton.table_format import UNBOUNDED, Int32, Int64
from structgen.kernels import inner_kernel

BUCKETS = 64
_DIGITS, _FEED, _CONTROL, _MARKS, _WIDE, ODD = range(58, 64)
"""The last buckets. No character is in `ODD`: it marks what must be walked whatever it holds."""
_BEYOND_ASCII: Int32 = np.array(
    [(0x80, 0x1FFF, _WIDE), (0x2000, 0x2FFF, _MARKS), (0x3000, 0xD7FF, _WIDE), (0xE000, 0x10FFFF, _WIDE)], np.int32
)
"""int32[4, 3]: first and last code point, and their bucket. `_MARKS` are those that begin with the byte 0xE2."""


def _bucket_table() -> Int64:
    marks = " " + string.punctuation.replace("~", "")
    table = np.full(256, _CONTROL, np.int64)
    for number, letter in enumerate(string.ascii_lowercase):
        table[[ord(letter), ord(letter.upper())]] = number
    table[[ord(mark) for mark in marks]] = np.arange(26, 26 + len(marks))
    table[ord("~")] = table[ord("^")]
    table[[ord(digit) for digit in string.digits]] = _DIGITS
    table[ord("\n")] = _FEED
    table[128:] = _WIDE
    table[0xE2] = _MARKS
    return table


BIT_OF: Int64 = np.left_shift(np.int64(1), _bucket_table())
"""int64[256]: the bucket of a byte of UTF-8, as a bit; 0 for the bytes behind the first of a character."""
BIT_OF[0x80:0xC0] = 0
MAX_OTHERS = 16
"""The number of characters that may lead to other states than from the state of free text. All tokens that begin
with one of them are walked."""
WIDE_BITS = 1 << _MARKS | 1 << _WIDE
"""The buckets of the characters beyond ASCII."""
STOP_BITS: np.int64 = np.bitwise_or.reduce(BIT_OF[[c for c in range(128) if not chr(c).isalnum() and c != 0x20]])
"""The buckets of the characters that mostly end a text: all of ASCII but letters, digits and the blank."""
ODD_BIT: np.int64 = np.left_shift(np.int64(1), np.int64(ODD))
QUOTED_BITS: np.int64 = np.bitwise_or.reduce(BIT_OF[[*range(0x20), 0x22, 0x5C]])
"""Buckets of the characters that do not stand for themselves inside a JSON string."""


@inner_kernel
def _measure(bounds: Int32, classes: Int32, wides: Int32, held: Int64, sizes: Int64) -> None:
    """Write the buckets that each class holds, and its size: its ASCII characters, and its part of as many others."""
    for i in range(bounds.size):
        c, low = classes[i], int64(bounds[i])
        high = int64(bounds[i + 1]) - 1 if i + 1 < bounds.size else int64(0x10FFFF)
        for code in range(low, min(high, 0x7F) + 1):
            held[c] |= BIT_OF[code]
            sizes[c] += 1
        for k in range(_BEYOND_ASCII.shape[0]):
            if low <= _BEYOND_ASCII[k, 1] and high >= _BEYOND_ASCII[k, 0]:
                held[c] |= 1 << int64(_BEYOND_ASCII[k, 2])
    for k in range(wides.size):
        sizes[wides[k]] += 128 // wides.size


@inner_kernel
def write_exits(
    bounds: Int32, classes: Int32, nexts: Int32, wides: Int32, limits: Int32, quoted: int, spare: Int64, leads: Int64
) -> int:  # fmt: skip
    """Fill `leads`, int64[states, 2]: of state `q + 1`, the buckets of the characters that lead elsewhere, or nowhere,
    and `ODD`; and the state to which most characters lead, if they also lead from there to itself, and few others lead
    elsewhere than from there (0: there is none).

    Args:
        bounds, classes, nexts: of a `CharDfa`.
        wides: the classes of its characters beyond ASCII.
        limits: how often a state may lead to itself. No other state's mask tells what a run has counted.
        quoted: inside a JSON string, or plain text?
        spare: int64[3, .], all zero: for each class its buckets and its size, for each state its characters.

    Returns:
        The number of states with such a state.
    """
    held, sizes, votes = spare[0], spare[1], spare[2]
    _measure(bounds, classes, wides, held, sizes)
    for q in range(1, nexts.shape[0]):
        best = int64(0)
        leads[q - 1, 0] = ODD_BIT | QUOTED_BITS if quoted else ODD_BIT
        for c in range(nexts.shape[1]):
            t = int64(nexts[q, c])
            if t != q:
                leads[q - 1, 0] |= held[c]
            votes[t] += sizes[c]
            if votes[t] > votes[best]:
                best = t
        for c in range(nexts.shape[1]):
            votes[nexts[q, c]] = 0
        leads[q - 1, 1] = best
    homes: int = int64(0)
    for q in range(1, nexts.shape[0]):
        home, others = leads[q - 1, 1], int64(0)
        for c in range(nexts.shape[1]):
            others += sizes[c] if nexts[q, c] != nexts[home, c] else int64(0)
        counts = home != q and limits[q] != UNBOUNDED
        if home != 0 and (counts or leads[home - 1, 1] != home or others > MAX_OTHERS):
            leads[q - 1, 1] = 0
        homes += leads[q - 1, 1] != 0
    return homes
