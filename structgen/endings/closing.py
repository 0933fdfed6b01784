"""The cheapest end of a text, in tokens.

`fewest_bytes` gives the shortest end in bytes. If the vocabulary has a token for each byte, at most as many tokens are
needed. Far from the end of the budget, this comparison is enough. Near it, the shortest end is spelled in the fewest
tokens.

`fewest_bytes` does not know the text. If tests are on the path (unique items, look-around) or guards listen, an end is
searched with each test answered for the text (see `agreed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

import numpy as np

from structgen.endings.fewest_bytes import Distances
from structgen.endings.frame_search import Exit, NoWayOut
from structgen.endings.agreed import ByteLeads, SearchEffort, EndSearch, Listener, agrees
from structgen.masks.grammar import Grammar, Matcher
from structgen.masks.string_slices import Uint32
from structgen.masks.words import pack
from structgen.memo import BoundedCache, cached_method, once_per_object
from structgen.patience import check_patience
from structgen.vocabulary import Vocabulary

UNKNOWN = 1 << 40
"""The cost of a position from which no end is known."""
SEARCHES = (1, 200), (4, 600)
"""The searches for an end that are tried in turn: the weight of the estimate, and the texts that may be extended."""
THOROUGH = (*SEARCHES, (4, 4000))
"""The searches at the beginning of a text that must contain phrases, where more effort pays."""
MAX_BYTES = 1 << 20
"""The bytes of the longest end that is written out."""
LONGEST = 64
"""The number of bytes of the longest token that spells an end."""
MAX_ENDS = 8
"""The number of ends that are tried until one fits into the tokens that are left."""
MAX_ENDS_KEPT = 1 << 12
"""The number of ends that one grammar remembers."""

Spell = Callable[[bytes], "list[int] | None"]


class Closing:
    """The cheapest ends of the texts of one grammar. Safe for threads, as the grammar is."""

    def __init__(self, grammar: Grammar) -> None:
        self._ends: BoundedCache[int, Exit | None] = BoundedCache(MAX_ENDS_KEPT)
        self._grammar = grammar
        self._distances = Distances(grammar.automaton)
        self.speller = TokenSpeller.of(grammar.vocabulary)
        self._leads = ByteLeads(grammar, self.speller.single)

    @staticmethod
    def of(grammar: Grammar) -> Closing:
        """The `Closing` of a grammar. It is made by the first call."""
        closing: Closing | None = grammar.derived.get(Closing)
        if closing is None:  # if two threads make one, both continue with the first
            closing = grammar.derived.setdefault(Closing, Closing(grammar))
        return closing

    def cost(self, position: int) -> int:
        """A number of tokens with which the text can end from a position; `UNKNOWN` if no end is known.

        If the shortest end depends on the text, the number has a margin for other ends. They may still be longer.
        """
        exit_ = self._end(position)
        if exit_ is None:
            return UNKNOWN
        size = exit_.text.size
        if len(self.speller.singles) < 256 and exit_.text.outside(self.speller.singles):
            tokens = self.speller.spelled(exit_.text.read()) if size <= MAX_BYTES else None
            return UNKNOWN if tokens is None else len(tokens)
        return min(2 * size + LONGEST if exit_.doubted else size, UNKNOWN - 1)

    def cost_behind(self, token: bytes, before: int, position: int) -> int:
        """`cost(position)`, given the position before a token that has led there."""
        self.follow(token, before, position)
        return self.cost(position)

    def follow(self, token: bytes, before: int, position: int) -> None:
        """Takes the end at a position from the one before a token that has led there.

        If the end there begins with the token, what is left of it is the end here: there is no shorter one. Unless a
        part has come to its limit, and may only end from here on.
        """
        known = position in self._ends or self._grammar.budgets is not None
        end = None if known else self._ends.get(before)
        if end is not None and not end.doubted and end.text.first(len(token)) == token:
            self._ends.keep(position, Exit(end.text.after(len(token)), 0, end.barred, False))

    def _end(self, position: int) -> Exit | None:
        return self._ends.kept(position, self._searched, position)

    def _searched(self, position: int) -> Exit | None:
        with self._grammar.lock, suppress(NoWayOut):
            return self._distances.end(position)
        return None

    @cached_property
    def least(self) -> int:
        """A lower bound of the number of bytes of a whole text."""
        with self._grammar.lock:
            try:
                return self._distances.end(self._grammar.start).text.size
            except NoWayOut as why:
                return why.least or 0

    @cached_property
    def shortest(self) -> list[int] | None:
        """The tokens of a whole text with the fewest bytes; None if none is known."""
        return self.tokens(Matcher(self._grammar))

    def ending(self, position: int) -> bytes | None:
        """The shortest end of the text, if each test is answered as the end needs it; None if none is known, or it has
        more than `MAX_BYTES`."""
        exit_ = self._end(position)
        return None if exit_ is None or exit_.text.size > MAX_BYTES else exit_.text.read()

    def beginning(self, position: int, size: int) -> bytes | None:
        """The first `size` bytes of `ending`, or all if they are fewer; None if no end is known."""
        exit_ = self._end(position)
        return None if exit_ is None else exit_.text.first(size)

    def leaving(self, position: int) -> bytes | None:
        """The fewest bytes that end the innermost open value; None if they are not known or depend on the text."""
        with self._grammar.lock, suppress(NoWayOut):
            exit_ = self._distances.leave(position)
            return None if exit_.doubted or exit_.text.size > MAX_BYTES else exit_.text.read()
        return None

    def tokens(
        self,
        matcher: Matcher,
        listener: Listener | None = None,
        effort: SearchEffort | None = None,
        maximum: int = MAX_BYTES,
        searches: Sequence[tuple[int, int]] = SEARCHES,
        spell: Spell | None = None,
    ) -> list[int] | None:
        """The tokens of the shortest end that tests and listener agree to; None if none is found.

        Args:
            listener: it must agree to the end.
            effort: what the searches may spend; None for the effort of one text.
            maximum: an end of at most this many tokens is preferred to a shorter text of more tokens.
            searches: the weight and the steps of each search (see `EndSearch.ends`).
            spell: the tokens of an end, None if it has none; by default the fewest.
        """
        spell = spell or self.speller.spelled
        exit_, limit = self._end(matcher.position), min(maximum * self.speller.longest, MAX_BYTES)
        if exit_ is None or exit_.text.size > limit:
            return None
        search = EndSearch(matcher, self._end, self._leads, listener, limit)
        state, end = None if listener is None else listener.state, exit_.text.read()
        if agrees(listener, state, end) and (not exit_.doubted or search.takes(end)):
            return spell(end)
        tokens = self._with_wanted(search, b"" if listener is None else listener.wanted(state), spell)
        if tokens is not None:
            return tokens
        for weight, steps in searches:
            tokens = self._fitting(search.ends(weight, steps, effort or SearchEffort()), maximum, spell)
            if tokens is not None:
                break
        return tokens

    def _with_wanted(self, search: EndSearch, wanted: bytes, spell: Spell) -> list[int] | None:
        """The tokens of the text `wanted` and the shortest end after it; None if `wanted` may not come here.

        It is also tried with a space before it, since many words are a single token only with the space.
        """
        texts = [search.end_with(blank + wanted) for blank in (b"", b" ")] if wanted else []
        spelled = [spell(text) for text in texts if text is not None]
        return min((tokens for tokens in spelled if tokens is not None), key=len, default=None)

    def _fitting(self, texts: Iterable[bytes], maximum: int, spell: Spell) -> list[int] | None:
        """The tokens of the first text that needs at most `maximum`, else the fewest; None if none is spelled."""
        fewest: list[int] | None = None
        for tokens in map(spell, islice(texts, MAX_ENDS)):
            if tokens is not None and (fewest is None or len(tokens) < len(fewest)):
                fewest = tokens
                if len(fewest) <= maximum:
                    break
        return fewest


def closing_tokens(matcher: Matcher) -> list[int] | None:
    """The tokens of the shortest known end of a text.

    Args:
        matcher: the text so far. The matcher does not move.

    Returns:
        The token ids; an empty list if the text has ended; None if no end is known.
    """
    return [] if matcher.finished else Closing.of(matcher.grammar).tokens(matcher)


class TokenSpeller:
    """Spells texts in the fewest tokens of a vocabulary.

    Attributes:
        single: the token of each byte that has one.
        singles: these bytes.
        longest: the number of bytes of the longest token, at most `LONGEST`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        single = np.flatnonzero(np.diff(vocabulary.offsets) == 1).tolist()
        self.single: dict[int, int] = {vocabulary.token(i)[0]: i for i in reversed(single)}
        self.singles = bytes(self.single)
        self.longest = min(LONGEST, int(np.diff(vocabulary.offsets).max()))
        self._offsets, self._data = vocabulary.offsets, vocabulary.data
        self._last: tuple[bytes, list[int], list[int], list[int]] = (b"", [0], [0], [-1])

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """A token's bytes -> its lowest id. It is made when a budget first ends."""
        offsets, data = self._offsets.tolist(), self._data.tobytes()
        spans = zip(offsets[-2::-1], offsets[:0:-1], range(len(offsets) - 2, -1, -1), strict=True)
        return {data[start:end]: i for start, end, i in spans if 0 < end - start <= LONGEST}

    @staticmethod
    @once_per_object
    def of(vocabulary: Vocabulary) -> TokenSpeller:
        """The speller of a vocabulary. It is made once."""
        return TokenSpeller(vocabulary)

    @cached_method
    def starting(self, first: bytes) -> Uint32:
        """The mask of the tokens that start with one of these bytes: uint32[vocabulary.words]."""
        texts = np.flatnonzero(np.diff(self._offsets) > 0)
        heads = self._data[self._offsets[:-1][texts]]
        return pack(texts[np.isin(heads, np.frombuffer(first, np.uint8))], len(self._offsets) - 1)

    def spelled(self, text: bytes) -> list[int] | None:
        """The fewest tokens that spell a text; None if no tokens spell it."""
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
        """The best first token for the last n bytes of a text, for each n: its length and its id.

        The length is 0 if no tokens spell these bytes. The lists are filled from the end of the text. They are reused
        for the bytes that this text and the previous one have in common at their ends.
        """
        last, fewest, lengths, ids = self._last
        same = _alike_at_the_end(last, text) + 1
        fewest, lengths, ids = fewest[:same], lengths[:same], ids[:same]
        for left in range(same, len(text) + 1):
            check_patience()
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
    """The number of bytes that two texts have in common at their ends."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[-middle:] == other[-middle:]:
            low = middle
        else:
            high = middle - 1
    return low
