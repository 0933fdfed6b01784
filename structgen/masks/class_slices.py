"""Tokens made of one class of characters alone (see `TEXT_CLASSES`).

In a state from which any number of letters may follow, one row of a mask holds all tokens of letters, and a walk leaves
out the subtrees of the trie that hold nothing else (`ClassSlice`). But the first character of most tokens is of another
class: a grammar treats a space or a bracket separately, and a name begins with a letter but goes on with digits too. So
the tokens are also sorted by their first byte and the class of the other bytes (`RestSlice`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import Int32
from structgen.automaton.writing.text_classes import IN_VALUE, NAMING, TEXT_CLASSES
from structgen.kernels import kernel
from structgen.masks.string_slices import IMPURE, NEVER, Uint8, Uint32, covered
from structgen.masks.words import pack, packed
from structgen.vocabulary import Vocabulary

Uint16 = npt.NDArray[np.uint16]

LENGTHS = 21
"""Each length below this has its own row (`Whitespace.FLEXIBLE` needs them); row `LENGTHS` is for any length."""
ANY_LENGTH = 254
"""Stands for this length and all greater ones; `IMPURE` is one more."""
MANY_IDS = 1024
"""With this many tokens or more, a row of a mask is faster than a list of ids."""
_LONGEST_RUN = 65535
"""The largest uint16; a longer run is stored as several."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassSlice:
    """Whole tokens by class and length.

    For the classes inside quotes, a token that closes the string is impure, and one that cannot stand there has length
    0.
    """

    rows: Uint32  # uint32[classes, LENGTHS + 1, words]: the tokens of the class with at most that many characters
    counts: Int32  # int32[classes, LENGTHS + 1]: how many these are, and those of length 0
    cover: Uint8  # uint8[classes, trie nodes]: the longest token of a subtree; `IMPURE` if one has other characters

    @staticmethod
    def build(
        vocabulary: Vocabulary, characters: TokenCharacters, nodes: Int32, quoted: list[tuple[Int32, Int32]]
    ) -> ClassSlice:
        """From a trie's nodes (see `string_slices.HEAD`), and the results of `in_quotes` for values and for names."""
        ends_line = _that_end_lines(vocabulary.data, vocabulary.offsets)
        in_strings = [_quoted_lengths(*each, ends_line) for each in quoted]
        lengths = np.concatenate([characters.lengths(IN_VALUE), in_strings])
        return ClassSlice(*_class_rows(lengths), covered(nodes, lengths))


@dataclass(frozen=True, slots=True, eq=False)
class RestSlice:
    """Tokens of several bytes by their first byte and the class of the other bytes, for the first `NAMING` classes.

    Attributes:
        ids: int32[.]: tokens, by class and then by first byte.
        starts: int32[NAMING, 257]: `ids[starts[k, b]:starts[k, b + 1]]` are those of class `k` with first byte `b`.
        cover: uint8[NAMING, trie nodes]: 1 where the tokens of a subtree have only characters of the class behind their
            first byte; else `IMPURE`.
        rows: uint32[., words]: the tokens of a class and a first byte, if there are `MANY_IDS` or more.
        row_of: int32[NAMING, 256]: the number of that row, or -1.
    """

    ids: Int32
    starts: Int32
    cover: Uint8
    rows: Uint32
    row_of: Int32

    @staticmethod
    def build(vocabulary: Vocabulary, characters: TokenCharacters, nodes: Int32) -> RestSlice:
        """From a trie's nodes (see `string_slices.HEAD`)."""
        data, offsets = vocabulary.data, vocabulary.offsets
        sizes = np.diff(offsets)
        first = np.full(len(sizes), 256)
        first[sizes > 0] = data[offsets[:-1][sizes > 0]]
        lengths = characters.lengths(NAMING, behind_first_byte=True)
        order = np.argsort(first, kind="stable").astype(np.int32)
        kept = [order[row[order] != IMPURE] for row in lengths]
        starts = np.stack([np.searchsorted(first[ids], np.arange(257)) for ids in kept])
        starts += np.cumsum([0, *map(len, kept[:-1])])[:, np.newaxis]
        marks = np.where(lengths == IMPURE, IMPURE, 1).astype(np.uint8)
        ids = np.concatenate(kept)
        counts = np.diff(starts, axis=1)
        rows = np.zeros((int((counts >= MANY_IDS).sum()), vocabulary.words), np.uint32)
        row_of = np.full(counts.shape, -1, np.int32)
        for n, (k, byte) in enumerate(np.argwhere(counts >= MANY_IDS).tolist()):
            row_of[k, byte] = n
            rows[n] = pack(ids[starts[k, byte] : starts[k, byte + 1]], len(sizes))
        return RestSlice(ids, starts.astype(np.int32), covered(nodes, marks), rows, row_of)


class TokenCharacters:
    """The characters of all tokens of a vocabulary. A byte that belongs to no character counts as one of no class."""

    def __init__(self, data: Uint8, offsets: Int32) -> None:
        classes_of = np.zeros(0x110000, np.uint16)  # of each code point, as bits
        for k, ranges in enumerate(TEXT_CLASSES[:IN_VALUE]):
            for first, last in ranges:
                classes_of[first : last + 1] |= 1 << k
        # A byte 0xFF behind each token, which reads as U+DCFF. Within a token 0xFE stands for it: both are no UTF-8.
        parted = np.insert(np.minimum(data, 0xFE), offsets[1:], 0xFF).tobytes().decode("utf-8", "surrogateescape")
        points = np.array([parted]).view(np.uint32)
        self._ends = np.flatnonzero(points == 0xDCFF)
        self._starts = np.concatenate([[0], self._ends[:-1] + 1])
        self._classes = classes_of[points]
        first = points[self._starts]
        self._of_one_byte = (first < 0x80) | (first >> 8 == 0xDC)

    def lengths(self, classes: int, *, behind_first_byte: bool = False) -> Uint8:
        """uint8[classes, tokens]: the characters of each token, at most `ANY_LENGTH`; `IMPURE` if it has none,
        or others than those of the class."""
        starts = self._starts + ((self._ends > self._starts) if behind_first_byte else 0)
        sizes = self._ends - starts
        shared = np.bitwise_and.reduceat(self._classes, np.ravel([starts, self._ends], "F"))[::2]
        shared[(sizes == 0) | (behind_first_byte & ~self._of_one_byte)] = 0
        is_pure = shared >> np.arange(classes, dtype=np.uint16)[:, np.newaxis] & 1 != 0
        return np.where(is_pure, np.minimum(sizes, ANY_LENGTH), IMPURE).astype(np.uint8)


def _quoted_lengths(needs: Int32, closes: Int32, ends_line: npt.NDArray[np.bool_]) -> Uint8:
    """uint8[tokens]: the characters of each token inside a string; 0 if it cannot stand there, `IMPURE` if it closes
    the string or may end a line."""
    lengths = np.where(needs == NEVER, 0, np.where(ends_line, IMPURE, np.minimum(needs, ANY_LENGTH)))
    return np.where(closes[:, 0] > 0, IMPURE, lengths).astype(np.uint8)


def _that_end_lines(data: Uint8, offsets: Int32) -> npt.NDArray[np.bool_]:
    """bool[tokens]: may the token hold the end of a line, as it is spelled inside quotes?"""
    places = [match.start() for match in re.finditer(rb"\\[nru]|\xe2\x80[\xa8\xa9]", data.tobytes())]
    ends_line = np.zeros(len(offsets) - 1, np.bool_)
    ends_line[np.searchsorted(offsets, places, side="right") - 1] = True
    return ends_line


def _class_rows(lengths: Uint8) -> tuple[Uint32, Int32]:
    """The rows and counts of a `ClassSlice`."""
    limits = [*range(LENGTHS), ANY_LENGTH]
    rows = [[packed((row > 0) & (row <= limit)) for limit in limits] for row in lengths]
    counts = [[np.count_nonzero(row <= limit) if limit else 0 for limit in limits] for row in lengths]
    return np.array(rows), np.array(counts, np.int32)


@kernel
def count_runs(covers: Uint8, runs: Uint16) -> None:
    """Fill `runs`, uint16[covers, nodes]: how many nodes in a row, from each one on, are not `IMPURE` in a cover.

    A walk may skip them all at once: the ancestors of an impure node are impure too, and were met before it.
    """
    for k in range(covers.shape[0]):
        run = 0
        for i in range(covers.shape[1] - 1, -1, -1):
            run = 0 if covers[k, i] == IMPURE else run + 1 if run < _LONGEST_RUN else run
            runs[k, i] = run
