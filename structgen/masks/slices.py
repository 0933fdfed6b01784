"""What is computed once per vocabulary, so that no mask has to walk the whole trie.

*Free slices* and the *text slice*: see `string_slices`. *Class slices*: see `class_slices`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import R_VOCABULARY, Int32, Int64
from structgen.automaton.writing.strings import NAME, VALUE
from structgen.kernels import kernel
from structgen.masks.class_slices import ClassSlice, RestSlice, runs_of
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
"""`V_LIKE`, the one that changes: see `masks.text_walk`."""
(F_ROWS, F_LEVELS, F_LONGEST, F_NODES, F_N_NODES, F_ENTRIES, F_ROOT_ENTRIES) = range(7)


ROWS = 64
"""Masks that share an allocation: making an array for each would cost more than filling it."""


class Slices:
    """Everything that the mask kernels need of a vocabulary, and the registers that point at it."""

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
        self.whole = ClassSlice.build(vocabulary.data, vocabulary.offsets, self.nodes, self.words, quoted)
        self.rest = RestSlice.build(vocabulary.data, vocabulary.offsets, self.nodes, self.words)
        self.runs = runs_of(np.concatenate([self.whole.cover, self.rest.cover]))
        self.free = tuple(FreeSlice.build(vocabulary, needs, closes) for needs, closes in quoted)
        self.text = TextSlice.build(vocabulary, self.nodes)
        self.suspicious = Suspicious(vocabulary)
        self._keep = (trie.first, trie.twin, vocabulary.data, vocabulary.offsets)
        self.ends: Int32 = np.array(vocabulary.end_ids, np.int32)
        self.max_depth = int(trie.depth.max(initial=0))
        self._rows: list[tuple[Uint32, int]] = []

    def new_row(self) -> tuple[Uint32, int]:
        """Read-only room for a mask, and its address; the grammars of a vocabulary share allocations."""
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
    def registers(self) -> memoryview:
        """int64[.]: the registers from `R_VOCABULARY` on; the stack's address is left to the grammar."""
        first, twin, data, offsets = self._keep
        text = self.text
        values = {
            V_NODES: _address(self.nodes), V_N_NODES: len(self.nodes), V_FIRST: _address(first),
            V_TWIN: _address(twin), V_COVER: _address(self.whole.cover), V_ROWS: _address(self.whole.rows),
            V_COUNTS: _address(self.whole.counts), V_REST_IDS: _address(self.rest.ids),
            V_REST_STARTS: _address(self.rest.starts), V_RUNS: _address(self.runs),
            V_REST_ROWS: _address(self.rest.rows), V_REST_ROW_OF: _address(self.rest.row_of),
            V_WORDS: self.words, V_DATA: _address(data),
            V_OFFSETS: _address(offsets), V_KIDS: _address(self.kids), V_KID_STARTS: _address(self.kid_starts),
            V_ENDS: _address(self.ends), V_N_ENDS: len(self.ends),
            V_TEXT_ROWS: _address(text.rows), V_TEXT_LEVELS: _address(text.levels), V_HELD: _address(text.held),
            V_LONGEST: _address(text.longest), V_BUCKET_COUNTS: _address(text.counts), V_TOKENS: text.tokens,
            V_MOST: self.max_depth, V_SEPARATORS: _most_separators(data, offsets),
        }  # fmt: skip
        for kind, free in enumerate(self.free):
            base = V_FREE + kind * FREE_REGISTERS
            values |= {
                base + F_ROWS: _address(free.rows), base + F_LEVELS: _address(free.levels),
                base + F_LONGEST: len(free.levels) - 1,
                base + F_NODES: _address(free.nodes), base + F_N_NODES: len(free.nodes),
                base + F_ENTRIES: _address(free.entries), base + F_ROOT_ENTRIES: free.root_entries,
            }  # fmt: skip
        registers: Int64 = np.zeros(V_FREE + 2 * FREE_REGISTERS - R_VOCABULARY, np.int64)
        for register, value in values.items():
            registers[register - R_VOCABULARY] = value
        return registers.data.cast("B").cast("q")

    @property
    def nbytes(self) -> int:
        """Bytes held beyond the vocabulary and its trie."""
        free = sum(f.rows.nbytes + f.nodes.nbytes + f.entries.nbytes + f.levels.nbytes for f in self.free)
        text = self.text
        arrays = (
            self.nodes, self.kids, self.kid_starts, self.whole.rows, self.whole.counts, self.whole.cover,
            self.runs, self.rest.ids, self.rest.starts, self.rest.cover, self.rest.rows, self.rest.row_of, text.rows,
            text.levels, text.held, text.longest,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays) + free


def _most_separators(data: npt.NDArray[np.uint8], offsets: Int32) -> int:
    """No token has more commas that could each stand behind another item: of several in a row, one."""
    commas = data == 0x2C
    commas[1:] &= ~commas[:-1] | np.isin(np.arange(1, len(data)), offsets)
    before = np.concatenate([[0], np.cumsum(commas)])
    return int(np.diff(before[offsets]).max(initial=0))


def _address(array: npt.NDArray[Any]) -> int:
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


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
