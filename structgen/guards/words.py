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
from structgen.guards.folding import BOUNDARY, START, Fold, FoldState

_new = tuple.__new__  # what a named tuple's own constructor comes to, in half the time
REMEMBERED = 1 << 17
"""Walks of tokens that are kept."""
MOST_BYTES = 2_000_000
"""Bytes of all words together, and units of them: each unit takes up to 250 bytes of memory."""


class Hit(NamedTuple):
    """A word stands in the text."""

    offset: int  # the first byte of the word
    word: int  # the number of the word


class WordState(NamedTuple):
    """The state of a search."""

    node: int  # of the trie; 0 is the root
    fold: FoldState  # the state of the fold
    places: tuple[int, ...]  # the bytes of the units that lead from the root to the node

    @property
    def begun(self) -> bytes:
        """The bytes of a character that is not whole."""
        return self.fold.begun


class WordStep(NamedTuple):
    """What some bytes do at a node."""

    node: int  # the next node
    fold: FoldState  # the next state of the fold
    older: int  # how many units of its path were read before
    places: tuple[int, ...]  # the bytes of the other units, counted from the first of these bytes
    word: int  # the word that ends with them; -1 for none


class WordSearch:
    """Finds the word that ends first; of words that end together the longest.

    Args:
        words: none of them without units.
        fold: what counts as the same.

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
        self._known: dict[tuple[int, FoldState, bytes], WordStep] = {}
        self.start = WordState(0, START, ())

    def _grow(self) -> list[int]:
        """The trie; the key of each node in `after` is parent * 256 + unit."""
        after, depth, sample, ends = self._after, self._depth, self._sample, self._ends
        keys = [0]
        for number, word in enumerate(self.units):
            node = 0
            for count, unit in enumerate(word, 1):
                key = node << 8 | unit
                if key not in after:
                    after[key] = len(depth)
                    depth.append(count)
                    sample.append(number)
                    ends.append(-1)
                    keys.append(key)
                node = after[key]
            if ends[node] < 0:
                ends[node] = number
        return keys

    def _fail(self, keys: Sequence[int]) -> list[int]:
        """The failure of each node. A node at which no word ends gets the longest word that ends at its failure."""
        ends, depth = self._ends, self._depth
        failure = [0] * len(keys)
        for node in sorted(range(1, len(keys)), key=depth.__getitem__):
            parent, unit = keys[node] >> 8, keys[node] & 255
            if parent:
                failure[node] = self._step(failure, failure[parent], unit)
                if ends[node] < 0:
                    ends[node] = ends[failure[node]]
        return failure

    def feed(self, state: WordState, text: bytes, base: int, *, one: bool = False) -> WordState | Hit:
        """The state after more bytes, or the first word that they end.

        Args:
            base: the byte of the whole text at which they stand.
            one: all of them come from that byte, not one from each.
        """
        node, fold, path = state
        node, fold, older, places, word = self._known.get((node, fold, text)) or self._learn(state, text)
        if not places and not older:
            return _new(WordState, (node, fold, ()))
        new = tuple([base + min(place, 0) for place in places] if one else [base + place for place in places])
        path = path[len(path) - older :] + new if older else new
        return Hit(path[0], word) if word >= 0 else _new(WordState, (node, fold, path))

    def finish(self, state: WordState) -> Hit | None:
        """The word that the end of the text completes."""
        _, word, _ = self._walk(state.node, self.fold.finish(state.fold))
        return None if word < 0 else Hit(state.places[len(state.places) + 1 - len(self.units[word])], word)

    def _learn(self, state: WordState, text: bytes) -> WordStep:
        fold, units, places = self.fold.feed(state.fold, text)
        node, word, end = self._walk(state.node, units)
        depth = self._depth[node] if word < 0 else len(self.units[word])
        new = tuple(places[:end])[-depth:] if depth else ()
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        step = self._known[state.node, state.fold, text] = WordStep(node, fold, depth - len(new), new, word)
        return step

    def _walk(self, node: int, units: bytes) -> tuple[int, int, int]:
        """The node behind the units, or behind the first ones that end a word; that word or -1; how many were read."""
        ends = self._ends
        for count, unit in enumerate(units, 1):
            after = self._after.get(node << 8 | unit)
            node = self._step(self._failure, node, unit) if after is None else after
            if ends[node] >= 0:
                return node, ends[node], count
        return node, -1, len(units)

    def _step(self, failure: Sequence[int], node: int, unit: int) -> int:
        """The node behind one more unit: of the node, or of the first of its failures from which the unit leads on."""
        after = self._after.get(node << 8 | unit)
        while after is None and node:
            node = failure[node]
            after = self._after.get(node << 8 | unit)
        return after or 0

    def contains(self, units: bytes) -> bool:
        """Does a word stand in these units?"""
        return self._walk(0, units)[1] >= 0

    def rests(self, node: int, limit: int) -> Iterator[bytes]:
        """What completes the words that have begun at a node, whatever comes first: at most `limit` units of it."""
        while node:
            begun = self.units[self._sample[node]][: self._depth[node]]
            for unit, _ in self._sorted[bisect_left(self._sorted, (begun, -1)) :]:
                if not unit.startswith(begun):
                    break
                if len(unit) <= len(begun) + limit:
                    yield unit[len(begun) :]
            node = self._failure[node]


def _require_few(count: int) -> None:
    if count > MOST_BYTES:
        raise OptionError(f"words of {count:,} bytes together: at most {MOST_BYTES:,}; ban fewer or shorter words")


def boundaries_only(units: bytes) -> bool:
    """Is there nothing in a word but its boundaries?"""
    return not units.replace(BOUNDARY, b"")
