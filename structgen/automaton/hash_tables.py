"""The hash tables of the automaton: the frames, and the states that returns lead to.

Both use open addressing: an entry is at its hash, or at the next free place after it.
"""

from __future__ import annotations

import struct

from structgen.automaton.table_format import COUNTER, KEY, LEADS, PARENT, RETURN, TARGET, Int32, Int64, hash_frame
from structgen.kernels import Rows, kernel


def slot(words: memoryview, key: int) -> int:
    """The row of a key in the hash table of returns: where the key is, or where it would be put.

    Args:
        words: the table: key, state, key, state and so on.
        key: `return << 24 | outcome`.
    """
    mask = len(words) // 2 - 1
    place = hash_frame(key >> 24, key & TARGET, 0) & mask
    while words[2 * place] not in (0, key):
        place = (place + 1) & mask
    return place


def put(words: memoryview, key: int, state: int) -> None:
    """Write a return's key and the state that it leads to."""
    struct.pack_into("2q", words, 16 * slot(words, key), key, state)


@kernel
def move_returns(returns: Rows[Int64], grown: Rows[Int64]) -> None:
    """Copy all rows of a hash table of returns into a larger table, which is empty."""
    mask = grown.shape[0] - 1
    for row in range(returns.shape[0]):
        key = returns[row, KEY]
        if key == 0:
            continue
        place = hash_frame(key >> 24, key & TARGET, 0) & mask
        while grown[place, KEY] != 0:
            place = (place + 1) & mask
        grown[place, KEY], grown[place, LEADS] = key, returns[row, LEADS]


@kernel
def hang(frames: Rows[Int64], count: int, buckets: Int32) -> None:
    """Put the numbers of the first `count` frames into empty buckets, by the frames' hashes."""
    mask = buckets.size - 1
    for frame in range(1, count):
        place = hash_frame(frames[frame, RETURN], frames[frame, PARENT], frames[frame, COUNTER]) & mask
        while buckets[place] != 0:
            place = (place + 1) & mask
        buckets[place] = frame
