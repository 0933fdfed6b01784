"""Many words at once: the automaton of Aho and Corasick (1975) over units.

It is a trie of all words; behind a unit that leads nowhere, the walk goes on from the longest other beginning of a word
that the text ends with (the node's *failure*). A token's walk is remembered by where it started, so that a stream
without a hit costs one look into a dictionary per token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from structgen.errors import OptionError
from structgen.guards.folding import BOUNDARY, START, Fold, Folding

_new = tuple.__new__  # what a named tuple's own constructor comes to, in half the time
REMEMBERED = 1 << 17
"""Walks of tokens that are kept."""
MOST_BYTES = 2_000_000
"""Bytes of all words together, and units of them: each unit takes up to 250 bytes of memory."""


class Hit(NamedTuple):
    """A word stands in the text.

    Attributes:
        offset: its first byte.
        word: its number.
    """

    offset: int
    word: int


class WordPlace(NamedTuple):
    """Where a search stands.

    Attributes:
        node: of the trie; 0 is the root.
        fold: where the fold stands.
        path: the byte of the text of each unit that leads from the root to the node.
    """

    node: int
    fold: Folding
    path: tuple[int, ...]


class WordStep(NamedTuple):
    """What some bytes do at a node: the next node or a hit, and its path: so many units that are known already, and
    the places of the others, counted from the first of these bytes."""

    node: int
    fold: Folding
    older: int
    places: tuple[int, ...]
    word: int


class WordSearch:
    """Finds the word that ends first; of words that end together the longest.

    Args:
        words: none of them without units.
        fold: what counts as the same.

    Attributes:
        units: of each word.

    Raises:
        OptionError: the words have more than `MOST_BYTES` together.
    """

    def __init__(self, words: Sequence[str], fold: Fold) -> None:
        self.fold = fold
        _require_few(sum(len(word.encode()) for word in words))
        self.units = [fold.units(word) for word in words]
        _require_few(sum(map(len, self.units)))
        self._after: dict[int, int] = {}
        self._depth, self._sample, self._ends = [0], [0], [-1]
        keys = self._grow()
        self._failure = self._fail(keys)
        self._sorted = sorted((unit, word) for word, unit in enumerate(self.units))
        self._known: dict[tuple[int, Folding, bytes], WordStep] = {}
        self.start = WordPlace(0, START, ())

    def _grow(self) -> list[int]:
        """The trie; the key of each node in `after` is parent * 256 + unit."""
        after, depth, sample, ends = self._after, self._depth, self._sample, self._ends
        keys = [0]
        for number, word in enumerate(self.units):
            node = 0
            for count, unit in enumerate(word, 1):
                key = node << 8 | unit
                found = after.get(key)
                if found is None:
                    found = after[key] = len(depth)
                    depth.append(count)
                    sample.append(number)
                    ends.append(-1)
                    keys.append(key)
                node = found
            if ends[node] < 0:
                ends[node] = number
        return keys

    def _fail(self, keys: Sequence[int]) -> list[int]:
        """Of each node its failure. A node at which no word ends gets the longest that ends at its failure."""
        after, ends, depth = self._after, self._ends, self._depth
        failure = [0] * len(keys)
        for node in sorted(range(1, len(keys)), key=depth.__getitem__):
            parent, unit = keys[node] >> 8, keys[node] & 255
            if parent:
                back, found = failure[parent], after.get(failure[parent] << 8 | unit)
                while found is None and back:
                    back = failure[back]
                    found = after.get(back << 8 | unit)
                failure[node] = found or 0
                if ends[node] < 0:
                    ends[node] = ends[failure[node]]
        return failure

    def feed(self, at: WordPlace, text: bytes, base: int, *, one: bool = False) -> WordPlace | Hit:
        """Where the search stands after more bytes, or the first word that they end.

        Args:
            at: where it stands.
            base: the byte of the whole text at which they stand.
            one: all of them come from that byte, not one from each.
        """
        node, fold, path = at
        node, fold, older, places, word = self._known.get((node, fold, text)) or self._learn(at, text)
        if not places and not older:
            return _new(WordPlace, (node, fold, ()))
        new = tuple([base + min(place, 0) for place in places] if one else [base + place for place in places])
        path = path[len(path) - older :] + new if older else new
        return Hit(path[0], word) if word >= 0 else _new(WordPlace, (node, fold, path))

    def finish(self, at: WordPlace) -> Hit | None:
        """The word that the end of the text completes."""
        _, word, _ = self._walk(at.node, self.fold.finish(at.fold))
        return None if word < 0 else Hit(at.path[len(at.path) + 1 - len(self.units[word])], word)

    def _learn(self, at: WordPlace, text: bytes) -> WordStep:
        fold, units, places = self.fold.feed(at.fold, text)
        node, word, end = self._walk(at.node, units)
        depth = self._depth[node] if word < 0 else len(self.units[word])
        new = tuple(places[:end])[-depth:] if depth else ()
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        step = self._known[at.node, at.fold, text] = WordStep(node, fold, depth - len(new), new, word)
        return step

    def _walk(self, node: int, units: bytes) -> tuple[int, int, int]:
        """The node behind the units, or behind the first ones that end a word; that word or -1; how many were read."""
        after, failure, ends = self._after, self._failure, self._ends
        for at, unit in enumerate(units):
            found = after.get(node << 8 | unit)
            while found is None and node:
                node = failure[node]
                found = after.get(node << 8 | unit)
            node = found or 0
            if ends[node] >= 0:
                return node, ends[node], at + 1
        return node, -1, len(units)

    def contains(self, units: bytes) -> bool:
        """Does a word stand in these units?"""
        return self._walk(0, units)[1] >= 0

    def rests(self, node: int, most: int) -> Iterator[bytes]:
        """What completes the words that have begun at a node, whatever comes first: `most` units at most."""
        while node:
            begun = self.units[self._sample[node]][: self._depth[node]]
            for unit, _ in self._sorted[bisect_left(self._sorted, (begun, -1)) :]:
                if not unit.startswith(begun):
                    break
                if len(unit) <= len(begun) + most:
                    yield unit[len(begun) :]
            node = self._failure[node]


def _require_few(count: int) -> None:
    if count > MOST_BYTES:
        raise OptionError(f"words of {count:,} bytes together: at most {MOST_BYTES:,}; ban fewer or shorter words")


def boundaries_only(units: bytes) -> bool:
    """Is there nothing in a word but its boundaries?"""
    return not units.replace(BOUNDARY, b"")
