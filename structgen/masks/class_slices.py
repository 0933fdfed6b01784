"""Tokens made of one class of characters alone (`TEXT_CLASSES`).

In a state from which any number of letters may follow, all tokens of letters are one row of a mask, and a walk leaves
out the subtrees of the trie that hold nothing else (`ClassSlice`). Most tokens do not begin with what they go on with,
though: a blank or a bracket is something of its own to a grammar, and a name begins with a letter but goes on with
digits as well. So the tokens are also kept by their first byte and the class of all others (`RestSlice`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import int64
from structgen.automaton.table_format import Int32
from structgen.automaton.writing.text_classes import IN_VALUE, NAMING, TEXT_CLASSES, class_bounds, class_ends
from structgen.kernels import inner_kernel, kernel
from structgen.masks.string_slices import HAS_TWIN, IMPURE, NEVER, SKIP, TOKEN, Uint8, Uint32, pack

Uint16 = npt.NDArray[np.uint16]

LENGTHS = 21
"""Lengths below this are told apart, those of `Whitespace.FLEXIBLE` among them; row `LENGTHS` is any length."""
ANY_LENGTH = 254
"""Stands for this length and all above; `IMPURE` is one more."""
MANY_IDS = 1024
"""From this number of tokens on, a row of a mask is faster than their ids."""
_ALL_CLASSES = (1 << len(TEXT_CLASSES)) - 1
_LONGEST_RUN = 65535
"""The largest uint16; what is left of a longer run is another one."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassSlice:
    """Whole tokens by class and length.

    Attributes:
        rows: uint32[classes, LENGTHS + 1, words]: the tokens of at most that length.
        counts: int32[classes, LENGTHS + 1]: how many these are, and those of length 0.
        cover: uint8[classes, trie nodes]: the longest token of a subtree in characters of the class; `IMPURE` when one
            has others. Inside quotes those that close the string have; what cannot stand there has length 0.
    """

    rows: Uint32
    counts: Int32
    cover: Uint8

    @staticmethod
    def build(data: Uint8, offsets: Int32, nodes: Int32, words: int, quoted: list[tuple[Int32, Int32]]) -> ClassSlice:
        """From the bytes of all tokens, as a `Vocabulary` has them, and what `in_quotes` finds of values and names."""
        ends_line = _that_end_lines(data, offsets)
        told = [_quoted_lengths(*each, ends_line) for each in quoted]
        lengths = np.concatenate([lengths_by_class(data, offsets, IN_VALUE), told])
        return ClassSlice(*_class_rows(lengths, words), covered(nodes, lengths))


@dataclass(frozen=True, slots=True, eq=False)
class RestSlice:
    """Tokens of several bytes by the first one, and the class of what is behind it; the first `NAMING` classes.

    Attributes:
        ids: int32[.]: tokens, by class and then by first byte.
        starts: int32[NAMING, 257]: those of a class with first byte `b` are `ids[starts[k, b]:starts[k, b + 1]]`.
        cover: uint8[NAMING, trie nodes]: 1 where all tokens of a subtree are of the class behind their first byte;
            `IMPURE` where one is not.
        rows: uint32[., words]: where they are `MANY_IDS` or more, the tokens of a class and a first byte.
        row_of: int32[NAMING, 256]: which row these are, or -1.
    """

    ids: Int32
    starts: Int32
    cover: Uint8
    rows: Uint32
    row_of: Int32

    @staticmethod
    def build(data: Uint8, offsets: Int32, nodes: Int32, words: int) -> RestSlice:
        """From the bytes of all tokens."""
        sizes = np.diff(offsets)
        heads = offsets[:-1][sizes > 0]
        first = np.full(len(sizes), 256)
        first[sizes > 0] = data[heads]
        rest: Int32 = np.zeros(len(offsets), np.int32)
        np.cumsum(np.maximum(sizes - 1, 0), out=rest[1:])
        behind: Uint8 = np.delete(data, heads)
        for array in (behind, rest):
            array.setflags(write=False)  # as those of vocabularies are: kernels are compiled for one kind of array
        lengths = lengths_by_class(behind, rest, NAMING)
        order = np.argsort(first, kind="stable").astype(np.int32)
        kept = [order[row[order] != IMPURE] for row in lengths]
        starts = np.stack([np.searchsorted(first[ids], np.arange(257)) for ids in kept])
        starts += np.cumsum([0, *map(len, kept[:-1])])[:, np.newaxis]
        marks = np.where(lengths == IMPURE, IMPURE, 1).astype(np.uint8)
        ids = np.concatenate(kept)
        counts = np.diff(starts, axis=1)
        rows = np.zeros((int((counts >= MANY_IDS).sum()), words), np.uint32)
        row_of = np.full(counts.shape, -1, np.int32)
        for n, (k, byte) in enumerate(np.argwhere(counts >= MANY_IDS).tolist()):
            row_of[k, byte] = n
            allowed = np.zeros(len(sizes), np.bool_)
            allowed[ids[starts[k, byte] : starts[k, byte + 1]]] = True
            rows[n] = pack(allowed, words)
        return RestSlice(ids, starts.astype(np.int32), covered(nodes, marks), rows, row_of)


def lengths_by_class(data: Uint8, offsets: Int32, classes: int) -> Uint8:
    """uint8[classes, tokens]: see `class_lengths`."""
    lengths = np.full((classes, len(offsets) - 1), IMPURE, np.uint8)
    ends = class_ends[:classes]
    class_lengths(data, offsets, ascii_classes(class_bounds, ends), class_bounds, ends, lengths)
    return lengths


def _quoted_lengths(needs: Int32, closes: Int32, ends_line: npt.NDArray[np.bool_]) -> Uint8:
    """uint8[tokens]: the characters of each one inside a string; 0 where it can stand in none, `IMPURE` where it closes
    one, or may end a line there."""
    lengths = np.where(needs == NEVER, 0, np.where(ends_line, IMPURE, np.minimum(needs, ANY_LENGTH)))
    return np.where(closes[:, 0] > 0, IMPURE, lengths).astype(np.uint8)


def _that_end_lines(data: Uint8, offsets: Int32) -> npt.NDArray[np.bool_]:
    """Which tokens may hold the end of a line, as it is spelled inside quotes: bool[tokens]."""
    places = [found.start() for found in re.finditer(rb"\\[nru]|\xe2\x80[\xa8\xa9]", data.tobytes())]
    ends_line = np.zeros(len(offsets) - 1, np.bool_)
    ends_line[np.searchsorted(offsets, places, side="right") - 1] = True
    return ends_line


def covered(nodes: Int32, lengths: Uint8) -> Uint8:
    """uint8[classes, trie nodes]: see `cover`."""
    covers = np.empty((len(lengths), len(nodes)), np.uint8)
    cover(nodes, lengths, covers)
    return covers


def runs_of(covers: Uint8) -> Uint16:
    """uint16[covers, trie nodes]: how many nodes from each one on are at least not `IMPURE` in a cover.

    All of those may be left out at once: what is above an impure node is impure itself, and was met before it.
    """
    runs = np.zeros(covers.shape, np.uint16)
    count_runs(covers, runs)
    return runs


def _class_rows(lengths: Uint8, words: int) -> tuple[Uint32, Int32]:
    rows = np.zeros((len(lengths), LENGTHS + 1, words), np.uint32)
    counts = np.zeros((len(lengths), LENGTHS + 1), np.int32)
    for k, row in enumerate(lengths):
        for level in range(LENGTHS + 1):
            fits = row <= (level if level < LENGTHS else ANY_LENGTH)
            counts[k, level] = fits.sum() if level else 0
            rows[k, level] = pack(fits & (row > 0), words)
    return rows, counts


def ascii_classes(spans: Int32, ends: Int32) -> Int32:
    """int32[128]: the text classes that hold each ASCII character, as bits."""
    classes: Int32 = np.zeros(128, np.int32)
    start = 0
    for k, end in enumerate(ends.tolist()):
        for first, last in spans[start:end].tolist():
            classes[first : last + 1] |= 1 << k
        start = end
    return classes


@inner_kernel
def _read_lead(byte: int) -> tuple[int, int, int, int]:
    """What a first byte that is not ASCII says of its character: how many bytes follow (0: none may, it is no UTF-8),
    the lowest and the highest next one, and its bits of the code point."""
    if byte < 0xC2 or byte > 0xF4:
        return 0, 0, 0, 0
    following = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
    low = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80  # below: an overlong spelling
    high = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF  # above: a surrogate, or beyond Unicode
    return following, low, high, byte & (0x3F >> following)


@inner_kernel
def _classes_of(point: int, spans: Int32, ends: Int32) -> int:
    """The text classes that hold a code point, as bits."""
    classes, j = 0, 0
    for k in range(ends.size):
        while j < ends[k]:
            if spans[j, 0] <= point and point <= spans[j, 1]:
                classes |= 1 << k
            j += 1
    return classes


@kernel
def class_lengths(
    data: Uint8, offsets: Int32, short: Int32, spans: Int32, ends: Int32,
    lengths: Uint8,
) -> None:  # fmt: skip
    """The characters of each token by class; `IMPURE` where it is not whole characters of the class alone.

    The plain loop: decode the token; where that works, for each class that holds all of its characters, write how many
    there are.

    Args:
        short: what `ascii_classes` gives.
        spans, ends: the text classes' intervals, and where each class ends in them.
        lengths: uint8[classes, tokens], full of `IMPURE`.
    """
    for token in range(offsets.size - 1):
        classes, characters, following, low, high, point = _ALL_CLASSES, 0, 0, 0, 0, 0
        for i in range(offsets[token], offsets[token + 1]):
            byte = data[i]
            if following:
                classes = classes if low <= byte and byte <= high else 0
                following, low, high, point = following - 1, 0x80, 0xBF, point << 6 | (byte & 0x3F)
                if following == 0:
                    classes &= _classes_of(point, spans, ends)
                continue
            characters += 1
            if byte < 0x80:
                classes &= short[byte]
            else:
                following, low, high, point = _read_lead(int64(byte))
                classes = classes if following else 0
        if following == 0 and characters:
            for k in range(lengths.shape[0]):
                if classes >> k & 1:
                    lengths[k, token] = characters if characters < ANY_LENGTH else ANY_LENGTH


@kernel
def cover(nodes: Int32, lengths: Uint8, covers: Uint8) -> None:
    """uint8[classes, nodes]: the longest token of a subtree in characters of the class; `IMPURE`, which is above every
    length, when one is not made of them alone. The plain loop: the maximum of `lengths` over the subtree's tokens."""
    for k in range(covers.shape[0]):
        for i in range(nodes.shape[0] - 1, -1, -1):
            token = nodes[i, TOKEN]
            longest = lengths[k, token & (HAS_TWIN - 1)] if token >= 0 else 0
            child = i + 1
            while child < nodes[i, SKIP]:
                if longest < covers[k, child]:
                    longest = covers[k, child]
                child = nodes[child, SKIP]
            covers[k, i] = longest


@kernel
def count_runs(covers: Uint8, runs: Uint16) -> None:
    """Fill `runs_of`. The plain loop: from each node, count the nodes up to the next impure one."""
    for k in range(covers.shape[0]):
        run = 0
        for i in range(covers.shape[1] - 1, -1, -1):
            run = 0 if covers[k, i] == IMPURE else run + 1 if run < _LONGEST_RUN else run
            runs[k, i] = run
