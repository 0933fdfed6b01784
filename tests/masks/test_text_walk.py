"""Masks of text, plain or inside quotes, which walk only what may leave it: equal to the plain twin, bit by bit, at
every place.

Covers `parts.composed` and `parts.part_reading`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.constraints.compositions import Sequence, Text
from structgen.errors import DeadEnd, OptionError
from structgen.masks.grammar import Grammar
from structgen.vocabulary import Vocabulary
from tests.masks.test_walk import assert_equal_at, llama3, tokenised  # noqa: F401 - llama3 is a fixture
from tests.support.matching import Checked, allowed, vocabulary_of
from tests.support.tables import cases
from tests.support.thinning import diagonal

PIECES = cases("masks/text_walk", "PIECES", globals())
VOCABULARY = vocabulary_of([*PIECES, b"ab", b"</"])
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


class AnyBytes:
    """A machine whose texts are an exclamation mark and any bytes, UTF-8 or not."""

    start = 0

    def step(self, state: int, byte: int) -> int | None:
        return 1 if state or byte == ord("!") else None

    def accepts(self, state: int) -> bool:
        return state == 1


CONSTRAINTS = cases("masks/text_walk", "CONSTRAINTS", globals())
BOUNDED = cases("masks/text_walk", "BOUNDED", globals())


def assert_equal_along(grammar: Grammar, text: bytes, seed: int, lead: bytes = b"") -> None:
    """Behind `lead`, every mask along a text in random tokens, as far as it is allowed, is the plain twin's."""
    walk = Checked(grammar)
    for byte in lead:
        if not allowed(walk.matcher.mask(), byte):
            return
        walk.matcher.advance(byte)
    walk.place = walk.reference.walk(walk.place, lead)
    for token in tokenised(grammar.vocabulary, text, random.Random(seed)):
        try:
            walk.mask()
        except DeadEnd:
            return
        if not walk.take(token):
            return


QUOTED = cases("masks/text_walk", "QUOTED", globals())
"""Patterns in which most characters lead to one state."""
QUOTED_TEXTS = [
    '"xa< /x one. AB \\\\u2003 é😀x \\\\"'.encode(), '"\u2003x/x/ABé\\\\n😀<x"'.encode(), b'"https://x.y one/AB<"',
    b'"one two  ab three"', b'"/ab/x``"', '"😀😀😀éé< \\\\ud83d\\\\ude00x"'.encode(),
]  # fmt: skip
IN_QUOTES = vocabulary_of([
    *PIECES, b'"', b'/"', b'x"', b'<"', b'AB"', b"\\", b'\\"', b"\\n", b"x\\", b"\\ud83d", b"\\u20", b"/x", b"AB",
    b"x/", b'x", "', b'A": ', b"http", b"://", b" three", b"\n", b"a\nb", b"a\tb", b"\x7f", b"x\x7fy", b'```"',
])  # fmt: skip


TEXTS = cases("masks/text_walk", "TEXTS", globals())


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: repr(constraint)[:60])
def test_masks_of_text_are_the_plain_twins(constraint: Any) -> None:
    """In the middle of stops, of characters, and of what follows the text."""
    grammar = constraint.compile(VOCABULARY)
    for seed, text in enumerate(TEXTS):
        assert_equal_along(grammar, text, seed)


@pytest.mark.parametrize(("most", "bounded"), diagonal([1, 9, 60, 90], BOUNDED))
def test_masks_of_bounded_text_are_the_plain_twins(bounded: Any, most: int) -> None:
    """With room for every token, for some, and for none."""
    try:
        grammar = bounded(most).compile(VOCABULARY)
    except OptionError:
        return  # there is no text that short
    for seed, text in enumerate(TEXTS[:3]):
        assert_equal_along(grammar, text, seed, lead=b"x" * max(0, most - 30))


@pytest.mark.parametrize(("most", "strings"), diagonal([None, 9, 30, 90], QUOTED))
def test_masks_inside_quotes_are_the_plain_twins(strings: dict[str, Any], most: int | None) -> None:
    """With any length, and with room for every token, for some, and for none; as a value and as a name."""
    limits = {} if most is None else {"maxLength": most}
    value = {"type": "string"} | strings | limits
    grammar = JsonSchema(value).compile(IN_QUOTES)
    lead = b'"' + b"x" * max(0, (most or 0) - 25)
    for seed, text in enumerate(QUOTED_TEXTS):
        assert_equal_along(grammar, text, seed)
        assert_equal_along(grammar, text[1:], seed, lead=lead)
    names = JsonSchema({"type": "object", "propertyNames": strings | limits}).compile(IN_QUOTES)
    for seed, text in enumerate(QUOTED_TEXTS):
        assert_equal_along(names, b"{" + text + b": 1}", seed)


def test_most_of_a_pattern_inside_quotes_is_found_without_a_walk() -> None:
    """The state that most characters lead to, and the one before it, know what leads away."""
    automaton = JsonSchema({"type": "string", "pattern": "^[^/]+/$"}).compile(IN_QUOTES).automaton
    automaton.expand(automaton.start)
    assert automaton.tables.n_exits > 1


@pytest.mark.parametrize(
    ("constraint", "text", "most"),
    [
        (Text(until="</think>", max_chars=2000), b"some words, and then < and more", 2),
        (Sequence(Text(max_chars=2000), "one"), b"some words, and then o and more", 4),  # it may end at any place
    ],
)
def test_far_from_its_bound_a_text_has_one_mask_in_each_state(
    constraint: Any, text: bytes, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions that differ in what was counted alone share a walk."""
    walked: list[int] = []
    walk = Grammar._walked
    monkeypatch.setattr(Grammar, "_walked", lambda *given: (walked.append(given[1]), walk(*given))[1])
    matcher = constraint.compile(VOCABULARY).matcher()
    for byte in text:
        matcher.mask()
        matcher.advance(byte)
    assert 2 <= len(walked) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "text"),
    cases("masks/text_walk", "masks_of_text_over_128k_tokens", globals()),
)  # fmt: skip
def test_masks_of_text_over_128k_tokens_are_the_plain_twins(llama3: Vocabulary, constraint: Any, text: bytes) -> None:  # noqa: F811
    assert_equal_at(constraint.compile(llama3), text)
