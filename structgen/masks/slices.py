"""What the mask kernels need of a vocabulary. It is computed once per vocabulary, so that no mask walks the whole trie.

The free slices and the text slice are in `string_slices`, the class slices in `class_slices`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import R_VOCABULARY, Int32, Int64
from structgen.automaton.writing.strings import NAME, VALUE
from structgen.kernels import kernel
from structgen.masks.class_slices import ClassSlice, RestSlice, TokenCharacters, count_runs
from structgen.masks.string_slices import HAS_TWIN, HEAD, SKIP, TOKEN, FreeSlice, TextSlice, Uint32, in_quotes
from structgen.masks.suspicious import Suspicious
from structgen.memo import once_per_object
from structgen.vocabulary import Vocabulary

FREE_REGISTERS = 8
# Registers of the vocabulary, relative to R_VOCABULARY, and then eight per kind of free string.
(V_NODES, V_N_NODES, V_FIRST, V_TWIN, V_COVER, V_ROWS, V_COUNTS, V_WORDS, V_DATA, V_OFFSETS, V_STACK, V_ENDS,
 V_N_ENDS, V_KIDS, V_KID_STARTS, V_TEXT_ROWS, V_TEXT_LEVELS, V_HELD, V_LONGEST, V_BUCKET_COUNTS, V_TOKENS, V_MOST,
 V_LIKE, V_REST_IDS, V_REST_STARTS, V_RUNS, V_REST_ROWS, V_REST_ROW_OF, V_SEPARATORS, V_FREE) = range(
    R_VOCABULARY, R_VOCABULARY + 30
)  # fmt: skip
"""All are constant but `V_LIKE` and `V_STACK`: see `masks.text_walk`, `masks.bits`."""
(F_ROWS, F_LEVELS, F_LONGEST, F_NODES, F_N_NODES, F_ENTRIES, F_ROOT_ENTRIES) = range(7)
"""Registers of a kind of free string, relative to `V_FREE + kind * FREE_REGISTERS`."""

ROWS = 64
"""Masks in one allocation: to make an array for each would take longer than to fill it."""


class Slices:
    """The arrays that the mask kernels need of a vocabulary, and the registers that point at them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        self.words = vocabulary.words
        self.nodes: Int32 = np.empty((len(trie), 3), np.int32)
        self.nodes[:, HEAD] = trie.byte | trie.depth.astype(np.int32) << 8
        self.nodes[:, SKIP], self.nodes[:, TOKEN] = trie.skip, trie.token
        twins = np.flatnonzero(trie.token >= 0)
        twins = twins[trie.twin[trie.token[twins]] >= 0]
        self.nodes[twins, TOKEN] |= HAS_TWIN
        self.kid_starts: Int32 = np.zeros(len(trie) + 1, np.int32)
        self.kids: Int32 = np.zeros(len(trie), np.int32)
        children(self.nodes, self.kid_starts, self.kids)
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
        self._vocabulary_arrays: dict[int, npt.NDArray[Any]] = {
            V_FIRST: trie.first, V_TWIN: trie.twin, V_DATA: vocabulary.data, V_OFFSETS: vocabulary.offsets,
        }  # fmt: skip
        self._separators = _most_separators(vocabulary.data, vocabulary.offsets)
        self._rows: list[tuple[Uint32, int]] = []

    def new_row(self) -> tuple[Uint32, int]:
        """A new read-only array for a mask, and its address. All grammars of a vocabulary share allocations."""
        try:
            return self._rows.pop()
        except IndexError:
            block: Uint32 = np.empty((ROWS, self.words), np.uint32)
            address = int(block.ctypes.data)
            block.flags.writeable = False
            first, *rest = zip(block, range(address, address + block.nbytes, 4 * self.words), strict=True)
            self._rows.extend(rest)
            return first

    @staticmethod
    @once_per_object
    def of(vocabulary: Vocabulary) -> Slices:
        """The slices of a vocabulary, built once."""
        return Slices(vocabulary)

    @cached_property
    def _arrays(self) -> dict[int, npt.NDArray[Any]]:
        """The arrays by the registers that point at them."""
        whole, rest, text = self.whole, self.rest, self.text
        arrays: dict[int, npt.NDArray[Any]] = {
            V_NODES: self.nodes, V_KIDS: self.kids, V_KID_STARTS: self.kid_starts, V_ENDS: self.ends,
            V_COVER: whole.cover, V_ROWS: whole.rows, V_COUNTS: whole.counts, V_RUNS: self.runs,
            V_REST_IDS: rest.ids, V_REST_STARTS: rest.starts, V_REST_ROWS: rest.rows, V_REST_ROW_OF: rest.row_of,
            V_TEXT_ROWS: text.rows, V_TEXT_LEVELS: text.levels, V_HELD: text.held, V_LONGEST: text.longest,
            V_BUCKET_COUNTS: text.counts,
        }  # fmt: skip
        for base, free in zip(range(V_FREE, V_FREE + 2 * FREE_REGISTERS, FREE_REGISTERS), self.free, strict=True):
            arrays |= {base + F_ROWS: free.rows, base + F_LEVELS: free.levels}
            arrays |= {base + F_NODES: free.nodes, base + F_ENTRIES: free.entries}
        return arrays

    @cached_property
    def registers(self) -> memoryview:
        """int64[.]: the registers from `R_VOCABULARY` on; the grammar sets `V_STACK`."""
        arrays: dict[int, npt.NDArray[Any]] = self._arrays | self._vocabulary_arrays
        assert all(array.flags.c_contiguous for array in arrays.values())
        values = {register: int(array.ctypes.data) for register, array in arrays.items()} | {
            V_N_NODES: len(self.nodes), V_WORDS: self.words, V_N_ENDS: len(self.ends), V_TOKENS: self.text.tokens,
            V_MOST: self.max_depth, V_SEPARATORS: self._separators,
        }  # fmt: skip
        for base, free in zip(range(V_FREE, V_FREE + 2 * FREE_REGISTERS, FREE_REGISTERS), self.free, strict=True):
            values |= {base + F_LONGEST: len(free.levels) - 1, base + F_N_NODES: len(free.nodes)}
            values[base + F_ROOT_ENTRIES] = free.root_entries
        registers: Int64 = np.zeros(V_FREE + 2 * FREE_REGISTERS - R_VOCABULARY, np.int64)
        for register, value in values.items():
            registers[register - R_VOCABULARY] = value
        return registers.data.cast("B").cast("q")

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the vocabulary and its trie."""
        return self.rest.cover.nbytes + sum(array.nbytes for array in self._arrays.values())


def _most_separators(data: npt.NDArray[np.uint8], offsets: Int32) -> int:
    """The most commas of any token; several in a row count as one, since an item must stand between them."""
    commas = data == 0x2C
    commas[1:] &= ~commas[:-1] | np.isin(np.arange(1, len(data)), offsets)
    before = np.concatenate([[0], np.cumsum(commas)])
    return int(np.diff(before[offsets]).max(initial=0))


@kernel
def children(nodes: Int32, starts: Int32, kids: Int32) -> None:
    """The children of node `i` in byte order: `kids[starts[i]:starts[i + 1]]`."""
    n = 0
    for i in range(len(nodes)):
        starts[i] = n
        j = i + 1
        while j < nodes[i, SKIP]:
            kids[n] = j
            n += 1
            j = nodes[j, SKIP]
    starts[len(nodes)] = n
