"""Which tokens may follow each other inside one chunk: byte-pair encoding as a relation of neighbours.

The pre-tokenizer cuts a text into chunks, and byte-pair encoding runs on each chunk alone. Theorem: tokens are the
encoding of their text if and only if every two neighbours are the encoding of theirs. (A run on the whole, restricted
to two neighbours, makes the same choices, since substrings keep the order of merges: by rank, then from the left. So
the first merge that crosses a joint would also happen in the run on the two tokens around it.) The same statement is in
Vieira et al., *Language Models over Canonical Byte-Pair Encodings* (2025), and in the `bpe` crate of rust-gems.

The theorem needs only how each token is merged from its parts. A merge (x, y) crosses the joint of a and b where x is
on the right spine of a (a, its right part, the right part of that, ...), y is on the left spine of b, and the merge
comes before x is merged into its parent in a and not after y is merged into its parent in b. The tokens with y on their
left spine are a subtree of the forest in which a token's parent is its left part. With children in the order of their
merges, latest first, the tokens for which the merge comes early enough are one interval in preorder.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary.canonical.merge_kernels import (
    FREE_SLOT,
    LEFT,
    NEVER,
    RANK_BITS,
    TIME,
    derive,
    followers,
    outermost,
    preorder,
    reach,
)  # fmt: skip
from structgen.vocabulary.packed import Words

Int64 = NDArray[np.int64]

NO_PART = -1
"""In place of the parts of a token that no merge makes."""


class Merges:
    """The merges of a byte-pair encoding, and the tokens that may stand side by side.

    Args:
        atoms: int64[.]: the atoms of all tokens, the ids of their characters.
        offsets: int64[tokens + 1]: token `i` has the atoms `atoms[offsets[i]:offsets[i + 1]]`; none where no text is
            encoded to it.
        merged: int64[merges, 3]: for each merge its left part, its right part and its result, by rank.

    Attributes:
        alone: bool[tokens]: whether the encoding of the token's text is the token.
        encoded: the encoding by merges of each token that is not `alone` and has atoms.
        merged: int64[merges, 3]: the argument.
        pairs: int64[2^k, 2]: the times of the merges, see `pair_slot`.
        parts: int64[tokens, 3]: the last two parts of each token that is `alone`, and the time of their merge (see
            `merge_kernels`); `NO_PART` and -1 where it has none.
    """

    def __init__(self, atoms: Int64, offsets: Int64, merged: Int64) -> None:
        count, atoms = len(offsets) - 1, atoms.copy()
        self.merged = merged
        self.parts = np.full((count, 3), NO_PART, np.int64)
        self.alone = np.zeros(count, np.bool_)
        self.pairs = np.empty((1 << (2 * len(merged) + 1).bit_length(), 2), np.int64)
        self.pairs[:] = FREE_SLOT, NEVER
        counts, by_length = np.zeros(count, np.int64), np.argsort(np.diff(offsets), kind="stable")
        derive(atoms, offsets, counts, merged, self.pairs, by_length, self.parts, self.alone)
        self.encoded: Mapping[int, tuple[int, ...]] = {
            token: tuple(atoms[offsets[token] : offsets[token] + counts[token]].tolist())
            for token in np.flatnonzero(~self.alone & (counts > 0)).tolist()
        }
        self._index(np.zeros(count, np.int64), first=np.full(count, -1, np.int64), last=np.zeros(count, np.int64))

    def _index(self, order: Int64, first: Int64, last: Int64) -> None:
        """Number the tokens in preorder, and find the interval of each merge."""
        table, left, time = self.merged, self.parts[:, LEFT], self.parts[:, TIME]
        count = len(left)
        parts = np.flatnonzero(left >= 0)
        children = parts[np.lexsort((-time[parts], left[parts]))]
        starts = np.searchsorted(left[children], np.arange(count + 1))
        preorder(
            np.flatnonzero(self.alone & (left < 0)), starts, children, np.zeros(count + 1, np.int64),
            order, first, last,
        )  # fmt: skip
        self._order = order.astype(np.uint32)
        a, b = table[:, 0], table[:, 1]
        ranks = np.flatnonzero(self.alone[a] & self.alone[b])
        stages = np.maximum(ranks, np.maximum(time[a[ranks]] >> RANK_BITS, time[b[ranks]] >> RANK_BITS))
        times = stages << RANK_BITS | ranks
        sort = np.lexsort((times, a[ranks]))
        rights = np.ascontiguousarray(b[ranks[sort]])
        lefts, times, lows, highs = a[ranks[sort]], times[sort], first[rights], np.zeros(len(rights), np.int64)
        reach(rights, times, starts, children, self.parts, first, last, highs)
        outer, stack = np.zeros(len(rights), np.bool_), np.zeros((len(rights) + 1, 2), np.int64)
        outermost(np.lexsort((-highs, lows, lefts)), lefts, times, lows, highs, stack, outer)
        self._starts = np.searchsorted(lefts[outer], np.arange(count + 1))
        self._times, self._lows, self._highs = times[outer], lows[outer], highs[outer]

    def followers(self, token: int, inside: Words, cut: Words) -> Words:
        """uint32[words]: the tokens that may stand behind a token.

        Args:
            token: the last token of the text.
            inside: the tokens that are `alone` and may go on in the same chunk, as far as cuts tell.
            cut: the tokens that may begin another chunk.
        """
        words: Words = cut.copy()
        if not self.alone[token]:
            return words
        followers(
            token, self.parts, self._starts, self._times, self._lows, self._highs, self._order, inside, cut, words
        )  # fmt: skip
        return words
