"""Text classes: sets of characters. For each set, the masks know the tokens that consist of its characters only."""

from __future__ import annotations

import numpy as np

from structgen.automaton.table_format import Int32

TEXT_CLASSES: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0x30, 0x39),),
    ((0x61, 0x7A),),
    ((0x41, 0x5A), (0x61, 0x7A)),
    ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    ((0x2D, 0x2D), (0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    ((0x20, 0x20), (0x41, 0x5A), (0x61, 0x7A)),
    ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E)),
    ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF)),
    (
        (0x21, 0x21), (0x23, 0x5B), (0x5D, 0x9F), (0xA1, 0x167F), (0x1681, 0x1FFF), (0x200B, 0x2027), (0x202A, 0x202E),
        (0x2030, 0x205E), (0x2060, 0x2FFF), (0x3001, 0xD7FF), (0xE000, 0xFEFE), (0xFF00, 0x10FFFF),
    ),
    ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)),
    ((0x00, 0x09), (0x0B, 0x0C), (0x0E, 0x2027), (0x202A, 0xD7FF), (0xE000, 0x10FFFF)),
    ((0x00, 0x09), (0x0B, 0x0C), (0x0E, 0x2027), (0x202A, 0xD7FF), (0xE000, 0x10FFFF)),
)  # fmt: skip
"""Each class as `(first, last)` spans of code points. In their order, small to large: digits; lower case; letters;
letters and digits; characters of identifiers; these and the hyphen; letters and the blank; printable ASCII, and all
characters from the blank on, without the quote and the backslash; the latter without white space. Then: the white space
of JSON; all characters but line ends, as a JSON string spells them; the same, as a name spells them."""
BLANKS, IN_VALUE, IN_NAME = range(len(TEXT_CLASSES) - 3, len(TEXT_CLASSES))
"""The last three classes. A lifted `CharDfa` uses one of them: BLANKS in plain text, the others inside quotes."""
NAMING = 6
"""The first six classes have only characters of identifiers and the hyphen."""

ESCAPED: tuple[tuple[int, int], ...] = (
    (0x00, 0x1F), (0x22, 0x22), (0x26, 0x27), (0x2B, 0x2B), (0x2F, 0x2F), (0x3C, 0x3E), (0x5C, 0x5C), (0x60, 0x60),
    (0x7F, 0xD7FF), (0xE000, 0xFFFF),
)  # fmt: skip
"""The characters of one UTF-16 unit that `\\uXXXX` may spell in a string value, as `(first, last)`: the control
characters, those beyond ASCII, and the signs of ASCII that some JSON writer escapes. The letters, the digits and the
other signs stand for themselves: no writer escapes them."""

# The spans of all classes one after another, int32[., 2], and where the spans of each class end, int32[classes].
class_bounds: Int32 = np.array([pair for ranges in TEXT_CLASSES for pair in ranges], np.int32)
class_ends: Int32 = np.cumsum([len(ranges) for ranges in TEXT_CLASSES]).astype(np.int32)
