"""The search for many words at once: the automaton of Aho and Corasick (1975) over units (see `folding`).

The automaton is a trie of all words. If the next unit leads nowhere, the walk continues from the node's *failure*. The
failure is the node of the longest proper suffix of the node's path that begins a word. The walk of a token is
remembered by its start node, so a text without a hit costs one dictionary look-up per token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError
from structgen.guards.folding import BROKEN, START, Fold, FoldState
from structgen.masks.suspicious import starting_with
from structgen.memo import BoundedCache
from structgen.vocabulary import Vocabulary

_new = tuple.__new__  # does what a named tuple's constructor does, in half the time
REMEMBERED = 1 << 17
"""The number of walks of tokens that are remembered."""
FEW = 200
"""Up to this many words, each word is searched in all tokens at once."""
MAX_BYTES = 2_000_000
"""The largest size of all words together, in bytes and in units. Each unit takes up to 250 bytes of memory."""


class Hit(NamedTuple):
    """A word is in the text."""

    offset: int  # the first byte of the word
    word: int  # the number of the word


class WordState(NamedTuple):
    """The state of a search."""

    node: int  # of the trie; 0 is the root
    fold: FoldState  # the state of the fold
    places: tuple[int, ...]  # where each unit on the path from the root to the node comes from: a byte of the text

    @property
    def begun(self) -> bytes:
        """The first bytes of an incomplete character."""
        return self.fold.begun


class WordStep(NamedTuple):
    """The effect of some bytes at a node."""

    node: int  # the next node
    fold: FoldState  # the next state of the fold
    older: int  # the units on the next node's path that were read before these bytes
    places: tuple[int, ...]  # the places of the other units on the path, counted from the first of these bytes
    word: int  # the number of the word that they complete; -1 for none


class WordSearch:
    """Finds the word that ends first; of words that end together, the longest.

    Args:
        words: each has at least one unit.
        fold: tells which texts count as the same.

    Raises:
        OptionError: the words have more than `MAX_BYTES` together.
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
        self._sorted = sorted(self.units)
        self._known: BoundedCache[tuple[int, FoldState, bytes], WordStep] = BoundedCache(REMEMBERED)
        self.start = WordState(0, START, ())

    def _grow(self) -> list[int]:
        """Makes the trie. Returns the key of each node in `_after`: parent * 256 + unit."""
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
        """The failure of each node. A node where no word ends is given the longest word that ends at its failure."""
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
        """The state after further bytes, or the first word that they complete.

        Args:
            base: the offset of the first of these bytes in the whole text.
            one: do all of them come from this offset, because an escape spells them?
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
        return self._known.keep((state.node, state.fold, text), WordStep(node, fold, depth - len(new), new, word))

    def _walk(self, node: int, units: bytes) -> tuple[int, int, int]:
        """The node after the units, or after the first word in them; this word, or -1; the number of units read."""
        ends = self._ends
        for count, unit in enumerate(units, 1):
            after = self._after.get(node << 8 | unit)
            node = self._step(self._failure, node, unit) if after is None else after
            if ends[node] >= 0:
                return node, ends[node], count
        return node, -1, len(units)

    def _step(self, failure: Sequence[int], node: int, unit: int) -> int:
        """The node after one more unit, from the node or from the first of its failures that has the unit."""
        after = self._after.get(node << 8 | unit)
        while after is None and node:
            node = failure[node]
            after = self._after.get(node << 8 | unit)
        return after or 0

    def contains(self, units: bytes) -> bool:
        """Do these units contain a word?"""
        return self._walk(0, units)[1] >= 0

    def rests(self, node: int, limit: int) -> Iterator[bytes]:
        """The rests of the words that have started at a node, up to `limit` units long."""
        while node:
            size = self._depth[node]
            begun = self.units[self._sample[node]][:size]
            words = self._sorted[starting_with(self._sorted, begun)]
            yield from (units[size:] for units in words if len(units) <= size + limit)
            node = self._failure[node]


class WordTokens:
    """Finds the tokens that could complete a word, without reading the whole vocabulary at each step.

    The tokens are sorted by their units, which are those at the end of a text.

    Args:
        last: the kind of the character before the token.
    """

    def __init__(self, vocabulary: Vocabulary, search: WordSearch, last: int) -> None:
        self._search = search
        self._units, self._ids = _sorted(vocabulary, search.fold, last)
        self._longest = max(map(len, self._units), default=0)
        self._hits = self._ids[self._with_words()]

    def _with_words(self) -> NDArray[np.int64]:
        """The indexes of the tokens that contain a word."""
        words = self._search.units
        if len(words) > FEW:
            hits = [index for index, units in enumerate(self._units) if self._search.contains(units)]
            return np.array(hits, np.int64)
        text = BROKEN.join(self._units)
        starts = np.cumsum([0, *(len(units) + 1 for units in self._units)])
        places = [match.start() for word in words for match in re.finditer(b"(?=%b)" % re.escape(word), text)]
        return np.unique(np.searchsorted(starts, np.array(places, np.int64), side="right") - 1)

    def suspects(self, node: int) -> NDArray[np.int64]:
        """The tokens that contain a word, or begin with the rest of a word that has started at a node."""
        rests = set(self._search.rests(node, self._longest))
        starting = [self._ids[starting_with(self._units, rest)] for rest in rests]
        return np.unique(np.concatenate([self._hits, *starting]))


@lru_cache(maxsize=16)
def _sorted(vocabulary: Vocabulary, fold: Fold, last: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """The units of all tokens, sorted, and their ids. A token that ends in a word has a boundary at its end."""
    begun, pairs = FoldState(b"", last), []
    for i in range(vocabulary.width):
        if text := vocabulary.token(i):
            after, units, _ = fold.feed(begun, text)
            pairs.append((units + fold.finish(after), i))
    pairs.sort()
    return [units for units, _ in pairs], np.array([i for _, i in pairs], np.int64)


def _require_few(count: int) -> None:
    if count > MAX_BYTES:
        raise OptionError(f"the words have {count:,} bytes, the limit is {MAX_BYTES:,}: ban fewer or shorter words")
