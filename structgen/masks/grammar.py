"""A constraint compiled for one vocabulary: its automaton, and the masks found so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from structgen.automaton.bytewise import ends_at
from structgen.automaton.machine import Automaton
from structgen.automaton.reading import JsonReading
from structgen.automaton.tables import (
    OPEN, Int64, R_ARGUMENT, R_FRAME, R_NODE, R_PHASE, R_VOCABULARY, R_WANT, STACK_DEPTH, WANT_ANSWER, YES, A, B,
    position as packed,
)  # fmt: skip
from structgen.errors import DeadEnd
from structgen.masks.alike import alike
from structgen.masks.advance import ASKS, REJECTED, WANTS, advance, advance_each, resume
from structgen.masks.closing import Closing
from structgen.masks.late import Asked, Late
from structgen.masks.leads import Question
from structgen.masks.matcher import Matcher
from structgen.masks.slices import V_LIKE, V_STACK, Slices, new_rows
from structgen.masks.string_slices import Uint32
from structgen.masks.text_walk import has_room, home, uncounted
from structgen.masks.walk import TESTED, fill
from structgen.vocabulary import Vocabulary, require_vocabulary

Filled = tuple[Uint32, bool, "Late | None"]
"""A mask, whether the text may end there, and what corrects it where tests stand behind it."""
NOTHING_ALLOWED = 2
"""What `fill` returns for a mask without a bit."""
CACHE_BYTES = 64 << 20
"""Bytes of masks that one grammar keeps; the oldest go first."""
MOST_POSITIONS = 1 << 16
"""Positions whose masks one grammar knows; far from a bound, many have one and the same."""
CHUNKS = 4, 64
"""Masks allocated at a time, at first and at most: making an array for each would cost more than filling it."""


class Grammar:
    """A constraint compiled for one vocabulary: its automaton and the masks found so far.

    Shared by any number of matchers, in any thread. A *position* is an int; equal positions have equal futures.

    Attributes:
        automaton: the constraint, byte by byte; written further as walks meet what is not there yet.
        vocabulary: the tokens it was compiled for.
        start: the position at which every text starts.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        require_vocabulary(vocabulary)
        slices = Slices.of(vocabulary)
        self.vocabulary = vocabulary
        self.start = automaton.start
        self.lock = automaton.lock
        self.automaton, self._slices = automaton, slices
        self._registers = registers = automaton.tables.registers
        self._base = automaton.tables.base
        registers[R_VOCABULARY : R_VOCABULARY + len(slices.registers)] = slices.registers
        registers[V_STACK] = automaton.tables.stack
        if slices.max_depth + 2 > STACK_DEPTH:
            self._stack = np.zeros((slices.max_depth + 2, 4), np.int64)
            registers[V_STACK] = self._stack.ctypes.data
        self._rows: dict[int, Filled] = {}
        self._most_rows = max(CHUNKS[1], CACHE_BYTES // (4 * slices.words))
        self._spare: list[tuple[Uint32, int]] = []

    def matcher(self) -> Matcher:
        """A new walk from the start."""
        return Matcher(self)

    def mask(self, position: int) -> Filled:
        """The packed mask at a position, read-only, and whether the text may end there.

        Where tests stand behind the position, that is so if all of them are answered "yes", and the third part
        corrects the mask for a text.

        Raises:
            DeadEnd: nothing is allowed there.
        """
        found = self._rows.get(position)
        return found if found is not None else self._compute(position)

    def has_mask(self, position: int) -> bool:
        """True when the mask at a position is known: asking for it takes no lock and no walk."""
        return position in self._rows

    def _compute(self, position: int) -> Filled:
        with self.lock:
            found = self._rows.get(position)  # another thread may have been faster
            if found is None:
                if len(self._rows) > MOST_POSITIONS:
                    self._forget()
                found = self._rows[position] = self._found(position)
        return found

    def _found(self, position: int) -> Filled:
        """The mask at a position, from that of another where they are alike (see `masks.text_walk`, `masks.alike`)."""
        if self.automaton.tables.counts_items:
            other = self._alike(position)
            if other != position:
                return self._like(other) or self._walked(position)
        if not self.automaton.tables.n_blocks:  # there is no `CharDfa` yet, and no position in one
            return self._walked(position)
        main = self._home(position)
        bare = uncounted(self._base, position)
        if bare != position and has_room(self._base, position):
            return self._like(bare) or self._walked(position)
        if main or bare != position:
            return self._walked(position, self._like(main or bare))
        return self._walked(position)

    def _like(self, position: int) -> Filled | None:
        """The mask at another position; None where nothing is allowed there."""
        found = self._rows.get(position)
        if found is None:
            try:
                found = self._rows[position] = self._found(position)
            except DeadEnd:
                return None
        return found

    def _alike(self, position: int) -> int:
        while (found := alike(self._base, position)) < 0:
            self.automaton.provide()
        return int(found)

    def _home(self, position: int) -> int:
        while (found := home(self._base, position)) < 0:
            self.automaton.provide()
        return int(found)

    def _walked(self, position: int, like: Filled | None = None) -> Filled:
        """The mask by a walk of the trie, from one that is like it if there is one."""
        # A walk from a mask that tests correct would not meet the tests that it has met.
        from_row = like[0] if like is not None and like[2] is None else None
        row, address = (self._spare or self._new_rows())[-1]
        ends = self._fill(position, address, YES, from_row)
        late, empty = None, ends & ~TESTED == NOTHING_ALLOWED
        if ends & TESTED:
            late = Late(self, position, self.automaton.tables.met_tests(), hopeless=empty)
        elif empty:
            raise DeadEnd("no token of the vocabulary spells what must come next")
        self._spare.pop()
        return row, ends & ~TESTED == 1, late

    def _fill(self, position: int, address: int, answer: int, like: Uint32 | None = None) -> int:
        self._registers[V_LIKE] = 0 if like is None else like.ctypes.data
        self._registers[R_PHASE] = 0
        while (ends := fill(self._base, position, address, answer)) < 0:
            self.automaton.provide()
        return int(ends)

    def fill(self, position: int, out: Uint32, answer: int) -> list[int]:
        """Write the mask at a position with tests answered as `answer` says: the tests that were met."""
        with self.lock:
            if answer == OPEN:
                self.automaton.tables.open_end()
            self._fill(position, out.ctypes.data, answer)
            return self.automaton.tables.met_tests()

    def _new_rows(self) -> list[tuple[Uint32, int]]:
        """Room for the next masks, more each time. Forgets the oldest half of them where there are too many."""
        known = len(self._rows)
        if not known:
            self._spare = [self._slices.first_row()]
            return self._spare
        if known + CHUNKS[1] > self._most_rows:
            self._forget()
        self._spare = new_rows(min(max(3 * known, CHUNKS[0]), CHUNKS[1]), self._slices.words)
        return self._spare

    def _forget(self) -> None:
        for position in list(self._rows)[: len(self._rows) // 2]:
            del self._rows[position]

    def advance(self, position: int, token_id: int) -> int:
        """The position after a text token; negative when the token is not allowed there: REJECTED, or ASKS where the
        text so far must be asked, by `follow`."""
        with self.lock:
            while (after := advance(self._base, position, token_id)) == WANTS:
                self.automaton.provide()
        return int(after)

    def advance_each(self, position: int, tokens: Int64) -> Int64:
        """The same after each of many text tokens, int64[n]."""
        tokens, after, done = np.ascontiguousarray(tokens), np.empty_like(tokens), 0
        where = position, tokens.ctypes.data
        with self.lock:
            while (done := advance_each(self._base, *where, done, len(tokens), after.ctypes.data)) < len(tokens):
                self.automaton.provide()
        return after

    def lead(self, position: int, token_id: int, taken: int = 0) -> int | Question:
        """Where a text token leads from a position to which its first `taken` bytes have led: the position after it,
        REJECTED, or the question that has to be answered first."""
        with self.lock:
            while (after := resume(self._base, position, token_id, taken)) == WANTS:
                self.automaton.provide()
            if after != ASKS:
                return int(after)
            return self._question(self._registers[R_NODE])

    def _question(self, taken: int) -> Question:
        """What the registers want answered."""
        test, frame = self._registers[R_ARGUMENT], self._registers[R_FRAME]
        yes, no = (self._answered(test, frame, holds=holds) for holds in (True, False))
        return Question(self.automaton.checks[test], taken, yes, no)

    def follow(self, position: int, token_id: int, asked: Asked) -> int:
        """The position after a text token behind the text that is asked; REJECTED when it is not allowed there."""
        text, lead = self.vocabulary.token(token_id), self.lead(position, token_id)
        while isinstance(lead, Question):
            resumed = lead.yes if asked.holds(lead.check, text[: lead.taken]) else lead.no
            lead = self.lead(resumed, token_id, lead.taken) if resumed >= 0 else REJECTED
        return lead

    def _answered(self, test: int, frame: int, *, holds: bool) -> int:
        """Where a test leads."""
        state = int(self.automaton.tables.states[test, A if holds else B])
        return packed(state, frame) if state else REJECTED

    def may_end(self, position: int, reading: Callable[[], JsonReading] | None = None) -> bool:
        """May the text end at this position? `reading()` is what was read, if a test has to know."""
        reading, lead = reading or self.automaton.reading, self.end_lead(position)
        while isinstance(lead, Question):
            resumed = lead.yes if lead.check.holds(reading()) else lead.no
            lead = resumed >= 0 and self.end_lead(resumed)
        return lead

    def end_lead(self, position: int) -> bool | Question:
        """May the text end at this position, or what has to be asked to know?"""
        with self.lock:
            while (ends := ends_at(self._base, position)) < 0 and self._registers[R_WANT] != WANT_ANSWER:
                self.automaton.provide()
            return bool(ends) if ends >= 0 else self._question(0)

    @cached_property
    def closing(self) -> Closing:
        """The cheapest ends of its texts."""
        return Closing(self)

    @property
    def nbytes(self) -> int:
        """Bytes held by the automaton's tables, without the cached masks."""
        return self.automaton.tables.nbytes

    @property
    def mask_nbytes(self) -> int:
        """Bytes held by the cached masks."""
        return 4 * self._slices.words * len(self._rows)
