"""The cheapest way to end a text, in tokens.

`fewest_bytes` gives the fewest bytes. Where the vocabulary has a token for each of them, as many tokens are
enough: far from the budget's edge that one comparison is all. Near it the closing text itself is spelled in the fewest
tokens.

The distance knows no text: where tests stand on its way (unique items, look-around) or guards listen, the end is
searched for (see `agreed`) with every test answered for the text at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

import numpy as np

from structgen.endings.fewest_bytes import Distances
from structgen.endings.known_exits import Exit, NoWayOut
from structgen.endings.agreed import MOST_BYTES, Effort, EndSearch, Listener, agrees
from structgen.endings.byte_edges import Leads
from structgen.masks.grammar import Grammar, Matcher
from structgen.masks.string_slices import Uint32
from structgen.masks.words import pack
from structgen.memo import BoundedCache, cached_method, cached_up_to, once_per_object
from structgen.vocabulary import Vocabulary

UNKNOWN = 1 << 40
"""The cost of a position from which no end is known."""
SEARCHES = (1, 200), (4, 600)
"""The searches for an end, one after the other: the weight of the estimate, and how many texts may be extended."""
THOROUGH = (*SEARCHES, (4, 4000))
"""The same, where it is worth more: at the beginning of a text that owes phrases."""
LONGEST = 64
"""Bytes of the longest tokens that spell a closing text."""
MOST_ENDS = 8
"""Ends that are tried until one fits into the tokens that are left."""
MOST_COSTS, MOST_EXITS = 1 << 16, 1 << 12
"""Costs, and ends, that one grammar remembers."""


class Closing:
    """The cheapest ends of the texts of one grammar, each found once. Safe for threads, as the grammar is.

    Attributes:
        costs: the cost of each position that was asked about, see `cost`.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.costs: BoundedCache[int, int] = BoundedCache(MOST_COSTS)
        self._grammar = grammar
        self._distances = Distances(grammar.automaton)
        self.speller = Speller.of(grammar.vocabulary)
        self._leads = Leads(grammar, self.speller.single)

    @staticmethod
    def of(grammar: Grammar) -> Closing:
        """The grammar's own, made at the first call."""
        closing: Closing | None = grammar.derived.get(Closing)
        if closing is None:  # of two threads that make one, both go on with the first
            closing = grammar.derived.setdefault(Closing, Closing(grammar))
        return closing

    def cost(self, position: int) -> int:
        """A number of tokens that is enough to end the text from a position; `UNKNOWN` where no end is known.

        Where the way depends on the text there is some room in it for others, but they may be longer.
        """
        cost = self.costs.get(position)
        return self.costs.keep(position, self._cost(position)) if cost is None else cost

    def _cost(self, position: int) -> int:
        exit_ = self._end(position)
        if exit_ is None:
            return UNKNOWN
        if not self.speller.has_bytes(exit_.text):
            tokens = self.speller.spelled(exit_.text)
            return UNKNOWN if tokens is None else len(tokens)
        return 2 * len(exit_.text) + LONGEST if exit_.doubted else len(exit_.text)

    @cached_up_to(MOST_EXITS)
    def _end(self, position: int) -> Exit | None:
        with self._grammar.lock, suppress(NoWayOut):
            return self._distances.end(position)
        return None

    @cached_property
    def least(self) -> int:
        """Bytes that a whole text has at least, as far as is known."""
        with self._grammar.lock:
            try:
                return len(self._distances.end(self._grammar.start).text)
            except NoWayOut as why:
                return why.least or 0

    @cached_property
    def shortest(self) -> list[int] | None:
        """The tokens of a whole text with the fewest bytes; None where none is known."""
        return self.tokens(Matcher(self._grammar))

    def ending(self, position: int) -> bytes | None:
        """The fewest bytes to an end of the text if no test stands in their way; None where that is not known."""
        exit_ = self._end(position)
        return None if exit_ is None else exit_.text

    def leaving(self, position: int) -> bytes | None:
        """The fewest bytes behind which the value that is being written is over; None where that is not known, or
        depends on the text."""
        with self._grammar.lock:
            try:
                exit_ = self._distances.leave(position)
            except NoWayOut:
                return None
        return None if exit_.doubted else exit_.text

    def tokens(
        self,
        matcher: Matcher,
        listener: Listener | None = None,
        effort: Effort | None = None,
        most: int = MOST_BYTES,
        searches: Sequence[tuple[int, int]] = SEARCHES,
    ) -> list[int] | None:
        """The tokens of the shortest end of a text, which is a legal one; None where none is found.

        Args:
            listener: must agree to it.
            effort: is spent where the end is searched for; without it what one text may take.
            most: tokens that are of use. One of the shortest ends that needs no more is preferred.
        """
        exit_ = self._end(matcher.position)
        if exit_ is None:
            return None
        search = EndSearch(matcher, self._end, self._leads, listener, most * self.speller.longest)
        state = None if listener is None else listener.state
        if agrees(listener, state, exit_.text) and (not exit_.doubted or search.takes(exit_.text)):
            return self.speller.spelled(exit_.text)
        tokens = self._with_wanted(search, b"" if listener is None else listener.wanted(state))
        if tokens is not None:
            return tokens
        for weight, steps in searches:
            tokens = self._fitting(search.ends(weight, steps, effort or Effort()), most)
            if tokens is not None:
                break
        return tokens

    def _with_wanted(self, search: EndSearch, wanted: bytes) -> list[int] | None:
        """The fewest tokens of what a listener wants and the shortest end behind it; None where it cannot stand here.

        Many words are one token only with the space before them.
        """
        texts = [search.end_with(blank + wanted) for blank in (b"", b" ")] if wanted else []
        spelled = [self.speller.spelled(text) for text in texts if text is not None]
        return min((tokens for tokens in spelled if tokens is not None), key=len, default=None)

    def _fitting(self, texts: Iterable[bytes], most: int) -> list[int] | None:
        """The tokens of the first text that needs no more than `most`, else the fewest; None where none is spelled."""
        fewest: list[int] | None = None
        for tokens in map(self.speller.spelled, islice(texts, MOST_ENDS)):
            if tokens is not None and (fewest is None or len(tokens) < len(fewest)):
                fewest = tokens
                if len(fewest) <= most:
                    break
        return fewest


def closing_tokens(matcher: Matcher) -> list[int] | None:
    """The fewest tokens known behind which a text may end, by its shortest end.

    Args:
        matcher: where the text stands.

    Returns:
        Token ids, none after the end; None where no end is known.
    """
    return [] if matcher.finished else Closing.of(matcher.grammar).tokens(matcher)


class Speller:
    """Spells texts in the fewest tokens of a vocabulary.

    Attributes:
        single: of each byte its token, if there is one.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        single = np.flatnonzero(np.diff(vocabulary.offsets) == 1).tolist()
        self.single: dict[int, int] = {vocabulary.token(i)[0]: i for i in reversed(single)}
        self.longest = min(LONGEST, int(np.diff(vocabulary.offsets).max()))
        self._bytes = frozenset(self.single)
        self._offsets, self._data = vocabulary.offsets, vocabulary.data
        self._last: tuple[bytes, list[int], list[int], list[int]] = (b"", [0], [0], [-1])

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The lowest id of each text: not needed before a budget comes to its end."""
        offsets, data = self._offsets.tolist(), self._data.tobytes()
        spans = zip(offsets[-2::-1], offsets[:0:-1], range(len(offsets) - 2, -1, -1), strict=True)
        return {data[start:end]: i for start, end, i in spans if 0 < end - start <= LONGEST}

    @staticmethod
    @once_per_object
    def of(vocabulary: Vocabulary) -> Speller:
        """The speller of a vocabulary, made once."""
        return Speller(vocabulary)

    @cached_method
    def starting(self, first: bytes) -> Uint32:
        """The mask of the tokens that start with one of these bytes: uint32[vocabulary.words]."""
        texts = np.flatnonzero(np.diff(self._offsets) > 0)
        heads = self._data[self._offsets[:-1][texts]]
        return pack(texts[np.isin(heads, np.frombuffer(first, np.uint8))], len(self._offsets) - 1)

    def has_bytes(self, text: bytes) -> bool:
        """Is each byte of a text a token?"""
        return self._bytes.issuperset(text)

    def byte(self, byte: int) -> int:
        """The token of one byte; negative where there is none."""
        return self.single.get(byte, -1)

    def spelled(self, text: bytes) -> list[int] | None:
        """The fewest tokens that spell a text; None where none do."""
        lengths, ids = self._counted(text)
        left = len(text)
        if left and not lengths[left]:
            return None
        tokens = []
        while left:
            tokens.append(ids[left])
            left -= lengths[left]
        return tokens

    def _counted(self, text: bytes) -> tuple[list[int], list[int]]:
        """By the bytes that are left of a text: the length (0: none spell them) and the id of the first of the fewest
        tokens that spell them.

        Found from the end. The text that was asked for last mostly ends alike: so far it is known.
        """
        last, fewest, lengths, ids = self._last
        same = _alike_at_the_end(last, text) + 1
        fewest, lengths, ids = fewest[:same], lengths[:same], ids[:same]
        for left in range(same, len(text) + 1):
            start, best, taken, first = len(text) - left, UNKNOWN, 0, -1
            for length in range(1, min(LONGEST, left) + 1):
                if fewest[left - length] + 1 < best:
                    token = self._ids.get(text[start : start + length])
                    if token is not None:
                        best, taken, first = fewest[left - length] + 1, length, token
            fewest.append(best)
            lengths.append(taken)
            ids.append(first)
        self._last = text, fewest, lengths, ids
        return lengths, ids


def _alike_at_the_end(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their ends."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[-middle:] == other[-middle:]:
            low = middle
        else:
            high = middle - 1
    return low
