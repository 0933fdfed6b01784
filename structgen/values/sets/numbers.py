"""Sets of numbers with all fields of the normal form: bounds, literals, multiples, and sets that are left out.

A set has plain decimal spellings (`_PLAIN`) and spellings with an exponent: see `number_dfa` and `multiples_dfa`.
Multiples of a whole step are spelled as integers are, or with an exponent. A number is left out by taking away all of
its plain spellings, so a set with something left out has plain spellings only.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from structgen.memo import kept_in, schema_cache
from structgen.patience import check_patience
from structgen.regular.chardfa import LANGUAGES, CharDfa, combine, complement, from_pattern, intersect, less, literals
from structgen.values.sets.multiples import common_step, multiples_dfa
from structgen.values.sets.decimals import (
    DIGITS_ALONE, EXACT_DIGITS, LARGEST_WHOLE, WHOLE_DIGITS, exact_decimal, held_exactly_dfa, is_held_exactly,
    number_dfa, spellings,
)  # fmt: skip
from structgen.errors import LimitExceeded
from structgen.schema.normal import Listed, Numbers
from structgen.schema.scalars import by_spelling, within

if TYPE_CHECKING:
    from collections.abc import Callable

Predicate: TypeAlias = "Callable[[str], bool]"
COUNT_LIMIT = 10_000
"""A set with more members is not counted."""
_FEW = 1_000
_ONE = Fraction(1)
_BOUNDS = ("minimum", "maximum", "exclusive_minimum", "exclusive_maximum")
_LIMIT = Fraction(10**WHOLE_DIGITS)
"""Numbers from here on have no plain notation."""
_WHOLE = rf"^-?(0|[1-9]\d{{0,{WHOLE_DIGITS - 1}}})$"
_PLAIN = r"^-?(0|[1-9]\d*)(\.\d+)?$"


def number_language(numbers: Numbers, *, finite: bool = True) -> CharDfa:
    """Spellings of the numbers in the set: a superset where there is a `number_predicate`, else exact.

    Args:
        finite: leave out numbers beyond the range of a double; see `numbers.number_dfa`.
    """
    return _language(numbers, finite)[0]


@schema_cache(4096)
def number_predicate(numbers: Numbers, *, finite: bool = True) -> Predicate | None:
    """Decides whether a number's text is in the set; None when the language is exact."""
    if not numbers.multiples and not numbers.without:
        return None
    language, exact = _language(numbers, finite)
    return None if exact else partial(_holds, language, number_dfa(_bare(numbers), finite), numbers)


def _holds(language: CharDfa, bounds: CharDfa, numbers: Numbers, text: str) -> bool:
    return language.matches(text) and bounds.matches(text) and spelled_in(numbers, text)


def _bare(numbers: Numbers) -> Numbers:
    """The set without its steps and what it leaves out."""
    return replace(numbers, multiples=(), without=()) if numbers.multiples or numbers.without else numbers


def spelled_in(numbers: Numbers, text: str) -> bool:
    """The definition: whether the number that `text` spells is in the set."""
    value = Fraction(Decimal(text))  # a Fraction alone reads no more than a few thousand digits
    if numbers.plain and not text.lstrip("-").isdigit():
        return False
    return _in_set(numbers, value) and not any(spelled_in(other, text) for other in numbers.without)


def _in_set(numbers: Numbers, value: Fraction) -> bool:
    """Whether `value` satisfies all fields but `without` and `plain`."""
    if not within(value, numbers) or any(value % step for step in numbers.multiples):
        return False
    return numbers.literals is None or value in _exact_values(numbers.literals)


@schema_cache(64)
def _exact_values(literals: Listed[int | float]) -> frozenset[Fraction]:
    """The numbers that literals spell."""
    return frozenset([Fraction(exact_decimal(value)) for value in literals])


def _has(numbers: Numbers, value: Fraction) -> bool:
    """Whether some spelling of `value` is in the set."""
    check_patience()
    if not _in_set(numbers, value):
        return False
    # In draft 4 `1.0` is no integer: where integers are left out, the spelling `1.0` stays.
    return not any(_has(other, value) and (numbers.plain or not by_spelling(other)) for other in numbers.without)


@kept_in(LANGUAGES)
def _language(numbers: Numbers, finite: bool) -> tuple[CharDfa, bool]:
    """The language, and whether it is exact.

    Whether a number is a multiple, or one that is left out, is told by its digits, and a reader tells it by the double
    that it makes of them. So only numbers that a double holds as they are written are spelled; where there is none,
    integers in digits alone.
    """
    check_patience()
    numbers.check_only("number_language", *_BOUNDS, "integer", "literals", "plain", "multiples", "without")
    if any(other.only("multiples") and _has_steps_of(other, numbers) for other in numbers.without):
        return literals(()), True
    notations: tuple[CharDfa, ...] = ()
    if finite and not numbers.integer and numbers.literals is None and (numbers.multiples or numbers.without):
        step = _step(numbers) or _ONE
        if step > LARGEST_WHOLE:
            notations = (from_pattern(_WHOLE),)
        elif is_held_exactly(step):
            notations = held_exactly_dfa(), held_exactly_dfa(10**EXACT_DIGITS), from_pattern(_WHOLE)
    known = bool(notations)
    for notation in notations:
        try:
            language, exact = _spelled(numbers, finite, notation)
        except LimitExceeded:
            known = False
            continue
        if not language.empty:
            return language, exact
    return (language, exact) if known else _spelled(numbers, finite, None)


def _spelled(numbers: Numbers, finite: bool, notation: CharDfa | None) -> tuple[CharDfa, bool]:
    """The language, and whether it is exact. `notation`: all its spellings are to be among these."""
    bare = _bare(numbers)
    step: Fraction | None = None
    without = numbers.without
    if numbers.literals is not None:
        language, exact = number_dfa(replace(bare, literals=Listed(_living(numbers)))), True
        without = tuple(filter(by_spelling, without))
    elif numbers.multiples:
        few = _grid(numbers, _FEW)
        step = _step(numbers)
        assert step is not None
        if few is not None and not _quickly_divided(numbers, step, len(few)):
            held = numbers.integer or not finite
            language, exact = spellings([value for value in few if held or abs(value) < _LIMIT]), True
            step = None
        else:
            language, exact = multiples_dfa(step, exponents=not (numbers.integer or without))
        if numbers.plain:
            language = digits_alone(language)
    else:
        language, exact = number_dfa(bare, finite), True
    if notation is not None:
        language = intersect(language, notation)
    if without:
        language = intersect(language, from_pattern(_PLAIN))
    for other in without:
        language, exact = _difference(language, exact, other)
    return (language, exact) if step is None else _bounded(language, exact, bare, finite, notation)


def _living(numbers: Numbers) -> list[int | float]:
    """The literals of a set that satisfy its other fields in some spelling."""
    others = replace(numbers, literals=None)
    return [value for value in numbers.literals or () if _has(others, Fraction(exact_decimal(value)))]


def _step(numbers: Numbers) -> Fraction | None:
    """The step whose multiples satisfy `multiples` and `integer`; None where neither is given."""
    if not numbers.multiples:
        return _ONE if numbers.integer else None
    return common_step((*numbers.multiples, _ONE) if numbers.integer else numbers.multiples)


def _quickly_divided(numbers: Numbers, step: Fraction, count: int) -> bool:
    """Is an automaton of remainders smaller than one of `count` multiples, and has it the same spellings?"""
    ends = numbers.minimum or 0, numbers.maximum or 0
    return numbers.integer and step <= count and all(abs(end) < 10**EXACT_DIGITS for end in ends)


def digits_alone(language: CharDfa) -> CharDfa:
    """The spellings without point and exponent: they are read as exact integers of any length."""
    return intersect(language, from_pattern(DIGITS_ALONE))


@kept_in(LANGUAGES)
def combined_languages(sets: tuple[Numbers, ...], finite: bool = True) -> tuple[CharDfa, tuple[Predicate | None, ...]]:
    """The union of number sets with a bit for each, as in `combine`; and for each set what decides about a member.

    Where the union is too large, each set is read as a larger one in plain notation, and predicates decide.

    Raises:
        LimitExceeded: it is too large even so.
    """
    languages = [number_language(numbers, finite=finite) for numbers in sets]
    predicates = [number_predicate(numbers, finite=finite) for numbers in sets]
    try:
        return combine(languages), tuple(predicates)
    except LimitExceeded:
        decided = [each or language.matches for each, language in zip(predicates, languages, strict=True)]
        try:
            return combine([_plain_superset(_uncounted(numbers)) for numbers in sets]), tuple(decided)
        except LimitExceeded:
            return combine([_plain_superset(_bare(_uncounted(numbers))) for numbers in sets]), tuple(decided)


def _uncounted(numbers: Numbers) -> Numbers:
    """Integers as multiples of 1: a fraction of zeros may follow any number of digits, which no automaton counts."""
    if not numbers.integer or numbers.literals is not None:
        return numbers
    return replace(numbers, integer=False, multiples=(*numbers.multiples, _ONE))


def _plain_superset(numbers: Numbers) -> CharDfa:
    """The plain spellings of the numbers of a set, of any length; a superset where `number_language` is one."""
    return intersect(number_language(numbers, finite=False), from_pattern(_PLAIN))


def _bounded(
    multiples: CharDfa, exact: bool, bare: Numbers, finite: bool, notation: CharDfa | None
) -> tuple[CharDfa, bool]:
    """Multiples within the bounds of `bare`."""
    unbounded = bare.minimum is None and bare.maximum is None
    if unbounded and notation is not None:
        return multiples, exact
    within_bounds = number_dfa(bare, finite)
    try:
        return intersect(multiples, within_bounds), exact
    except LimitExceeded:
        uncounted = number_dfa(replace(bare, integer=False, plain=False), finite=False)
        with suppress(LimitExceeded):
            return intersect(multiples, uncounted, from_pattern(_PLAIN)), False
        plain = intersect(within_bounds, from_pattern(_PLAIN))
        return plain if notation is None else intersect(plain, notation), False


def _difference(language: CharDfa, exact: bool, other: Numbers) -> tuple[CharDfa, bool]:
    """Plain spellings without those of `other`; unchanged, and inexact, where they are unknown or too many."""
    taken, known = _language(_uncounted(other), False)
    try:
        return less(language, exact, taken, known=known)
    except LimitExceeded:
        return language, False


def _grid(numbers: Numbers, limit: int) -> list[Fraction] | None:
    """The multiples or integers within the bounds, or the literals; None when there are more than `limit`.

    `without` is ignored.
    """
    if numbers.literals is not None:
        values = dict.fromkeys(Fraction(exact_decimal(value)) for value in numbers.literals)
        others = replace(numbers, literals=None)
        return [value for value in values if _in_set(others, value)] if len(values) <= limit else None
    low, high = numbers.minimum, numbers.maximum
    if low is None or high is None:
        return None
    if low == high:
        return [low] if _in_set(numbers, low) else []
    step = _step(numbers)
    if step is None:
        return [] if low > high else None
    first, last = math.ceil(low / step), math.floor(high / step)
    if last - first >= limit + 2:
        return None
    inside = [value for value in (step * factor for factor in range(first, last + 1)) if within(value, numbers)]
    return inside if len(inside) <= limit else None


def few_numbers(numbers: Numbers, limit: int) -> list[int | float] | None:
    """The numbers of the set; None when there are more than `limit`, or when they cannot be listed."""
    values = None if by_spelling(numbers) and not numbers.plain else _grid(numbers, 4 * limit)
    if values is None:
        return None
    listed = [int(value) if value.denominator == 1 else float(value) for value in values if _has(numbers, value)]
    return listed if len(listed) <= limit else None


@lru_cache(1024)
def number_count(numbers: Numbers) -> int | None:
    """How many different numbers are in the set; None when infinite, unknown or above `COUNT_LIMIT`."""
    values = _grid(numbers, COUNT_LIMIT)
    return None if values is None else sum(_has(numbers, value) for value in values)


@lru_cache(1024)  # many places of a schema have the same numbers
def number_is_empty(numbers: Numbers) -> bool:
    """True when no number is in the set. False also where a set that is infinite and not regular may be empty."""
    if not numbers.without:
        if numbers.literals is not None:
            return not _living(numbers)
        if _plainly_inhabited(numbers):
            return False
    language, exact = _language(numbers, True)
    if language.empty or exact:
        return language.empty
    if number_count(numbers) == 0:
        return True
    return any(_covers(other, numbers) for other in numbers.without)


def _plainly_inhabited(numbers: Numbers) -> bool:
    """True only when the bounds and steps alone show that there is a number in plain notation."""
    low, high, step = numbers.minimum, numbers.maximum, _step(numbers)
    if step is None:
        return (-_LIMIT if low is None else max(low, -_LIMIT)) < (_LIMIT if high is None else min(high, _LIMIT))
    first = math.ceil(low / step) if low is not None else math.floor((high or 0) / step)
    beside = 1 if low is not None else -1
    return any(
        within(value, numbers) and abs(value) < _LIMIT and (value.denominator == 1 or is_held_exactly(value))
        for value in (step * first, step * (first + beside))
    )


def _has_steps_of(outer: Numbers, inner: Numbers) -> bool:
    """Do the steps show that each number of `inner` is a multiple of those of `outer`?"""
    steps, wanted = _step(inner), _step(outer)
    return wanted is None or (steps is not None and (steps / wanted).denominator == 1)


def _covers(outer: Numbers, inner: Numbers) -> bool:
    """True only when steps and bounds show that every number of `inner` is one of `outer`."""
    if not outer.only(*_BOUNDS, "integer", "multiples"):
        return False
    if not _has_steps_of(outer, inner):
        return False
    bounds = Numbers(False, outer.minimum, outer.maximum, outer.exclusive_minimum, outer.exclusive_maximum)
    all_inner = number_dfa(replace(inner, multiples=(), without=(), plain=False))
    return intersect(all_inner, complement(number_dfa(bounds, finite=False))).empty
