"""Numbers with an exponent, within bounds: one digit other than zero before the point, as `json.dumps` writes them.

Such a number is `m * 10**k` with `1 <= m < 10`, and so is a bound. The exponents decide, and where they are equal, `m`
does: while its digits are read, all that matters is how they compare with those of the bound's own `m`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from structgen.memo import cached_method
from structgen.regular.chardfa import CharDfa
from structgen.regular.intervals import EXPONENT, MINUS, PLUS, POINT, End, Rows

_BELOW, _ABOVE = -1, -2
"""How digits compare with those of a bound, in the place of the remainder that is left while they are equal."""
_LEAST = End(Fraction(3, 10**324), False)
"""A double rounds no number from here on to 0."""
_START, _WHOLE, _POINT, _FRACTION = range(4)
_AFTER_DIGIT = {_START: _WHOLE, _POINT: _FRACTION, _FRACTION: _FRACTION}


def scientific_dfa(low: End, high: End) -> CharDfa:
    """The numbers from `low` to `high` other than 0, spelled with one digit before the point and an exponent.

    Where `low` or `high` is an excluded 0, they are those that a double does not round to 0.

    Raises:
        LimitExceeded: a bound is a fraction whose decimal expansion does not end and repeats too late.
    """
    table = ExponentRows()
    table.add(1, low, high)
    table.add(table.negative(), high.negated(), low.negated())
    return table.finish()


class _Bound:
    """A bound above 0 as `m * 10**exponent`; None where there is no bound.

    Attributes:
        start: the remainder before the first digit, see `after`.
        open: is the bound itself excluded?
    """

    def __init__(self, end: End | None, unbounded: int) -> None:
        self.exponent: int | None = None
        self.start, self._divisor, self.open = unbounded, 1, False
        if end is not None and end.value is not None:
            value = end.value
            self.exponent = len(str(value.numerator)) - len(str(value.denominator))
            if Fraction(10) ** self.exponent > value:
                self.exponent -= 1
            mantissa = value / Fraction(10) ** self.exponent
            self.start, self._divisor, self.open = mantissa.numerator, 10 * mantissa.denominator, end.open

    def after(self, rest: int) -> list[int]:
        """For each next digit, what is left of the bound's digits, or how the digits compare once they differ."""
        if rest < 0:
            return [rest] * 10
        own, left = divmod(rest * 10, self._divisor)
        return [_BELOW] * own + [left] + [_ABOVE] * (9 - own)

    def least(self, rest: int) -> int | None:
        """The least exponent with which a mantissa that ends here is above this lower bound; None is any."""
        holds = rest == _ABOVE or (rest == 0 and not self.open)
        return self.exponent if self.exponent is None or holds else self.exponent + 1

    def most(self, rest: int) -> int | None:
        """The greatest exponent with which a mantissa that ends here is below this upper bound; None is any."""
        holds = rest == _BELOW or rest > 0 or (rest == 0 and not self.open)
        return self.exponent if self.exponent is None or holds else self.exponent - 1


class ExponentRows(Rows):
    """A table of numbers with exponents under construction."""

    def __init__(self) -> None:
        super().__init__()

    def add(self, origin: int, low: End, high: End) -> None:
        """Let the numbers above 0 from `low` to `high` be read from the state `origin` on."""
        if high.value is not None and high.value <= 0:
            return
        positive = low.value is not None and low.value > 0
        at_zero = _LEAST if low.value == 0 and low.open else None
        lower, upper = _Bound(low if positive else at_zero, _ABOVE), _Bound(high, _BELOW)
        start = (_START, lower.start, upper.start)
        states, pending = {start: origin}, [start]
        while pending:
            phase, above, below = pending.pop()
            row = self.rows[states[phase, above, below]]
            if phase in (_WHOLE, _FRACTION):
                row[EXPONENT] = self.exponent(lower.least(above), upper.most(below))
            if phase == _WHOLE:
                nexts = [(POINT, (_POINT, above, below))]
            else:
                rests = zip(lower.after(above), upper.after(below), strict=True)
                nexts = [(digit + 1, (_AFTER_DIGIT[phase], *rest)) for digit, rest in enumerate(rests)]
                del nexts[: phase == _START]
            for column, key in nexts:
                if key not in states:
                    states[key] = self.added()
                    pending.append(key)
                row[column] = states[key]

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

    def _digits(self, least: int, most: int | None) -> int:
        """The state before the digits of a whole number from `least` to `most`."""
        digits = _whole_numbers(least, most)
        first = len(self.rows)
        for nexts, final in digits:
            self.rows[self.added(final=final)][1:11] = [first + place if place else 0 for place in nexts]
        return first


@lru_cache(4096)
def _whole_numbers(least: int, most: int | None) -> list[tuple[list[int], bool]]:
    """The digits of the whole numbers from `least` to `most`, with any zeros before them, as an automaton.

    Returns:
        For each state, the first one being the start, the state after each digit (0 for none), and whether it is final.
    """
    sizes = range(len(str(least if most is None else most)) + 1)
    places: dict[tuple[bool, ...] | int, int] = {}
    states: list[tuple[list[int], bool]] = [([], False)]

    def place(prefix: int) -> int:
        """The state behind the digits of `prefix`: those with equal futures share one."""
        firsts = [prefix * 10**size for size in sizes]
        spans = [(first, first + 10**size - 1) for size, first in zip(sizes, firsts, strict=True)]
        inside = tuple([first >= least and (most is None or last <= most) for first, last in spans])
        outside = [last < least or (most is not None and first > most) for first, last in spans]
        if all(outside):
            return 0
        decided = prefix > 0 and all(a or b for a, b in zip(inside, outside, strict=True))
        key = inside if decided else prefix
        if key not in places:
            places[key] = len(states)
            states.append(([], inside[0]))
            states[places[key]][0].extend(place(prefix * 10 + digit) for digit in range(10))
        return places[key]

    states[0][0].extend(place(digit) for digit in range(10))
    return states
