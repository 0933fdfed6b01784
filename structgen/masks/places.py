"""The positions that the texts of a grammar have reached, with their masks and the ways between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    BLOCK_EXITS, BLOCK_FIRST, BLOCK_STATES, CHARS, COUNT_SHIFT, FREE, KIND, PLAIN, TARGET, YES,
)  # fmt: skip
from structgen.automaton.tables import Tables
from structgen.automaton.writing.strings import VALUE
from structgen.automaton.writing.text_loops import QUOTED_BITS
from structgen.errors import DeadEnd
from structgen.masks.alike import alike
from structgen.masks.budgets import DepthLimit
from structgen.masks.string_slices import Uint32
from structgen.masks.tested import TestedMask
from structgen.masks.text_walk import home, longest_token, nearly_covered, spare_room
from structgen.masks.transitions import Transitions
from structgen.masks.walk import TESTED
from structgen.memo import cached_up_to, once_per_object
from structgen.vocabulary import Vocabulary

Filled = tuple[Uint32, bool, TestedMask | None]
"""A mask; whether the text may end; and, if the mask depends on tests, the object that corrects it for a text."""
NOTHING_ALLOWED = 2
"""What `walk.fill` returns for a mask that allows nothing."""
CACHE_BYTES = 64 << 20
"""The bytes of masks that one grammar caches. The oldest masks are dropped first."""
MAX_POSITIONS = 1 << 16
"""The number of places of one grammar. Many may share one mask."""
MAX_WAYS = 1 << 14
"""The number of ways between places that one grammar remembers."""
TOKEN_BITS = 24
"""The bits of a token in the key of a way."""
FEW = 12
"""If a bounded text has room for fewer characters than this, its mask is not derived from that of unbounded text."""
FEWEST_MASKS = 64
"""The number of masks that one grammar always caches, whatever their size."""


class MatcherPlace:
    """A position of a grammar, and what is known of it.

    Attributes:
        position: an int; equal positions have equal futures.
        filled: the result of `MatcherPlaces.mask`; None while it is not in the cache.
        cost: the number of tokens with which a text can end here, see `Closing.cost`; None while it was not asked for.
        free: is it within a free value? See `MatcherPlaces.is_free`; None while it was not asked for.
    """

    __slots__ = ("cost", "filled", "free", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.filled: Filled | None = None
        self.cost: int | None = None
        self.free: bool | None = None


class MatcherPlaces(Transitions):
    """The places of a grammar. The oldest are forgotten first; who holds one can continue from it. Safe for threads.

    Attributes:
        ways: `position << TOKEN_BITS | token` -> the place to which a token has led, whatever the text.
        nesting: keeps masks within a depth; None for any depth.
    """

    nesting: DepthLimit | None = None

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        super().__init__(automaton, vocabulary)
        self._places: dict[int, MatcherPlace] = {}
        self.ways: dict[int, MatcherPlace] = {}
        self._most = max(FEWEST_MASKS, CACHE_BYTES // (4 * self._slices.words))

    def place(self, position: int) -> MatcherPlace:
        """The place of a position."""
        place = self._places.get(position)
        return self._places.setdefault(position, MatcherPlace(position)) if place is None else place

    def way(self, before: int, token_id: int) -> MatcherPlace | None:
        """The place to which a text token leads from a position; None if it is refused, or if the text or the depth
        decides."""
        if self.nesting is not None and self.nesting.is_near(before):
            return None
        position = self.advance(before, token_id)
        if position < 0:
            return None
        place = self._places.get(position)
        if place is None:
            place = self._places.setdefault(position, MatcherPlace(position))
        if len(self.ways) >= MAX_WAYS:
            self.ways.clear()
        self.ways[before << TOKEN_BITS | token_id] = place
        return place

    def is_free(self, place: MatcherPlace) -> bool:
        """Is a place within a free value: in a JSON string that may be any text, or in text outside of JSON that nearly
        any character continues? Names of members, and strings with a pattern, a format or listed values, are not."""
        if place.free is None:
            with self.lock:
                self.automaton.expand(place.position & TARGET)
                place.free = _is_free(self.automaton.tables, place.position & TARGET)
        return place.free

    def counted(
        self, places: Sequence[MatcherPlace], tokens: Iterable[int], before: Iterable[int]
    ) -> tuple[list[int], list[int]]:
        """What penalties count at the last place of a text: nothing unless it is within a free value.

        Args:
            places: those before each token, and the last one.
            tokens: of the text.
            before: those of the prompt.

        Returns:
            Those of the prompt and of the text that close no string at the last place. Of the text, those that begin
            and end within one free value: `", "` closes a string and begins the next.
        """
        if not self.is_free(places[-1]):
            return [], []
        closers = _closers(self.vocabulary)
        kinds = [self.is_free(place) and (2 if self._is_text(place) else 1) for place in places]
        steps = zip(tokens, kinds, kinds[1:], strict=False)
        own = [each for each, one, other in steps if one == other != 0 and (one == 2 or each not in closers)]
        if kinds[-1] == 2:
            return list(before), own
        inside, width = self._slices.free[VALUE].rows[-1], self.vocabulary.width
        prompt = [each for each in before if each < width and inside[each >> 5] >> (each & 31) & 1]
        return prompt, [each for each in own if each not in closers]

    def _is_text(self, place: MatcherPlace) -> bool:
        """Is a place within a free value outside of JSON?"""
        return self.automaton.tables.row(place.position & TARGET)[KIND] >> 4 & 15 == CHARS

    def mask(self, position: int) -> Filled:
        """The mask at a position, uint32[words], read-only; whether the text may end there; and a correction, or None.

        If tests (see `automaton.checks`) decide about some tokens, the mask and the end assume that each test is
        answered "yes". Then the third part of the result corrects the mask for a text.

        Raises:
            DeadEnd: nothing is allowed there.
        """
        place = self.place(position)
        return place.filled or self.fill_place(place)

    def known(self, position: int) -> Filled | None:
        """The result of `mask` if it is in the cache; else None."""
        place = self._places.get(position)
        return None if place is None else place.filled

    def fill_place(self, place: MatcherPlace) -> Filled:
        """`mask`, for the position of a place."""
        with self.lock:
            filled = place.filled  # another thread may have been faster
            if filled is None:
                if len(self._places) > MAX_POSITIONS:
                    self._forget()
                filled = self._filled(place.position)
                place.filled = self._places.setdefault(place.position, place).filled = filled
        return filled

    def _filled(self, position: int) -> Filled:
        """Computes the mask at a position, without the tokens that lead too deep."""
        row, ends, tested = filled = self._computed(position)
        near = self.nesting is not None and self.nesting.is_near(position)
        deep = self.nesting.too_deep(position, row) if near and self.nesting is not None else None
        if deep is None:
            return filled
        if tested is not None:
            tested.deep = deep
        row = row & ~deep
        row.flags.writeable = False
        return row, ends, tested

    def _computed(self, position: int) -> Filled:
        """Computes the mask at a position, from the mask of an equivalent or similar position if there is one.

        See `masks.alike` and `masks.text_walk`.
        """
        tables = self.automaton.tables
        if tables.counts_items:
            other = self._answered(alike, position)
            if other != position:
                return self._cached(other) or self._walked(position)
        if not position >> COUNT_SHIFT and tables.n_exits == 1:  # nothing is counted, and there is no free text
            return self._walked(position)
        main = self._answered(home, position)
        spare, bare = spare_room(self._base, position), 0
        if spare >= (FEW if tables.n_exits == 1 else 0):  # else some allowed token is probably longer than the room
            bare = position & (1 << COUNT_SHIFT) - 1  # nothing is counted there
            like = self._cached(bare)
            # With `spills`, another edge may take a token that a bound refuses: any token may come.
            if like is not None and spare >= (self._slices.max_depth if tables.spills else self._longest(bare)):
                return like
        if (main or bare) and not nearly_covered(self._base, position):
            return self._walked(position, self._cached(main or bare))
        return self._walked(position)

    def _cached(self, position: int) -> Filled | None:
        """Computes and caches the mask at another position; None if nothing is allowed there."""
        filled = self.known(position)
        if filled is None:
            try:
                filled = self._filled(position)
            except DeadEnd:
                return None
            self.place(position).filled = filled
        return filled

    @cached_up_to(MAX_POSITIONS)
    def _longest(self, position: int) -> int:
        """The number of bytes of the longest token that is allowed at a position."""
        filled = self._cached(position)
        return 0 if filled is None else int(longest_token(self._base, filled[0].ctypes.data))

    def _walked(self, position: int, like: Filled | None = None) -> Filled:
        """Computes the mask by a walk of the trie. The walk starts from the mask `like` if there is one."""
        # A mask that depends on tests is no start: the walk would not meet these tests.
        from_row = like[0] if like is not None and like[2] is None else None
        if len(self._places) >= self._most:
            self._forget()
        row, address = self._slices.new_row()
        ends = self._fill(position, address, YES, from_row)
        if ends == NOTHING_ALLOWED:
            raise DeadEnd("no token of the vocabulary spells what must come next")
        row = self._slices.shared(row, address)
        if ends < NOTHING_ALLOWED:
            return row, ends == 1, None
        ends -= TESTED
        met = self.automaton.tables.met_tests()
        return row, ends == 1, TestedMask(self, position, row, met, hopeless=ends == NOTHING_ALLOWED)

    def _forget(self) -> None:
        """Forgets the older half of the places, and all ways: a forgotten place must not be found on one."""
        for position in list(self._places)[: len(self._places) // 2]:
            self._places.pop(position).filled = None
        self.ways.clear()

    @property
    def n_places(self) -> int:
        """The number of places."""
        return len(self._places)

    @property
    def mask_sizes(self) -> dict[int, int]:
        """The bytes of the cached masks, by their ids: other grammars may hold the same ones."""
        filled = (place.filled for place in list(self._places.values()))
        return {id(each[0]): each[0].nbytes for each in filled if each is not None}

    @property
    def mask_nbytes(self) -> int:
        """Bytes held by the cached masks."""
        return sum(self.mask_sizes.values())


@once_per_object
def _closers(vocabulary: Vocabulary) -> frozenset[int]:
    """The tokens that close a string of JSON, wherever they begin in it."""
    within = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
    return frozenset(token for token in range(vocabulary.width) if not within.fullmatch(vocabulary.token(token)))


def _is_free(tables: Tables, state: int) -> bool:
    """Is a state within a free value? See `MatcherPlaces.is_free`."""
    kind = tables.row(state)[KIND]
    mode, aux = kind >> 4 & 15, kind >> 8
    if mode in (FREE, PLAIN):
        return aux == (VALUE if mode == FREE else 1 + VALUE)
    block = tables.blocks[aux].tolist() if mode == CHARS else None
    if block is None or not block[BLOCK_EXITS]:
        return False
    leaving, home = tables.exits[block[BLOCK_EXITS] + state - block[BLOCK_FIRST]].tolist()
    is_alone = block[BLOCK_STATES] == 1 and leaving != 0  # in a composition; most characters lead back to it
    is_quoted = leaving & int(QUOTED_BITS) == int(QUOTED_BITS)
    return bool(home != 0 or is_alone) and not is_quoted
