"""Conjunction, complement and union of `Numbers` and of `Strings`.

The laws: a value is in `f_and(a, b)` exactly when it is in `a` and in `b`; it is in one of `f_not(a)` exactly when it
is not in `a`; None is the empty set. Regular expressions are not read here: the automaton knows what patterns and
formats mean, and whether their conjunction is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from structgen.memo import schema_cache
from structgen.patience import check_patience
from structgen.regular.regex.counted import repeated_class
from structgen.schema.normal import Listed, Numbers, Strings

FREE_NUMBERS = Numbers()
FREE_STRINGS = Strings()
FIELDS = "min_length", "max_length", "patterns", "formats", "literals", "without", "quotes"
"""The fields of `Strings` that the code here and in `values.sets.strings` honours."""
_BOUNDS = ("minimum", "maximum", "exclusive_minimum", "exclusive_maximum")


@schema_cache(1024)
def counted_class(pattern: str, *, anchored: bool = False) -> Strings | None:
    """The strings of a pattern that only counts many characters of one class; None for other patterns.

    `^[a-z]{3,500}$` becomes `^[a-z]*$` with two lengths: an automaton needs no state for each length.

    Args:
        anchored: the pattern must match the whole text, even without `^` and `$`.
    """
    counted = repeated_class(pattern, anchored=anchored)
    if counted is None:
        return None
    each, minimum, maximum = counted
    return Strings(min_length=minimum, max_length=maximum, patterns=(each,) if each else ())


def exact(value: int | float) -> Fraction:
    """The exact number of the decimal text of `value`: 0.1 is one tenth."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _tighter(a: Numbers, b: Numbers, side: str) -> tuple[Fraction | None, bool]:
    """The tighter of two bounds on one side, `minimum` or `maximum`, and whether it is exclusive."""
    bound, other = getattr(a, side), getattr(b, side)
    exclusive, other_exclusive = getattr(a, f"exclusive_{side}"), getattr(b, f"exclusive_{side}")
    if bound is None or other is None:
        return (bound, exclusive) if other is None else (other, other_exclusive)
    if bound == other:
        return bound, exclusive or other_exclusive
    return (bound, exclusive) if (bound > other) == (side == "minimum") else (other, other_exclusive)


def holds(numbers: Numbers, value: int | float) -> bool:
    """Is `value` in the set?"""
    check_patience()
    if numbers.plain and not isinstance(value, int):
        return False
    point = exact(value)
    if any(point % multiple for multiple in numbers.multiples):
        return False
    if any(holds(other, value) for other in numbers.without):
        return False
    return value in numbers.literals if numbers.literals is not None else within(point, numbers)


def within(value: Fraction, numbers: Numbers) -> bool:
    """Is `value` within the bounds, and an integer where `integer` is set?"""
    check_patience()
    low, high = numbers.minimum, numbers.maximum
    above = low is None or value > low or (value == low and not numbers.exclusive_minimum)
    below = high is None or value < high or (value == high and not numbers.exclusive_maximum)
    return above and below and not (numbers.integer and value.denominator != 1)


def _whole(value: int | float) -> int | float:
    """An integral value as an int, which is written without a fraction."""
    return int(value) if value == int(value) else value


def _void(numbers: Numbers) -> bool:
    """Do the bounds exclude every number?"""
    low, high = numbers.minimum, numbers.maximum
    if low is None or high is None:
        return False
    if not numbers.integer:
        return low > high or (low == high and (numbers.exclusive_minimum or numbers.exclusive_maximum))
    first = math.floor(low) + 1 if numbers.exclusive_minimum else math.ceil(low)
    last = math.ceil(high) - 1 if numbers.exclusive_maximum else math.floor(high)
    return first > last


def numbers_and(a: Numbers | None, b: Numbers | None) -> Numbers | None:
    """The numbers that are in both sets."""
    if a is None or b is None or a is FREE_NUMBERS:
        return None if a is None else b
    if b is FREE_NUMBERS:
        return a
    a.check_only("numbers_and", *_BOUNDS, "integer", "multiples", "without", "literals", "plain")
    b.check_only("numbers_and", *_BOUNDS, "integer", "multiples", "without", "literals", "plain")
    if a.literals is not None or b.literals is not None:
        return _listed_numbers(a, b)
    minimum, exclusive_minimum = _tighter(a, b, "minimum")
    maximum, exclusive_maximum = _tighter(a, b, "maximum")
    bounds = minimum, maximum, exclusive_minimum, exclusive_maximum
    multiples = tuple(dict.fromkeys(a.multiples + b.multiples))
    without = tuple(dict.fromkeys(a.without + b.without))
    if a in without or b in without:
        return None
    integer, plain = a.integer or b.integer, a.plain or b.plain
    both = Numbers(integer, *bounds, plain=plain, multiples=multiples, without=without)
    return None if _void(both) else both


def by_spelling(numbers: Numbers) -> bool:
    """Does membership depend on how a number is spelled? In draft 4 `1` is an integer, and `1.0` is none."""
    return numbers.plain or any(map(by_spelling, numbers.without))


def _listed_numbers(a: Numbers, b: Numbers) -> Numbers | None:
    """`numbers_and` where at least one side is listed. A literal stands for all spellings of its number."""
    spelled = tuple(filter(by_spelling, dict.fromkeys(a.without + b.without)))
    sides = [replace(side, plain=False, without=tuple(x for x in side.without if x not in spelled)) for side in (a, b)]
    values = (a if b.literals is None else b).literals or ()
    kept = [value for value in values if holds(sides[0], value) and holds(sides[1], value)]
    plain = a.plain or b.plain
    if plain:  # one spelling is left
        kept = [value for value in map(_whole, kept) if not any(holds(other, value) for other in spelled)]
        spelled = ()
    return Numbers(plain, literals=Listed(kept), plain=plain, without=spelled) if kept else None


def numbers_not(numbers: Numbers) -> list[Numbers]:
    """The numbers that are not in the set."""
    if not numbers.only(*_BOUNDS, "integer", "multiples", "without"):
        return [Numbers(without=(numbers,))]
    parts = []
    if numbers.minimum is not None:
        parts.append(Numbers(maximum=numbers.minimum, exclusive_maximum=not numbers.exclusive_minimum))
    if numbers.maximum is not None:
        parts.append(Numbers(minimum=numbers.maximum, exclusive_minimum=not numbers.exclusive_maximum))
    if numbers.integer:
        parts.append(Numbers(without=(Numbers(integer=True),)))
    parts += [Numbers(without=(Numbers(multiples=(multiple,)),)) for multiple in numbers.multiples]
    return parts + list(numbers.without)


def minimum(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds; None is no bound."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def strings_and(a: Strings | None, b: Strings | None) -> Strings | None:
    """The strings that are in both sets."""
    if a is None or b is None or a is FREE_STRINGS:
        return None if a is None else b
    if b is FREE_STRINGS:
        return a
    a.check_only("strings_and", *FIELDS)
    b.check_only("strings_and", *FIELDS)
    shortest, longest = max(a.min_length, b.min_length), minimum(a.max_length, b.max_length)
    without = tuple(dict.fromkeys(a.without + b.without))
    literals = a.literals if b.literals is None else b.literals
    if literals is not None:
        among = literals if a.literals is None else a.literals
        taken = {text for other in without if _only_literals(other) for text in other.literals or ()}
        if among is not literals or taken or shortest or longest is not None:
            fitting = [text for text in literals if text in among and fits(text, shortest, longest)]
            literals = Listed([text for text in fitting if text not in taken])
        shortest, longest = 0, None
        without = tuple(other for other in without if not _only_literals(other))
    void = (longest is not None and shortest > longest) or (literals is not None and not literals)
    if void or a in without or b in without:
        return None
    patterns = tuple(dict.fromkeys(a.patterns + b.patterns))
    formats = tuple(dict.fromkeys(a.formats + b.formats))
    quotes = tuple(dict.fromkeys(a.quotes + b.quotes))
    return Strings(shortest, longest, patterns, formats, literals, without, quotes)


def _only_literals(strings: Strings) -> bool:
    """Are literals the only restriction?"""
    return strings.literals is not None and strings.only("literals")


def fits(text: str, shortest: int, longest: int | None) -> bool:
    """Is the length of a text within these bounds?"""
    return shortest <= len(text) and (longest is None or len(text) <= longest)


def strings_not(strings: Strings) -> list[Strings]:
    """The strings that are not in the set. Lengths are parts of their own, so no automaton counts a long one."""
    parts = []
    if strings.min_length:
        parts.append(Strings(max_length=strings.min_length - 1))
    if strings.max_length is not None:
        parts.append(Strings(min_length=strings.max_length + 1))
    if not strings.only("min_length", "max_length", "without"):
        parts.append(Strings(without=(replace(strings, min_length=0, max_length=None, without=()),)))
    return parts + list(strings.without)


def united_numbers(sets: Iterable[Numbers]) -> list[Numbers]:
    """Sets whose union is that of `sets`, with all literals in one set."""
    different = list(dict.fromkeys(sets))
    if FREE_NUMBERS in different:
        return [FREE_NUMBERS]
    others = [numbers for numbers in different if not numbers.literals or by_spelling(numbers)]
    covering = [numbers for numbers in others if not by_spelling(numbers)]
    listed = [value for numbers in different if not by_spelling(numbers) for value in numbers.literals or ()]
    listed = [value for value in dict.fromkeys(listed) if not any(holds(numbers, value) for numbers in covering)]
    return others + ([Numbers(literals=Listed(listed))] if listed else [])


def united_strings(sets: Iterable[Strings]) -> list[Strings]:
    """Sets whose union is that of `sets`, with all plain literals in one set."""
    different = list(dict.fromkeys(sets))
    if FREE_STRINGS in different:
        return [FREE_STRINGS]
    plain = [strings for strings in different if _only_literals(strings)]
    texts = dict.fromkeys(text for strings in plain for text in strings.literals or ())
    others = [strings for strings in different if not _only_literals(strings)]
    return others + ([Strings(literals=Listed(texts))] if texts else [])
