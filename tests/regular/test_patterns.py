"""Look-around, back-references and atomic groups: language and predicate together, against the `regex` module.

Covers `lookaround`, `regular.regex.backtrack` and `regular.regex.subset`.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
import regex

import structgen as sg
from structgen.errors import LimitExceeded, RequestError, TokenRejected
from structgen.regular.chardfa import from_pattern
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.regex.backtrack import Backtracker
from structgen.regular.regex.parser import parse
from structgen.regular.regex.subset import LazyTable
from tests.support.matching import accepts, allowed, byte_vocabulary
from tests.support.tables import cases

STRINGS = ["".join(chars) for size in range(6) for chars in itertools.product("ab-", repeat=size)]
ATOMS = ["a", "b", ".", "[ab]", "[^a]", r"\w", "-", r"\b", r"\B", "^", "$"]


def matches(pattern: str, text: str) -> bool:
    """Membership as the automaton and its test at the end say it."""
    test = pattern_predicate(pattern)
    return pattern_language(pattern).matches(text) and (test is None or test(text))


def backtracker(pattern: str) -> Backtracker:
    return Backtracker(pattern, parse(pattern))


def written(rng: random.Random, depth: int) -> str:
    """A random pattern with look-around."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(ATOMS)
    if kind < 0.55:
        return "".join(written(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind < 0.63:
        return f"(?:{written(rng, depth - 1)}|{written(rng, depth - 1)})"
    if kind < 0.75:
        return f"(?:{written(rng, depth - 1)}){rng.choice(['*', '+', '?', '{2}', '{0,2}', '*?', '??'])}"
    return f"(?{rng.choice(['=', '!', '<=', '<!'])}{written(rng, depth - 1)})"


def agrees(pattern: str, rng: random.Random, *, twin: bool) -> bool:
    """Compare on random strings; False where the pattern is too much for one of the two."""
    try:
        oracle = regex.compile(pattern.replace(r"\B", r"(?!\b)"), regex.ASCII)
        language = pattern_language(pattern)
    except (regex.error, LimitExceeded, RequestError):
        return False
    slow = backtracker(pattern) if twin else None
    for text in rng.sample(STRINGS, 60):
        expected = oracle.search(text) is not None
        assert language.matches(text) or not expected, (pattern, text)
        assert matches(pattern, text) == expected, (pattern, text)
        assert slow is None or slow.search(text) == expected, (pattern, text)
    return True


def test_random_look_around_is_that_of_another_engine() -> None:
    """Anywhere, nested, repeated, beside word boundaries: the automaton, the test and the backtracking twin."""
    rng = random.Random(11)
    assert sum(agrees(written(rng, 4), rng, twin=at % 5 == 0) for at in range(400)) > 300


def test_random_back_references_are_those_of_another_engine() -> None:
    """To a group that always takes part, where the two dialects agree."""
    rng = random.Random(12)
    uses = [r"\1", r"(?:\1|-)", r"(?!\1)", r"\1*", r"(?<=\1b)"]
    patterns = (
        f"{written(rng, 1)}({written(rng, 2)}){written(rng, 1)}{rng.choice(uses)}{written(rng, 1)}" for _ in range(150)
    )
    assert sum(agrees(pattern, rng, twin=True) for pattern in patterns) > 100


@pytest.mark.parametrize(("pattern", "yes", "no"), cases("regular/patterns", "usual_uses_are_held"))
def test_usual_uses_are_held_by_the_automaton_alone(pattern: str, yes: list[str], no: list[str]) -> None:
    """No test at the end is needed, so a mask is exact long before it."""
    assert pattern_predicate(pattern) is None
    assert [text for text in yes if not matches(pattern, text)] == []
    assert [text for text in no if matches(pattern, text)] == []


@pytest.mark.parametrize(("pattern", "yes", "no"), cases("regular/patterns", "what_is_not_regular"))
def test_what_is_not_regular_is_tested_at_the_end(pattern: str, yes: list[str], no: list[str]) -> None:
    """With the standard's meaning: a group that took no part matches nothing, and each repetition starts anew."""
    assert [text for text in yes if not matches(pattern, text)] == []
    assert [text for text in no if matches(pattern, text)] == []


def test_a_match_that_takes_for_ever_is_an_error() -> None:
    """The steps are counted."""
    with pytest.raises(LimitExceeded, match="steps"):
        backtracker(r"^(a*)*(a*)*(a*)*(a*)*\1\2\3\4b$").search("a" * 60)
    assert not backtracker(r"^(?:a*)*b$").search("a" * 300)


TEXTS = ["".join(chars) for size in range(4) for chars in itertools.product("abc", repeat=size)]
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "look_around_references.json").read_text())


def test_references_to_groups_within_look_around_are_those_of_ecma_262() -> None:
    """300 random patterns, and the verdicts of Node 20 (`RegExp` with the flag `u`) on every text of up to 3 letters: a
    bit each, the first text highest."""
    for pattern, bits in RECORDED.items():
        expected = f"{int(bits, 16):0{len(TEXTS)}b}"
        assert "".join(str(int(matches(pattern, text))) for text in TEXTS) == expected, pattern


@pytest.mark.parametrize("pattern", [r"^(?=(a|b))\1c$", r"^(?=(a+))\1*b$"])
def test_a_schema_may_refer_to_a_group_within_a_look_ahead(pattern: str) -> None:
    """It compiles, is explained, and takes the texts that match."""
    schema = {"type": "string", "pattern": pattern}
    assert sg.explain(schema).rules[1].how in ("masked", "checked")
    for text in TEXTS:
        assert accepts(sg.JsonSchema(schema), json.dumps(text)) == matches(pattern, text), text


def test_states_made_as_texts_come_are_those_of_the_table() -> None:
    """Random patterns without look-around, with boundaries and anchors; what two texts share is read once."""
    rng, compared = random.Random(7), 0
    while compared < 150:
        pattern = written(rng, 3)
        if "(?=" in pattern or "(?!" in pattern or "(?<" in pattern:
            continue
        try:
            table, lazy = from_pattern(pattern), LazyTable(pattern, parse(pattern))
        except (LimitExceeded, RequestError):
            continue
        compared += 1
        texts = rng.sample(STRINGS, 60)
        assert [lazy.search(text) for text in texts] == [table.matches(text) for text in texts], pattern


EXPLODING = cases("regular/patterns", "EXPLODING", globals())
"""Patterns whose tables are too big, with texts that they match and do not."""


@pytest.mark.parametrize("pattern", EXPLODING)
def test_a_pattern_of_too_many_states_is_told_at_the_end_of_its_text(pattern: str) -> None:
    """In the middle of a text too, where nothing was compiled yet: no limit is met there."""
    with pytest.raises(LimitExceeded):
        from_pattern(pattern)
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}}, "additionalProperties": False}
    grammar = sg.JsonSchema({**schema, "type": "object"}).compile(byte_vocabulary())
    yes, no = EXPLODING[pattern]
    for text in yes + no:
        matcher = grammar.matcher()
        try:
            for byte in json.dumps({"a": text}).encode()[:-2]:
                assert allowed(matcher.mask(), byte)
                matcher.advance(byte)
            closes = allowed(matcher.mask(), ord('"'))
        except TokenRejected:
            closes = False
        except AssertionError:
            assert text in no
            closes = False
        assert closes == (text in yes), text
    assert "checked" in str(sg.explain({**schema, "type": "object"}))


LONG = cases("regular/patterns", "LONG", globals())


@pytest.mark.parametrize("pattern", LONG, ids=lambda pattern: pattern[:12])
def test_a_pattern_that_is_too_long_is_refused_before_any_text(pattern: str) -> None:
    with pytest.raises(LimitExceeded, match="instructions"):
        sg.JsonSchema({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}).read()


def test_references_to_many_groups_are_told_at_the_end() -> None:
    pattern = r"^([a-z])([a-z])([a-z])([a-z])([a-z])\5\4\3\2\1$"
    assert matches(pattern, "abcdeedcba")
    assert not matches(pattern, "abcdeedcbb")
