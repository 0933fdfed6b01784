"""number_dfa against exact arithmetic."""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.automaton.numbers import number_dfa
from structgen.schema.normal import Numbers

PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")

decimals = st.builds(lambda digits, places: Fraction(digits, 10**places), st.integers(-2000, 2000), st.integers(0, 3))
bounds = st.none() | decimals
intervals = st.builds(Numbers, st.booleans(), bounds, bounds, st.booleans(), st.booleans())


def holds(numbers: Numbers, spelling: str) -> bool:
    """The definition: a plain decimal spelling whose exact value is in the set."""
    if not PLAIN.fullmatch(spelling):
        return False
    value = Fraction(spelling)
    low, high = numbers.minimum, numbers.maximum
    if low is not None and (value < low or (numbers.exclusive_minimum and value == low)):
        return False
    if high is not None and (value > high or (numbers.exclusive_maximum and value == high)):
        return False
    if numbers.integer and value.denominator != 1:
        return False
    return numbers.literals is None or value in [Fraction(str(literal)) for literal in numbers.literals]


def neighbours(value: Fraction) -> list[str]:
    """Spellings at and around a bound, with and without trailing zeros."""
    steps = [Fraction(step, 10**places) for step in (-11, -1, 0, 1, 11) for places in range(5)]
    texts = {f"{float(value + step):.{places}f}" for step in steps for places in range(5)}
    return sorted(texts | {text + "0" for text in texts if "." in text})


@given(intervals, st.lists(decimals, max_size=5))
def test_an_interval_accepts_exactly_the_plain_spellings_of_its_numbers(
    numbers: Numbers, others: list[Fraction]
) -> None:
    """Bounded sets equal their definition at and around their bounds, and at random places."""
    if numbers.minimum is None and numbers.maximum is None:
        return
    dfa = number_dfa(numbers)
    for value in (
        *others,
        *(end for end in (numbers.minimum, numbers.maximum) if end is not None),
        Fraction(0),
    ):
        for spelling in neighbours(value):
            assert dfa.matches(spelling) == holds(numbers, spelling), (numbers, spelling)


@given(intervals)
def test_emptiness_is_exact(numbers: Numbers) -> None:
    """`.empty` says whether any number at all is in the set."""
    low, high = numbers.minimum, numbers.maximum
    if low is None or high is None:
        assert not number_dfa(numbers).empty
        return
    if numbers.integer:
        inside = any(holds(numbers, str(value)) for value in range(int(low) - 1, int(high) + 2))
    else:
        inside = low < high or (low == high and not numbers.exclusive_minimum and not numbers.exclusive_maximum)
    assert number_dfa(numbers).empty != inside


def test_every_short_string_over_the_alphabet() -> None:
    """All strings of up to five characters, well-formed numbers or not, for sets with every kind of end."""
    cases = [
        Numbers(minimum=Fraction("0.1"), maximum=Fraction("1.25")),
        Numbers(minimum=Fraction(-3, 2), maximum=Fraction(1), exclusive_maximum=True),
        Numbers(integer=True, minimum=Fraction(-12), maximum=Fraction(9)),
        Numbers(minimum=Fraction(0), exclusive_minimum=True),
        Numbers(maximum=Fraction(-1)),
        Numbers(literals=(0, 1, 1.5, -2, 10, 1.05)),
    ]
    strings = ["".join(chars) for size in range(6) for chars in itertools.product("-0129.5", repeat=size)]
    for numbers in cases:
        dfa = number_dfa(numbers)
        for spelling in strings:
            assert dfa.matches(spelling) == holds(numbers, spelling), (numbers, spelling)


@given(st.lists(st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_literals_accept_what_json_writes(values: list[int | float]) -> None:
    """Every canonical spelling is accepted, with trailing zeros too, and no neighbour's is."""
    dfa = number_dfa(Numbers(literals=tuple(values)))
    for value in values:
        text = json.dumps(value)
        assert dfa.matches(text)
        if "e" not in text:
            assert dfa.matches(text + "00" if "." in text else text + ".0")
            longer = text + ("1" if "." in text else ".01")
            assert dfa.matches(longer) == (Fraction(longer) in {Fraction(json.dumps(other)) for other in values})


@pytest.mark.parametrize("text", ["0", "-0", "1e5", "-1.5E-10", "1E+2", "10", "0.0", "1.0"])
def test_without_bounds_every_spelling_is_a_number(text: str) -> None:
    """All of JSON's number grammar, and for integers the plain part of it."""
    assert number_dfa(Numbers()).matches(text)
    assert number_dfa(Numbers(integer=True)).matches(text) == (re.fullmatch(r"-?\d+(\.0+)?", text) is not None)


@pytest.mark.parametrize("text", ["", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1 ", "--1", "NaN"])
def test_what_is_no_number_is_refused(text: str) -> None:
    """Nothing outside JSON's grammar is accepted, with or without bounds."""
    for numbers in (Numbers(), Numbers(integer=True), Numbers(minimum=Fraction(0)), Numbers(literals=(1, 2))):
        assert not number_dfa(numbers).matches(text)


def test_repeating_decimals_are_exact() -> None:
    """A bound of one third cuts between 0.333 and 0.334, at any length."""
    dfa = number_dfa(Numbers(minimum=Fraction(1, 3), maximum=Fraction(2, 3)))
    assert not dfa.matches("0." + "3" * 50)
    assert dfa.matches("0." + "3" * 49 + "4")
    assert dfa.matches("0." + "6" * 50)
    assert not dfa.matches("0." + "6" * 49 + "7")


def test_equal_literals_are_one_set() -> None:
    """An integer and the equal float accept each other's spelling, whichever was compiled first."""
    for first, second in ((10**22, 1e22), (3e25, 30000000000000000570425344)):
        assert first == second
        for literal in (first, second):
            dfa = number_dfa(Numbers(literals=(literal,)))
            assert dfa.matches(json.dumps(first))
            assert dfa.matches(json.dumps(second))
