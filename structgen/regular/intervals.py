"""The plain decimal spellings of an interval, as an automaton built digit by digit from the bounds.

While a number is read, all that matters is how the digits so far compare with the first digits of each bound,
and how many there are. In the fraction, what is left of a bound is the remainder of its long division: a
digit below the bound's next one decides, the same digit leaves the next remainder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from structgen.regular.chardfa import STATE_LIMIT, CharDfa, tidied
from structgen.errors import LimitExceeded

BOUNDS = np.array(
    [0, *(ord(char) for char in "+,-./0123456789:EFef")], np.int32
)  # interval i starts at the i-th character
CLASSES = np.array([0, 14, 0, 11, 12, 0, *range(1, 11), 0, 13, 0, 13, 0], np.int32)
MINUS, POINT, EXPONENT, PLUS, COLUMNS = 11, 12, 13, 14, 15
EXACT_DIGITS = 15
"""Digits of an integer behind which a fraction of zeros may stand: a double holds every such integer exactly."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval; `value` None is infinity."""

    value: Fraction | None
    open: bool

    def negated(self) -> End:
        return End(None if self.value is None else -self.value, self.open)


class Magnitudes:
    """The numbers without a sign from `low` up to `high`, and what their digits are compared with."""

    def __init__(self, low: Fraction, high: Fraction | None, *, low_open: bool, high_open: bool, integer: bool) -> None:
        self.integer = integer
        self.low_open, self.high_open = low_open, high_open
        whole, self.low_rest = divmod(low.numerator, low.denominator)
        self.low_digits = [int(digit) for digit in str(whole)]
        self.low_divisor = low.denominator
        self.high_digits: list[int] | None = None
        self.high_divisor, self.high_rest = 1, 0
        if high is not None:
            whole, self.high_rest = divmod(high.numerator, high.denominator)
            self.high_digits = [int(digit) for digit in str(whole)]
            self.high_divisor = high.denominator
        self.most_digits = max(len(self.low_digits), len(self.high_digits or ()), EXACT_DIGITS if integer else 0) + 1

    def rests(self, count: int, to_low: int, to_high: int) -> tuple[int | None, int | None] | None:
        """What is left of each bound (None: it is met for good) after a whole part; None if that is outside.

        Args:
            count: digits of the whole part.
            to_low, to_high: how they compare with the bounds' first digits: -1, 0, 1.
        """
        if count != len(self.low_digits):
            to_low = -1 if count < len(self.low_digits) else 1
        if self.high_digits is None:
            to_high = -1
        elif count != len(self.high_digits):
            to_high = -1 if count < len(self.high_digits) else 1
        if to_low < 0 or to_high > 0:
            return None
        return (self.low_rest if to_low == 0 else None), (self.high_rest if to_high == 0 else None)

    def holds(self, low: int | None, high: int | None) -> bool:
        """Is a number within the bounds, when this is left of them and it ends here?"""
        above = low is None or (low == 0 and not self.low_open)
        return above and (high is None or high > 0 or not self.high_open)

    def runs(self, count: int, to_low: int, to_high: int) -> Iterator[tuple[int, int]]:
        """The digits 0 to 9 in runs `[first, past)` that compare alike at place `count`."""
        cuts = {0, 10}
        if to_low == 0 and count < len(self.low_digits):
            cuts |= {self.low_digits[count], self.low_digits[count] + 1}
        if to_high == 0 and self.high_digits is not None and count < len(self.high_digits):
            cuts |= {self.high_digits[count], self.high_digits[count] + 1}
        return pairwise(sorted(cuts))

    def compared(self, count: int, digit: int, to_low: int, to_high: int) -> tuple[int, int]:
        """The comparison after one more digit, the `count`-th (from 0)."""
        low, high = self.low_digits, self.high_digits
        if to_low == 0 and count < len(low):
            to_low = (digit > low[count]) - (digit < low[count])
        if to_high == 0 and high is not None and count < len(high):
            to_high = (digit > high[count]) - (digit < high[count])
        if count >= len(low):
            to_low = 0  # longer than the bound: the digits no longer matter, and equal states are one
        return to_low, to_high


def magnitudes(low: End, high: End, *, integer: bool) -> Magnitudes | None:
    """The part of an interval at or above zero; None when it is empty."""
    least, least_open = (Fraction(0), False) if low.value is None or low.value < 0 else (low.value, low.open)
    greatest, greatest_open = high.value, high.open
    if integer:
        whole = -(-least.numerator // least.denominator)
        least, least_open = Fraction(whole + (least_open and whole == least)), False
        if greatest is not None:
            whole = greatest.numerator // greatest.denominator
            greatest, greatest_open = Fraction(whole - (greatest_open and whole == greatest)), False
    if greatest is not None and (greatest < least or (greatest == least and (least_open or greatest_open))):
        return None
    return Magnitudes(least, greatest, low_open=least_open, high_open=greatest_open, integer=integer)


def interval_dfa(low: End, high: End, *, integer: bool) -> CharDfa:
    """The plain decimal spellings of the numbers from `low` to `high`; `-0` is 0.

    An integer may have a fraction of zeros behind at most `EXACT_DIGITS` digits.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    builder = _Builder()
    positive = magnitudes(low, high, integer=integer)
    negative = magnitudes(high.negated(), low.negated(), integer=integer)
    if positive is not None:
        builder.start(1, positive)
    if negative is not None:
        builder.start(builder.negative(), negative)
    return builder.finish()


class _WholePartState(NamedTuple):
    """After `places` digits of the whole part; see `Magnitudes.compared`. `zero`: it is "0", complete."""

    places: int
    to_low: int
    to_high: int
    zero: bool


class _FractionState(NamedTuple):
    """In the fraction, with the remainders of the bounds that matter still; `digits`: after a digit."""

    low: int | None
    high: int | None
    digits: bool


class _Zeros(NamedTuple):
    """In the fraction of an integer; `digits`: after at least one zero."""

    digits: bool


_Key: TypeAlias = _WholePartState | _FractionState | _Zeros


class Rows:
    """A table under construction: `rows[state][column]`, row 0 dead, row 1 the start."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = [[0] * COLUMNS, [0] * COLUMNS]
        self.final = [0, 0]

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

    def finish(self) -> CharDfa:
        """The table, trimmed and minimal."""
        return tidied(BOUNDS, CLASSES, np.array(self.rows, np.int32), self.final)


class _Builder(Rows):
    """The table of `interval_dfa`."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[_Key, int] = {}
        self.pending: list[_Key] = []

    def state(self, key: _Key) -> int:
        """The state for `key`; a new one is left to be expanded."""
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = self.added()
            self.pending.append(key)
        return number

    def start(self, origin: int, of: Magnitudes) -> None:
        """Add the first digits of `of` to state `origin`, and every state they lead to."""
        self.known.clear()
        row = self.rows[origin]
        for digit, past in of.runs(0, 0, 0):
            target = self.state(_WholePartState(1, *of.compared(0, digit, 0, 0), False))
            row[digit + 1 : past + 1] = [target] * (past - digit)
        row[1] = self.state(_WholePartState(1, *of.compared(0, 0, 0, 0), True))
        while self.pending:
            key = self.pending.pop()
            number = self.known[key]
            if isinstance(key, _WholePartState):
                self.whole(number, of, key)
            elif isinstance(key, _FractionState):
                self.fraction(number, of, key)
            else:
                self.final[number] = int(key.digits)
                self.rows[number][1] = self.state(_Zeros(True))

    def whole(self, number: int, of: Magnitudes, key: _WholePartState) -> None:
        row = self.rows[number]
        rests = of.rests(key.places, key.to_low, key.to_high)
        if rests is not None:
            self.final[number] = int(of.holds(*rests))
            if not of.integer:
                row[POINT] = self.state(_FractionState(*rests, False))
            elif self.final[number] and key.places <= EXACT_DIGITS:
                row[POINT] = self.state(_Zeros(False))
        if key.zero or (of.high_digits is not None and key.places >= len(of.high_digits)):
            return
        longer = min(key.places + 1, of.most_digits)
        for digit, past in of.runs(key.places, key.to_low, key.to_high):
            compared = of.compared(key.places, digit, key.to_low, key.to_high)
            row[digit + 1 : past + 1] = [self.state(_WholePartState(longer, *compared, False))] * (past - digit)

    def fraction(self, number: int, of: Magnitudes, key: _FractionState) -> None:
        self.final[number] = int(key.digits and of.holds(key.low, key.high))
        first, last = 0, 9
        low_rest = high_rest = 0
        if key.low is not None:
            first, low_rest = divmod(key.low * 10, of.low_divisor)
        if key.high is not None:
            last, high_rest = divmod(key.high * 10, of.high_divisor)
        row = self.rows[number]
        if last - first > 1:
            row[first + 2 : last + 1] = [self.state(_FractionState(None, None, True))] * (last - first - 1)
        for digit in {first, last} if first <= last else ():
            left = low_rest if key.low is not None and digit == first else None
            right = high_rest if key.high is not None and digit == last else None
            row[digit + 1] = self.state(_FractionState(left, right, True))
