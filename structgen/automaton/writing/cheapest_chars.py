"""The shortest ways through a `CharDfa`, and those of them that JSON spells with one byte for each character."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from structgen.automaton.table_format import MAX_COUNT, Int32
from structgen.regular.chardfa import CharDfa

MOST_CELLS = 1 << 18
"""In a larger table (states times classes) the ways that are no shortest ones are kept."""
_PREFERRED = bytes(byte for byte in dict.fromkeys((*b"a0 ", *range(0x20, 0x7F))) if byte not in b'"\\')
"""Printable ASCII that needs no escape, what is preferred first."""


def shortest_ends(dfa: CharDfa, classes: Sequence[int] | None = None) -> Int32:
    """int32[states]: the fewest characters (of these classes, if given) from each state to a final one; `MAX_COUNT`
    where there are none, 0 for the dead state."""
    table = dfa.next if classes is None else dfa.next[:, list(classes)]
    distances: Int32 = np.where(np.array([bool(final) for final in dfa.final]), 0, MAX_COUNT).astype(np.int32)
    distances[0] = MAX_COUNT
    while True:
        shorter = np.minimum(distances, distances[table].min(axis=1, initial=MAX_COUNT) + 1)
        shorter[0] = MAX_COUNT
        if (shorter == distances).all():
            break
        distances = shorter
    distances[0] = 0
    return distances


class PlainWays:
    """The ways through a `CharDfa` that a search for the cheapest one has to look at: one byte to each next state.

    Args:
        dfa: of the characters between quotes.
        one_end: it does not matter in which final state the text ends.
    """

    def __init__(self, dfa: CharDfa, *, one_end: bool) -> None:
        self._dfa, self._one_end = dfa, one_end and dfa.next.size <= MOST_CELLS

    def of(self, q: int) -> dict[int, int] | None:
        """The next states of `q` and the byte to each; None where a character that needs more bytes leads elsewhere.

        Where one end is as good as another, only what is on a shortest way, if plain ASCII has one.
        """
        led: dict[int, int] = {}
        row = self._dfa.next[q].tolist()
        for byte, each in self._plain:
            if row[each]:
                led.setdefault(row[each], byte)
        left = int(self._distances[q])
        if left < MAX_COUNT:
            return dict([each for each in led.items() if self._distances[each[0]] == left - 1][:1])
        return led if led.keys() >= set(row) - {0} else None

    @cached_property
    def _plain(self) -> list[tuple[int, int]]:
        """`(character, class)`: the classes with a character that is one byte, and one such."""
        bounds, classes = self._dfa.bounds.tolist(), self._dfa.classes.tolist()
        first_bytes: dict[int, int] = {}
        for byte in _PREFERRED:
            first_bytes.setdefault(classes[bisect_right(bounds, byte) - 1], byte)
        return [(byte, each) for each, byte in first_bytes.items()]

    @cached_property
    def _distances(self) -> Int32:
        """int32[states]: the fewest characters to an end where plain ASCII has as few as any way; else `MAX_COUNT`."""
        if not self._one_end:
            return np.full(len(self._dfa.next), MAX_COUNT, np.int32)
        plain = shortest_ends(self._dfa, [each for _, each in self._plain])
        distances: Int32 = np.where(plain == shortest_ends(self._dfa), plain, MAX_COUNT).astype(np.int32)
        return distances
