"""The spellings of the numbers within bounds, as an automaton built digit by digit.

While a number is read, all that matters is how its digits compare with those of each bound, and how many of them stand
before the point. What is left of a bound is the remainder of its long division: a digit below the bound's next one
decides, the same digit leaves the next remainder.

Behind one digit other than 0 (and a fraction) an exponent may stand, as `json.dumps` writes it. Such a number is
`m * 10**k` with `1 <= m < 10`, and so is a bound. The exponents decide, and where they are equal, `m` does: its digits
compare with the same digits of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from structgen.regular.digits import ANY, EXPONENT, POINT, Rows

_BELOW, _ABOVE = -1, -2
"""How digits compare with those of a bound, in the place of the remainder that is left while they are equal."""
_LEAST = Fraction(3, 10**324)
"""A double rounds no number from here on to 0."""
_WHOLE, _POINT, _FRACTION = range(3)


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval; `value` None is infinity."""

    value: Fraction | int | None
    open: bool

    def negated(self) -> End:
        return End(None if self.value is None else -self.value, self.open)


class _Bound:
    """A bound of numbers without a sign.

    Args:
        end: at least 0, or none.
        none: how digits compare where there is no bound.

    Attributes:
        whole: how many digits stand before its point; none below 1.
        exponent: `k` of the bound as `m * 10**k`; None where there is no bound, or 0.
        start: the remainder before the first digit of a number, where that is not 0.
        zero: the remainder behind "0.".

    No remainder is left where all numbers that begin so are on one side: those equal to a lower bound that is included
    are above it as those with more digits are, and so are those equal to an upper bound that is excluded.
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
        """For each next digit, what is left of the bound's digits, or how the digits compare once they differ."""
        if rest < 0:
            return [rest] * 10
        own, left = divmod(rest * 10, self._divisor)
        return [_BELOW] * own + [left if left or self._meets else _ABOVE] + [_ABOVE] * (9 - own)

    def compared(self, rest: int, count: int) -> int:
        """How a number with `count` digits before the point (0: it is counted already) compares."""
        return rest if not count or count == self.whole else _ABOVE if count > self.whole else _BELOW

    def least(self, rest: int) -> int | None:
        """The least exponent with which a mantissa that ends here is above this lower bound; None is any."""
        holds = rest == _ABOVE or rest == self.zero == 0  # an excluded 0: the least double is included
        return self.exponent if self.exponent is None or holds else self.exponent + 1

    def most(self, rest: int) -> int | None:
        """The greatest exponent with which a mantissa that ends here is below this upper bound; None is any."""
        return self.exponent if self.exponent is None or rest != _ABOVE else self.exponent - 1


def _lower(end: End) -> _Bound:
    """The lower bound of numbers without a sign; they have none at 0. Where 0 is excluded, none is rounded to it."""
    if end.value is not None and (end.value > 0 or (end.value == 0 and end.open)):
        bound = _Bound(End(end.value or _LEAST, end.open), _ABOVE)
        bound.zero = bound.zero if end.value else 0
        return bound
    return _Bound(End(None, False), _ABOVE)


_Key: TypeAlias = tuple[int, int, int, int]
"""Where a number is read (`_WHOLE`: in the digits before the point, `_POINT`: behind it, `_FRACTION`: behind a digit of
the fraction); how many digits stood before the point, in the fraction 0 if they are compared with the bounds already;
what is left of the lower and of the upper bound."""


class _Magnitudes:
    """The numbers without a sign between two bounds, under construction in a table.

    Args:
        most: how many digits may stand before the point.
    """

    def __init__(self, table: Rows, low: _Bound, high: _Bound, most: float) -> None:
        self._table, self._low, self._high, self._most = table, low, high, most
        self._states: dict[_Key, int] = {}
        self._pending: list[_Key] = []

    def read(self, origin: int) -> None:
        """Let the numbers be read from the state `origin` on."""
        above, below = self._low.zero, self._high.zero
        decided = above == _ABOVE and below == _BELOW
        zero = self._table.run(0, 0, ANY) if decided else self._state((_WHOLE, 0, above, below))
        if self._high.exponent is not None or self._high.whole:
            self._lead(self._table.rows[origin], self._low.start, self._high.start, partial(self._whole, 1), 1)
        self._table.rows[origin][1] = zero
        self._write()

    def _state(self, key: _Key) -> int:
        """The state for `key`; a new one is left to be written."""
        number = self._states.get(key)
        if number is None:
            number = self._states[key] = self._table.added()
            self._pending.append(key)
        return number

    def _write(self) -> None:
        """Write the states that are left, and those they lead to."""
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
            if phase == _WHOLE:
                row[POINT] = self._fraction(_POINT, count, *((above, below) if count == 1 else rests))
            if count == 1 and phase != _POINT:
                row[EXPONENT] = self._table.exponent(self._low.least(above), self._high.most(below))

    def _lead(self, row: list[int], above: int, below: int, behind: Callable[[int, int], int], first: int = 0) -> None:
        """Let one more digit follow, from `first` on; `behind` is the state by what is then left of the bounds."""
        last, state = None, 0
        for column, left in enumerate(zip(self._low.after(above), self._high.after(below), strict=True), 1):
            if left != last and column > first:
                last, state = left, behind(*left)
            row[column] = state

    def _whole(self, count: int, above: int, below: int) -> int:
        """The state behind `count` digits before the point; behind one, an exponent may follow."""
        if count > 1:
            above = _ABOVE if count > self._low.whole else above
            below = _BELOW if self._high.whole > self._most else below
            if above < 0 and below < 0:
                least = self._low.whole + (above == _BELOW)
                most = min(self._high.whole - (below == _ABOVE), self._most)
                return self._table.run(least - count, most - count, ANY)
            if count > min(self._high.whole, self._most):
                return 0
        return self._state((_WHOLE, count, above, below))

    def _fraction(self, phase: int, count: int, above: int, below: int) -> int:
        """The state in a fraction; `count`: the digits before its point, of which only one may have an exponent."""
        if count != 1:
            if above == _BELOW or below == _ABOVE:
                return 0
            if above == _ABOVE and below == _BELOW:
                return self._table.point if phase == _POINT else self._table.rows[self._table.point][1]
            count = 0
        return self._state((phase, count, above, below))


def interval_rows(low: End, high: End, most: float = ANY, chained: int = 2) -> Rows:
    """The numbers from `low` to `high`, in plain notation or with an exponent behind one digit before the point.

    `-0` is 0. No number but 0 is spelled with an exponent that a double rounds to an excluded 0.

    Args:
        most: how many digits may stand before the point.
        chained: behind how many of them the rest of any number of digits may be left to `Rows.finish`.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    table = Rows()
    for least, greatest, sign in ((low, high, 1), (high.negated(), low.negated(), -1)):
        at_least, at_most = max(least.value or 0, 0), greatest.value
        excluded = greatest.open or (least.open and least.value == at_least)
        if at_most is not None and (at_most < at_least or (at_most == at_least and excluded)):
            continue
        lower, upper = _lower(least), _Bound(greatest, _BELOW)
        if upper.whole > most:
            table.tail = most - max(lower.whole + 1, chained)
        _Magnitudes(table, lower, upper, most).read(1 if sign > 0 else table.negative())
    return table


def integer_rows(low: End, high: End, points: int) -> Rows:
    """The integers from `low` to `high`, in digits; behind `points` of them at most a fraction of zeros may stand."""
    table = Rows(1)
    least, most = _rounded_up(low), _rounded_up(high.negated())
    for first, past, sign in ((least, most, 1), (most, least, -1)):  # without a sign from `first` to `-past`
        if past is None or -past >= max(first or 0, 0):
            zero = table.run(0, 0, points) if first is None or first <= 0 else 0
            last = None if past is None else -past
            table.whole(max(first or 0, 1), last, points, 1 if sign > 0 else table.negative(), zero)
    return table


def _rounded_up(end: End) -> int | None:
    """The least integer that a lower bound allows."""
    if end.value is None:
        return None
    whole = math.ceil(end.value)
    return whole + (end.open and whole == end.value)
