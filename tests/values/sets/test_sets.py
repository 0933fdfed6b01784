"""Sets of numbers and strings as the layers above see them: languages, predicates, counts, against the definition.

Covers `decimals`, `intervals`, `multiples`, `numbers`, `regular.chardfa_kernels` and
`regular.interning`.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from structgen.regular.interning import LARGE, grown_rows, zeros
from structgen.schema.normal import Numbers, Strings
from structgen.values.sets.decimals import LARGEST
from structgen.values.sets.multiples import MULTIPLES_LIMIT, common_step, multiples_dfa
from structgen.values.sets.numbers import number_count, number_is_empty, number_language, number_predicate
from structgen.values.sets.strings import (
    allowed_literals,
    is_free,
    string_count,
    string_is_empty,
    string_language,
    string_predicate,
    uncapped_language,
)
from tests.support.tables import cases
from tests.support.thinning import times

STEPS = [Fraction(text) for text in ("2", "3", "0.5", "0.05", "7", "123.456789", "10", "400", "0.0075")]
TEXTS = ["".join(chars) for size in range(5) for chars in itertools.product("ab1", repeat=size)]


def has_number(numbers: Numbers, text: str) -> bool:
    """Membership as the automaton and its test at the end say it."""
    test = number_predicate(numbers)
    return number_language(numbers).matches(text) and (test is None or test(text))


def has_string(strings: Strings, text: str) -> bool:
    """The same for strings, where the automaton leaves the greatest length to a counter."""
    language, longest = uncapped_language(strings)
    test = string_predicate(strings)
    inside = language.matches(text) and (longest is None or len(text) <= longest) and (test is None or test(text))
    assert inside == (string_language(strings).matches(text) and (test is None or test(text)))
    return inside


def defined(numbers: Numbers, text: str) -> bool:
    """The definition, in exact arithmetic, for plain decimal spellings."""
    value = Fraction(text)
    low, high = numbers.minimum, numbers.maximum
    return (
        (low is None or value > low or (value == low and not numbers.exclusive_minimum))
        and (high is None or value < high or (value == high and not numbers.exclusive_maximum))
        and not (numbers.integer and value.denominator != 1)
        and not (numbers.plain and "." in text)
        and (numbers.literals is None or value in [Fraction(str(literal)) for literal in numbers.literals])
        and all((value / step).denominator == 1 for step in numbers.multiples)
        and not any(defined(other, text) for other in numbers.without)
    )


def some_numbers(rng: random.Random, depth: int = 2) -> Numbers:
    bounds = [
        None if rng.random() < 0.5 else Fraction(rng.randint(-300, 300), 10 ** rng.randint(0, 2)) for _ in range(2)
    ]
    literals = None
    if rng.random() < 0.15:
        literals = tuple(rng.choice([rng.randint(-30, 30), round(rng.uniform(-30, 30), 1)]) for _ in range(4))
    integer = rng.random() < 0.3
    return Numbers(
        integer,
        bounds[0],
        bounds[1],
        rng.random() < 0.3,
        rng.random() < 0.3,
        literals,
        integer and rng.random() < 0.3,
        tuple(rng.sample(STEPS, rng.choice([0, 0, 1, 2]))),
        tuple(some_numbers(rng, depth - 1) for _ in range(rng.choice([0, 0, 1, 2]) if depth else 0)),
    )


def spelling(rng: random.Random) -> str:
    value = Fraction(rng.randint(-400, 400), 10 ** rng.randint(0, 3)) if rng.random() < 0.7 else rng.randint(-40, 40)
    return f"{float(value):.{rng.randint(0, 4)}f}"


def test_random_sets_of_numbers_are_their_definition() -> None:
    """Bounds, multiples, lists, and sets of all these left out, two deep: by language and predicate together."""
    rng = random.Random(5)
    for _ in range(times(150)):
        numbers = some_numbers(rng)
        count, found = number_count(numbers), set()
        for text in [spelling(rng) for _ in range(40)]:
            assert has_number(numbers, text) == defined(numbers, text), (numbers, text)
            assert number_language(numbers).matches(text) or not defined(numbers, text)
            if defined(numbers, text):
                found.add(Fraction(text))
        assert not (found and number_is_empty(numbers)), numbers
        assert count is None or len(found) <= count, (numbers, found)
        assert count != 0 or number_is_empty(numbers), numbers
        assert number_predicate(numbers) or number_is_empty(numbers) == number_language(numbers).empty, numbers


ENDS = [Fraction(10**308), -Fraction(10**308), -LARGEST, LARGEST, Fraction(1, 3), Fraction(3, 10**324), Fraction(0)]


@pytest.mark.parametrize("steps", [(), (Fraction(1, 100),), (Fraction(10**307 * 3),), (Fraction(2, 3),)])
def test_emptiness_by_arithmetic_is_that_of_the_language(steps: tuple[Fraction, ...]) -> None:
    """At the ends of what a double holds, between equal ends, and where no multiple is between them."""
    for low, high in itertools.product([None, *ENDS], repeat=2):
        for opened in (False, True):
            numbers = Numbers(False, low, high, opened, opened, multiples=steps)
            assert number_is_empty(numbers) == number_language(numbers).empty, numbers


OTHERS = [Fraction(1), Fraction(86400), Fraction("1e-8"), Fraction(10**300), Fraction(3, 7)]


@pytest.mark.parametrize("step", [*STEPS, *OTHERS])
def test_multiples_are_those_of_exact_arithmetic(step: Fraction) -> None:
    """Of either sign, with zeros at the end of the fraction, large and small."""
    wanted = common_step([step])
    assert wanted is not None
    language, exact = multiples_dfa(wanted)
    assert exact == (step != Fraction("123.456789"))
    assert all(map(language.matches, ("0", "-0", "0.0", "-0.00")))
    assert not any(map(language.matches, ("", "-", "00", "01", "1.", ".5", "-01", "0.0.0")))
    rng = random.Random(3)
    for _ in range(300):
        value = rng.randint(-(10**6), 10**6) * step
        if value.denominator > 10**12 or 10**12 % value.denominator:
            continue
        text = str(int(value)) if value.denominator == 1 else f"{float(value):.12f}"
        if Fraction(text) == value:
            assert language.matches(text)
            other = text + "7" if "." in text else text[:-1] + str((int(text[-1]) + 1) % 10)
            if exact and other not in ("0", "-0") and not other.startswith(("0", "-0")):
                assert language.matches(other) == ((Fraction(other) / step).denominator == 1), other


def test_zero_fractions_are_integers() -> None:
    """`4.0` is a multiple of 2, `1.0` an integer; but not where draft 4 asks for digits alone."""
    assert has_number(Numbers(multiples=(Fraction(2),)), "4.0")
    assert not has_number(Numbers(multiples=(Fraction(2),)), "5.0")
    assert has_number(Numbers(integer=True, minimum=Fraction(0)), "1.0")
    assert not has_number(Numbers(integer=True, plain=True), "1.0")
    assert has_number(Numbers(without=(Numbers(integer=True, plain=True),)), "1.0")
    assert not has_number(Numbers(without=(Numbers(integer=True),)), "1.0")


def test_what_is_left_out_is_left_out_in_every_spelling() -> None:
    """No exponent brings an excluded value back."""
    not_five = Numbers(without=(Numbers(literals=(5,)),))
    for text in ("5", "5.0", "5.000", "5e0", "0.5e1", "50E-1"):
        assert not has_number(not_five, text)
    assert has_number(not_five, "5.01")
    small = Numbers(without=(Numbers(minimum=Fraction(10)),))
    assert not any(has_number(small, text) for text in ("10", "1e1", "1E5", "100"))
    assert has_number(small, "9.99")


def test_numbers_of_too_many_remainders_have_a_predicate() -> None:
    """A superset and exact arithmetic; within bounds that leave few of them, all are listed instead."""
    step = Fraction("0.123456789")
    free = Numbers(multiples=(step,))
    assert number_predicate(free) is not None
    assert has_number(free, "0.123456789")
    assert has_number(free, "-1.234567890")
    assert not has_number(free, "0.123456788")
    assert not has_number(free, "1" + "0" * 308)
    few = Numbers(minimum=Fraction(0), maximum=Fraction(100), multiples=(step,))
    assert number_predicate(few) is None
    assert number_count(few) == 811
    assert MULTIPLES_LIMIT < 123456789


@pytest.mark.parametrize(("numbers", "count"), cases("values/sets/sets", "numbers_are_counted_by_value", globals()))
def test_numbers_are_counted_by_value(numbers: Numbers, count: int | None) -> None:
    """`1` and `1.0` are one; None for too many."""
    assert number_count(numbers) == count
    assert number_is_empty(numbers) == (count == 0)


def test_a_multiple_that_is_left_out_as_such_is_none() -> None:
    """Emptiness is seen even where no automaton holds either set."""
    step = Fraction("0.123456789")
    assert number_is_empty(Numbers(multiples=(step,), without=(Numbers(multiples=(step,)),)))
    assert number_is_empty(Numbers(integer=True, multiples=(step,), without=(Numbers(integer=True),)))
    assert not number_is_empty(Numbers(multiples=(step,), without=(Numbers(multiples=(step * 2,)),)))


PATTERNS = ["a", "^a*$", "^[^b]+$", r"^(a+)b\1$", "(?<!b)1$", r"^(\w)\w*\1$", "^(?:(?!b1).)*$", "b{2}"]


def some_strings(rng: random.Random, depth: int = 2) -> Strings:
    return Strings(
        rng.choice([0, 0, 1, 2]),
        rng.choice([None, None, 3, 4, 70_000]),
        tuple(rng.sample(PATTERNS, rng.choice([0, 1, 1, 2]))),
        ("hostname",) if rng.random() < 0.1 else (),
        tuple(rng.sample(TEXTS, 5)) if rng.random() < 0.15 else None,
        tuple(some_strings(rng, depth - 1) for _ in range(rng.choice([0, 0, 1, 2]) if depth else 0)),
    )


def oracle(strings: Strings, text: str) -> bool:
    """The definition, with another engine's regular expressions (the dialects agree on these)."""
    import regex

    return (
        strings.min_length <= len(text)
        and (strings.max_length is None or len(text) <= strings.max_length)
        and all(regex.search(pattern, text) for pattern in strings.patterns)
        and not (strings.formats and not (text.isascii() and text.isalnum()))
        and (strings.literals is None or text in strings.literals)
        and not any(oracle(other, text) for other in strings.without)
    )


def test_random_sets_of_strings_are_their_definition() -> None:
    """Lengths, patterns regular or not, formats, lists, and sets of all these left out, two deep."""
    rng = random.Random(6)
    for _ in range(times(120)):
        strings = some_strings(rng)
        inside = {text for text in TEXTS if oracle(strings, text)}
        assert {text for text in TEXTS if has_string(strings, text)} == inside, strings
        assert not (inside and string_is_empty(strings)), strings
        count = string_count(strings)
        assert count is None or len(inside) <= count, strings


@pytest.mark.parametrize(("strings", "count"), cases("values/sets/sets", "strings_are_counted", globals()))
def test_strings_are_counted(strings: Strings, count: int | None) -> None:
    """Small languages are listed, and what is not regular among them is decided one by one."""
    assert string_count(strings) in (count, 254 if count is None else count)


def test_free_strings_cost_nothing() -> None:
    """No pattern, no predicate; a format nobody knows annotates."""
    assert is_free(Strings(3, 9))
    assert is_free(Strings(formats=("no-such-format",)))
    assert is_free(Strings(patterns=("[a-z]*", "x?")))  # every string has such a part, if an empty one
    assert not is_free(Strings(patterns=("[a-z]*", "^.*$")))  # not across lines
    assert string_predicate(Strings(3, 9)) is None
    assert not is_free(Strings(formats=("date",)))
    assert not is_free(Strings(without=(Strings(patterns=("a",)),)))
    assert string_language(Strings(literals=("a",))).matches("a")
    assert allowed_literals(Strings(literals=("a", "aa"), max_length=1)) == ("a",)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """The tables of Unicode and of internationalised names are read when a pattern or format asks for them."""
    modules = "structgen.values.sets.numbers, structgen.values.sets.strings"
    code = f"import sys, {modules}; print({{'regex', 'idna'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize("rows", [3, LARGE // 4, 2 * LARGE])
def test_scratch_space_is_zero_and_may_be_written_whatever_its_size(rows: int) -> None:
    space = zeros((rows, 2), np.int32)
    assert space.shape == (rows, 2)
    assert space.dtype == np.int32
    assert not space.any()
    space[-1] = 7, 8
    grown = grown_rows(space, rows + 1)
    assert np.array_equal(grown[:rows], space)
    assert not grown[rows:].any()
