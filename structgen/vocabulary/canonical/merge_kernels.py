"""Kernels of `merges`: how each token is merged, and with which tokens merges cross its end.

A time is `stage << RANK_BITS | rank`. The rank is the merge's place in the list; the stage is the highest rank that had
to happen before it, its own among them: a merge whose parts come later in the list than itself waits for these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.kernels import inner_kernel, kernel

Int64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint32]

RANK_BITS = 21
"""More bits than a rank has: no vocabulary has two million tokens."""
_SPREAD = 0x9E3779B97F4A7C15 >> 1
"""Fibonacci hashing: the golden ratio as a fraction of 2^63."""
FREE_SLOT = -1


@inner_kernel
def pair_slot(slots: npt.NDArray[np.int32], merged: Int64, count: int, a: int, b: int) -> int:
    """The slot of a hash table that holds the merge of two parts, or the free one where it would be.

    Args:
        slots: int32[count]: the places of merges in `merged`, `FREE_SLOT` in the others.
        count: a power of 2.
    """
    slot = ((a << RANK_BITS ^ b) * _SPREAD >> 20) & (count - 1)
    while slots[slot] != FREE_SLOT and (merged[slots[slot], 0] != a or merged[slots[slot], 1] != b):
        slot = (slot + 1) & (count - 1)
    return slot


@kernel
def derive(
    atoms: Int64, offsets: Int64, counts: Int64, merged: Int64, slots: npt.NDArray[np.int32], by_length: Int64,
    left: Int64, right: Int64, time: Int64, alone: Flags,
) -> None:  # fmt: skip
    """Encode the text of each token.

    The plain loop: while two neighbours have a merge, do the one with the least rank, the leftmost of equals.

    Args:
        atoms: int64[.]: the atoms of token `i` from `offsets[i]` on; its encoding, `counts[i]` long, replaces them.
        merged: int64[merges, 3]: left part, right part, and what they make.
        slots: int32[2^k], full of `FREE_SLOT`: gets the hash table of the merges.
        by_length: the tokens, those with fewer atoms first.
        left, right, time: gets the last merge of each token that is its own encoding.
        alone: gets which tokens are.
    """
    for rank in range(len(merged)):
        slots[pair_slot(slots, merged, len(slots), merged[rank, 0], merged[rank, 1])] = rank
    for token in by_length:
        start, count, last = offsets[token], offsets[token + 1] - offsets[token], -1
        while count > 1:
            best, place = -1, 0
            for i in range(start, start + count - 1):
                rank = slots[pair_slot(slots, merged, len(slots), atoms[i], atoms[i + 1])]
                if rank != FREE_SLOT and (best < 0 or rank < best):
                    best, place = rank, i
            if best < 0:
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
                a, b = merged[last, 0], merged[last, 1]
                left[token] = a
                right[token] = b
                time[token] = max(last, max(time[a] >> RANK_BITS, time[b] >> RANK_BITS)) << RANK_BITS | last


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
        first, last: get each token's place in it, and the place behind its subtree.
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
    rights: Int64, times: Int64, starts: Int64, children: Int64, time: Int64, first: Int64, last: Int64, highs: Int64
) -> None:  # fmt: skip
    """The end of each merge's interval: behind the last child of its right part that is merged no sooner."""
    for m in range(len(rights)):
        token = rights[m]
        highs[m] = first[token] + 1
        for i in range(starts[token], starts[token + 1]):
            if time[children[i]] < times[m]:
                break
            highs[m] = last[children[i]]


@kernel
def followers(
    token: int, right: Int64, time: Int64, starts: Int64, times: Int64, lows: Int64, highs: Int64, order: Int64,
    words: Words,
) -> None:  # fmt: skip
    """Take the tokens away that a merge across the joint would change if they stood behind `token`.

    Args:
        starts: int64[tokens + 1]: the merges with left part `i` are those from `starts[i]` to `starts[i + 1]`.
        times, lows, highs: of each merge, sorted by time within its left part.
        order: tokens in preorder.
        words: uint32[.]: loses them.
    """
    part, parent = token, (1 << 62) - 1  # nothing takes the whole token up
    while part >= 0:
        for m in range(starts[part], starts[part + 1]):
            if times[m] >= parent:
                break
            for place in range(lows[m], highs[m]):
                other = order[place]
                words[other >> 5] &= ~np.uint32(np.uint32(1) << np.uint32(other & 31))
        parent = time[part]
        part = right[part]
