"""The transition function of a grammar: the position to which a token leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from structgen.automaton.bytewise import ends_at
from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.json_text.reading import JsonReading
from structgen.automaton.table_format import (
    OPEN, STACK_DEPTH, WANT_ANSWER, A, B, Machine, position as packed,
)  # fmt: skip
from structgen.memo import cached_method
from structgen.masks.advance import ASKS, REJECTED, WANTS, advance
from structgen.masks.slices import Slices
from structgen.masks.string_slices import Uint32
from structgen.masks.walk import fill
from structgen.vocabulary import Vocabulary

_LIKE, _PHASE = Machine.like, Machine.phase


class Question(NamedTuple):
    """A test that must be answered before it is known whether a token is allowed."""

    check: Check
    taken: int  # the bytes of the token that are before the test
    yes: int  # the position where the walk resumes after this answer; negative where the answer refuses the token
    no: int


class CheckAnswers:
    """The answers to checks for one text with further bytes. Each answer is computed once."""

    def __init__(self, reading: JsonReading) -> None:
        self._reading = reading

    @cached_method
    def holds(self, check: Check, more: bytes) -> bool:
        """Does `check` hold after the text and `more`?"""
        return check.holds(self._read(more))

    @cached_method
    def _read(self, more: bytes) -> JsonReading:
        return self._reading.feed(more, keep=False) if more else self._reading


class Transitions:
    """The transition function of a constraint over the tokens of a vocabulary. Safe for threads.

    Attributes:
        automaton: the constraint as an automaton over bytes. It writes states when a walk first reaches them.
        start: the position at which every text starts.
        lock: held while the automaton grows.
        derived: objects that other modules compute from this grammar, by their class; they are freed with the grammar.
        suspicious: the tokens that a test may have to be asked about.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.automaton = vocabulary, automaton
        self.start, self.lock = automaton.start, automaton.lock
        self.derived: dict[type, Any] = {}
        self._slices = slices = Slices.of(vocabulary)
        self.suspicious = slices.suspicious
        self._machine = machine = automaton.tables.machine
        self._base = automaton.tables.base
        machine[Machine.vocabulary] = slices.tables.ctypes.data
        if slices.max_depth + 2 > STACK_DEPTH:
            self._stack = np.zeros((slices.max_depth + 2, 4), np.int64)
            machine[Machine.stack] = self._stack.ctypes.data

    def answered(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Calls a kernel with the address of the machine and other arguments until it no longer returns WANTS."""
        with self.lock:
            return self._answered(kernel, *arguments)

    def _answered(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """`answered` for a caller that holds the lock."""
        while (answer := kernel(self._base, *arguments)) == WANTS:
            self.automaton.provide()
        return int(answer)

    def advance(self, position: int, token_id: int) -> int:
        """The position after a text token; REJECTED if the token is not allowed; ASKS if that depends on the text (call
        `follow` then)."""
        with self.lock:
            while (after := advance(self._base, position, token_id, 0)) == WANTS:
                self.automaton.provide()
        return after

    def lead(self, position: int, token_id: int, taken: int = 0) -> int | Question:
        """The position after a text token, REJECTED, or the question that must be answered first.

        Args:
            position: the position after the first `taken` bytes of the token.
        """
        with self.lock:
            after = self._answered(advance, position, token_id, taken)
            return after if after != ASKS else self._question(self._machine[Machine.node])

    def _question(self, taken: int) -> Question:
        """The test at which a kernel has stopped."""
        test, frame = self._machine[Machine.argument], self._machine[Machine.tested_frame]
        states = (int(self.automaton.tables.states[test, column]) for column in (A, B))
        yes, no = (packed(state, frame) if state else REJECTED for state in states)
        return Question(self.automaton.checks[test], taken, yes, no)

    def follow(self, position: int, token_id: int, asked: CheckAnswers, taken: int = 0) -> int:
        """The position after a text token, with tests answered for a text; REJECTED if the token is not allowed.

        Args:
            position: the position after the first `taken` bytes of the token.
            asked: the answers for the text before the token.
        """
        text, lead = self.vocabulary.token(token_id), self.lead(position, token_id, taken)
        while isinstance(lead, Question):
            resumed = lead.yes if asked.holds(lead.check, text[taken : lead.taken]) else lead.no
            lead = self.lead(resumed, token_id, lead.taken) if resumed >= 0 else REJECTED
        return lead

    def may_end(self, position: int, reading: Callable[[], JsonReading] | None = None) -> bool:
        """May the text end at this position? `reading()` returns the text; it is called only if a test decides."""
        reading, lead = reading or self.automaton.reading, self._end_lead(position)
        while isinstance(lead, Question):
            resumed = lead.yes if lead.check.holds(reading()) else lead.no
            lead = resumed >= 0 and self._end_lead(resumed)
        return lead

    def _end_lead(self, position: int) -> bool | Question:
        """May the text end at this position? A question if a test decides."""
        with self.lock:
            while (ends := ends_at(self._base, position)) < 0 and self._machine[Machine.want] != WANT_ANSWER:
                self.automaton.provide()
            return bool(ends) if ends >= 0 else self._question(0)

    def _fill(self, position: int, address: int, answer: int, like: Uint32 | None = None) -> int:
        """Calls `walk.fill` until it is done. `like` is the row from which it starts (see `text_walk`)."""
        self._machine[_LIKE] = 0 if like is None else like.ctypes.data
        self._machine[_PHASE] = 0
        while (ends := fill(self._base, position, address, answer)) < 0:
            self.automaton.provide()
        return ends

    def fill(self, position: int, out: Uint32, answer: int) -> None:
        """Writes the mask at a position, with all tests answered by `answer` (see `table_format`)."""
        with self.lock:
            if answer == OPEN:
                self.automaton.tables.open_end()
            self._fill(position, out.ctypes.data, answer)
