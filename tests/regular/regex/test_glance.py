"""What is told without an automaton is what the automaton says."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from structgen.regular import number_sets, string_sets
from structgen.regular.chardfa import beside, combine, from_pattern, intersect, length, literals, numbered
from structgen.regular.regex.glance import plain_lengths
from structgen.regular.regex.parser import parse
from structgen.schema.normal import Numbers, Strings

EXPLODES = "^[ab]*a[ab]{20}$"
PATTERNS = {
    "^$": (0, 0),
    "^a": (1, 1),
    r"^\d{4}-\d{2}$": (7, 7),
    "^[a-z][a-z0-9-]{0,61}$": (1, 62),
    "^[^x]*$": (0, None),
    "^ab+": (2, None),
    "^a?b$": None,
    "a": None,
    "^(a|b)$": None,
    EXPLODES: None,
    r"^[\ud800-\udfff]$": None,
    "^a{1001}$": None,
    r"^a\b$": None,
    "$a": None,
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_lengths_that_a_glance_tells_are_lengths_of_matches(pattern):
    lengths = plain_lengths(parse(pattern))
    assert lengths == PATTERNS[pattern]
    if lengths is not None:
        language = from_pattern(pattern, anchored=True)
        least, most = lengths
        for size in {least, (least + (most or least)) // 2, least + 3 if most is None else most}:
            assert not intersect(language, length(size, size)).empty


@pytest.mark.parametrize("seed", range(200))
def test_what_a_glance_calls_inhabited_is(seed):
    """Strings and numbers; and in most cases that are, a glance tells."""
    draw = random.Random(seed)
    low, high = draw.choice([0, 0, 2, 9]), draw.choice([None, 1, 5, 70])
    strings = Strings(low, high, (draw.choice([pattern for pattern in PATTERNS if pattern != EXPLODES]),))
    language, most = string_sets.uncapped_language(strings)
    empty = language.empty or (most is not None and language.length_range()[0] > most)
    assert not (string_sets._plainly_some(strings) and empty)
    bounds = [draw.choice([None, Fraction(draw.randint(-30, 30), draw.choice([1, 2, 10]))]) for _ in range(2)]
    multiples = tuple(Fraction(draw.choice([1, 3, 7, 50]), draw.choice([1, 10])) for _ in range(draw.randint(0, 2)))
    without = (Numbers(integer=True, minimum=Fraction(0)),) if draw.random() < 0.3 else ()
    integer = draw.random() < 0.5
    exclusive = draw.random() < 0.5
    numbers = Numbers(
        integer, *bounds, exclusive, exclusive, plain=integer and exclusive, multiples=multiples, without=without
    )
    language, exact = number_sets._language(numbers)
    if exact:
        assert not (number_sets._plainly_some(numbers) and language.empty)
    if bounds == [None, None] and not without:
        assert number_sets._plainly_some(numbers)


@pytest.mark.parametrize("seed", range(20))
def test_numbered_texts_are_literals_with_their_places_as_bits(seed):
    draw = random.Random(seed)
    drawn = ("".join(draw.choices("ab\u00e9\U0001f600", k=draw.randint(0, 4))) for _ in range(draw.randint(1, 40)))
    words = list(dict.fromkeys(drawn))
    sets = [length(), from_pattern("^a"), from_pattern("b$")]
    bits = [literals([word for i, word in enumerate(words, 1) if i >> k & 1]) for k in range(len(words).bit_length())]
    wanted, found = combine([*sets, *bits]), beside(combine(sets), numbered(words), len(sets))
    for word in [*words, "x", "ab" * 3, "\u00e9b"]:
        assert found.final[found.state_after(word)] == wanted.final[wanted.state_after(word)]
    assert len(found.final) == len(wanted.final)
