"""What each token of a vocabulary does inside a free JSON string, and in plain text.

A *free slice* (`FreeSlice`) is for JSON strings. It has the tokens that stay inside the string: a row of a mask for
each number of code points that they may need. And it has the tokens that close the string, sorted by the bytes after
their quote. The *text slice* (`TextSlice`) is for text without quotes. It has such rows too, and tells for each trie
node which characters the tokens below it contain. A walk skips the nodes whose characters cannot lead out of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from structgen.automaton.machine import Automaton
from structgen.automaton.step import step
from structgen.automaton.table_format import DONE, Int32, Int64, Machine
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.strings import free_string
from structgen.automaton.writing.text_loops import BIT_OF, BUCKETS, ODD_BIT
from structgen.kernels import Rows, kernel
from structgen.regular.chardfa import length
from structgen.vocabulary import Trie, Vocabulary
from structgen.vocabulary.packed import packed
from structgen.vocabulary.trie import sorted_ids

Uint8 = npt.NDArray[np.uint8]
Uint32 = npt.NDArray[np.uint32]

IMPURE = 255
"""In place of a length: the token has characters of another kind."""
NEVER = 1 << 30
"""In place of the number of code points that a token needs: the token cannot appear there at all."""
HEAD, SKIP, TOKEN = range(3)
"""Columns of the nodes of a `Trie`, in preorder: `depth << 8 | byte`; the first node after the subtree; and the token
that ends at the node (-1: none; `HAS_TWIN` is added if several ids have its bytes)."""
HAS_TWIN = 1 << 30
"""In a node's token: another id has the same bytes."""
_MANY = 1 << 18
"""A length of strings that no token reaches."""
_LONG = 254
"""Tokens of more code points are odd in the text slice: each walk looks at them."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeSlice:
    """One kind of free string over a vocabulary. `nodes` is a trie of the bytes after the quote, in tokens that close
    the string."""

    rows: Uint32  # uint32[levels, words]: the tokens that stay inside, by how many code points they may need
    levels: Int32  # int32[longest + 1]: the row by the room in code points; the last is for any greater room
    nodes: Int32  # int32[n, 4]: `HEAD`, `SKIP`, the first entry of the node, the end of its entries
    entries: Int32  # int32[e, 2]: token, code points before its quote
    root_entries: int  # the number of tokens that end with the quote; their entries come first

    @staticmethod
    def build(vocabulary: Vocabulary, needs: Int32, closes: Int32) -> FreeSlice:
        """Makes it from the results of `in_quotes`."""
        closing = np.flatnonzero(closes[:, 0])
        nodes, order, root_entries = _suffix_trie(vocabulary, closing, closes[closing, 0])
        tokens = closing[order]
        entries = np.stack([tokens, closes[tokens, 1]], axis=1).astype(np.int32)
        longest = int(needs[needs != NEVER].max(initial=0))
        return FreeSlice(*_rows_by_room(needs, longest), nodes, entries, root_entries)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by their names."""
        return {"rows": self.rows, "levels": self.levels, "nodes": self.nodes, "entries": self.entries}


@dataclass(frozen=True, slots=True, eq=False)
class TextSlice:
    """Plain text over a vocabulary. A token is *odd* if it cannot begin a text, or is too long for `levels`."""

    rows: Uint32  # as for `FreeSlice`
    levels: Int32  # int32[256]: the row by the room in code points; 254: any greater bounded room, 255: no bound
    held: Int64  # int64[trie nodes]: the buckets (see `text_loops`) of a subtree's bytes; `ODD` if a token is odd
    longest: Uint8  # uint8[trie nodes]: the code points of the longest token of a subtree; `IMPURE` if one is odd
    counts: Int32  # int32[BUCKETS]: the number of trie nodes with a token that hold each bucket
    tokens: int  # the number of trie nodes with a token

    @staticmethod
    def build(vocabulary: Vocabulary, nodes: Int32) -> TextSlice:
        """Makes it from the trie's nodes (see `HEAD`)."""
        automaton = Automaton()
        start = Lifted(automaton, length(), lambda final: 0, quoted=False, maximum=_MANY).start
        automaton.expand(start)
        needs, _ = classified(automaton, start, vocabulary)
        points = np.where(needs > _LONG, IMPURE, needs).astype(np.uint8)
        held = np.zeros(len(nodes), np.int64)
        counts = np.zeros(BUCKETS, np.int32)
        path = np.zeros(vocabulary.trie.depth.max(initial=0) + 1, np.int64)
        hold(nodes, points, BIT_OF, int(ODD_BIT), path, held, counts)
        rows = _rows_by_room(np.where(needs == NEVER, NEVER, np.minimum(needs, IMPURE)), IMPURE)
        longest, tokens = covered(nodes, points[np.newaxis])[0], int((nodes[:, TOKEN] >= 0).sum())
        return TextSlice(*rows, held, longest, counts, tokens)


def in_quotes(vocabulary: Vocabulary, kind: int) -> tuple[Int32, Int32]:
    """The results of `classify` for a free string of this kind (VALUE or NAME): `needs` and `closes`."""
    automaton = Automaton()
    return classified(automaton, free_string(automaton, kind, DONE, max_length=_MANY), vocabulary)


def classified(automaton: Automaton, start: int, vocabulary: Vocabulary) -> tuple[Int32, Int32]:
    """`needs` and `closes` of `classify`. All states that can follow `start` must have been expanded."""
    needs: Int32 = np.full(vocabulary.width, NEVER, np.int32)
    closes: Int32 = np.zeros((vocabulary.width, 2), np.int32)
    classify(automaton.tables.base, vocabulary.data, vocabulary.offsets, start, needs, closes)
    return needs, closes


def _rows_by_room(needs: Int32, limit: int) -> tuple[Uint32, Int32]:
    """The rows of a slice and its levels, int32[limit + 1], from the code points that each token needs."""
    steps = np.unique(needs[needs != NEVER])
    rows = [packed(needs <= step) for step in (-1, *steps)]
    levels = np.searchsorted(steps, np.arange(limit + 1), side="right")
    return np.stack(rows), levels.astype(np.int32)


def _suffix_trie(vocabulary: Vocabulary, tokens: Int64, starts: npt.NDArray[Any]) -> tuple[Int32, Int64, int]:
    """The trie of what tokens hold from an offset on: its `nodes` (see `FreeSlice`), the order of the entries, and the
    number of those that hold nothing there, which come first."""
    first = vocabulary.offsets[tokens] + starts
    sizes = vocabulary.offsets[tokens + 1] - first
    offsets = np.cumsum([0, *sizes.tolist()], dtype=np.int32)
    data = vocabulary.data[np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], sizes)]
    trie = Trie.build(data, offsets)
    empty = np.flatnonzero(sizes == 0)
    order = np.concatenate([empty, sorted_ids(data, offsets)])
    # Equal suffixes are side by side in this order, the first of which is their node's.
    heads = np.zeros(len(tokens) + 1, np.int64)
    heads[order] = np.arange(len(tokens))
    bounds = np.append(heads[trie.token[trie.token >= 0]], len(tokens))
    groups = np.cumsum(trie.token >= 0)
    first, past = bounds[groups - (trie.token >= 0)], bounds[groups]
    nodes = np.stack([trie.byte | trie.depth.astype(np.int32) << 8, trie.skip, first, past], axis=1)
    return nodes.astype(np.int32), order, len(empty)


@kernel
def classify(
    machine: Machine, data: npt.NDArray[np.uint8], offsets: Int32, start: int, needs: Int32, closes: Rows[Int32]
) -> None:
    """Run each token through a string, from the state `start`.

    Args:
        needs: int32[tokens], full of `NEVER`. For a token that stays inside, the kernel writes its number of code
            points.
        closes: int32[tokens, 2], full of 0. For a token that closes the string, the kernel writes the offset after its
            quote, and the number of code points before the quote.
    """
    for token in range(offsets.size - 1):
        s, f, c = start, 0, 0
        i = offsets[token]
        while i < offsets[token + 1] and s != 0 and s != DONE:
            s, f, c = step(machine, s, f, c, data[i])
            i += 1
        if s == DONE:
            closes[token, 0], closes[token, 1] = i - offsets[token], c
        elif s != 0 and offsets[token] < offsets[token + 1]:
            needs[token] = c + (s != start)


def covered(nodes: Int32, lengths: Uint8) -> Uint8:
    """uint8[classes, trie nodes]: the greatest of `lengths` among the tokens of each subtree; 0 without tokens."""
    covers = np.empty((len(lengths), len(nodes)), np.uint8)
    cover(nodes, lengths, covers)
    return covers


@kernel
def cover(nodes: Rows[Int32], lengths: Rows[Uint8], covers: Rows[Uint8]) -> None:
    """Fill `covers`, see `covered`."""
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
def hold(nodes: Rows[Int32], points: Uint8, bits: Int64, odd: int, path: Int64, held: Int64, counts: Int32) -> None:
    """Fill `held` and `counts` of a `TextSlice`.

    Args:
        points: the number of code points of each token; `IMPURE` for odd ones.
        bits: the bit of each byte's bucket.
        odd: the bit of `ODD`.
        path: scratch space; by depth, the buckets of the bytes on the path to a node.
    """
    for i in range(len(nodes)):
        depth, byte, token = nodes[i, HEAD] >> 8, nodes[i, HEAD] & 255, nodes[i, TOKEN]
        path[depth] = path[depth - 1] | bits[byte]
        held[i] = path[depth]
        if token >= 0:
            if points[token & (HAS_TWIN - 1)] == IMPURE:
                held[i] |= odd
            for b in range(counts.size):
                if held[i] >> b & 1:
                    counts[b] += 1
    for i in range(len(nodes) - 1, -1, -1):
        j = i + 1
        while j < nodes[i, SKIP]:
            held[i] |= held[j]
            j = nodes[j, SKIP]
