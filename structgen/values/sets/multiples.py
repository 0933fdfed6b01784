"""Multiples of a number, digit by digit: only the remainder of the digits so far matters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from structgen.memo import kept_in
from structgen.regular.chardfa import LANGUAGES, CharDfa, literals, tidied, union
from structgen.values.sets.intervals import BOUNDS, CLASSES, COLUMNS, EXPONENT, MINUS, POINT, DigitTable
from structgen.values.sets.decimals import EXACT_DIGITS, LARGEST_WHOLE, decimal_places

MULTIPLES_LIMIT = 20_000
"""Remainders that `multiples_dfa` distinguishes; for a step with more, it takes a divisor of the step."""
SCIENTIFIC_LIMIT = 25
"""Multiples of greater steps, powers of ten taken off, are spelled without exponents."""
_FRACTION_DIGITS = EXACT_DIGITS - 1
"""Digits after the point of a multiple with an exponent."""
_GREATEST = [
    digits + sum(10 ** (digits + 1) * 5**zeros <= LARGEST_WHOLE for zeros in range(1, 22))
    for digits in range(_FRACTION_DIGITS + 1)
]
"""By the number of these digits, the greatest exponent: a double holds the whole numbers up to there exactly."""

_START, _SIGN, _ZERO, _POINT, _TAIL, _FIRST = range(1, 7)
# The start, after a minus, after "0", after the point of an integer, in zeros without end; then remainders.


def common_step(steps: Iterable[Fraction]) -> Fraction | None:
    """The step whose multiples are the common multiples of all `steps`; None when there is no step.

    Only numbers with a finite decimal spelling count: among the multiples of 1/3 they are the integers.
    """
    step: Fraction | None = None
    for other in steps:
        other = abs(other)
        if step is not None:
            other = Fraction(math.lcm(step.numerator, other.numerator), math.gcd(step.denominator, other.denominator))
        step = other
    if step is None:
        return None
    decimal = math.gcd(step.denominator, 10 ** step.denominator.bit_length())  # the part that divides a power of ten
    return Fraction(step.numerator, decimal)


def _scaled(step: Fraction) -> tuple[int, int, int]:
    """`step` as `whole * 10**zeros / 10**places`, where one of `zeros` and `places` is 0."""
    places, zeros = decimal_places(step), 0
    whole = step.numerator * (10**places // step.denominator)
    while places == 0 and whole % 10 == 0:
        whole //= 10
        zeros += 1
    return whole, zeros, places


@kept_in(LANGUAGES)
def multiples_dfa(step: Fraction, *, exponents: bool = False) -> tuple[CharDfa, bool]:
    """The plain decimal spellings of the multiples of `step` (above 0, with a finite decimal expansion).

    Args:
        exponents: add spellings with an exponent; see `_scientific_multiples`.

    Returns:
        The spellings, with any number of zeros at the end of the fraction; and whether they are exact: for a step
        with more than `MULTIPLES_LIMIT` remainders they are the multiples of one of its divisors.
    """
    whole, zeros, places = _scaled(step)
    largest = max(MULTIPLES_LIMIT // (places + 2), 1)
    kept = whole
    if whole > largest:
        kept = next(divisor for divisor in range(largest, 0, -1) if whole % divisor == 0)
    table, final = _fractions(kept, places) if places else _integers(kept, zeros)
    for digit in range(1, 10):
        table[[_START, _SIGN], digit + 1] = _FIRST + digit % kept
    table[[_START, _SIGN], 1] = _ZERO
    table[_START, MINUS] = _SIGN
    table[_TAIL, 1] = _TAIL
    final[[_ZERO, _TAIL]] = 1
    plain = tidied(BOUNDS, CLASSES, table, final.tolist())
    return union(plain, _scientific_multiples(step)) if exponents else plain, kept == whole


def _scientific_multiples(step: Fraction) -> CharDfa:
    """Multiples of `step` as `json.dumps` writes them with an exponent: a digit other than 0, and a fraction.

    Zeros at the end of the fraction count as digits. The quotient of the number and the step is finite too, as a
    double, since validators divide. There are none for a step whose digits are a number above `SCIENTIFIC_LIMIT`.
    """
    whole, zeros, places = _scaled(step)
    if whole > SCIENTIFIC_LIMIT:
        return literals(())
    rows = DigitTable()
    shifts = [next((shift for shift in range(whole) if rest * 10**shift % whole == 0), None) for rest in range(whole)]
    # By the number of digits in the fraction and the remainder of all digits: the state before the exponents that make
    # the number a multiple.
    exponents = [
        [0 if shift is None else rows.exponent(zeros - places + digits + shift, maximum) for shift in shifts]
        for digits, maximum in enumerate(min(greatest, 307 - places) for greatest in _GREATEST)
    ]
    origins, first = [1, rows.negative()], len(rows.rows)
    point = first + whole
    table, final = _blank(point + whole * (_FRACTION_DIGITS + 1))
    table[:first], final[:first] = rows.array(), rows.final
    table[origins, 2:11] = first + np.arange(1, 10) % whole
    table[first:point, POINT] = point + np.arange(whole)
    for start in range(point, len(table) - whole, whole):
        _append(table, start, start + whole, whole)
    table[first:point, EXPONENT], table[point + whole :, EXPONENT] = exponents[0], np.ravel(exponents[1:])
    return tidied(BOUNDS, CLASSES, table, final.tolist())


Table: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32]]


def _blank(states: int) -> Table:
    """A table without edges and its finals."""
    return np.zeros((states, COLUMNS), np.int32), np.zeros(states, np.int32)


def _append(table: NDArray[np.int32], origin: int, target: int, whole: int) -> None:
    """Let one more digit lead from the states of remainders at `origin` to those at `target`."""
    table[origin : origin + whole, 1:11] = target + (np.arange(whole)[:, None] * 10 + np.arange(10)) % whole


def _integers(whole: int, zeros: int) -> Table:
    """The multiples of `whole * 10**zeros`. States from `_FIRST` on: the remainders by `whole`; then 1 to `zeros` zeros
    after a multiple of `whole`."""
    table, final = _blank(_FIRST + whole + zeros)
    _append(table, _FIRST, _FIRST, whole)
    last = _FIRST
    for more in range(_FIRST + whole, _FIRST + whole + zeros):
        table[more] = table[_FIRST]
        table[last, 1] = more
        last = more
    table[last, 1] = last
    final[last] = 1
    table[[_ZERO, last], POINT] = _POINT
    table[_POINT, 1] = _TAIL
    return table, final


def _fractions(whole: int, places: int) -> Table:
    """The multiples of `whole / 10**places`. States from `_FIRST` on: `places + 2` blocks of remainders, for the whole
    part, the point, and 1 to `places` digits after it."""
    table, final = _blank(_FIRST + whole * (places + 2))
    starts = [_FIRST + whole * block for block in range(places + 2)]
    remainders = np.arange(whole)
    _append(table, starts[0], starts[0], whole)
    table[starts[0] : starts[1], POINT] = starts[1] + remainders
    table[_ZERO, POINT] = starts[1]
    for place in range(places):
        _append(table, starts[place + 1], starts[place + 2], whole)
    for digits in range(places):
        start = starts[digits + 1] if digits else starts[0]
        final[start : start + whole] = remainders * pow(10, places - digits, whole) % whole == 0
    final[starts[-1]] = 1
    table[starts[-1], 1] = _TAIL
    return table, final
