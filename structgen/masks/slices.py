"""What the mask kernels need of a vocabulary. It is computed once per vocabulary, so that no mask walks the whole trie.

This module has the tokens that consist of one class of characters (see `TEXT_CLASSES`), such as letters. In a state in
which any number of letters may follow, one row of a mask has all tokens of letters. A walk then skips the subtrees of
the trie that have no other tokens (`ClassSlice`).

But the first character of most tokens is of another class: a grammar treats a space or a bracket separately, and a name
begins with a letter but continues with digits too. So the tokens are also sorted by their first byte and the class of
the other bytes (`RestSlice`). The slices for free strings and for free text are in `string_slices`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import Int32, Int64, Machine
from structgen.automaton.writing.strings import NAME, VALUE
from structgen.automaton.writing.text_classes import IN_VALUE, NAMING, TEXT_CLASSES
from structgen.kernels import Record, Rows, array, inner_kernel, kernel, number, records, view_int64, view_uint32
from structgen.masks.string_slices import (
    HAS_TWIN, HEAD, IMPURE, NEVER, SKIP, TOKEN, FreeSlice, TextSlice, Uint8, Uint32, covered, in_quotes,
)  # fmt: skip
from structgen.masks.suspicious import Suspicious
from structgen.masks.words import pack
from structgen.vocabulary.packed import packed
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary

ROWS = 64
"""The number of masks in one allocation. Making an array for each would take longer than filling it."""
LENGTHS = 21
"""Each length below this has its own row (`Whitespace.FLEXIBLE` needs them); row `LENGTHS` is for any length."""
ANY_LENGTH = 254
"""Stands for this length and all greater ones; `IMPURE` is one more."""
MANY_IDS = 1024
"""From this number of tokens on, a row of a mask is faster than a list of ids."""
_NOTHING: tuple[Callable[[], None], int] = (lambda: None), 0
_LONGEST_RUN = 65535
"""The largest uint16. A longer run is stored as several runs."""


class FreeTables(Record):
    """A `FreeSlice`, for kernels."""

    rows, longest, n_nodes, root_entries = number(), number(), number(), number()
    levels = array(np.int32)
    nodes = array(np.int32, 4)
    entries = array(np.int32, 2)


class VocabularyTables(Record):
    """What the mask kernels need of a vocabulary: its bytes, its trie, and its slices."""

    words, tokens, max_depth, separators = number(), number(), number(), number()
    data = array(np.uint8)
    offsets = array(np.int32)
    ends = array(np.int32)
    n_ends, n_nodes = number(), number()
    nodes = array(np.int32, 3)
    first, twin = array(np.int32), array(np.int32)  # the first node of each byte; the next id with a token's bytes
    # Of `ClassSlice` and `RestSlice`: addresses of what has a row for each class, whose length only the numbers tell.
    cover, rows, runs, rest_rows = number(), number(), number(), number()
    counts = array(np.int32, LENGTHS + 1)
    rest_ids = array(np.int32)
    rest_starts = array(np.int32, 257)
    rest_row_of = array(np.int32, 256)
    text_rows = number()  # of `TextSlice`, as the next ones
    text_levels = array(np.int32)
    held = array(np.int64)
    longest = array(np.uint8)
    bucket_counts = array(np.int32)
    free = records(FreeTables, 2)  # of values, and of names


@inner_kernel
def tables_of(machine: Machine) -> VocabularyTables:
    """What a grammar's kernels need of its vocabulary."""
    return VocabularyTables(machine.vocabulary)


@dataclass(frozen=True, slots=True, eq=False)
class ClassSlice:
    """Whole tokens by class and length.

    For the classes inside quotes, a token that closes the string is impure, and a token that cannot appear inside a
    string has length 0.
    """

    rows: Uint32  # uint32[classes, LENGTHS + 1, words]: the tokens of the class with at most that many characters
    counts: Int32  # int32[classes, LENGTHS + 1]: how many these are, and those of length 0
    cover: Uint8  # uint8[classes, trie nodes]: the longest token of a subtree; `IMPURE` if one has other characters

    @staticmethod
    def build(
        vocabulary: Vocabulary, characters: TokenCharacters, nodes: Int32, quoted: list[tuple[Int32, Int32]]
    ) -> ClassSlice:
        """Makes it from a trie's nodes (see `string_slices.HEAD`), and `in_quotes` of values and of names."""
        ends_line = _that_end_lines(vocabulary.data, vocabulary.offsets)
        in_strings = [_quoted_lengths(*each, ends_line) for each in quoted]
        lengths = np.concatenate([characters.lengths(IN_VALUE), in_strings])
        return ClassSlice(*_class_rows(lengths), covered(nodes, lengths))


@dataclass(frozen=True, slots=True, eq=False)
class RestSlice:
    """Tokens of several bytes by their first byte and the class of the other bytes, for the first `NAMING` classes."""

    ids: Int32  # int32[.]: tokens, by class and then by first byte
    starts: Int32  # int32[NAMING, 257]: `ids[starts[k, b]:starts[k, b + 1]]` are those of class `k` and first byte `b`
    cover: Uint8  # uint8[NAMING, trie nodes]: 1 if a subtree's tokens are of the class after a first byte; or `IMPURE`
    rows: Uint32  # uint32[., words]: the tokens of a class and a first byte, if there are `MANY_IDS` or more
    row_of: Int32  # int32[NAMING, 256]: the number of that row, or -1

    @staticmethod
    def build(vocabulary: Vocabulary, characters: TokenCharacters, nodes: Int32) -> RestSlice:
        """Makes it from a trie's nodes (see `string_slices.HEAD`)."""
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
    """The characters of all tokens of a vocabulary. A byte outside any character counts as one without a class."""

    def __init__(self, data: Uint8, offsets: Int32) -> None:
        classes_of = np.zeros(0x110000, np.uint16)  # of each code point, as bits
        for k, ranges in enumerate(TEXT_CLASSES[:IN_VALUE]):
            for first, last in ranges:
                classes_of[first : last + 1] |= 1 << k
        # A byte 0xFF after each token separates the tokens; it is decoded as U+DCFF. Within a token 0xFE replaces 0xFF.
        parted = np.insert(np.minimum(data, 0xFE), offsets[1:], 0xFF).tobytes().decode("utf-8", "surrogateescape")
        points = np.array([parted]).view(np.uint32)
        self._ends = np.flatnonzero(points == 0xDCFF)
        self._starts = np.concatenate([[0], self._ends[:-1] + 1])
        self._classes = classes_of[points]
        first = points[self._starts]
        self._of_one_byte = (first < 0x80) | (first >> 8 == 0xDC)

    def lengths(self, classes: int, *, behind_first_byte: bool = False) -> Uint8:
        """uint8[classes, tokens]: the number of characters of each token, at most `ANY_LENGTH`; `IMPURE` if the token
        has none, or has a character outside the class."""
        starts = self._starts + ((self._ends > self._starts) if behind_first_byte else 0)
        sizes = self._ends - starts
        shared = np.bitwise_and.reduceat(self._classes, np.ravel([starts, self._ends], "F"))[::2]
        shared[(sizes == 0) | (behind_first_byte & ~self._of_one_byte)] = 0
        is_pure = shared >> np.arange(classes, dtype=np.uint16)[:, np.newaxis] & 1 != 0
        return np.where(is_pure, np.minimum(sizes, ANY_LENGTH), IMPURE).astype(np.uint8)


def _quoted_lengths(needs: Int32, closes: Int32, ends_line: npt.NDArray[np.bool_]) -> Uint8:
    """uint8[tokens]: the number of characters of each token inside a string; 0 if the token cannot appear there;
    `IMPURE` if it closes the string or may end a line."""
    lengths = np.where(needs == NEVER, 0, np.where(ends_line, IMPURE, np.minimum(needs, ANY_LENGTH)))
    return np.where(closes[:, 0] > 0, IMPURE, lengths).astype(np.uint8)


def _that_end_lines(data: Uint8, offsets: Int32) -> npt.NDArray[np.bool_]:
    """bool[tokens]: may the token contain the end of a line, as it is spelled inside quotes?"""
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


class Slices:
    """The arrays that the mask kernels need of a vocabulary, and the record that points at them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        self.words = vocabulary.words
        self.nodes: Int32 = np.empty((len(trie), 3), np.int32)
        self.nodes[:, HEAD] = trie.byte | trie.depth.astype(np.int32) << 8
        self.nodes[:, SKIP], self.nodes[:, TOKEN] = trie.skip, trie.token
        twins = np.flatnonzero(trie.token >= 0)
        twins = twins[trie.twin[trie.token[twins]] >= 0]
        self.nodes[twins, TOKEN] |= HAS_TWIN
        quoted = [in_quotes(vocabulary, kind) for kind in (VALUE, NAME)]
        characters = TokenCharacters(vocabulary.data, vocabulary.offsets)
        self.whole = ClassSlice.build(vocabulary, characters, self.nodes, quoted)
        self.rest = RestSlice.build(vocabulary, characters, self.nodes)
        covers = np.concatenate([self.whole.cover, self.rest.cover])
        self.runs: npt.NDArray[np.uint16] = np.zeros(covers.shape, np.uint16)
        count_runs(covers, self.runs)
        self.free = tuple(FreeSlice.build(vocabulary, needs, closes) for needs, closes in quoted)
        self.text = TextSlice.build(vocabulary, self.nodes)
        self.suspicious = Suspicious(vocabulary)
        self.ends: Int32 = np.array(vocabulary.end_ids, np.int32)
        self.max_depth = int(trie.depth.max(initial=0))
        self._vocabulary_arrays: dict[str, npt.NDArray[Any]] = {
            "first": trie.first, "twin": trie.twin, "data": vocabulary.data, "offsets": vocabulary.offsets,
        }  # fmt: skip
        self._separators = _most_separators(vocabulary.data, vocabulary.offsets)
        self._rows: list[tuple[Uint32, int]] = []
        self._known: dict[int, tuple[ref[Uint32], int]] = {}

    def new_row(self) -> tuple[Uint32, int]:
        """A new read-only array for a mask, and its address. All grammars of a vocabulary share the allocations."""
        try:
            return self._rows.pop()
        except IndexError:
            block: Uint32 = np.empty((ROWS, self.words), np.uint32)
            address = int(block.ctypes.data)
            block.flags.writeable = False
            first, *rest = zip(block, range(address, address + block.nbytes, 4 * self.words), strict=True)
            self._rows.extend(rest)
            return first

    def shared(self, row: Uint32, address: int) -> Uint32:
        """The one array of all grammars of the vocabulary with the content of `row`, which has just been filled.

        Masks of different schemas are often equal: of 64 schemas that differ in their names, a step needs one to
        eighteen masks. So each is held once, and sent to a device once.
        """
        key = digest(address, self.words)
        reference, there = self._known.get(key, _NOTHING)
        known = reference()
        if known is None:  # a `WeakValueDictionary` has no addresses, and to find one takes as long as all of this
            self._known[key] = ref(row, partial(self._forget, key)), address
        elif same(address, there, self.words):
            self._rows.append((row, address))
            return known
        return row

    def _forget(self, key: int, gone: ref[Uint32]) -> None:
        """Forgets a mask that no grammar holds any more, unless another one has its place."""
        if self._known.get(key, _NOTHING)[0] is gone:
            del self._known[key]

    @staticmethod
    @once_per_object
    def of(vocabulary: Vocabulary) -> Slices:
        """The slices of a vocabulary. They are built once."""
        return Slices(vocabulary)

    @cached_property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by their fields in `VocabularyTables`, without those of the vocabulary and of the free slices."""
        whole, rest, text = self.whole, self.rest, self.text
        return {
            "nodes": self.nodes, "ends": self.ends,
            "cover": whole.cover, "rows": whole.rows, "counts": whole.counts, "runs": self.runs,
            "rest_ids": rest.ids, "rest_starts": rest.starts, "rest_rows": rest.rows, "rest_row_of": rest.row_of,
            "text_rows": text.rows, "text_levels": text.levels, "held": text.held, "longest": text.longest,
            "bucket_counts": text.counts,
        }  # fmt: skip

    @cached_property
    def tables(self) -> Int64:
        """int64[.]: the `VocabularyTables`."""
        numbers: Int64 = np.zeros(VocabularyTables.SIZE, np.int64)
        tables = VocabularyTables(numbers.ctypes.data)
        tables.words, tables.tokens, tables.n_nodes = self.words, self.text.tokens, len(self.nodes)
        tables.n_ends, tables.max_depth, tables.separators = len(self.ends), self.max_depth, self._separators
        tables.point_at(self._arrays | self._vocabulary_arrays)
        for free, of_kind in zip(tables.free, self.free, strict=True):
            free.longest, free.n_nodes = len(of_kind.levels) - 1, len(of_kind.nodes)
            free.root_entries = of_kind.root_entries
            free.point_at(of_kind.arrays)
        return numbers

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes, without the vocabulary and its trie."""
        free = [array for slice_ in self.free for array in slice_.arrays.values()]
        return self.rest.cover.nbytes + sum(each.nbytes for each in (*self._arrays.values(), *free))


def _most_separators(data: npt.NDArray[np.uint8], offsets: Int32) -> int:
    """The largest number of commas in a token. Adjacent commas count as one, since an item must appear between two."""
    commas = data == 0x2C
    commas[1:] &= ~commas[:-1] | np.isin(np.arange(1, len(data)), offsets)
    before = np.concatenate([[0], np.cumsum(commas)])
    return int(np.diff(before[offsets]).max(initial=0))


@kernel
def count_runs(covers: Rows[Uint8], runs: Rows[npt.NDArray[np.uint16]]) -> None:
    """Fill `runs`, uint16[covers, nodes]: the number of consecutive nodes, from each node on, that are not `IMPURE`.

    A walk may skip all of them at once: the ancestors of an impure node are impure too, and come before it.
    """
    for k in range(covers.shape[0]):
        run = 0
        for i in range(covers.shape[1] - 1, -1, -1):
            run = 0 if covers[k, i] == IMPURE else run + 1 if run < _LONGEST_RUN else run
            runs[k, i] = run


@kernel
def digest(row: int, words: int) -> int:
    """A number that is hardly ever equal for two masks, given the address of one, uint32[words]."""
    pairs, total = view_int64(row), view_uint32(row)[words - 1]
    for i in range(0, words // 2 - 1, 2):
        key = i * 0x2545F4914F6CDD1D
        total += (pairs[i] ^ key) * (pairs[i + 1] + key + 0x1E3779B97F4A7C15)
    if words % 4 > 1:
        total += pairs[words // 2 - 1] * 0x1E3779B97F4A7C15
    number: int = total
    return number


@kernel
def same(row: int, other: int, words: int) -> int:
    """1 if two masks are equal, given the address of each."""
    pairs, others = view_int64(row), view_int64(other)
    difference = view_uint32(row)[words - 1] ^ view_uint32(other)[words - 1]
    for i in range(words // 2):
        difference |= pairs[i] ^ others[i]
    equal: int = difference == 0
    return equal
