"""The names that are owed lead to the end that a search through all names finds; settled lanes are let go."""

from __future__ import annotations

import json
import random
import time
from itertools import combinations

import jsonschema
import pytest

import structgen as sg
from structgen.endings.closing import Closing
from structgen.endings.fewest_bytes import Distances
from structgen.endings.frame_search import FrameSearch, NoWayOut
from structgen.masks import Grammar
from structgen.testing import byte_vocabulary
from tests.support.speed import at_usual_speed
from tests.support.thinning import thinned

NAMES = "abcdef"


def rule(rng: random.Random) -> dict[str, object]:
    """Something that asks for names, or forbids them."""
    some = [name * rng.randrange(1, 4) for name in rng.sample(NAMES, 3)]
    kinds: list[dict[str, object]] = [
        {"anyOf": [{"required": some[:1]}, {"required": some[1:]}]},
        {"dependentRequired": {some[0]: some[1:]}},
        {"not": {"required": some[:2]}},
        {"not": {"required": some[:1], "properties": {some[1]: {"type": "string"}}}},
        {"anyOf": [{"properties": {some[0]: False}}, {"required": some[1:2]}]},
        {"required": some[:1]},
    ]
    return rng.choice(kinds)


def compiled(schema: object, order: str = "schema") -> Grammar:
    return sg.JsonSchema(schema, order=order).compile(byte_vocabulary())


def shortest(grammar: Grammar, position: int, *, short_cuts: bool) -> bytes | int | None:
    """The shortest end behind a position in the outermost frame, by a search of its own; the bytes that it has at
    least where the search is given up."""
    known, node = Distances(grammar.automaton).known, (position & 0xFFFFFF, position >> 44, 0)
    try:
        FrameSearch(known, node, None, short_cuts=short_cuts).run()
    except NoWayOut as why:
        return why.least
    exit_ = known.first.get(node)
    return None if exit_ is None else exit_.text.read()


@pytest.mark.parametrize("seed", thinned(range(40), 16))
def test_the_end_by_owed_names_is_as_short_as_any(seed):
    """Rules of many kinds together, so that lanes exclude owners that exclude others."""
    rng = random.Random(seed)
    schema = {"type": "object", "allOf": [rule(rng) for _ in range(rng.randrange(3, 12))]}
    for order in ("schema", "any"):
        try:
            grammar = compiled(schema, order)
        except sg.errors.StructgenError:
            continue
        end, exact = (shortest(grammar, grammar.start, short_cuts=short_cuts) for short_cuts in (True, False))
        if not isinstance(end, bytes):
            assert end is None
            assert exact is None
            continue
        assert (len(end) >= exact) if isinstance(exact, int) else len(end) == len(exact or b""), (end, exact)
        jsonschema.validate(json.loads(end), schema)


PAIRS = [{"anyOf": [{"required": [f"p{i}"]}, {"required": [f"q{i}x"]}]} for i in range(20)]


def test_many_alternatives_are_closed_at_once():
    """Of twenty pairs one each must come: `2 ** 20` sets of names are not looked through."""
    grammar = compiled({"type": "object", "allOf": PAIRS})
    matcher = grammar.matcher()
    for byte in b'{"q0x": 1':
        matcher.advance(byte)
    began = time.thread_time()
    end = Closing.of(grammar).ending(matcher.position)
    assert at_usual_speed(time.thread_time() - began) < 10  # it takes 1 on an idle machine
    assert end is not None
    value = json.loads(b'{"q0x": 1' + end)
    assert value == {"q0x": 1} | {f"p{i}": 0 for i in range(1, 20)}


def test_what_is_settled_makes_no_difference_any_more():
    """However a pair was met, the position is the same, and the masks are those of the schema."""
    grammar = compiled({"type": "object", "allOf": PAIRS[:9]})

    def position(names: list[str]) -> int:
        matcher = grammar.matcher()
        for byte in ("{" + ", ".join(f'"{name}": 1' for name in names)).encode():
            matcher.advance(byte)
        matcher.mask()
        return matcher.position

    begun = [f"p{i}" for i in range(6)]
    assert position([*begun, "p6"]) == position([*begun, "q6x"])
    for count in (1, 2, 3):
        for left in combinations(range(6, 9), 3 - count):
            names = [*begun, *(f"p{i}" for i in range(6, 9) if i not in left)]
            matcher = grammar.matcher()
            for byte in ("{" + ", ".join(f'"{name}": 1' for name in names)).encode():
                matcher.advance(byte)
            assert (ord("}") in matcher.allowed_tokens()) == (not left)
