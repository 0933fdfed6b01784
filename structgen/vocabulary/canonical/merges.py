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

A time is `stage << RANK_BITS | rank`. The rank is the position of a merge in the list. The stage is the highest rank
among the merge and those that made its parts: a merge waits for parts that are made by later merges of the list.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Rows, inner_kernel, kernel
from structgen.vocabulary.packed import Words

Int64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

RANK_BITS = 21
"""More bits than a rank has: no vocabulary has two million tokens."""
_SPREAD = 0x9E3779B97F4A7C15 >> 1
"""Fibonacci hashing: the golden ratio as a fraction of 2^63."""
PAIR, PAIR_RANK, PAIR_TIME = 0, 1, 1
"""Columns of a slot: the two parts as one number, and the rank of their merge, later replaced by its time."""
FREE_SLOT = -1
"""In place of the two parts, in a free slot."""
NEVER = 1 << 62
"""The time of a merge that does not exist, and the rank in a free slot."""
LEFT, RIGHT, TIME = range(3)
"""Columns of a token: its last two parts, and the time of their merge."""
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

    def joins(self, a: int, b: int) -> bool:
        """Does byte-pair encoding leave two tokens side by side in a chunk?"""
        return bool(self.alone[a] and self.alone[b] and joins(a, b, self.parts, self.pairs))

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


@inner_kernel
def pair_slot(pairs: Rows[Int64], count: int, a: int, b: int) -> int:
    """The slot that has the merge of two parts in a hash table, or the free slot for it.

    Args:
        pairs: int64[count, 2]: see `PAIR`.
        count: a power of 2.
    """
    pair = a << RANK_BITS | b
    slot = ((a << RANK_BITS ^ b) * _SPREAD >> 20) & (count - 1)
    while pairs[slot, PAIR] != FREE_SLOT and pairs[slot, PAIR] != pair:
        slot = (slot + 1) & (count - 1)
    return slot


@kernel
def derive(
    atoms: Int64, offsets: Int64, counts: Int64, merged: Rows[Int64], pairs: Rows[Int64], by_length: Int64,
    parts: Rows[Int64], alone: Flags,
) -> None:  # fmt: skip
    """Encode the text of each token.

    The plain loop: while two neighbours have a merge, do the merge with the least rank, the leftmost of equal ones.

    Args:
        atoms: int64[.]: the atoms of token `i` from `offsets[i]` on; its encoding, `counts[i]` long, replaces them.
        merged: int64[merges, 3]: left part, right part, and what they make.
        pairs: int64[2^k, 2], free slots: gets the hash table of the merges, with their times.
        by_length: the tokens, by the number of their atoms.
        parts: int64[tokens, 3]: gets the last merge of each token that is its own encoding.
        alone: gets whether a token is its own encoding.
    """
    for rank in range(len(merged)):
        slot = pair_slot(pairs, len(pairs), merged[rank, 0], merged[rank, 1])
        pairs[slot, PAIR] = merged[rank, 0] << RANK_BITS | merged[rank, 1]
        pairs[slot, PAIR_RANK] = rank
    for token in by_length:
        start, count, last = offsets[token], offsets[token + 1] - offsets[token], -1
        while count > 1:
            best, place = NEVER, 0
            for i in range(start, start + count - 1):
                rank = pairs[pair_slot(pairs, len(pairs), atoms[i], atoms[i + 1]), PAIR_RANK]
                if rank < best:
                    best, place = rank, i
            if best == NEVER:
                break
            atoms[place] = merged[best, 2]
            for i in range(place + 1, start + count - 1):
                atoms[i] = atoms[i + 1]
            count -= 1
            last = best
        counts[token] = count
        if count == 1 and atoms[start] == token:
            alone[token] = True
            if last >= 0:
                parts[token, LEFT] = merged[last, 0]
                parts[token, RIGHT] = merged[last, 1]
                parts[token, TIME] = _time(parts, merged, last)
    for slot in range(len(pairs)):
        if pairs[slot, PAIR] != FREE_SLOT:
            pairs[slot, PAIR_TIME] = _time(parts, merged, pairs[slot, PAIR_RANK])


@inner_kernel
def _time(parts: Rows[Int64], merged: Rows[Int64], rank: int) -> int:
    """The time of a merge."""
    stage: int = max(rank, max(parts[merged[rank, 0], TIME] >> RANK_BITS, parts[merged[rank, 1], TIME] >> RANK_BITS))
    return stage << RANK_BITS | rank


@kernel
def joins(a: int, b: int, parts: Rows[Int64], pairs: Rows[Int64]) -> bool:
    """Does byte-pair encoding leave two tokens side by side that are both `Merges.alone`?

    The two parts at the joint are taken apart again, the one that was merged last first. This visits all pairs that
    are ever side by side at the joint.
    """
    x, y, taken_x, taken_y = a, b, NEVER, NEVER  # when each is merged into its parent
    while True:
        merge = pairs[pair_slot(pairs, len(pairs), x, y), PAIR_TIME]
        if merge < taken_x and merge <= taken_y:
            return False
        time_x, time_y = parts[x, TIME], parts[y, TIME]
        if time_x < 0 and time_y < 0:
            return True
        if time_x > time_y:
            taken_x, x = time_x, parts[x, RIGHT]
        else:
            taken_y, y = time_y, parts[y, LEFT]


@kernel
def preorder(
    roots: Int64, starts: Int64, children: Int64, stack: Int64, order: Int64, first: Int64, last: Int64
) -> None:  # fmt: skip
    """Number the forest of left parts.

    Args:
        roots: tokens without a left part.
        starts: int64[tokens + 1]: the children of token `i` are `children[starts[i]:starts[i + 1]]`.
        stack: scratch, int64[tokens + 1].
        order: gets the tokens in preorder.
        first, last: get the range of each token's subtree in `order`.
    """
    count = 0
    for root in roots:
        stack[0] = root
        depth = 1
        while depth > 0:
            token = stack[depth - 1]
            if first[token] < 0:
                first[token] = count
                order[count] = token
                count += 1
                last[token] = starts[token]  # until its subtree is done: the child that comes next
            if last[token] < starts[token + 1]:
                stack[depth] = children[last[token]]
                last[token] += 1
                depth += 1
            else:
                last[token] = count
                depth -= 1


@kernel
def reach(
    rights: Int64, times: Int64, starts: Int64, children: Int64, parts: Rows[Int64], first: Int64, last: Int64,
    highs: Int64,
) -> None:  # fmt: skip
    """Write the end of each merge's interval: behind the last child of its right part that is not merged earlier."""
    for m in range(len(rights)):
        token = rights[m]
        highs[m] = first[token] + 1
        for i in range(starts[token], starts[token + 1]):
            if parts[children[i], TIME] < times[m]:
                break
            highs[m] = last[children[i]]


@kernel
def outermost(
    sort: Int64, lefts: Int64, times: Int64, lows: Int64, highs: Int64, stack: Rows[Int64], outer: Flags
) -> None:  # fmt: skip
    """Find the merges whose interval is not within that of another one of the same left part and no later time.

    Args:
        sort: the merges by left part, then by the start of their intervals, longer ones first.
        stack: scratch, int64[merges + 1, 2].
        outer: filled.
    """
    depth, part = 0, -1
    for m in sort:
        if lefts[m] != part:
            depth, part = 0, lefts[m]
        while depth > 0 and stack[depth - 1, 0] <= lows[m]:
            depth -= 1
        within = depth > 0 and stack[depth - 1, 0] >= highs[m]
        outer[m] = not (within and stack[depth - 1, 1] <= times[m])
        stack[depth, 0] = highs[m]
        stack[depth, 1] = min(times[m], stack[depth - 1, 1]) if within else times[m]
        depth += 1


@kernel
def followers(
    token: int, parts: Rows[Int64], starts: Int64, times: Int64, lows: Int64, highs: Int64,
    order: NDArray[np.uint32], inside: Words, cut: Words, words: Words,
) -> None:  # fmt: skip
    """Write the tokens that may stand behind `token`: those that no merge across the joint would change.

    Args:
        starts: int64[tokens + 1]: the merges with left part `i` are those from `starts[i]` to `starts[i + 1]`.
        times, lows, highs: of each merge, sorted by time within its left part.
        order: tokens in preorder. The loop over it takes most of the time, and twice as much with signed numbers.
        inside, cut: uint32[.]: see `Merges.followers`.
        words: uint32[.]: filled.
    """
    for i in range(len(words)):
        words[i] = inside[i]
    part, parent = token, NEVER  # nothing takes the whole token up
    while part >= 0:
        for m in range(starts[part], starts[part + 1]):
            if times[m] >= parent:
                break
            for place in range(lows[m], highs[m]):
                other = order[place]
                words[other >> 5] &= ~(1 << (other & 31))
        parent = parts[part, TIME]
        part = parts[part, RIGHT]
    for i in range(len(words)):
        words[i] |= cut[i]
