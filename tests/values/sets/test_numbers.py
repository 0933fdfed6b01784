"""number_dfa against exact arithmetic."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from structgen.constraints.basic import JsonSchema
from structgen.regular.chardfa import tidied
from structgen.schema.normal import Numbers
from structgen.values.sets.decimals import LARGEST, number_dfa
from structgen.values.sets.numbers import combined_languages, number_is_empty, number_language, number_predicate
from tests.support.matching import byte_vocabulary
from tests.support.tables import cases
from tests.support.thinning import times
from tests.support.walking import tokens_of

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


@example([2**53 + 1])
@given(st.lists(st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_literals_accept_what_json_writes(values: list[int | float]) -> None:
    """Every canonical spelling is accepted, with trailing zeros too, and no neighbour's is."""
    dfa = number_dfa(Numbers(literals=tuple(values)))
    for value in values:
        text = json.dumps(value)
        assert dfa.matches(text)
        if "e" not in text:
            with_zeros = text + "00" if "." in text else text + ".0"
            assert dfa.matches(with_zeros) == (float(value) == value)  # with a point it is read as a double
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


SCIENTIFIC = re.compile(r"-?[1-9](\.[0-9]+)?[eE][+-]?[0-9]+")
UNDERFLOW = Fraction(3, 10**324)


def scientific(value: Fraction, draw: random.Random) -> str:
    """A spelling with an exponent of a number at or near `value`."""
    if value == 0:
        value = Fraction(draw.choice([1, -1]), 10 ** draw.choice([1, 5, 323, 324, 325, 400]))
    near = Decimal(value.numerator) / Decimal(value.denominator)
    digits, exponent = list(near.as_tuple().digits)[: draw.randint(1, 22)], near.adjusted() + draw.choice([0, 0, 1, -1])
    if draw.random() < 0.5:
        place = draw.randrange(len(digits))
        digits[place] = draw.randrange(place == 0, 10)
    fraction = "".join(map(str, digits[1:])) + draw.choice(["", "0"])
    sign = "-" if (value < 0) != (draw.random() < 0.1) else ""
    shift = ("-" if exponent < 0 else draw.choice(["", "+"])) + draw.choice(["", "00"]) + str(abs(exponent))
    return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}{draw.choice('eE')}{shift}"


def random_bound(draw: random.Random) -> Fraction | None:
    """None, 0, decimals of every size that a double has, and fractions without end."""
    if draw.random() < 0.3:
        return None
    if draw.random() < 0.2:
        return Fraction(draw.randint(-50, 50), draw.choice([3, 7, 8, 12]))
    digits = draw.choice([0, 1, 5, 9, 10, 99, 123, 17976931348623157, draw.randint(1, 10**6)]) * draw.choice([1, -1])
    return digits * Fraction(10) ** (draw.choice([0, 1, 2, 5, -1, -3, -10, 20, 300, 308, 309, -300, -323]) - 2)


def within(numbers: Numbers, value: Fraction) -> bool:
    """The definition of the bounds; what is to be other than 0 must not be rounded to 0."""
    low, high = numbers.minimum, numbers.maximum
    if low == 0 and numbers.exclusive_minimum:
        low = UNDERFLOW
    if high == 0 and numbers.exclusive_maximum:
        high = -UNDERFLOW
    above = low is None or value > low or (value == low and (low == UNDERFLOW or not numbers.exclusive_minimum))
    below = high is None or value < high or (value == high and (high == -UNDERFLOW or not numbers.exclusive_maximum))
    return above and below


def nearly_excluded(numbers: Numbers, value: Fraction) -> bool:
    """Is a number between an excluded bound other than 0, and the double beside it?"""
    low = numbers.minimum if numbers.exclusive_minimum and not numbers.integer else None
    high = numbers.maximum if numbers.exclusive_maximum and not numbers.integer else None
    return bool(
        (low and abs(low) < LARGEST and low < value < Fraction(repr(math.nextafter(float(low), math.inf))))
        or (high and abs(high) < LARGEST and Fraction(repr(math.nextafter(float(high), -math.inf))) < value < high)
    )


def test_exponents_within_bounds_are_exact() -> None:
    """At and around random bounds, the greatest double and the least: one digit before the point, exact comparison."""
    accepted = 0
    for seed in range(times(150)):
        draw = random.Random(seed)
        low, high = random_bound(draw), random_bound(draw)
        if low is not None and high is not None and low > high:
            low, high = high, low
        numbers = Numbers(False, low, high, draw.random() < 0.3, draw.random() < 0.3)
        if low is None and high is None:
            continue
        dfa = number_dfa(numbers)
        targets = [bound for bound in (low, high) if bound is not None]
        targets += [LARGEST, Fraction(0), Fraction(draw.randint(-(10**9), 10**9), 10 ** draw.randint(0, 12))]
        for _ in range(30):
            text = scientific(draw.choice(targets), draw)
            value = Fraction(Decimal(text))
            expected = abs(value) < LARGEST and within(numbers, value) and not nearly_excluded(numbers, value)
            assert dfa.matches(text) == expected, (seed, numbers, text)
            accepted += dfa.matches(text)
    assert accepted > times(800)


def test_every_short_string_with_exponents_under_bounds() -> None:
    """All strings of up to five characters: behind one digit other than zero an exponent, elsewhere plain notation."""
    strings = ["".join(chars) for size in range(6) for chars in itertools.product("-+0129.5e", repeat=size)]
    number = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
    for numbers in (
        Numbers(minimum=Fraction("0.1"), maximum=Fraction("12.5")),
        Numbers(minimum=Fraction(-3, 2), maximum=Fraction(1, 3), exclusive_maximum=True),
        Numbers(minimum=Fraction(0), exclusive_minimum=True),
    ):
        dfa = number_dfa(numbers)
        for text in strings:
            plain, spelled = PLAIN.fullmatch(text), SCIENTIFIC.fullmatch(text)
            expected = bool(number.fullmatch(text) and (plain or spelled)) and abs(Fraction(Decimal(text))) < LARGEST
            assert dfa.matches(text) == (expected and within(numbers, Fraction(Decimal(text)))), (numbers, text)


def random_double(draw: random.Random) -> float:
    """Any finite double, all exponents alike."""
    while not math.isfinite(value := struct.unpack("d", struct.pack("Q", draw.getrandbits(64)))[0]):
        pass
    return float(value)


def test_what_json_dumps_writes_is_accepted_with_bounds_and_steps() -> None:
    """Every finite double, free, under bounds that it meets, and as a multiple of its last digit."""
    draw = random.Random(7)
    extremes = [1e-06, 1e16, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 2.2250738585072014e-308, -0.0]
    for value in [*extremes, *(random_double(draw) for _ in range(times(2000)))]:
        text = json.dumps(value)
        for numbers in (Numbers(), Numbers(minimum=Fraction(0)), Numbers(maximum=Fraction(0), exclusive_maximum=True)):
            inside = numbers == Numbers() or (value >= 0 if numbers.minimum == 0 else value < 0)
            assert number_dfa(numbers).matches(text) == inside, (numbers, text)
    for text in ("1e-06", "1.5e-07", "1e+16", "1.25e+20", "1e16", "2.0E7"):
        assert number_language(Numbers(multiples=(Fraction(1, 10**8),), minimum=Fraction(0))).matches(text)


@pytest.mark.parametrize("step", ["1", "0.01", "0.5", "0.25", "3", "1000", "1e-6", "7", "12", "60"])
def test_multiples_with_exponents_are_exact(step: str) -> None:
    """Random multiples and their neighbours, with up to 17 digits, free and within bounds."""
    every = Fraction(step)
    for numbers in (Numbers(multiples=(every,)), Numbers(False, Fraction(-1000), Fraction(10**17), multiples=(every,))):
        language, draw = number_language(numbers), random.Random(step)
        assert number_predicate(numbers) is None
        for _ in range(times(200)):
            value = every * draw.randint(1, 10 ** draw.randint(0, 17)) * 10 ** draw.choice([0, 0, draw.randint(0, 20)])
            value += draw.choice([0, 0, Fraction(1, 10 ** draw.randint(0, 12))])
            digits = (Decimal(value.numerator) / Decimal(value.denominator)).normalize()
            first, *rest = digits.as_tuple().digits
            if len(rest) < 17:
                text = f"{first}{'.' if rest else ''}{''.join(map(str, rest))}e{digits.adjusted()}"
                exact = Fraction(Decimal(text))
                expected = exact % every == 0 and within(numbers, exact)
                if language.matches(text) or (abs(exact) < 10**15 and len(rest) < 15):
                    assert language.matches(text) == expected, (numbers, text)
                if language.matches(text):
                    assert Fraction(float(text)) == exact or Fraction(repr(float(text))) == exact, text
                    assert exact.denominator > 1 or float(text) % 1 == 0 == int(float(text)) % every, text


def test_a_multiple_divided_by_its_step_is_finite() -> None:
    """1e14 / 1e-300 is more than a double holds: Pydantic finds that it is no multiple."""
    language = number_language(Numbers(multiples=(Fraction(1, 10**300),)))
    assert language.matches("1e+7")
    assert not language.matches("1e+8")


@pytest.mark.parametrize("step", [2, 25, 26, 429, 3001, 20011, 10**9 + 7])
def test_a_multiple_of_any_step_is_finite_and_has_fifteen_digits(step: int) -> None:
    """As a text and with the test at its end, where there is one."""
    numbers = Numbers(multiples=(Fraction(step),))
    language, predicate = number_language(numbers), number_predicate(numbers)

    def taken(text: str) -> bool:
        return language.matches(text) and (predicate is None or predicate(text))

    for value in (0, step, -step * 17, step * (10**15 // step - 1)):
        assert taken(str(value)), value
        assert taken(f"{value}.00"), value
        assert not taken(str(value + 1)), value
        assert not taken(f"{value}.5"), value
    assert not taken(str(step * 10**310))


def test_what_is_left_out_as_an_integer_has_any_number_of_digits() -> None:
    """`12345678901234567.0` was taken where integers are left out: a fraction of zeros stood behind 15 digits only."""
    for integers in (Numbers(integer=True), Numbers(integer=True, minimum=Fraction(0))):
        language = number_language(Numbers(without=(integers,)))
        for digits in (1, 15, 16, 17, 300):
            assert not language.matches("9" * digits)
            assert not language.matches("9" * digits + ".0")
            assert language.matches("9" * digits + ".5") == (digits < 15)
            assert number_language(Numbers(without=(integers,)), finite=False).matches("9" * digits + ".5")


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize(
    ("steps", "left_out"), [("33", "12 77 11 13"), ("33 44 7", "6 8 11"), ("0.3", "0.5 0.1"), ("5", ""), ("3", "15 6")]
)
def test_multiples_of_what_is_left_out_are_none(steps: str, left_out: str, finite: bool) -> None:
    """The steps alone tell it: automata of all of them took 3 s for a schema of MaskBench."""
    without = tuple(Numbers(multiples=(Fraction(step),)) for step in left_out.split()) or (Numbers(),)
    numbers = Numbers(multiples=tuple(map(Fraction, steps.split())), without=without)
    assert number_language(numbers, finite=finite).empty == number_is_empty(numbers) == (left_out != "15 6")


def test_many_steps_in_one_place_are_told_apart() -> None:
    """Their product is too large with exponents and 308 digits: digits alone are left, asked about at the end."""
    sets = [Numbers(multiples=(Fraction(prime),)) for prime in (2, 3, 5, 7, 11, 13)]
    language, predicates = combined_languages(tuple(sets))
    assert all(predicates)
    for value in (1, 4, 15, 1001, 2310, 30030, 30030 * 7, -12):
        marks = sum(1 << place for place, step in enumerate((2, 3, 5, 7, 11, 13)) if value % step == 0)
        assert language.final[language.state_after(str(value))] == marks


@pytest.mark.parametrize("whole", [0, 1, 2, 16, 17, 18, 100, 307, 308, 309, 400])
def test_no_number_is_infinite(whole: int) -> None:
    """Digit runs, fractions and exponents around the greatest double: what is refused besides is documented."""
    dfa, draw = number_dfa(Numbers()), random.Random(whole)
    for _ in range(times(300)):
        text = draw.choice(["", "-"]) + ("0" if whole == 0 else "".join(draw.choices("123456789", k=whole)))
        text += draw.choice(["", "." + "".join(draw.choices("0019", k=draw.randint(1, 30)))])
        shift = draw.choice([0, draw.randint(-400, 400), 309 - whole + draw.randint(-3, 3), draw.randint(-3, 3)])
        mark = draw.choice("eE") + ("-" if shift < 0 else draw.choice(["", "+"])) + draw.choice(["", "0"])
        text += mark + str(abs(shift)) if shift or draw.random() < 0.5 else ""
        finite = math.isfinite(float(text))
        most = 308 if whole == 0 else 308 - whole if whole <= 17 else 0
        assert dfa.matches(text) == (whole <= 308 and (shift <= most or (whole == 1 and finite))), text
        assert finite or not dfa.matches(text)
        if SCIENTIFIC.fullmatch(text):
            assert dfa.matches(text) == finite


def test_integers_are_exact_at_any_length_and_never_infinite() -> None:
    """Digits alone have no limit; a fraction of zeros stands where a double holds the integer; no exponent does."""
    for numbers in (Numbers(integer=True), Numbers(integer=True, minimum=Fraction(0)), Numbers(literals=(10**400,))):
        assert number_dfa(numbers).matches("1" + "0" * 400)
        assert not number_dfa(numbers).matches("1" + "0" * 400 + ".0")
        assert not number_dfa(numbers).matches("1e400")
    assert number_dfa(Numbers(integer=True)).matches("9" * 15 + ".00")
    assert not number_dfa(Numbers(integer=True)).matches("9" * 16 + ".0")
    assert number_dfa(Numbers(minimum=Fraction(10**400))).empty


def test_automata_of_random_bounds_are_minimal_and_count_whole_digits() -> None:
    """No state could be left out, those of the run of 308 digits included, nor is one of these too many or too few."""
    for seed in range(times(120)):
        draw = random.Random(seed)
        low, high = sorted(random_bound(draw) or Fraction(draw.choice([0, 9, -(10**300)])) for _ in range(2))
        for numbers in (
            Numbers(draw.random() < 0.2, low, high, draw.random() < 0.3, draw.random() < 0.3),
            Numbers(minimum=low, exclusive_minimum=draw.random() < 0.3),
            Numbers(maximum=high, exclusive_maximum=draw.random() < 0.3),
        ):
            dfa = number_dfa(numbers)
            assert len(tidied(dfa.bounds, dfa.classes, dfa.next, dfa.final).final) == len(dfa.final), numbers
            assert set(dfa.final) <= {0, 1}
            for text in ("9" * 307, "9" * 308, "9" * 309, "-" + "9" * 308, "-" + "9" * 309 + ".5", "1" + "0" * 200):
                inside = within(numbers, Fraction(text)) and not (numbers.integer and "." in text)
                ends = [abs(end or LARGEST) for end in (numbers.minimum, numbers.maximum)]
                counted = numbers.integer or len(text.strip("-").partition(".")[0]) <= 308 or max(ends) <= 10**308
                inside = inside and not nearly_excluded(numbers, Fraction(text))
                assert dfa.matches(text) == (inside and counted), (numbers, text)


EXPONENTS = ["", *(f"{mark}{shift}" for mark in ("e", "e+", "e-", "", "-", "+") for shift in (0, 1, 2, 6, 7, 8, 30))]
TAILS = [
    head + rest for head in ("", "0", "5", ".5", "9", ".0000012", "0000012", "000", "0.000002") for rest in EXPONENTS
]
BEGINNING = re.compile(r"-?((0|[1-9][0-9]*)(\.([0-9]+)?)?([eE][+-]?[0-9]*)?)?")


@pytest.mark.parametrize("schema", cases("values/sets/numbers", "masks_behind_every_short"))
def test_masks_behind_every_short_prefix_equal_brute_force(schema: dict[str, float]) -> None:
    """A byte is allowed exactly when some number of the set goes on with it."""
    grammar = JsonSchema({"type": "number", **schema}).compile(byte_vocabulary())
    bounds = {name: Fraction(repr(value)) for name, value in schema.items()}
    numbers = Numbers(
        minimum=bounds.get("minimum"),
        maximum=bounds.get("maximum", bounds.get("exclusiveMaximum")),
        exclusive_maximum="exclusiveMaximum" in bounds,
    )

    def member(text: str) -> bool:
        if not PLAIN.fullmatch(text) and not SCIENTIFIC.fullmatch(text):
            return False
        if len(text.partition("e")[2]) > 5:  # no power of ten with millions of digits
            return False
        value = Fraction(Decimal(text))
        return within(numbers, value) and abs(value) < LARGEST and value % bounds.get("multipleOf", value or 1) == 0

    alphabet = "-+.015e"
    pending = [grammar.matcher()]
    while pending:
        matcher = pending.pop()
        text = matcher.text.decode()
        chosen = {chr(token) for token in tokens_of(matcher.mask()) if token < 256}
        for char in alphabet:
            begun = BEGINNING.fullmatch(text + char) is not None
            assert (char in chosen) == (begun and any(member(text + char + tail) for tail in TAILS)), (text, char)
            if char in chosen and len(text) < 2:
                longer = matcher.fork()
                longer.advance(ord(char))
                pending.append(longer)


def random_text(schema: dict[str, object], draw: random.Random) -> str | None:
    """The text of a number that the mask of a schema allows; None if it did not end in time."""
    numbers = JsonSchema(schema).read().shapes[0].numbers
    assert numbers is not None
    language, predicate = number_language(numbers), number_predicate(numbers)
    text = ""
    while not language.matches(text) or draw.random() > 0.15:
        states = [(char, language.state_after(text + char)) for char in "0123456789-+.eE"]
        following = [char for char, state in states if state]
        if not following or len(text) > 60:
            break
        text += draw.choice(following)
    return text if language.matches(text) and (predicate is None or predicate(text)) else None


NUMERIC = cases("values/sets/numbers", "NUMERIC", globals())


@pytest.mark.parametrize("schema", NUMERIC, ids=str)
def test_the_number_that_is_read_satisfies_the_schema(schema: dict[str, object]) -> None:
    """By exact arithmetic on the double or int that `json.loads` makes of a text, and by the judge of values."""
    draw, whole = random.Random(str(schema)), {"type": "number", **schema}
    judge, ended = JsonSchema(whole).judge(), 0
    for _ in range(times(150)):
        text = random_text(whole, draw)
        if text is None:
            continue
        value, ended = json.loads(text), ended + 1
        assert judge.value(text) == value
        assert judge.fault(value) is None, (text, value)
        step = Fraction(str(schema.get("multipleOf", 1)))
        if "multipleOf" in schema and step.denominator == 1:
            assert Fraction(value) % step == 0, (text, value)
        assert value < schema.get("exclusiveMaximum", math.inf), (text, value)  # type: ignore[operator]
        assert value > schema.get("exclusiveMinimum", -math.inf), (text, value)  # type: ignore[operator]
    assert ended > times(10)


def test_ordinary_numbers_stay_allowed_where_exactness_counts() -> None:
    for schema, texts in cases("values/sets/numbers", "ordinary_numbers_stay_allowed"):
        judge, grammar = JsonSchema(schema).judge(), JsonSchema({"type": "number", **schema}).read()
        numbers = grammar.shapes[0].numbers
        assert numbers is not None
        for text in texts:
            assert number_language(numbers).matches(text), (schema, text)
            judge.value(text)
