"""The fewest tokens that a whole text needs, and how surely that is known."""

from __future__ import annotations

import json
import lzma
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from structgen.constraints import JsonSchema
from structgen.errors import RequestError
from structgen.masks import Grammar
from structgen.masks.fewest import Fewest, TokenSearch
from structgen.masks.rests import Tails
from structgen.options import Whitespace
from structgen.vocabulary import Vocabulary
from tests.matching import END, byte_vocabulary, vocabulary_of
from tests.walking import assert_valid, random_schema, random_walk

WORDS = [
    b'": "', b'", "', b'"}', b'"], "', b'""', b'": ', b"0}", b"[]", b"{}", b'": ["', b'"]', b", ", b"]]", b'"a', b'{"',
]  # fmt: skip
OPEN = {"type": "object", "required": ["b", "e"], "properties": {"b": {"type": "string"}, "e": {"type": "array"}}}


def fewest_of_all(grammar: Grammar, most: int) -> int | None:
    """The slow twin: all places that one token more leads to, until a text may end; None where they are too many."""
    tokens = [i for i in range(grammar.vocabulary.width) if i != END and grammar.vocabulary.token(i)]
    layer, seen = {grammar.start}, {grammar.start}
    for count in range(most):
        if any(grammar.may_end(position) for position in layer):
            return count
        layer = {grammar.advance(position, token) for position in layer for token in tokens} - seen
        layer = {position for position in layer if position >= 0}
        seen |= layer
        if len(seen) > most:
            return None
    return None


def pieces_of(grammar: Grammar, draw: random.Random) -> list[bytes]:
    """Tokens that cut one of the grammar's texts in awkward places, and some of JSON's own."""
    text = random_walk(grammar, draw.randrange(1 << 30), longest=30)
    starts = [draw.randrange(len(text) + 1) for _ in range(8)]
    pieces = {text[start : start + draw.randint(2, 12)] for start in starts} | set(draw.sample(WORDS, 8))
    return sorted(piece for piece in pieces if len(piece) > 1)


def test_the_fewest_tokens_of_json_are_as_few_as_every_way_of_tokens_needs() -> None:
    """Random schemas, in random layouts and orders, and vocabularies whose tokens reach across values and members."""
    compared = fewer = 0
    for seed in range(100):
        draw = random.Random(seed)
        schema = random_schema(draw, 2) if draw.random() < 0.8 else OPEN
        layout, any_order = draw.choice([Whitespace.COMPACT, Whitespace.SPACED]), draw.random() < 0.3
        constraint = JsonSchema(schema, whitespace=layout, order="any" if any_order else "schema")
        try:
            vocabulary = vocabulary_of(pieces_of(constraint.compile(byte_vocabulary()), draw))
        except RequestError:
            continue
        grammar = constraint.compile(vocabulary)
        expected = None if grammar.automaton.checks else fewest_of_all(grammar, 600)
        if expected is None:
            continue
        tokens, least = grammar.closing.fewest
        assert tokens is not None
        assert len(tokens) == least == expected, (seed, schema, vocabulary.decode(tokens))
        shortest = grammar.closing.shortest
        fewer += shortest is not None and len(shortest) > expected
        compared += 1
    assert (compared > 60, fewer > 3) == (True, True), (compared, fewer)


def unaided(grammar: Grammar, most: int) -> Fewest:
    """The same search, but that nothing is known of what stands around a value."""
    search = TokenSearch(grammar, lambda _: None, lambda _: None, most=most)
    search._rests.bound = lambda *_: 0  # type: ignore[method-assign]
    search._rests.prepare = lambda *_: None  # type: ignore[method-assign]
    return search.run()


@pytest.mark.parametrize("name", ["enum", "array", "object", "lockstep", "product"])
def test_what_stands_around_a_value_changes_no_answer_but_makes_it_cheap(name: str) -> None:
    member = {"type": "string", "maxLength": 3}
    schemas: dict[str, Any] = {
        "enum": {"type": "array", "items": {"enum": ["ab", [1, 2], {"a": 1}]}, "minItems": 2, "maxItems": 3},
        "array": {"type": "array", "items": {"type": "array", "items": member, "minItems": 1}, "minItems": 2},
        "object": {**OPEN, "properties": {"b": member, "e": member}, "additionalProperties": False},
        "lockstep": {"oneOf": [{"type": "object", "required": [name], "properties": {name: member}} for name in "ab"]},
        "product": {"type": "string", "allOf": [{"pattern": "a.*b"}, {"pattern": "^[a-d]{4,6}$"}]},
    }
    grammar = JsonSchema(schemas[name]).compile(vocabulary_of(WORDS))
    slow, fast = unaided(grammar, 1 << 40), grammar.closing.fewest
    assert fast.tokens is not None
    assert slow.tokens is not None
    assert len(fast.tokens) == fast.least == slow.least
    assert_valid(schemas[name], grammar.vocabulary.decode(fast.tokens))


def test_open_members_do_not_drown_the_search() -> None:
    """Where any member may come, no text within one is gone on with that the members behind it make too long."""
    schema = {"type": "object", "required": ["aa", "bb", "cc"], "properties": {"bb": {"type": "object"}}}
    grammar = JsonSchema(schema).compile(vocabulary_of(WORDS))
    tokens, least = grammar.closing.fewest
    assert tokens is not None
    assert len(tokens) == least
    assert unaided(JsonSchema(schema).compile(vocabulary_of(WORDS)), 2_000_000).least < least


def test_tails_are_what_tokens_have_behind_a_value() -> None:
    tails = Tails(vocabulary_of([b'a", "b', b"xyz"]))
    found, stack = set(), [(b"", tails.trie)]
    while stack:
        text, node = stack.pop()
        found |= {text} if -1 in node else set()
        stack += [(text + bytes([byte]), longer) for byte, longer in node.items() if byte != -1]
    assert found == {b'", "b', b', "b', b' "b', b'"b'}
    assert tails.known
    assert not Tails(Vocabulary.from_tokens([b'{"', b"}", None], end_ids=[2])).known


def test_real_schemas_are_nearly_all_exact(data_folder: Path) -> None:
    """And what is found is a text of the schema, of no fewer tokens than are said to be needed."""
    vocabulary, exact, checked = vocabulary_of(WORDS), 0, 0
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in islice(lines, 7, None, 130):
            try:
                grammar = JsonSchema(json.loads(line)["schema"]).compile(vocabulary)
            except RequestError:
                continue
            tokens, least = grammar.closing.fewest
            matcher = grammar.matcher()
            for token in tokens or []:
                matcher.advance(token)
            assert tokens is None or matcher.can_finish
            assert tokens is None or least <= len(tokens)
            exact += tokens is not None and len(tokens) == least
            checked += 1
    assert exact >= 0.8 * checked > 12, (exact, checked)
