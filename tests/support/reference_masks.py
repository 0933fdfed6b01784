"""The plain twin of the mask kernels: what they compute, written so that it is obviously right.

For each token, step through its bytes one by one; the token is allowed when no byte is refused. Nothing is skipped,
nothing is cached between masks but the tokens, no shortcut of a state is looked at, frames are linked tuples rather
than interned numbers, and a test reads the whole text again from its start. Thousands of times slower than `walk`; the
tests hold `walk` to it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.json_text.lexer import number_value
from structgen.automaton.table_format import (
    CALL, COUNT, DEAD, DONE, EAGER, GOTO, HI, INC, LO, MISS, NEED, NOTHING, ROOM, SPILL, START, TARGET, TEST, UNBOUNDED,
    ZERO, A, B,
)  # fmt: skip
from structgen.masks.grammar import Grammar
from structgen.masks.string_slices import Uint32
from structgen.vocabulary.packed import packed
from structgen.json_text.lexer import canonical
from structgen.vocabulary import Vocabulary


class CallerFrame(NamedTuple):
    """Where a callee returns to: a state (or, negative, as `returns` says), the frame and the counter there."""

    ret: int
    parent: CallerFrame | None
    counter: int


class FullPosition(NamedTuple):
    """A position in full: state, frame (None: the text itself), counter; and the text up to it."""

    state: int
    frame: CallerFrame | None
    counter: int
    text: bytes


class PlainReading:
    """What a check asks about a text, found by reading it from its first byte."""

    def __init__(self, text: bytes) -> None:
        self._open: list[list[Any]] = [[]]
        self._ended: str = ""
        self._pending = ""
        text_left = text.decode()
        while text_left := text_left.lstrip(" \n\t\r,:"):
            text_left = self._token(text_left)

    def _token(self, text: str) -> str:
        """Read one token; what is left."""
        if text[0] in "[{":
            self._open.append([text[0]])
            return text[1:]
        if text[0] in "]}":
            kind, *parts = self._open.pop()
            self._open[-1].append(parts if kind == "[" else dict(zip(parts[::2], parts[1::2], strict=True)))
            return text[1:]
        if text[0] in "-0123456789":
            after = text.lstrip("+-.0123456789eE")
            self._pending = "" if after else text
            if after:
                self._open[-1].append(number_value(text[: len(text) - len(after)]))
            return after
        value, end = json.JSONDecoder().raw_decode(text)
        self._open[-1].append(value)
        self._ended = value if isinstance(value, str) else ""
        return text[end:]

    def string(self) -> str:
        return self._ended

    def number(self) -> str:
        return self._pending

    def names(self) -> list[Hashable]:
        return list(self._open[-1][1:-1:2])

    def items(self) -> list[Hashable]:
        finished = self._open[-1][1:] if self._pending else self._open[-1][1:-1]
        return [canonical(value) for value in finished]

    def item(self) -> Hashable:
        return canonical(number_value(self._pending) if self._pending else self._open[-1][-1])


class Reference:
    """A constraint over a vocabulary, walked in plain Python.

    Args:
        automaton: may be shared with a `Grammar`; stubs that are met are expanded.
        vocabulary: the tokens.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self._automaton, self._vocabulary = automaton, vocabulary
        self._tokens = [vocabulary.token(token) for token in range(vocabulary.width)]
        self._read: dict[int, tuple[list[int], list[list[int]]]] = {}

    @staticmethod
    def of(grammar: Grammar) -> Reference:
        """The twin of a grammar, over the same automaton."""
        return Reference(grammar.automaton, grammar.vocabulary)

    @property
    def start(self) -> FullPosition:
        """Where every text starts."""
        return FullPosition(self._automaton.start, None, 0, b"")

    def mask(self, place: FullPosition) -> Uint32:
        """The tokens allowed next, the end tokens among them where the text may end: uint32[words]."""
        self._read.clear()
        allowed = np.array([text != b"" and self.walk(place, text) is not None for text in self._tokens])
        if self.may_end(place):
            allowed[list(self._vocabulary.end_ids)] = True
        return packed(allowed)

    def advance(self, place: FullPosition, token: int) -> FullPosition | None:
        """The place after a text token; None when it is not allowed."""
        text = self._tokens[token]
        return self.walk(place, text) if text else None

    def walk(self, place: FullPosition, text: bytes) -> FullPosition | None:
        """The place after these bytes; None when one is refused."""
        for byte in text:
            after = self.step(place, byte)
            if after is None:
                return None
            place = after
        return place

    def step(self, place: FullPosition, byte: int) -> FullPosition | None:
        """The place after one byte: the first edge that holds it, or else what the state does on a miss."""
        here: FullPosition | None = place
        while here is not None:
            row, edges = self._row(here.state)
            for span, target in edges:
                if span & 255 <= byte <= span >> 8 and not self._spills(here, row, target):
                    return None if target == DEAD else self._follow(here, row, target, byte)
            here = self._miss(here)
        return None

    def may_end(self, place: FullPosition) -> bool:
        """May the text end here? Only where every open frame may be left without another byte."""
        here: FullPosition | None = place
        while here is not None and here.state != DONE:
            if self._row(here.state)[0][MISS] & (3 | EAGER) == CALL:
                return False
            here = self._miss(here)
        return here is not None

    def _row(self, state: int) -> tuple[list[int], list[list[int]]]:
        """The state's row and its edges, written first where it is a stub; read once for a mask."""
        known = self._read.get(state)
        if known is None:
            self._automaton.expand(state)
            row = self._automaton.tables.states[state].tolist()
            edges = self._automaton.tables.edges[row[START] : row[START] + row[COUNT]].tolist()
            known = self._read[state] = row, edges
        return known

    def _spills(self, place: FullPosition, row: list[int], target: int) -> bool:
        """Is MISS asked instead of an edge, for a bound of it is not met?"""
        return target > 0 and bool(target & SPILL) and self._follow(place, row, target, 0) is None

    def _follow(self, place: FullPosition, row: list[int], target: int, byte: int) -> FullPosition | None:
        """Take an edge of `place`: ask and count as its flags say, then do what is done on arrival."""
        state, count = target & TARGET, place.counter
        if target & NEED and count < row[LO]:
            return None
        if target & (INC | ROOM):
            least, limit = (int(x) for x in self._automaton.tables.states[state, [LO, HI]])
            if count >= limit:
                return None
            if target & INC:
                count = count + 1 if limit != UNBOUNDED else min(count + 1, least)
        if target & ZERO:
            count = 0
        after: FullPosition | None = FullPosition(state, place.frame, count, place.text + bytes([byte]))
        while after is not None and self._automaton.tables.states[after.state, MISS] & EAGER:
            after = self._miss(after)
        return after

    def _miss(self, place: FullPosition) -> FullPosition | None:
        """Where a state goes without taking a byte; None when nowhere."""
        row, _ = self._row(place.state)
        action = row[MISS] & 3
        if action == NOTHING:
            return None
        text = place.text
        if row[MISS] == TEST:
            start = getattr(self._automaton.reading().feed(text), "json_start", 0)
            holds = self._automaton.checks[place.state].holds(PlainReading(text[start:]))
            state = row[A if holds else B]
            return FullPosition(state, place.frame, 0, text) if state else None
        if action == GOTO:
            return FullPosition(row[A], place.frame, 0, text)
        if action == CALL:
            return FullPosition(row[A], CallerFrame(row[B], place.frame, place.counter), 0, text)
        frame = place.frame
        if frame is None:
            return FullPosition(DONE, None, 0, text)
        state = self._return(frame.ret, row[A])
        return FullPosition(state, frame.parent, frame.counter, text) if state else None

    def _return(self, ret: int, outcome: int) -> int:
        """The state behind a return (0: nowhere); a negative one has a state per outcome of the callee."""
        return ret if ret >= 0 else self._automaton.resolved(-ret, outcome)
