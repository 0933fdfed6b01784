"""Sets of characters for which the masks keep the tokens made of them alone."""

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
    ((0x00, 0xD7FF), (0xE000, 0x10FFFF)),
    ((0x00, 0xD7FF), (0xE000, 0x10FFFF)),
)  # fmt: skip
"""Sets of characters for which the masks keep the tokens made of them alone, small to large: digits, lower case,
letters, letters and digits, identifiers, those with hyphens, words, printable ASCII without quote and backslash, all
such text, such text without white space; the white space of JSON; last, all characters as they are spelled inside the
quotes of a JSON string, and of a name."""
BLANKS, IN_VALUE, IN_NAME = range(len(TEXT_CLASSES) - 3, len(TEXT_CLASSES))
NAMING = 6
"""The first classes have no characters but those of identifiers and the hyphen."""

class_bounds: Int32 = np.array([pair for ranges in TEXT_CLASSES for pair in ranges], np.int32)
class_ends: Int32 = np.cumsum([len(ranges) for ranges in TEXT_CLASSES]).astype(np.int32)
