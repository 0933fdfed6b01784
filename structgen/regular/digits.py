"""Tables of the spellings of numbers, digit by digit, while they are built."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from structgen.errors import LimitExceeded
from structgen.memo import cached_method
from structgen.regular.chardfa import STATE_LIMIT, CharDfa, tidied

BOUNDS = np.array(
    [0, *(ord(char) for char in "+,-./0123456789:EFef")], np.int32
)  # interval i starts at the i-th character
CLASSES = np.array([0, 14, 0, 11, 12, 0, *range(1, 11), 0, 13, 0, 13, 0], np.int32)
MINUS, POINT, EXPONENT, PLUS, COLUMNS = 11, 12, 13, 14, 15
ANY = math.inf
"""Any number of digits."""

_CHAIN, _JOINT = 2, 3
"""Marks of accepting states, see `Rows.finish`."""

_Left: TypeAlias = tuple[float, str]
"""What is left of the digits of a bound: how many digits must follow at least (may at most), and the digits themselves
while those before them are equal, if they matter: as many are no less (no more) than these."""


def _lefts(bound: _Left, edge: str) -> list[_Left]:
    """What is left behind each digit; `edge`: the digit of which all are no less (0) or no more (9)."""
    count, digits = bound
    if not digits:
        return [(count - 1, "")] * 10
    below, above = (count - (edge == "9"), ""), (count - 1 - (edge == "9"), "")
    own, rest = int(digits[0]), digits[1:]
    return [below] * own + [(count - 1, rest if rest.strip(edge) else "")] + [above] * (9 - own)


class Rows:
    """A table under construction: `rows[state][column]`, row 0 dead, row 1 the start.

    Args:
        fraction: the digits that may stand in a fraction: all, or those of an integer, zeros.

    Attributes:
        tail: the run (see `run`) of at most so many digits, with a fraction, is left to be written by `finish`.
    """

    def __init__(self, fraction: int = 10) -> None:
        self.rows: list[list[int]] = [[0] * COLUMNS, [0] * COLUMNS]
        self.final = [0, 0]
        self.tail: float = -1
        self._fraction = fraction
        self._runs: dict[tuple[float, float, float], int] = {}
        self._wholes: dict[tuple[_Left, _Left, float], int] = {}

    def added(self, *, final: bool = False) -> int:
        """A new state."""
        if len(self.rows) > STATE_LIMIT:
            raise LimitExceeded(f"numeric bounds take more than {STATE_LIMIT:,} automaton states")
        self.rows.append([0] * COLUMNS)
        self.final.append(int(final))
        return len(self.rows) - 1

    def negative(self) -> int:
        """The state behind a minus at the start."""
        if not self.rows[1][MINUS]:
            self.rows[1][MINUS] = self.added()
        return self.rows[1][MINUS]

    @cached_property
    def point(self) -> int:
        """The state behind a point, before any fraction."""
        point, fraction = self.added(), self.added(final=True)
        for state in (point, fraction):
            self.rows[state][1 : self._fraction + 1] = [fraction] * self._fraction
        return point

    def run(self, least: float, most: float, points: float) -> int:
        """The state before `least` to `most` more digits, whichever they are; 0 where there is no such number.

        Args:
            points: behind how many of them at most a point may stand.
        """
        key = max(least, 0), most, max(points, -1)
        states: list[int] = []
        while key not in self._runs and key[0] <= key[1]:
            least, most, points = key
            state = self._runs[key] = self.added(final=not least)
            if not least and points >= 0:
                self.rows[state][POINT] = self.point
            if points == ANY and most == self.tail:
                self.final[state] = _CHAIN
                break
            states.append(state)
            key = max(least - 1, 0), most - 1, max(points - 1, -1)
        following = self._runs.get(key, 0)
        for state in reversed(states):
            self.rows[state][1:11] = [following] * 10
            following = state
        return following

    def whole(self, least: int, most: int | None, points: float, origin: int, zero: int) -> None:
        """Let the digits of a whole number from `least` to `most` be read from the state `origin` on; behind a 0 at the
        start comes the state `zero`."""
        high = (ANY, "") if most is None else (float(len(str(most))), str(most))
        pending: list[tuple[int, _Left, _Left, float]] = [(origin, (len(str(least)), str(least)), high, points)]
        while pending:
            state, low, high, points = pending.pop()
            last, following, row = None, 0, self.rows[state]
            for column, left in enumerate(zip(_lefts(low, "0"), _lefts(high, "9"), strict=True), 1):
                if left != last:
                    last, following = left, self._behind(*left, points - 1, pending)
                row[column] = following
        self.rows[origin][1] = zero

    def _behind(self, low: _Left, high: _Left, points: float, pending: list[tuple[int, _Left, _Left, float]]) -> int:
        """The state before the digits that are left of a whole number; a new one is left to be written."""
        least = max(low[0], 0)
        if least > high[0]:
            return 0
        if not low[1] and not high[1]:
            return self.run(least, high[0], points)
        key = (least, low[1]), high, max(points, -1)
        if key not in self._wholes:
            state = self._wholes[key] = self.added(final=least == 0)
            pending.append((state, *key))
            if least == 0 and points >= 0:
                self.rows[state][POINT] = self.point
        return self._wholes[key]

    @cached_method
    def exponent(self, least: int | None, most: int | None) -> int:
        """The state behind `e` before the exponents from `least` to `most` (None: no bound); 0 for none."""
        if least is not None and most is not None and least > most:
            return 0
        state = self.added()
        row = self.rows[state]
        if most is None or most >= 0:
            row[PLUS] = self._digits(max(least or 0, 0), most)
            row[1:11] = self.rows[row[PLUS]][1:11]
        if least is None or least <= 0:
            row[MINUS] = self._digits(max(-(most or 0), 0), None if least is None else -least)
        return state

    @cached_method
    def _digits(self, least: int, most: int | None) -> int:
        """The state before the digits of a whole number from `least` to `most`, with any zeros before them."""
        start, zeros = self.added(), self.added(final=least == 0)
        self.whole(max(least, 1), most, -1, zeros, zeros)
        self.rows[start][1:11] = self.rows[zeros][1:11]
        return start

    def array(self) -> NDArray[np.int32]:
        """The table: int32[states, columns]."""
        return np.fromiter(chain.from_iterable(self.rows), np.int32).reshape(-1, COLUMNS)

    def finish(self) -> CharDfa:
        """The table, trimmed and minimal.

        A run of hundreds of digits is minimal as it is, and its states differ from all others: it is written behind the
        minimal table of the rest, up to the longest run that this has itself.
        """
        shorter = [most for least, most, points in self._runs if points == ANY and not least and most < self.tail]
        if shorter and _CHAIN in self.final:
            self.final[self._runs[0, max(shorter), ANY]] = _JOINT
        dfa = tidied(BOUNDS, CLASSES, self.array(), self.final)
        if _CHAIN not in dfa.final:
            return dfa
        first, states = dfa.final.index(_CHAIN), len(dfa.final)
        joined = _JOINT in dfa.final
        count = int(self.tail) - (int(max(shorter)) + 1 if joined else 0)
        run = np.array([first, *range(states, states + count), dfa.final.index(_JOINT) if joined else 0])
        digits = np.unique(dfa.classes[np.searchsorted(dfa.bounds, np.arange(0x30, 0x3A), side="right") - 1])
        table = np.concatenate((dfa.next, np.repeat(dfa.next[first : first + 1], count, axis=0)))
        table[np.ix_(run[:-1], digits)] = run[1:, None]
        return CharDfa(dfa.bounds, dfa.classes, table, (*(int(final > 0) for final in dfa.final), *([1] * count)))
