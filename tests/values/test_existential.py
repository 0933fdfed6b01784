"""The fewest members that meet existential rules, against every choice of members; and objects that need them."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest

import structgen as sg
from structgen.endings.closing import closing_tokens
from structgen.errors import LimitExceeded
from structgen.values.existential import RuleSets, fewest
from tests.decoding.refusals.test_budget import drive
from tests.support.matching import byte_vocabulary
from tests.support.tables import cases
from tests.support.walking import tokens_of


def fewest_of_all(rules: int, owed: list[RuleSets], others: list[RuleSets]) -> int | None:
    """The slow twin: every way to meet the rules by any of the members."""
    counts = []
    for chosen in product(*[(*sets, 0) for sets in owed], *[(*sets, None) for sets in others]):
        met = 0
        for each in chosen:
            met |= each or 0
        if met & rules == rules:
            counts.append(sum(each is not None for each in chosen[len(owed) :]))
    return min(counts, default=None)


def test_the_fewest_are_as_few_as_any_choice_has() -> None:
    """Against 300 random tables of four rules."""
    for seed in range(300):
        draw = random.Random(seed)
        sets = [tuple(draw.sample(range(1, 16), draw.randint(1, 3))) for _ in range(draw.randint(0, 5))]
        split, rules = draw.randint(0, len(sets)), draw.randint(0, 15)
        owed, others = sets[:split], sets[split:]
        found = fewest(rules, owed, [(each, 1) for each in others])
        assert found == fewest_of_all(rules, owed, others), (seed, rules, owed, others)


def test_members_that_may_come_often_and_those_that_may_come_once() -> None:
    one_of_two: RuleSets = (1, 2)
    assert fewest(3, [], [(one_of_two, 1)]) is None
    assert fewest(3, [], [(one_of_two, 2)]) == 2
    assert fewest(3, [one_of_two], [(one_of_two, 1)]) == 1
    assert fewest(0, [], []) == 0


def test_the_fewest_of_many_rules_are_exact_or_refused() -> None:
    """Rules that share no member count apart; a bound that is too low would let a walk begin what has no end."""
    for seed in range(150):
        draw = random.Random(seed)
        rules = draw.randint(11, 16)
        sets = [
            tuple(
                {sum(1 << draw.randrange(rules) for _ in range(draw.randint(1, 5))) for _ in range(draw.randint(1, 2))}
            )
            for _ in range(draw.randint(5, 9))
        ]
        sets = [tuple(each & (1 << rules) - 1 for each in every if each & (1 << rules) - 1) for every in sets]
        sets = [every for every in sets if every]
        split, open_rules = draw.randint(0, len(sets)), 0
        for every in sets:
            open_rules |= draw.choice(every)
        found = fewest(open_rules, sets[:split], [(each, 1) for each in sets[split:]])
        assert found == fewest_of_all(open_rules, sets[:split], sets[split:]), seed
    apart = [((1 << k,), 1) for k in range(30)]
    assert fewest((1 << 30) - 1, [], apart) == 30
    assert fewest((1 << 30) - 1, [], apart[1:]) is None
    ring = [((3 << k,), 1) for k in range(19)]
    with pytest.raises(LimitExceeded, match="20 existential rules share members"):
        fewest((1 << 20) - 1, [], ring)


def with_name_in(*names: str) -> dict[str, Any]:
    """Some name is among these."""
    return {"not": {"propertyNames": {"not": {"enum": list(names)}}}}


DIGITS = {"type": "object", "patternProperties": {"^[0-9]$": {"type": "array"}}, "additionalProperties": False}
SCHEMAS = cases("values/existential", "SCHEMAS", globals())


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("order", ["schema", "any"])
def test_no_walk_begins_a_member_behind_which_the_rules_cannot_be_met(schema: Any, order: Any) -> None:
    grammar = sg.JsonSchema(schema, order=order).compile(byte_vocabulary())
    close = closing_tokens(grammar.matcher())
    assert close is not None
    for seed in range(5):
        for more in (0, 1, 5, 30):
            session = drive(grammar, len(close) + more, random.Random(seed))
            assert session.error is None
            assert session.rollbacks == 0
            jsonschema.validate(json.loads(session.text()), schema)


def test_a_name_after_which_too_many_members_are_needed_is_masked() -> None:
    matcher = sg.JsonSchema(SCHEMAS["two members for four rules"]).compile(byte_vocabulary()).matcher()
    for byte in b'{"':
        matcher.advance(byte)
    assert sorted(map(chr, tokens_of(matcher.mask()))) == ["1", "2", "3", "5"]


def test_of_eleven_members_for_eleven_rules_none_is_another() -> None:
    """With a bound that was too low, any name could come first, and nothing after eleven of them."""
    names = "abcdefghijk"
    schema = {"type": "object", "maxProperties": 11, "propertyNames": {"pattern": "^[a-p]$"}}
    grammar = sg.JsonSchema({**schema, "allOf": [with_name_in(name) for name in names]}).compile(byte_vocabulary())
    matcher = grammar.matcher()
    for byte in b'{"':
        matcher.advance(byte)
    assert {*map(chr, tokens_of(matcher.mask()))} - {"\\"} == {*names}
