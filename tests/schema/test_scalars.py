"""Patterns that only count: read as lengths, they hold the same texts.

Covers `regular.regex.counted`.
"""

from __future__ import annotations

import random

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.regular.chardfa import from_pattern
from structgen.schema.normal import Strings
from structgen.schema.scalars import counted_class
from structgen.values.sets.strings import string_holds
from tests.support.matching import byte_vocabulary, plain_verdict
from tests.support.tables import cases

CHARACTERS = "aZ09_ \n\r\u2028<]\\^-é中😀\u0301\t"
COUNTED = cases("schema/scalars", "COUNTED")
OTHERS = cases("schema/scalars", "OTHERS", globals())


@pytest.mark.parametrize("pattern", COUNTED)
def test_lengths_hold_the_texts_of_the_pattern(pattern: str) -> None:
    """Around both bounds, of characters that are in the class, not in it, and beyond ASCII."""
    counted, language, draw = counted_class(pattern), from_pattern(pattern), random.Random(pattern)
    assert counted is not None
    assert counted.max_length is not None
    verdicts = set[bool]()
    alone = [char for char in CHARACTERS + "bcdefg" if language.matches(char * counted.max_length)] or ["a"]
    for length in {
        0,
        1,
        *range(max(counted.min_length - 1, 0), min(counted.max_length, 40)),
        counted.max_length - 1,
        counted.max_length,
        counted.max_length + 1,
    }:
        for text in (
            "".join(draw.choices(alone, k=length)),
            "".join(draw.choices(alone, k=max(length - 1, 0))) + draw.choice(CHARACTERS),
        ):
            verdicts.add(language.matches(text))
            assert string_holds(counted, text) == language.matches(text), text
    assert verdicts == ({False} if pattern.startswith("^[^\\s\\S]{1") else {False, True})


@pytest.mark.parametrize("pattern", OTHERS)
def test_other_patterns_are_left_as_they_are(pattern: str) -> None:
    assert counted_class(pattern) is None


def test_a_pattern_for_the_whole_of_a_text_needs_no_anchors() -> None:
    assert counted_class("[a-z]{1,50}", anchored=True) == Strings(1, 50, patterns=("^[a-z]*$",))
    assert counted_class("^[a-z]{1,50}$", anchored=True) == counted_class("^[a-z]{1,50}$")


@pytest.mark.parametrize(("more", "least", "most"), cases("schema/scalars", "lengths_stand_beside_those"))
def test_lengths_stand_beside_those_of_other_keywords(more: dict[str, object], least: int, most: int) -> None:
    """Whichever keyword comes first."""
    pattern = {"type": "string", "pattern": "^[a-f]{2,40}$"}
    for schema in ({**pattern, **more}, {**more, **pattern}):
        grammar = JsonSchema(schema).compile(byte_vocabulary())
        for length in range(43):
            text = b'"' + (b"abcdf" * length)[:length] + b'"'
            assert plain_verdict(grammar, text) == (least <= length <= most)


def test_a_bound_of_a_million_is_a_length() -> None:
    """No automaton has a state for each."""
    schema = {"type": "string", "pattern": "^[^<]{2,1000000}$"}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    assert [plain_verdict(grammar, text.encode()) for text in ('"é"', '"éa"', '"é<"', f'"{"a" * 999}"')] == [
        False, True, False, True,
    ]  # fmt: skip
