"""What a grammar's mask and the canonical tokens have in common: kernels."""

from __future__ import annotations

from structgen.automaton.step import int64
from structgen.automaton.table_format import Int64
from structgen.kernels import kernel
from structgen.masks.canonical_walk import WIDE
from structgen.masks.string_slices import Uint32


@kernel
def overlap(words: Uint32, others: Uint32, both: Uint32) -> int:
    """Write what two masks have in common: how many tokens it is; `WIDE + 1` where they are more."""
    for i in range(len(words)):
        both[i] = words[i] & others[i]
    count: int = int64(0)
    for i in range(len(words)):
        bits = int64(both[i])
        while bits != 0:
            bits &= bits - 1
            count += 1
            if count > WIDE:
                return count
    return count


@kernel
def few(words: Uint32, tokens: Int64) -> int:
    """Write the tokens that a mask allows, in ascending order: how many they are; `WIDE + 1` where they are more.

    Args:
        tokens: int64[WIDE], written to.
    """
    count: int = int64(0)
    for block in range(0, len(words), 8):
        k, end = block, block + 8
        if end <= len(words):
            first, second = words[k] | words[k + 1] | words[k + 2] | words[k + 3], words[k + 4] | words[k + 5]
            if first | second | words[k + 6] | words[k + 7] == 0:
                continue
        for i in range(k, min(end, len(words))):
            bits, token = int64(words[i]), int64(32 * i)
            while bits != 0:
                if bits & 1:
                    if count == WIDE:
                        return count + 1
                    tokens[count] = token
                    count += 1
                bits, token = bits >> 1, token + 1
    return count
