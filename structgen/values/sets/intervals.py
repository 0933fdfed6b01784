"""The spellings of the numbers within bounds, as an automaton that is built digit by digit.

While a number is read, all that matters is how its digits compare with those of each bound, and how many of them are
before the point. What is left of a bound is the remainder of its long division: a next digit other than the bound's own
decides the comparison, and the same digit leaves the next remainder.

An exponent may appear after one digit other than 0 (and a fraction), as `json.dumps` writes it. Such a number is
`m * 10**k` with `1 <= m < 10`, and so is a bound. The exponents decide; where they are equal, `m` does, and its digits
compare with the bound's as above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
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
"""Columns of the tables here, and their number; digit `d` has column `d + 1`."""
ANY = math.inf
"""Any number of digits."""

_CHAIN, _JOINT = 2, 3
"""Marks of accepting states, see `Rows.finish`."""
_BELOW, _ABOVE = -1, -2
"""In place of a remainder: the digits so far are less than the bound's, or greater."""
_LEAST = Fraction(3, 10**324)
"""From this number on, no double is rounded to 0."""
_WHOLE, _POINT, _FRACTION = range(3)
"""Where a number is read: in the digits before the point, right after the point, after a digit of the fraction."""


class DigitTable:
    """A table under construction: `rows[state][column]`; row 0 is dead, row 1 is the start.

    Args:
        fraction: the digits below this one may appear in a fraction: 10 for all, 1 for the zeros after an integer.

    Attributes:
        tail: `finish` adds the run (see `run`) of at most this many digits; -1 where there is none to add.
    """

    def __init__(self, fraction: int = 10) -> None:
        self.rows: list[list[int]] = [[0] * COLUMNS, [0] * COLUMNS]
        self.final = [0, 0]
        self.tail: float = -1
        self._fraction = fraction
        self._runs: dict[tuple[float, float, float], int] = {}

    def added(self, *, final: bool = False) -> int:
        """The number of a new state."""
        if len(self.rows) > STATE_LIMIT:
            raise LimitExceeded(f"numeric bounds take more than {STATE_LIMIT:,} automaton states")
        self.rows.append([0] * COLUMNS)
        self.final.append(int(final))
        return len(self.rows) - 1

    def negative(self) -> int:
        """The state after a minus at the start."""
        if not self.rows[1][MINUS]:
            self.rows[1][MINUS] = self.added()
        return self.rows[1][MINUS]

    @cached_property
    def point(self) -> int:
        """The state after a point, before a fraction without bounds."""
        point, fraction = self.added(), self.added(final=True)
        for state in (point, fraction):
            self.rows[state][1 : self._fraction + 1] = [fraction] * self._fraction
        return point

    def run(self, minimum: float, maximum: float, points: float) -> int:
        """The state before a run of `minimum` to `maximum` digits without bounds; 0 where `minimum` exceeds `maximum`.

        Args:
            points: a point may appear after at most this many of the digits.
        """
        key = max(minimum, 0), maximum, max(points, -1)
        states: list[int] = []
        while key not in self._runs and key[0] <= key[1]:
            minimum, maximum, points = key
            state = self._runs[key] = self.added(final=not minimum)
            if not minimum and points >= 0:
                self.rows[state][POINT] = self.point
            if points == ANY and maximum == self.tail:
                self.final[state] = _CHAIN
                break
            states.append(state)
            key = max(minimum - 1, 0), maximum - 1, max(points - 1, -1)
        following = self._runs.get(key, 0)
        for state in reversed(states):
            self.rows[state][1:11] = [following] * 10
            following = state
        return following

    @cached_method
    def exponent(self, minimum: int | None, maximum: int | None) -> int:
        """The state after `e`, before the exponents from `minimum` to `maximum` (None: no bound); 0 for none."""
        if minimum is not None and maximum is not None and minimum > maximum:
            return 0
        state = self.added()
        row = self.rows[state]
        if maximum is None or maximum >= 0:
            row[PLUS] = self._digits(max(minimum or 0, 0), maximum)
            row[1:11] = self.rows[row[PLUS]][1:11]
        if minimum is None or minimum <= 0:
            row[MINUS] = self._digits(max(-(maximum or 0), 0), None if minimum is None else -minimum)
        return state

    @cached_method
    def _digits(self, minimum: int, maximum: int | None) -> int:
        """The state before the digits of a whole number from `minimum` to `maximum`; zeros may appear before them."""
        start, zeros = self.added(), self.added(final=minimum == 0)
        _Magnitudes(self, *_whole_bounds(minimum, maximum), points=-1).start(zeros, zeros)
        self.rows[start][1:11] = self.rows[zeros][1:11]
        return start

    def array(self) -> NDArray[np.int32]:
        """The table: int32[states, columns]."""
        return np.fromiter(chain.from_iterable(self.rows), np.int32).reshape(-1, COLUMNS)

    def finish(self) -> CharDfa:
        """The table, trimmed and minimal.

        A run of hundreds of digits is minimal as it is, and its states differ from all others. So it is written after
        the minimal table of the rest, up to the longest run that this table has itself. That saves two thirds of the
        time of a number with one bound.
        """
        shorter = [
            maximum for minimum, maximum, points in self._runs if points == ANY and not minimum and maximum < self.tail
        ]
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


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval; `value` None is infinity."""

    value: Fraction | int | None
    open: bool = False

    def negated(self) -> End:
        return End(None if self.value is None else -self.value, self.open)


class _Bound:
    """A bound of numbers without a sign.

    Args:
        end: its value is at least 0, or None.
        none: how digits compare where there is no bound: `_ABOVE` for a lower bound, `_BELOW` for an upper one.

    Attributes:
        whole: the number of digits before its point; 0 below 1.
        exponent: `k` of the bound as `m * 10**k`; None where there is no bound, or the bound is 0.
        start: the remainder before the first digit of a number other than 0.
        zero: the remainder after "0.".

    No remainder is left where all numbers that begin with the digits so far are on one side of the bound. A number that
    equals a lower bound counts as above it if the bound is included; one that equals an upper bound, if it is excluded.
    """

    def __init__(self, end: End, none: int) -> None:
        self.start = self.zero = none
        self.whole: float = 0 if none == _ABOVE else ANY
        self.exponent: int | None = None
        self._divisor, self._meets = 1, end.open == (none == _ABOVE)
        if end.value is None:
            return
        n, d = end.value.numerator, end.value.denominator
        if n == 0:
            self.start, self.zero, self.whole = 0, 0, 0
            return
        exponent = len(str(n)) - len(str(d))
        if n * 10 ** max(-exponent, 0) < d * 10 ** max(exponent, 0):
            exponent -= 1
        self.exponent, self.whole = exponent, max(exponent + 1, 0)
        self.start, self._divisor = n * 10 ** max(-exponent, 0), 10 * d * 10 ** max(exponent, 0)
        self.zero = 10 * n if exponent < 0 else _BELOW

    def after(self, rest: int) -> list[int]:
        """For each next digit, the remainder of the bound, or how the digits compare once they differ."""
        if rest < 0:
            return [rest] * 10
        own, left = divmod(rest * 10, self._divisor)
        return [_BELOW] * own + [left if left or self._meets else _ABOVE] + [_ABOVE] * (9 - own)

    def compared(self, rest: int, count: int) -> int:
        """How a number with `count` digits before the point compares; 0: `rest` takes that count into account."""
        return rest if not count or count == self.whole else _ABOVE if count > self.whole else _BELOW

    def minimum(self, rest: int) -> int | None:
        """The least exponent with which a mantissa that ends here is above this lower bound; None: no least one."""
        holds = rest == _ABOVE or rest == self.zero == 0  # an excluded 0: the least double is included
        return self.exponent if self.exponent is None or holds else self.exponent + 1

    def maximum(self, rest: int) -> int | None:
        """The greatest exponent with which a mantissa that ends here is below this upper bound; None: no greatest."""
        return self.exponent if self.exponent is None or rest != _ABOVE else self.exponent - 1


def _lower(end: End) -> _Bound:
    """The lower bound of magnitudes, none at 0. An excluded 0 excludes what a double rounds to 0, too."""
    if end.value is not None and (end.value > 0 or (end.value == 0 and end.open)):
        bound = _Bound(End(end.value or _LEAST, end.open), _ABOVE)
        bound.zero = bound.zero if end.value else 0
        return bound
    return _Bound(End(None), _ABOVE)


def _whole_bounds(minimum: int, maximum: int | None) -> tuple[_Bound, _Bound]:
    """The bounds of whole numbers above 0."""
    return _Bound(End(max(minimum, 1)), _ABOVE), _Bound(End(maximum), _BELOW)


_Key: TypeAlias = tuple[int, int, int, int]
"""What a state knows: where the number is read (`_WHOLE`, `_POINT` or `_FRACTION`); the number of digits before the
point, 0 in a fraction if they are compared with the bounds already; the remainders of the lower and the upper bound."""


class _Magnitudes:
    """Writes the numbers without a sign between two bounds into a table.

    Args:
        maximum: the greatest number of digits before the point.
        points: None for numbers with fractions and exponents. Else whole numbers are written; a point and the fraction
            of the table may appear after at most this many digits.
    """

    def __init__(
        self, table: DigitTable, low: _Bound, high: _Bound, maximum: float = ANY, points: int | None = None
    ) -> None:
        self._table, self._low, self._high, self._most, self._points = table, low, high, maximum, points
        self._states: dict[_Key, int] = {}
        self._pending: list[_Key] = []

    def read(self, origin: int) -> None:
        """Let the numbers with fractions be read from the state `origin` on."""
        above, below = self._low.zero, self._high.zero
        decided = above == _ABOVE and below == _BELOW
        self.start(origin, self._table.run(0, 0, ANY) if decided else self._state((_WHOLE, 0, above, below)))

    def start(self, origin: int, zero: int) -> None:
        """Let the numbers be read from the state `origin` on; a 0 at the start leads to the state `zero`."""
        if self._high.exponent is not None or self._high.whole:
            self._lead(self._table.rows[origin], self._low.start, self._high.start, partial(self._whole, 1), 1)
        self._table.rows[origin][1] = zero
        self._write()

    def _state(self, key: _Key) -> int:
        """The state for `key`; a new one is left for `_write`."""
        number = self._states.get(key)
        if number is None:
            number = self._states[key] = self._table.added()
            self._pending.append(key)
        return number

    def _write(self) -> None:
        """Write the pending states and those they lead to."""
        while self._pending:
            key = self._pending.pop()
            phase, count, above, below = key
            state = self._states[key]
            row = self._table.rows[state]
            rests = self._low.compared(above, count), self._high.compared(below, count)
            ends = phase != _POINT and rests[0] == _ABOVE != rests[1]
            self._table.final[state] = int(ends)
            if phase != _WHOLE:
                self._lead(row, above, below, partial(self._fraction, _FRACTION, count))
            elif count:
                self._lead(row, above, below, partial(self._whole, count + 1))
            if self._points is not None:
                row[POINT] = self._table.point if ends and count <= self._points else 0
                continue
            if phase == _WHOLE:
                row[POINT] = self._fraction(_POINT, count, *((above, below) if count == 1 else rests))
            if count == 1 and phase != _POINT:
                row[EXPONENT] = self._table.exponent(self._low.minimum(above), self._high.maximum(below))

    def _lead(self, row: list[int], above: int, below: int, behind: Callable[[int, int], int], first: int = 0) -> None:
        """Let one more digit follow, `first` or a greater one; `behind` gives the state for the new remainders."""
        last, state = None, 0
        for column, left in enumerate(zip(self._low.after(above), self._high.after(below), strict=True), 1):
            if left != last and column > first:
                last, state = left, behind(*left)
            row[column] = state

    def _whole(self, count: int, above: int, below: int) -> int:
        """The state after `count` digits before the point. After one digit an exponent may follow."""
        if count > 1 or self._points is not None:
            above = _ABOVE if count > self._low.whole else above
            below = _BELOW if self._high.whole > self._most else below
            if above < 0 and below < 0:
                minimum = self._low.whole + (above == _BELOW)
                maximum = min(self._high.whole - (below == _ABOVE), self._most)
                return self._table.run(
                    minimum - count, maximum - count, ANY if self._points is None else self._points - count
                )
            if count > min(self._high.whole, self._most):
                return 0
        return self._state((_WHOLE, count, above, below))

    def _fraction(self, phase: int, count: int, above: int, below: int) -> int:
        """The state in a fraction after `count` digits; only where that is 1, an exponent may follow."""
        if count != 1:
            if above == _BELOW or below == _ABOVE:
                return 0
            if above == _ABOVE and below == _BELOW:
                return self._table.point if phase == _POINT else self._table.rows[self._table.point][1]
            count = 0
        return self._state((phase, count, above, below))


def interval_rows(low: End, high: End, maximum: float = ANY, chained: int = 2) -> DigitTable:
    """The numbers from `low` to `high`, in plain notation or with an exponent after one digit before the point.

    `-0` is 0. No number but 0 is spelled with an exponent that a double rounds to an excluded 0.

    Args:
        maximum: the greatest number of digits before the point.
        chained: a run of digits may be left to `Rows.finish` from this many digits on.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    table = DigitTable()
    for minimum, greatest, sign in ((low, high, 1), (high.negated(), low.negated(), -1)):
        at_least, at_most = max(minimum.value or 0, 0), greatest.value
        excluded = greatest.open or (minimum.open and minimum.value == at_least)
        if at_most is not None and (at_most < at_least or (at_most == at_least and excluded)):
            continue
        lower, upper = _lower(minimum), _Bound(greatest, _BELOW)
        if upper.whole > maximum:
            table.tail = maximum - max(lower.whole + 1, chained)
        _Magnitudes(table, lower, upper, maximum).read(1 if sign > 0 else table.negative())
    return table


def integer_rows(low: End, high: End, points: int) -> DigitTable:
    """The integers from `low` to `high` in digits. A fraction of zeros may appear after at most `points` digits."""
    table = DigitTable(1)
    minimum, maximum = _rounded_up(low), _rounded_up(high.negated())
    for first, past, sign in ((minimum, maximum, 1), (maximum, minimum, -1)):  # without a sign from `first` to `-past`
        if past is None or -past >= max(first or 0, 0):
            zero = table.run(0, 0, points) if first is None or first <= 0 else 0
            bounds = _whole_bounds(first or 0, None if past is None else -past)
            _Magnitudes(table, *bounds, points=points).start(1 if sign > 0 else table.negative(), zero)
    return table


def _rounded_up(end: End) -> int | None:
    """The least integer that a lower bound allows."""
    if end.value is None:
        return None
    whole = math.ceil(end.value)
    return whole + (end.open and whole == end.value)
