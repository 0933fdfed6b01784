"""Switches: each of several texts leads to its own plan, also where a text can be read in other ways as well."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from structgen.constraints.basic import Regex
from structgen.constraints.compositions import Composable, Repeat, Sequence, Union
from structgen.parts.parts import Plan, Series, by_text
from structgen.parts.special import Fixed
from tests.support.matching import accepts, byte_vocabulary, plain_verdict, rich_vocabulary, takes_exactly
from tests.support.planned import Planned
from tests.support.tables import cases
from tests.support.walking import random_walk

DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
NUMBER = {"type": "integer"}


def switch(**cases: Composable) -> Planned:
    return Planned(by_text({text.encode(): case.plan() for text, case in cases.items()}))


def json(schema: object) -> Composable:
    return Sequence(schema)


CASES = cases("parts/switch", "CASES", globals())


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=range(len(CASES)))
def test_the_texts_of_a_switch_and_no_others(constraint, good, bad):
    """Whole, byte by byte and at random splits; every mask equals the plain twin's."""
    takes_exactly(constraint, good, bad)


def random_switch(draw: random.Random) -> tuple[Planned, str]:
    """A switch with other plans around it, and the pattern of the same texts."""
    texts = draw.sample(["a", "b", "ab", "abc", "ba", "c", "ca"], draw.randint(1, 5))
    behind = {text: draw.choice(["", "a", "b?", "[ac]*", "ab|c"]) for text in texts}
    made: Composable = switch(**{text: Regex(pattern) for text, pattern in behind.items()})
    pattern = "(?:" + "|".join(f"{text}(?:{each})" for text, each in behind.items()) + ")"
    for _ in range(draw.randint(0, 2)):
        before, beside = draw.choice(["", "a?", "b*"]), draw.choice(["c", "[ab]*"])
        made, pattern = draw.choice([
            (Sequence(Regex(before), made), f"(?:{before}{pattern})"),
            (Union(made, Regex(beside)), f"(?:{pattern}|{beside})"),
            (Repeat(made, 1, 2), f"(?:{pattern}){{1,2}}"),
        ])  # fmt: skip
    return Planned(made.plan()), pattern


@pytest.mark.parametrize("seed", range(60))
def test_random_switches_are_the_patterns_that_they_spell(seed):
    """Every text of up to five letters, against Python's own engine."""
    constraint, pattern = random_switch(random.Random(seed))
    grammar, wanted = constraint.compile(byte_vocabulary()), re.compile(pattern)
    for length in range(6):
        for letters in itertools.product("abc", repeat=length):
            text = "".join(letters)
            assert plain_verdict(grammar, text.encode()) == bool(wanted.fullmatch(text)), (seed, pattern, text)


@pytest.mark.parametrize("seed", range(8))
def test_random_walks_end_in_texts_of_the_switch(seed):
    case = {"get": json(DISTINCT), "get_all": json(NUMBER), "put": Sequence("-", json(DISTINCT))}
    constraint = Repeat(switch(**case), 1, 3, separator=";")
    text = random_walk(constraint.compile(rich_vocabulary()), seed, check=20)
    assert re.match(rb"(get|get_all|put-)[\[0-9-]", text)
    assert accepts(constraint, text)


def test_a_plan_of_shared_parts_is_shown_in_a_line() -> None:
    """An error report of 2^64 parts would never end."""
    plan: Plan = Fixed("a")
    for _ in range(64):
        plan = Series((plan, plan))
    assert len(repr(plan)) < 200
