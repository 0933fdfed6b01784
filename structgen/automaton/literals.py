"""Many literals at once: a whole key trie is written by one kernel call, never byte by byte from Python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from structgen.automaton.machine import Automaton
from structgen.automaton.step import edge, edges_at, int64, states_at
from structgen.automaton.tables import (
    COUNT, GOTO, HI, KIND, LO, MISS, NEED, NOTHING, OVERLAY, RANGES, START, TARGET, UNBOUNDED, A, B, Int32,
)  # fmt: skip
from structgen.kernels import kernel


def write_literals(
    automaton: Automaton, state: int, literals: Iterable[tuple[bytes, int]], *, inner: int = 0, other: int = 0
) -> None:
    """Expand `state` into a trie of `(literal, target)`. No literal may be a prefix of another.

    Args:
        inner: where `other` is inside a free string, the state of its block in which any text goes on; else 0.
        other: a state of the same frame that takes every text that leaves the trie. What the literals have in common
            with it must have been written.
    """
    pairs = sorted(literals)
    blob = b"".join([literal for literal, _ in pairs])
    tables = automaton.tables
    tables.reserve(states=len(blob), edges=len(blob))
    ends = np.fromiter(accumulate(len(literal) for literal, _ in pairs), np.int32, len(pairs))
    targets = np.fromiter((target for _, target in pairs), np.int32, len(pairs))
    data = np.frombuffer(blob, np.uint8)
    todo: Int32 = np.zeros((len(pairs) + 1, 5), np.int32)
    todo[0] = (0, len(pairs), 0, state, other)
    tables.n_states, tables.n_edges = insert_literals(
        tables.base, data, ends, targets, todo, inner, tables.n_states, tables.n_edges
    )


def after_text(automaton: Automaton, state: int, text: bytes) -> int:
    """The state after `text`, where none of it leaves the frame or counts; 0 when it is not taken. All is written."""
    for byte in text:
        automaton.expand(state)
        edges = automaton.tables.edges_of(state)
        state = next((target & TARGET for low, high, target in edges if low <= byte <= high and target > 0), 0)
        if not state:
            break
    return state


@kernel
def insert_literals(
    base: int, blob: npt.NDArray[np.uint8], ends: Int32, targets: Int32, todo: Int32, inner: int,
    n_states: int, n_edges: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the trie of the sorted literals `blob[ends[i - 1]:ends[i]]`; the new counts.

    A node is the range of literals that share its prefix. The stack `todo` holds the nodes still to be written, the
    root being the first: from literal, to literal, length of the prefix, state, state of the other text (0: none).
    """
    states, edges = states_at(base), edges_at(base)
    left = 1
    while left:
        left -= 1
        a, end, depth = todo[left, 0], todo[left, 1], todo[left, 2]
        state, fallback = todo[left, 3], todo[left, 4]
        states[state, START] = n_edges
        while a < end:
            start = ends[a - 1] if a else 0
            byte = blob[start + depth]
            b = a + 1
            while b < end and blob[ends[b - 1] + depth] == byte:
                b += 1
            target = targets[a]
            if b > a + 1 or ends[a] - start > depth + 1:
                target = n_states
                n_states += 1
                after = 0
                if fallback:
                    taken = edge(base, int64(fallback), int64(byte))
                    # The quote that closes the other text ends what the literals have in common with it.
                    after = taken & TARGET if taken > 0 and not taken & NEED else 0
                todo[left, 0], todo[left, 1], todo[left, 2] = a, b, depth + 1
                todo[left, 3], todo[left, 4] = target, after
                left += 1
            edges[n_edges, 0] = byte | byte << 8
            edges[n_edges, 1] = target
            n_edges += 1
            a = b
        states[state, KIND] = RANGES
        if fallback and inner:
            states[state, KIND] = RANGES | OVERLAY << 4 | (fallback != inner) << 8
        states[state, COUNT] = n_edges - states[state, START]
        states[state, MISS] = GOTO if fallback else NOTHING
        states[state, A], states[state, B] = fallback, 0
        states[state, LO], states[state, HI] = 0, UNBOUNDED
    return n_states, n_edges
