"""Other values that a text itself suggests for one that does not fit, as the sum of its lines for a total.

The rules of a model are code, so nothing says which values they accept; but it often follows from the other values. A
number is suggested that makes a sum fit: that of a column (one member of all items of a list), that of the products of
two columns, that of an object's numbers, or the number alone; against another number, sum or count of the text, or the
sum, difference or product of two, those of its own object first. A string is suggested where the text has it elsewhere,
or null for it, and true for false.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, islice
from typing import NamedTuple

from structgen.json_text.pointers import Span

FEW = 24
"""The most values that are suggested for one value, and numbers that are added to each other."""
DIGITS = 12
"""The most digits after the point of a number that is written exactly; others are rounded to two."""
FIXED = (Fraction(1), Fraction(100))
"""Sums that shares have, in percent too."""
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,30}(?:\.\d{1,15})?(?:[eE][-+]?\d)?(?!\w|\.\d)")


class _Sum(NamedTuple):
    total: Fraction
    weights: Mapping[Span, Fraction]  # how much the total grows with each number


def nearby(text: bytes, scalars: Sequence[Span], message: str) -> Iterator[tuple[Span, bytes]]:
    """The values to try, each with the one it replaces; those for the last values first.

    Args:
        scalars: the strings, numbers and words that may be replaced, in their order.
        message: why the text is refused; it may name the number that fits.
    """
    written = {span: text[span.start : span.end] for span in scalars}
    numbers = {span: Fraction(each.decode()) for span, each in written.items() if _NUMBER.fullmatch(each.decode())}
    strings = list(dict.fromkeys(each for each in written.values() if each.startswith(b'"')))[-FEW:]
    words = {b"true": [b"false"], b"false": [b"true"]}
    sums, named = [*_sums(numbers), *_counts(scalars)], [Fraction(each) for each in _NUMBER.findall(message)]
    for span in reversed(scalars):
        own, others = written[span], list[bytes]()
        if span in numbers:
            fitting = (_decimal(number, own) for number in _fitting(span, numbers, sums, named))
            others += islice((other for other in dict.fromkeys(fitting) if other != own), FEW)
        else:
            others += [*strings, b"null"] if own.startswith(b'"') else words.get(own, [])
        yield from ((span, other) for other in others if other != own)


def _sums(numbers: Mapping[Span, Fraction]) -> list[_Sum]:
    """The sums of the columns of lists, and of the products of two columns of one list."""
    lists = defaultdict[tuple[str | int, ...], dict[tuple[str | int, ...], dict[int, Span]]](lambda: defaultdict(dict))
    for span in numbers:
        at = next((index for index in reversed(range(len(span.path))) if isinstance(span.path[index], int)), None)
        if at is not None:
            lists[span.path[:at]][span.path[at + 1 :]][int(span.path[at])] = span
    sums = list[_Sum]()
    for columns in lists.values():
        for column in columns.values():
            total = sum((numbers[span] for span in column.values()), Fraction(0))
            sums.append(_Sum(total, dict.fromkeys(column.values(), Fraction(1))))
        for one, two in combinations(columns.values(), 2):
            weights = {one[row]: numbers[two[row]] for row in one.keys() & two.keys()}
            total = sum((numbers[span] * weight for span, weight in weights.items()), Fraction(0))
            weights |= {two[row]: numbers[one[row]] for row in one.keys() & two.keys()}
            sums.append(_Sum(total, weights))
    objects = defaultdict[tuple[str | int, ...], list[Span]](list)
    for span in numbers:
        if span.path and isinstance(span.path[-1], str):
            objects[span.path[:-1]].append(span)
    for members in objects.values():
        if len(members) > 1:
            total = sum((numbers[span] for span in members), Fraction(0))
            sums.append(_Sum(total, dict.fromkeys(members, Fraction(1))))
    return sums


def _counts(scalars: Sequence[Span]) -> list[_Sum]:
    """How many items each list has."""
    counts = dict[tuple[str | int, ...], int]()
    for span in scalars:
        for index, part in enumerate(span.path):
            if isinstance(part, int):
                counts[span.path[:index]] = part + 1
    return [_Sum(Fraction(count), {}) for count in counts.values()]


def _fitting(
    span: Span, numbers: Mapping[Span, Fraction], sums: Sequence[_Sum], named: Sequence[Fraction]
) -> Iterator[Fraction]:
    """The numbers in place of one that make it, or a sum with it, equal to others of the text."""
    own = [_Sum(each.total, each.weights) for each in sums if each.weights.get(span)]
    beside = {other for each in own for other in each.weights}
    targets = [*named, *(each.total for each in sums if span not in each.weights)]
    near = [number for other, number in numbers.items() if other != span and other.path[:-1] == span.path[:-1]]
    for one, two in combinations(near[-4:], 2):
        targets += [one + two, abs(one - two), one * two]
    targets += [*near, *FIXED]
    targets += [number for other, number in numbers.items() if other != span and other not in beside]
    few = [*targets[:FEW], *FIXED]
    targets += [one + two for one, two in combinations(few, 2)]
    targets += [abs(one - two) for one, two in combinations(few, 2)]
    lowest = min([Fraction(0), *numbers.values(), *named])
    for target in targets:
        for total, weights in [*own, _Sum(numbers[span], {span: Fraction(1)})]:
            number = numbers[span] + (target - total) / weights[span]
            if number >= lowest:
                yield number


def _decimal(number: Fraction, like: bytes) -> bytes:
    """A number written as another one is: with digits after the point where that has some."""
    exact = (number * 10**DIGITS).denominator == 1
    rounded = number if exact else round(number, 2)
    whole, rest = divmod(abs(rounded) * 10**DIGITS, 10**DIGITS)
    sign, after = "-" * (rounded < 0), f"{int(rest):0{DIGITS}}".rstrip("0")
    digits = f"{sign}{whole}.{after}" if after else f"{sign}{whole}"
    return (digits if b"." not in like or "." in digits else f"{digits}.0").encode()
