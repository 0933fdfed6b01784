"""The JSON spellings of a set of numbers, as an automaton built digit by digit from the bounds.

While a number is read, all that matters is how the digits so far compare with the first digits of each bound,
and how many there are. In the fraction, what is left of a bound is the remainder of its long division: a
digit below the bound's next one decides, the same digit leaves the next remainder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from structgen.automaton.chardfa import STATE_LIMIT, CharDfa, from_pattern, literals, tidied, union
from structgen.errors import LimitExceeded
from structgen.schema.normal import Numbers

BOUNDS = np.array(
    [0, *(ord(char) for char in "+,-./0123456789:EFef")], np.int32
)  # interval i starts at the i-th character
CLASSES = np.array([0, 14, 0, 11, 12, 0, *range(1, 11), 0, 13, 0, 13, 0], np.int32)
MINUS, POINT, COLUMNS = 11, 12, 15
_COLUMN_OF = {char: column for column, char in enumerate("0123456789-.", 1)}
_ANY_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"
_ANY_INTEGER = r"^-?(0|[1-9]\d*)(\.0+)?$"


@lru_cache(maxsize=1024)
def number_dfa(numbers: Numbers) -> CharDfa:
    """Exactly the JSON spellings of the numbers in the set; `.empty` when there is none.

    - Without bounds: every spelling of JSON, exponents included.
    - Integers without bounds: digits, and a fraction of zeros (`1`, `1.0`); no exponents.
    - With bounds: plain decimal notation, exact; for integers a fraction of zeros is allowed. `-0` is 0.
    - Literals: plain decimal notation with any number of trailing zeros in the fraction, and what
      `json.dumps` writes. Those that are outside the bounds, or not integers where that is asked, are left
      out.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    if numbers.literals is not None:
        return _literal_dfa(numbers)
    if numbers.minimum is None and numbers.maximum is None:
        return from_pattern(_ANY_INTEGER if numbers.integer else _ANY_NUMBER)
    builder = _Builder()
    low = _End(numbers.minimum, numbers.exclusive_minimum)
    high = _End(numbers.maximum, numbers.exclusive_maximum)
    positive = _magnitudes(low, high, integer=numbers.integer)
    negative = _magnitudes(high.negated(), low.negated(), integer=numbers.integer)
    if positive is not None:
        builder.start(1, positive)
    if negative is not None:
        minus = builder.added()
        builder.rows[1][MINUS] = minus
        builder.start(minus, negative)
    return builder.finish()


@dataclass(frozen=True, slots=True)
class _End:
    """One end of an interval; `value` None is infinity."""

    value: Fraction | None
    open: bool

    def negated(self) -> _End:
        return _End(None if self.value is None else -self.value, self.open)


class _Magnitudes:
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
        self.most_digits = max(len(self.low_digits), len(self.high_digits or ())) + 1

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


def _magnitudes(low: _End, high: _End, *, integer: bool) -> _Magnitudes | None:
    """The part of an interval at or above zero; None when it is empty."""
    least, least_open = (Fraction(0), False) if low.value is None or low.value < 0 else (low.value, low.open)
    most, most_open = high.value, high.open
    if integer:
        whole = -(-least.numerator // least.denominator)
        least, least_open = Fraction(whole + (least_open and whole == least)), False
        if most is not None:
            whole = most.numerator // most.denominator
            most, most_open = Fraction(whole - (most_open and whole == most)), False
    if most is not None and (most < least or (most == least and (least_open or most_open))):
        return None
    return _Magnitudes(least, most, low_open=least_open, high_open=most_open, integer=integer)


class _Whole(NamedTuple):
    """After `places` digits of the whole part; see `_Magnitudes.compared`. `zero`: it is "0", complete."""

    places: int
    to_low: int
    to_high: int
    zero: bool


class _Part(NamedTuple):
    """In the fraction, with the remainders of the bounds that matter still; `digits`: after a digit."""

    low: int | None
    high: int | None
    digits: bool


class _Zeros(NamedTuple):
    """In the fraction of an integer; `digits`: after at least one zero."""

    digits: bool


_Key: TypeAlias = _Whole | _Part | _Zeros


class _Builder:
    """A table under construction: `rows[state][column]`, row 0 dead, row 1 the start."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = [[0] * COLUMNS, [0] * COLUMNS]
        self.final = [0, 0]
        self.known: dict[_Key, int] = {}
        self.pending: list[_Key] = []

    def added(self) -> int:
        """A new state."""
        if len(self.rows) > STATE_LIMIT:
            raise LimitExceeded(f"numeric bounds take more than {STATE_LIMIT:,} automaton states")
        self.rows.append([0] * COLUMNS)
        self.final.append(0)
        return len(self.rows) - 1

    def state(self, key: _Key) -> int:
        """The state for `key`; a new one is left to be expanded."""
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = self.added()
            self.pending.append(key)
        return number

    def start(self, origin: int, of: _Magnitudes) -> None:
        """Add the first digits of `of` to state `origin`, and every state they lead to."""
        self.known.clear()
        row = self.rows[origin]
        for digit, past in of.runs(0, 0, 0):
            target = self.state(_Whole(1, *of.compared(0, digit, 0, 0), False))
            row[digit + 1 : past + 1] = [target] * (past - digit)
        row[1] = self.state(_Whole(1, *of.compared(0, 0, 0, 0), True))
        while self.pending:
            key = self.pending.pop()
            number = self.known[key]
            if isinstance(key, _Whole):
                self.whole(number, of, key)
            elif isinstance(key, _Part):
                self.fraction(number, of, key)
            else:
                self.final[number] = int(key.digits)
                self.rows[number][1] = self.state(_Zeros(True))

    def whole(self, number: int, of: _Magnitudes, key: _Whole) -> None:
        row = self.rows[number]
        rests = of.rests(key.places, key.to_low, key.to_high)
        if rests is not None:
            self.final[number] = int(of.holds(*rests))
            if not of.integer:
                row[POINT] = self.state(_Part(*rests, False))
            elif self.final[number]:
                row[POINT] = self.state(_Zeros(False))
        if key.zero or (of.high_digits is not None and key.places >= len(of.high_digits)):
            return
        longer = min(key.places + 1, of.most_digits)
        for digit, past in of.runs(key.places, key.to_low, key.to_high):
            compared = of.compared(key.places, digit, key.to_low, key.to_high)
            row[digit + 1 : past + 1] = [self.state(_Whole(longer, *compared, False))] * (past - digit)

    def fraction(self, number: int, of: _Magnitudes, key: _Part) -> None:
        self.final[number] = int(key.digits and of.holds(key.low, key.high))
        first, last = 0, 9
        low_rest = high_rest = 0
        if key.low is not None:
            first, low_rest = divmod(key.low * 10, of.low_divisor)
        if key.high is not None:
            last, high_rest = divmod(key.high * 10, of.high_divisor)
        row = self.rows[number]
        if last - first > 1:
            row[first + 2 : last + 1] = [self.state(_Part(None, None, True))] * (last - first - 1)
        for digit in {first, last} if first <= last else ():
            left = low_rest if key.low is not None and digit == first else None
            right = high_rest if key.high is not None and digit == last else None
            row[digit + 1] = self.state(_Part(left, right, True))

    def finish(self) -> CharDfa:
        return tidied(BOUNDS, CLASSES, np.array(self.rows, np.int32), self.final)


def exact_decimal(value: int | float) -> Decimal:
    """The decimal number that a literal stands for: what JSON writes for it."""
    # 10**22 and 1e22 are equal, hence one key of the cache: a whole float is read as the integer it is
    return Decimal(int(value)) if value == int(value) else Decimal(json.dumps(value))


def spellings(values: Iterable[Fraction]) -> CharDfa:
    """All plain decimal spellings of finitely many numbers with a finite decimal expansion."""
    trie = _Trie()
    for value in values:
        places = 0
        while 10**places % value.denominator:
            places += 1
        digits = abs(value.numerator) * (10**places // value.denominator)
        trie.insert(format(Decimal((int(value < 0), tuple(map(int, str(digits))), -places)), "f"))
        if value == 0:
            trie.insert("-0")
    return trie.finish()


def _literal_dfa(numbers: Numbers) -> CharDfa:
    trie = _Trie()
    exact = []
    for value in numbers.literals or ():
        decimal = exact_decimal(value)
        if not within(Fraction(decimal), numbers):
            continue
        trie.insert(format(decimal, "f"))
        if value == 0:
            trie.insert("-0")
        scientific = _as_float(value)
        if "e" in scientific:
            exact.append(scientific)
    dfa = trie.finish()
    return union(dfa, literals(exact)) if exact else dfa


def _as_float(value: int | float) -> str:
    """How JSON writes the float that equals `value`; empty where there is none."""
    try:
        return json.dumps(float(value)) if float(value) == value else ""
    except OverflowError:  # an integer beyond the range of floats
        return ""


def within(value: Fraction, numbers: Numbers) -> bool:
    """Whether `value` is within the bounds, and an integer where that is asked."""
    low, high = numbers.minimum, numbers.maximum
    above = low is None or value > low or (value == low and not numbers.exclusive_minimum)
    below = high is None or value < high or (value == high and not numbers.exclusive_maximum)
    return above and below and not (numbers.integer and value.denominator != 1)


class _Trie:
    """Plain decimal spellings without trailing zeros, to which zeros are added at the end."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = [[0] * COLUMNS, [0] * COLUMNS]
        self.ends: list[tuple[int, bool]] = []

    def child(self, state: int, column: int) -> int:
        if self.rows[state][column] == 0:
            self.rows[state][column] = len(self.rows)
            self.rows.append([0] * COLUMNS)
        return self.rows[state][column]

    def insert(self, spelling: str) -> None:
        state = 1
        for char in spelling:
            state = self.child(state, _COLUMN_OF[char])
        self.ends.append((state, "." in spelling))

    def finish(self) -> CharDfa:
        """Let every spelling be followed by zeros: along the trie as far as it goes, then round and round."""
        final = {state for state, _ in self.ends}
        zeros = len(self.rows)
        self.rows.append([0] * COLUMNS)
        self.rows[zeros][1] = zeros
        final.add(zeros)
        for state, has_point in self.ends:
            here = state if has_point else self.child(state, POINT)
            while here != zeros:
                if self.rows[here][1] == 0:
                    self.rows[here][1] = zeros
                here = self.rows[here][1]
                final.add(here)
        accepts = [int(state in final) for state in range(len(self.rows))]
        return tidied(BOUNDS, CLASSES, np.array(self.rows, np.int32), accepts)
