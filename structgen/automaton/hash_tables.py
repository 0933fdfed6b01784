"""The two hash tables of an automaton, as Python and the kernels that grow them write them: frames, and returns."""

from __future__ import annotations

import struct

from structgen.automaton.table_format import TARGET, Int32, Int64, hash_frame
from structgen.kernels import inner_kernel, kernel

_hash_frame = inner_kernel(hash_frame)


def slot(words: memoryview, key: int) -> int:
    """The row of a hash table (key, state, key, state...) in which a return's key stands, or would be put."""
    mask = len(words) // 2 - 1
    place = hash_frame(key >> 24, key & TARGET, 0) & mask
    while words[2 * place] not in (0, key):
        place = (place + 1) & mask
    return place


def put(words: memoryview, key: int, state: int) -> None:
    """Write a return's key and the state that it leads to."""
    struct.pack_into("2q", words, 16 * slot(words, key), key, state)


@kernel
def hang(frames: Int64, count: int, buckets: Int32) -> None:
    """Put the first `count` frames into empty buckets, by their hash."""
    mask = buckets.size - 1
    for frame in range(1, count):
        place = _hash_frame(frames[frame, 0], frames[frame, 1], frames[frame, 2]) & mask
        while buckets[place] != 0:
            place = (place + 1) & mask
        buckets[place] = frame
