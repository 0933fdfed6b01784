"""The closing tokens end the text, in the fewest tokens of the closing text; tests and listeners have their say.

Covers `agreed`.
"""

from __future__ import annotations

import random
from itertools import pairwise, product
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema, Regex
from structgen.endings.agreed import SearchEffort
from structgen.endings.closing import UNKNOWN, Closing, TokenSpeller, closing_tokens
from structgen.masks import Matcher
from structgen.vocabulary import Vocabulary
from tests.support.matching import END, byte_vocabulary, rich_vocabulary, vocabulary_of
from tests.support.tables import cases
from tests.support.thinning import times
from tests.support.walking import assert_valid, random_schema, tokens_of

UNIQUE = {"type": "array", "uniqueItems": True}


def closed(schema: Any, text: bytes = b"", vocabulary: Vocabulary | None = None) -> bytes:
    """The whole text, closed behind `text`."""
    matcher = JsonSchema(schema).compile(vocabulary or rich_vocabulary()).matcher()
    for byte in text:
        matcher.advance(byte)
    tokens = closing_tokens(matcher)
    assert tokens is not None
    for token in tokens:
        matcher.advance(token)
    assert matcher.can_finish
    return matcher.text


@pytest.mark.parametrize(
    ("schema", "text", "whole"), cases("endings/closing", "a_text_is_closed_as_its_checks_ask", globals())
)
def test_a_text_is_closed_as_its_checks_ask(schema: Any, text: bytes, whole: bytes) -> None:
    found = closed(schema, text)
    assert_valid(schema, found)
    assert len(found) == len(whole), (found, whole)


def test_a_finished_text_and_one_that_may_end_need_no_token() -> None:
    matcher = Regex("a+").compile(byte_vocabulary()).matcher()
    assert closing_tokens(matcher) == [ord("a")]
    matcher.advance(ord("a"))
    assert closing_tokens(matcher) == []
    matcher.advance(END)
    assert closing_tokens(matcher) == []


def test_fewest_tokens_are_as_few_as_all_ways_to_spell_a_text_have() -> None:
    """Against every way to cut 200 random texts."""
    pieces = [b"ab", b"abc", b"bca", b"ca", b"aaa", b"cab", b"bb"]
    speller = TokenSpeller(vocabulary_of(pieces))
    known = {*pieces, b"a", b"b", b"c"}
    draw, text = random.Random(3), b""
    for _ in range(200):
        kept = text[draw.randint(0, 9) :][-4:]  # what ends alike is found once
        text = bytes(draw.choice(b"abc") for _ in range(draw.randint(1, 5))) + kept
        ways = []
        for cuts in product((False, True), repeat=len(text) - 1):
            at = [0, *(i for i, cut in enumerate(cuts, 1) if cut), len(text)]
            parts = [text[a:b] for a, b in pairwise(at)]
            ways += [len(parts)] if all(part in known for part in parts) else []
        tokens = speller.spelled(text)
        assert tokens is not None
        assert len(tokens) == min(ways)


def test_a_vocabulary_that_cannot_spell_the_end_says_so() -> None:
    vocabulary = Vocabulary.from_tokens([b'{"', b'a"', b": ", b"1", None], end_ids=[4])
    grammar = JsonSchema({"type": "object", "required": ["a"]}).compile(vocabulary)
    assert Closing.of(grammar).cost(grammar.start) == UNKNOWN
    assert closing_tokens(grammar.matcher()) is None


def test_without_a_token_for_each_byte_the_cost_is_in_tokens() -> None:
    vocabulary = Vocabulary.from_tokens([b'{"', b'a"', b": ", b"7", b"}", None], end_ids=[5])
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"const": 7}}}
    grammar = JsonSchema(schema).compile(vocabulary)
    assert Closing.of(grammar).cost(grammar.start) == 5
    assert closing_tokens(grammar.matcher()) == [0, 1, 2, 3, 4]


class No:
    """A listener that refuses some bytes anywhere in what is added."""

    state = b""

    def __init__(self, word: bytes) -> None:
        self.word = word

    def after(self, state: bytes, text: bytes) -> bytes | None:
        return None if self.word in state + text else state + text

    def may_end(self, state: bytes) -> bool:
        return not state.endswith(b"0]")

    def wanted(self, state: bytes) -> bytes:
        return b""


def test_a_listener_that_refuses_the_shortest_end_gets_another() -> None:
    grammar = JsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 2}).compile(rich_vocabulary())
    matcher = grammar.matcher()
    tokens = Closing.of(grammar).tokens(matcher, No(b"0, "))
    assert tokens is not None
    assert grammar.vocabulary.decode(tokens) == b"[1, 1]"
    assert Closing.of(grammar).tokens(matcher, No(b"[")) is None


def shortest_end(matcher: Matcher, listener: No, most: int) -> int | None:
    """The slow twin: every text of at most so many bytes is tried, the short ones first."""
    texts = [(matcher.position, b"")]
    for length in range(most + 1):
        if any(matcher.grammar.may_end(position) and listener.may_end(text) for position, text in texts):
            return length
        longer = [(position, text, byte) for position, text in texts for byte in b'ab0[], "']
        led = [(matcher.grammar.advance(position, byte), text + bytes([byte])) for position, text, byte in longer]
        texts = [(position, text) for position, text in led if position >= 0 and listener.after(b"", text) is not None]
    return None


@pytest.mark.parametrize(
    "constraint",
    cases("endings/closing", "the_end_that_is_searched_for", globals()),
    ids=["pattern", "loop", "enum", "array"],
)
def test_the_end_that_is_searched_for_is_the_shortest(constraint: Any) -> None:
    """Against every text of up to seven bytes, behind random beginnings, with random words refused."""
    matcher = constraint.compile(byte_vocabulary()).matcher()
    ended = 0
    for seed in range(times(40)):
        draw = random.Random(seed)
        walk = matcher.fork()
        for _ in range(draw.randrange(3)):
            choices = [token for token in tokens_of(walk.mask()) if token in b'ab0[], "']
            if choices:
                walk.advance(draw.choice(choices))
        listener = No(bytes(draw.choices(b'ab0[],"', k=draw.randint(1, 2))))
        tokens, shortest = Closing.of(matcher.grammar).tokens(walk, listener), shortest_end(walk, listener, 7)
        if tokens is None or len(tokens) <= 7:
            assert shortest == (None if tokens is None else len(tokens)), (seed, walk.text, listener.word, tokens)
        else:
            assert shortest is None, (seed, walk.text, listener.word, tokens)
        ended += shortest is not None
    assert ended > times(10)


class Slow(No):
    """Refuses every end, and counts how often it is asked."""

    asked = 0

    def after(self, state: bytes, text: bytes) -> bytes | None:
        self.asked += 1
        return super().after(state, text)

    def may_end(self, state: bytes) -> bool:
        return False

    def wanted(self, state: bytes) -> bytes:
        return b""


def test_a_search_ends_when_its_effort_is_spent() -> None:
    grammar = JsonSchema({"type": "string"}).compile(byte_vocabulary())
    effort, listener = SearchEffort(steps=5), Slow(b"no")
    assert Closing.of(grammar).tokens(grammar.matcher(), listener, effort) is None
    assert effort.steps <= 0
    asked = listener.asked
    assert Closing.of(grammar).tokens(grammar.matcher(), listener, effort) is None
    assert listener.asked - asked <= 10
    effort = SearchEffort(seconds=0)
    assert Closing.of(grammar).tokens(grammar.matcher(), listener, effort) is None
    assert effort.steps > 4_000


@pytest.mark.parametrize("vocabulary", [byte_vocabulary(), rich_vocabulary()], ids=["bytes", "rich"])
def test_random_walks_end_validly_by_their_closing_tokens(vocabulary: Vocabulary) -> None:
    """Wherever the walk is stopped; and far from a test the cost is an upper bound of what is needed."""
    ended = 0
    for seed in range(times(50)):
        draw = random.Random(seed)
        schema = random_schema(draw)
        try:
            grammar = JsonSchema(schema).compile(vocabulary)
        except ValueError:
            continue
        matcher = grammar.matcher()
        for _ in range(draw.randrange(25)):
            choices = [token for token in tokens_of(matcher.mask()) if token != END]
            if not choices:
                break
            matcher.advance(draw.choice(choices))
        tokens, cost = closing_tokens(matcher), Closing.of(grammar).cost(matcher.position)
        assert tokens is not None, (seed, schema, matcher.text)
        assert len(tokens) <= cost, (seed, schema, matcher.text)
        for token in tokens:
            matcher.advance(token)
        assert matcher.can_finish
        assert_valid(schema, matcher.text)
        ended += 1
    assert ended > times(35)


def test_what_is_left_of_an_end_is_as_short_as_a_new_search() -> None:
    """Along random walks: behind a token with which the known end begins, the rest of it is the end."""
    begun = 0
    for seed in range(times(40)):
        schema = random_schema(random.Random(seed), 3)
        matcher, twin = (JsonSchema(schema).compile(rich_vocabulary()).matcher() for _ in range(2))
        known, draw = Closing.of(matcher.grammar), random.Random(seed)
        known.cost(matcher.position)
        for _ in range(20):
            end = known.ending(matcher.position)
            tokens = [token for token in tokens_of(matcher.mask()) if token != END]
            if not tokens:
                break
            token = draw.choice(tokens)
            text = matcher.grammar.vocabulary.token(token)
            matcher.advance(token)
            twin.advance(token)
            cost = known.cost_behind(text, matcher.earlier(1), matcher.position)
            assert cost <= Closing(twin.grammar).cost(twin.position), (schema, matcher.text)
            if end and end.startswith(text):
                begun += 1
                rest = known.ending(matcher.position)
                assert rest is not None
                assert rest == end[len(text) :]
    assert begun > times(50)
