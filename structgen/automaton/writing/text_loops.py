"""Exits: the characters that lead away from a state of a `CharDfa`.

Most characters of a free text lead from its state to the same state. So for a mask, a walk must look only at tokens
with a character that leads away. To find these tokens fast, each character belongs to a *bucket*, a bit of an int64.
There is a bucket for each letter (both cases), for the blank and for each punctuation mark (`~` and `^` share one); one
for the digits, one for the line feed, one for the other control characters; and two for characters beyond ASCII. The
blocks that contain Unicode's line ends have a bucket of their own, since the dot of a pattern takes all others.

In the middle of a stop, most characters lead back to the state of the free text: this state is the *home*. Example: a
text up to `END`. After `E`, all characters but `N` and `E` lead where they lead from the home.

Inside the quotes of a JSON string the same holds, except that the quote, the backslash and control characters always
lead to other states.
"""

from __future__ import annotations

import string

import numpy as np

from structgen.automaton.table_format import Int32, Int64
from structgen.kernels import Rows, inner_kernel

BUCKETS = 64
_DIGITS, _FEED, _CONTROL, _MARKS, _WIDE, ODD = range(58, 64)
"""The last buckets. No character is in `ODD`: it marks tokens that must be walked whatever characters they have."""
_BEYOND_ASCII: Int64 = np.array(
    [(0x80, 0x1FFF, 1 << _WIDE), (0x2000, 0x2FFF, 1 << _MARKS), (0x3000, 0xD7FF, 1 << _WIDE),
     (0xE000, 0x10FFFF, 1 << _WIDE)]
)  # fmt: skip
"""int64[4, 3]: first and last code point, and their bucket as a bit. UTF-8 spells the characters of `_MARKS` with the
lead byte 0xE2."""


def _bucket_table() -> Int64:
    """int64[256]: the bucket of each byte."""
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


BIT_OF: Int64 = np.left_shift(np.int64(1), _bucket_table()) * (np.arange(256) >> 6 != 2)
"""int64[256]: the bucket of each byte of UTF-8, as a bit. Bytes after the lead byte of a character have no bit."""
MAX_OTHERS = 16
"""A state has no home if more characters than this lead elsewhere than they lead from the home. All tokens that begin
with one of these characters are walked."""
WIDE_BITS = 1 << _MARKS | 1 << _WIDE
"""The buckets of the characters beyond ASCII."""
ODD_BIT: np.int64 = np.left_shift(np.int64(1), np.int64(ODD))
QUOTED_BITS: np.int64 = np.bitwise_or.reduce(BIT_OF[[*range(0x20), 0x22, 0x5C]])
"""Buckets of the characters that do not stand for themselves inside a JSON string."""


@inner_kernel
def _measure(bounds: Int32, classes: Int32, wides: Int32, held: Int64, sizes: Int64) -> None:
    """Write for each class the buckets of its characters as bits (`held`) and its size in characters (`sizes`).

    An ASCII character counts one. All characters beyond ASCII count 128 together, shared equally by their classes."""
    for i in range(bounds.size):
        c, low = classes[i], bounds[i]
        high = bounds[i + 1] - 1 if i + 1 < bounds.size else 0x10FFFF
        for code in range(low, min(high, 0x7F) + 1):
            held[c] |= BIT_OF[code]
            sizes[c] += 1
        for k in range(_BEYOND_ASCII.shape[0]):
            if low <= _BEYOND_ASCII[k, 1] and high >= _BEYOND_ASCII[k, 0]:
                held[c] |= _BEYOND_ASCII[k, 2]
    for k in range(wides.size):
        sizes[wides[k]] += 128 // wides.size


@inner_kernel
def write_exits(
    bounds: Int32, classes: Int32, nexts: Rows[Int32], wides: Int32, quoted: int, spare: Rows[Int64], leads: Rows[Int64]
) -> int:
    """Write for each state of a `CharDfa` the buckets of the characters that lead away from it, and its home.

    The *home* of a state is the state to which most characters lead from it. Most characters must also lead from the
    home to itself, and at most `MAX_OTHERS` characters may lead elsewhere than they lead from the home.

    Args:
        bounds, classes, nexts: the arrays of the DFA.
        wides: its classes with characters beyond ASCII.
        quoted: inside a JSON string, or plain text?
        spare: int64[3, .], all zero: the buckets of each class, the size of each class, and for each state the number
            of characters that lead to it.
        leads: out: int64[states, 2], row `q - 1` for state `q`: the buckets of the characters that lead to another
            state or nowhere, with `ODD`; and the home, 0 for none.

    Returns:
        The number of states with a home.
    """
    held, sizes, votes = spare[0], spare[1], spare[2]
    _measure(bounds, classes, wides, held, sizes)
    for q in range(1, nexts.shape[0]):
        best = 0
        leads[q - 1, 0] = ODD_BIT | QUOTED_BITS if quoted else ODD_BIT
        for c in range(nexts.shape[1]):
            t = nexts[q, c]
            if t != q:
                leads[q - 1, 0] |= held[c]
            votes[t] += sizes[c]
            if votes[t] > votes[best]:
                best = t
        for c in range(nexts.shape[1]):
            votes[nexts[q, c]] = 0
        leads[q - 1, 1] = best
    # So far, the second column is where most characters lead. What is no home is taken out.
    homes: int = 0
    for q in range(1, nexts.shape[0]):
        home, others = leads[q - 1, 1], 0
        for c in range(nexts.shape[1]):
            others += sizes[c] if nexts[q, c] != nexts[home, c] else 0
        if home != 0 and (leads[home - 1, 1] != home or others > MAX_OTHERS):
            leads[q - 1, 1] = 0
        homes += leads[q - 1, 1] != 0
    return homes
