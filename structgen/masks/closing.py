"""The cheapest way to end a text, in tokens.

`automaton.distance` gives the fewest bytes. Where the vocabulary has a token for each of them, so many tokens are
enough: far from the budget's edge that one comparison is all. Near it the closing text itself is spelled in the fewest
tokens.

The distance knows no text: where tests stand on its way (unique items, look-around) or guards listen, the end is
searched for by the A* algorithm (Hart, Nilsson and Raphael 1968), the distance being the estimate, with every test
answered for the text at hand. The estimate is admissible: no test makes a way shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from structgen.automaton.distance import Distances, Exit, NoWayOut
from structgen.errors import TokenRejected
from structgen.masks.advance import ASKS, REJECTED
from structgen.masks.late import Asked
from structgen.masks.slices import Uint32
from structgen.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structgen.automaton.reading import JsonReading
    from structgen.masks.grammar import Grammar, Matcher

UNKNOWN = 1 << 40
"""The cost where no way to an end is known."""
SEARCHES = (1, 100), (4, 1_000)
"""How an end is searched for: the weight of the estimate, and how many texts may be gone on with. With a weight above
1 the longest text goes on first, and the end that is found may not be the shortest (Pohl 1970)."""
LONGEST = 64
"""Bytes of the longest tokens that spell a closing text."""
TRIED = b'a0bcdefghijklmnopqrstuvwxyz123456789",]}: \n-.[{\\_/@AT'
"""The bytes that a search for an end tries beside the one on the shortest way."""


class Listener(Protocol):
    """What else has a say in how a text may end: guards. States are values."""

    @property
    def state(self) -> Any:
        """Behind the text as it stands."""

    def after(self, state: Any, text: bytes) -> Any | None:
        """The state behind more bytes; None where they are refused."""

    def may_end(self, state: Any) -> bool:
        """May the text end in this state?"""


class Closing:
    """The cheapest ends of the texts of one grammar, each found once. Safe for threads, as the grammar is.

    Attributes:
        costs: of each position that was asked about, see `cost`.
        speller: of the vocabulary.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.costs: dict[int, int] = {}
        self._grammar = grammar
        self._distances = Distances(grammar.automaton)
        self.speller = Speller.of(grammar.vocabulary)

    def cost(self, position: int) -> int:
        """So many tokens are enough to end the text from a position; `UNKNOWN` where no end is known.

        Where the way depends on the text there is some room in it for others, but they may be longer.
        """
        found = self.costs.get(position)
        if found is None:
            found = self.costs[position] = self._cost(position)
        return found

    def _cost(self, position: int) -> int:
        way = self._end(position)
        if way is None:
            return UNKNOWN
        if not self.speller.has_bytes(way.text):
            tokens = self.speller.spelled(way.text)
            return UNKNOWN if tokens is None else len(tokens)
        return 2 * len(way.text) + LONGEST if way.doubted else len(way.text)

    def _end(self, position: int) -> Exit | None:
        with self._grammar.lock:
            try:
                return self._distances.end(position)
            except NoWayOut:
                return None

    def ending(self, position: int) -> bytes | None:
        """The fewest bytes to an end of the text if no test stands in their way; None where that is not known."""
        way = self._end(position)
        return None if way is None else way.text

    def leaving(self, position: int) -> bytes | None:
        """The fewest bytes behind which the value that is being written is over; None where that is not known, or
        depends on the text."""
        with self._grammar.lock:
            try:
                way = self._distances.leave(position)
            except NoWayOut:
                return None
        return None if way.doubted else way.text

    def tokens(self, matcher: Matcher, listener: Listener | None = None) -> list[int] | None:
        """The tokens of the shortest end of a text, which is a legal one; None where none is found.

        Args:
            matcher: where the text stands.
            listener: must agree to it.
        """
        way = self._end(matcher.position)
        if way is None:
            return None
        if (listener is None or _agrees(listener, way.text)) and (not way.doubted or self._takes(matcher, way.text)):
            return self.speller.spelled(way.text)
        for weight, steps in SEARCHES:
            for text in self._searched(matcher, listener, weight, steps):
                if (tokens := self.speller.spelled(text)) is not None:
                    return tokens
        return None

    def _takes(self, matcher: Matcher, text: bytes) -> bool:
        """Do all tests agree to an end?"""
        walk = matcher.fork()
        for byte in text:
            try:
                walk.advance(self.speller.byte(byte))
            except TokenRejected:
                return False
        return walk.can_finish

    def _searched(self, matcher: Matcher, listener: Listener | None, weight: int, steps: int) -> Iterator[bytes]:
        """Ends of a text that all tests and the listener agree to, the shortest first."""
        order = count()
        start = _Step(matcher.position, b"", None if listener is None else listener.state)
        queue = [(0, 0, 0, start)]

        def reading(step: _Step) -> JsonReading:
            return matcher.reading().feed(step.text)

        while queue and steps:
            estimate, _, _, step = heappop(queue)
            way = self._end(step.position)
            if way is None:
                continue
            total = len(step.text) + weight * len(way.text)
            if total > estimate:  # its estimate was that of the text before it
                heappush(queue, (total, -len(step.text), next(order), step))
                continue
            steps -= 1
            ends = self._grammar.may_end(step.position, partial(reading, step))
            if ends and (listener is None or listener.may_end(step.state)):
                yield step.text
            for following in self._following(step, way.text, partial(reading, step), listener):
                heappush(queue, (total, -len(following.text), next(order), following))

    def _following(
        self, step: _Step, likely: bytes, reading: Callable[[], JsonReading], listener: Listener | None
    ) -> Iterator[_Step]:
        """The text with one more byte, for each that is tried and may come; first the one on the shortest way."""
        asked: Asked | None = None
        for byte in dict.fromkeys(likely[:1] + TRIED):
            token = self.speller.byte(byte)
            position = REJECTED if token < 0 else self._grammar.advance(step.position, token)
            if position == ASKS:
                asked = asked or Asked(reading())
                position = self._grammar.follow(step.position, token, asked)
            if position < 0:
                continue
            state = None if listener is None else listener.after(step.state, bytes([byte]))
            if listener is None or state is not None:
                yield _Step(position, step.text + bytes([byte]), state)


class _Step:
    """A text on the way to an end: its position, what was added, the listener's state."""

    __slots__ = ("position", "state", "text")

    def __init__(self, position: int, text: bytes, state: Any) -> None:
        self.position, self.text, self.state = position, text, state


def _agrees(listener: Listener, text: bytes) -> bool:
    state = listener.after(listener.state, text)
    return state is not None and listener.may_end(state)


class Speller:
    """Spells texts in the fewest tokens of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        single = np.flatnonzero(np.diff(vocabulary.offsets) == 1).tolist()
        self._single: dict[int, int] = {vocabulary.token(i)[0]: i for i in reversed(single)}
        self._bytes = frozenset(self._single)
        self._offsets, self._data = vocabulary.offsets, vocabulary.data
        self._starting: dict[bytes, Uint32] = {}
        self._last: tuple[bytes, list[int], list[int]] = (b"", [0], [0])

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The lowest id of each text: not needed before a budget comes to its end."""
        offsets, data = self._offsets.tolist(), self._data.tobytes()
        spans = zip(offsets[-2::-1], offsets[:0:-1], range(len(offsets) - 2, -1, -1), strict=True)
        return {data[start:end]: i for start, end, i in spans if 0 < end - start <= LONGEST}

    @staticmethod
    def of(vocabulary: Vocabulary) -> Speller:
        """That of a vocabulary, made once."""
        found = _spellers.get(vocabulary)
        if found is None:
            found = _spellers[vocabulary] = Speller(vocabulary)
        return found

    def starting(self, first: bytes) -> Uint32:
        """The mask of the tokens that start with one of these bytes: uint32[vocabulary.words]."""
        found = self._starting.get(first)
        if found is None:
            texts = np.flatnonzero(np.diff(self._offsets) > 0)
            heads = self._data[self._offsets[:-1][texts]]
            bits = np.zeros((len(self._offsets) + 30) // 32 * 32, np.uint8)
            bits[texts[np.isin(heads, np.frombuffer(first, np.uint8))]] = 1
            found = self._starting[first] = np.packbits(bits, bitorder="little").view(np.uint32)
        return found

    def has_bytes(self, text: bytes) -> bool:
        """Is each byte of a text a token?"""
        return self._bytes.issuperset(text)

    def byte(self, byte: int) -> int:
        """The token of one byte; negative where there is none."""
        return self._single.get(byte, -1)

    def spelled(self, text: bytes) -> list[int] | None:
        """The fewest tokens that spell a text; None where none do."""
        fewest, lengths = self._counted(text)
        left = len(text)
        if fewest[left] >= UNKNOWN:
            return None
        tokens = []
        while left:
            start = len(text) - left
            tokens.append(self._ids[text[start : start + lengths[left]]])
            left -= lengths[left]
        return tokens

    def _counted(self, text: bytes) -> tuple[list[int], list[int]]:
        """By the bytes that are left of a text: the fewest tokens that spell them, and the length of the first.

        Found from the end. The text that was asked for last mostly ends alike: so far it is known.
        """
        last, fewest, lengths = self._last
        behind = zip(reversed(last), reversed(text), strict=False)
        same = next((i for i, (a, b) in enumerate(behind) if a != b), min(len(last), len(text)))
        fewest, lengths = fewest[: same + 1], lengths[: same + 1]
        for left in range(same + 1, len(text) + 1):
            start, best, taken = len(text) - left, UNKNOWN, 0
            for length in range(1, min(LONGEST, left) + 1):
                if fewest[left - length] + 1 < best and text[start : start + length] in self._ids:
                    best, taken = fewest[left - length] + 1, length
            fewest.append(best)
            lengths.append(taken)
        self._last = text, fewest, lengths
        return fewest, lengths


_spellers: WeakKeyDictionary[Vocabulary, Speller] = WeakKeyDictionary()
