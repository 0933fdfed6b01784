"""The JSON spellings of a set of numbers, as an automaton.

A JSON `number` is read as a double nearly everywhere, so a number that is no integer stays within the range of doubles
(`1e999` would be read as infinity). Integers written in digits alone are read exactly, however long they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import count

import numpy as np

from structgen.memo import kept_in
from structgen.patience import check_patience
from structgen.regular.chardfa import LANGUAGES, CharDfa, from_pattern, literals, tidied, union
from structgen.values.sets.intervals import (
    ANY, BOUNDS, CLASSES, COLUMNS, EXPONENT, POINT, End, DigitTable, integer_rows, interval_rows,
)  # fmt: skip
from structgen.schema.normal import Numbers
from structgen.schema.scalars import within

_COLUMN_OF = {char: column for column, char in enumerate("0123456789-.", 1)}
_ZEROS = 2
"""The state in zeros at the end of a fraction, in the table of `_written`."""
DIGITS_ALONE = r"^-?(0|[1-9]\d*)$"
_ANY_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"
LARGEST = Fraction(1797693134862315807, 10**18) * 10**308
"""Every smaller number is rounded to a finite double: the first 19 digits of 2**1024 - 2**970."""
WHOLE_DIGITS = 308
"""Digits before the point of a finite number in plain notation."""
EXACT_DIGITS = 15
"""A fraction of zeros may appear after at most this many digits: a double holds every such integer exactly."""
LARGEST_WHOLE = 2**53
"""A double holds every whole number up to this one."""
_ANY_INTEGER = rf"^-?((0|[1-9]\d{{0,{EXACT_DIGITS - 1}}})(\.0+)?|[1-9]\d*)$"
_SHIFTED = 17
"""An exponent above 0 may appear after at most this many digits before the point."""


@kept_in(LANGUAGES)
def number_dfa(numbers: Numbers, finite: bool = True) -> CharDfa:
    """Exactly the JSON spellings of the numbers in the set; `.empty` when there is none.

    - Without bounds: every spelling of JSON, exponents included; see `any_finite_dfa`.
    - Integers: digits, and a fraction of zeros (`1`, `1.0`) after up to `EXACT_DIGITS` of them; no exponents.
    - With bounds: plain decimal notation, or an exponent after one digit before the point other than 0. `-0` is 0.
    - Literals: plain decimal notation with any number of trailing zeros in the fraction, and what `json.dumps` writes.
      Literals outside the bounds, or other than integers where `integer` is set, are left out.

    Args:
        finite: leave out numbers beyond the range of a double, except integers and literals, and those that a double
            rounds to an excluded bound.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    if numbers.literals is not None:
        return _literal_dfa(numbers)
    low = End(numbers.minimum, numbers.exclusive_minimum)
    high = End(numbers.maximum, numbers.exclusive_maximum)
    if numbers.integer:
        if low.value is None and high.value is None:
            return from_pattern(DIGITS_ALONE if numbers.plain else _ANY_INTEGER)
        return integer_rows(low, high, -1 if numbers.plain else EXACT_DIGITS).finish()
    if finite:
        low, high = _within_doubles(low, high)
    elif low.value is None and high.value is None:
        return from_pattern(_ANY_NUMBER)
    if low.value == -LARGEST and high.value == LARGEST:
        return any_finite_dfa()
    bounded = not finite or all(end.value is not None and abs(end.value) <= 10**WHOLE_DIGITS for end in (low, high))
    return interval_rows(low, high, maximum=ANY if bounded else WHOLE_DIGITS).finish()


def _within_doubles(low: End, high: End) -> tuple[End, End]:
    """The bounds, or those of finite numbers where these are tighter.

    An excluded bound excludes what a double rounds to it, too, unless no number would be left.
    """
    greatest = int(float.fromhex("0x1.fffffffffffffp+1023"))
    low = End(-LARGEST, True) if low.value is None or low.value <= -greatest else low
    high = End(LARGEST, True) if high.value is None or high.value >= greatest else high
    least, most = _rounding_short_of(low, 1), _rounding_short_of(high, -1)
    assert least.value is not None
    assert most.value is not None
    return (least, most) if least.value < most.value or least == most == End(least.value) else (low, high)


def _rounding_short_of(end: End, sign: int) -> End:
    """The bound up to which all numbers are rounded to doubles other than an excluded bound; see `intervals` for 0."""
    if not end.open or not end.value or not -LARGEST < end.value < LARGEST:
        return end
    return End(Fraction(repr(math.nextafter(float(end.value), sign * math.inf))))


@lru_cache(maxsize=2)
def held_exactly_dfa(largest: int = LARGEST_WHOLE) -> CharDfa:
    """Numbers that are read as they are written: whole ones up to `largest`, and others of `EXACT_DIGITS` digits.

    The digits are those without zeros at either end; an exponent may appear after one of them.
    """
    fractions = [rf"[1-9]\d{{{whole - 1}}}\.\d{{1,{EXACT_DIGITS - whole}}}0*" for whole in range(1, EXACT_DIGITS)]
    digits = rf"0\.0*\d{{1,{EXACT_DIGITS}}}0*", rf"[1-9](\.\d{{1,{EXACT_DIGITS - 1}}}0*)?[eE][+-]?\d+"
    whole = integer_rows(End(-largest), End(largest), EXACT_DIGITS).finish()
    return union(whole, from_pattern(f"^-?({'|'.join((*fractions, *digits))})$"))


def is_held_exactly(value: Fraction) -> bool:
    """Is a number with a finite decimal expansion one of `held_exactly_dfa`?"""
    return held_exactly_dfa().matches(_plain(value))


@lru_cache(maxsize=1)
def any_finite_dfa() -> CharDfa:
    """The spellings of finite numbers: every double as `json.dumps` writes it, and nearly all others.

    At most `WHOLE_DIGITS` digits are before the point. The exponent is at most 308 after one digit, and one less for
    each further digit; after more than `_SHIFTED` digits it is at most 0.
    """
    finite = End(-LARGEST, True), End(LARGEST, True)
    table = interval_rows(*finite, maximum=WHOLE_DIGITS, chained=_SHIFTED + 1)
    zero = table.added(final=True)
    table.rows[1][1] = table.rows[table.negative()][1] = zero
    _add_fraction(table, [zero], WHOLE_DIGITS)
    for digits in range(2, _SHIFTED + 2):
        maximum = WHOLE_DIGITS - digits
        _add_fraction(table, [table.run(0, maximum, ANY)], maximum if digits <= _SHIFTED else 0)
    return table.finish()


def _add_fraction(table: DigitTable, wholes: Sequence[int], maximum: int) -> None:
    """Let a fraction, an exponent of at most `maximum`, or both follow the states `wholes`."""
    point, fraction, exponent = table.added(), table.added(final=True), table.exponent(None, maximum)
    for state in wholes:
        table.rows[state][POINT], table.rows[state][EXPONENT] = point, exponent
    table.rows[point][1:11] = table.rows[fraction][1:11] = [fraction] * 10
    table.rows[fraction][EXPONENT] = exponent


def exact_decimal(value: int | float) -> Decimal:
    """The decimal number that JSON writes for a literal."""
    check_patience()
    # 10**22 and 1e22 are equal, hence one key of the cache: a whole float is read as the integer it is
    return Decimal(int(value)) if value == int(value) else Decimal(json.dumps(value))


def spellings(values: Sequence[Fraction]) -> CharDfa:
    """All plain spellings of numbers with a finite decimal expansion, and those of `json.dumps`."""
    texts = ["-0"] * (0 in values) + list(map(_plain, values))
    floats = [(json.dumps(float(value)), value) for value in values if abs(value) < LARGEST]
    exact = [text for text, value in floats if Fraction(text) == value and (value.denominator > 1 or _as_float(value))]
    return _written(texts, exact)


def _plain(value: Fraction) -> str:
    """The plain notation of a number with a finite decimal expansion."""
    places = decimal_places(value)
    digits = tuple(map(int, str(abs(value.numerator) * (10**places // value.denominator))))
    return format(Decimal((int(value < 0), digits, -places)), "f")


def decimal_places(value: Fraction) -> int:
    """The number of digits after the point of a number with a finite decimal expansion."""
    return next(places for places in count() if 10**places % value.denominator == 0)


def _literal_dfa(numbers: Numbers) -> CharDfa:
    values = [value for value in numbers.literals or () if within(Fraction(exact_decimal(value)), numbers)]
    texts = [format(exact_decimal(value), "f") for value in values] + ["-0"] * (0 in values)
    if numbers.plain:
        return literals(text for text in texts if "." not in text)
    return _written(texts, list(map(_as_float, values)))


def _as_float(value: int | float | Fraction) -> str:
    """What JSON writes for the float that equals `value`; empty where there is none."""
    check_patience()
    try:
        return json.dumps(float(value)) if float(value) == value else ""
    except OverflowError:  # an integer beyond the range of floats
        return ""


def _written(texts: Iterable[str], floats: Iterable[str]) -> CharDfa:
    """Plain decimal texts, each with any number of zeros at the end of its fraction; and `floats` with an exponent.

    An integer that no double equals has no fraction: it would be read as another number.

    Args:
        texts: without trailing zeros in the fraction.
        floats: as `json.dumps` writes them.
    """
    rows = [[0] * COLUMNS for _ in range(3)]
    rows[_ZEROS][1] = _ZEROS
    ends, final = [], {_ZEROS}

    def child(state: int, char: str) -> int:
        if not rows[state][_COLUMN_OF[char]]:
            rows[state][_COLUMN_OF[char]] = len(rows)
            rows.append([0] * COLUMNS)
        return rows[state][_COLUMN_OF[char]]

    for text in texts:
        state = reduce(child, text, 1)
        final.add(state)
        if "." in text:
            ends.append(state)
        elif _as_float(Fraction(Decimal(text))):
            ends.append(child(state, "."))
    for state in ends:
        while state != _ZEROS:
            rows[state][1] = rows[state][1] or _ZEROS
            state = rows[state][1]
            final.add(state)
    plain = tidied(BOUNDS, CLASSES, np.array(rows, np.int32), [int(state in final) for state in range(len(rows))])
    exact = [text for text in floats if "e" in text]
    return union(plain, literals(exact)) if exact else plain
