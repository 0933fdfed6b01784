"""From where texts can go on in canonical tokens, against a plain search."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

import structgen as sg
from structgen.errors import DeadEnd
from structgen.masks import Grammar
from structgen.masks.advance import ASKS
from structgen.masks.continuations import DEPTH, WIDE, Continuations
from structgen.masks.words import ids_of
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical.asked import AFRESH, CanonicalState
from tests.support.tables import cases
from tests.support.thinning import diagonal
from tests.vocabulary.test_canonical import trained

SCHEMAS: list[Any] = cases("masks/continuations", "SCHEMAS")
TOKENIZERS = ["GPT-4o", "DeepSeek-V3", "GPT-4o, composed", "one digit"]


@cache
def vocabulary_of(name: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(trained(name), end_ids=[0])


class PlainSearch:
    """The search by the tokenizer alone, in the order of ids, without caches of places."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar, self.canonical = grammar, grammar.vocabulary.canonical

    def allowed(self, position: int) -> list[int]:
        try:
            words = self.grammar.mask(position)[0]
        except DeadEnd:
            return []
        ids: list[int] = ids_of(words).tolist()
        return ids

    def alive(self, position: int, state: CanonicalState, depth: int) -> bool:
        tokens = self.allowed(position)
        wide = len(tokens) > WIDE or (depth == 0 and bool(tokens))
        return wide or any(self.behind(position, state, token, depth - 1) for token in tokens)

    def behind(self, position: int, state: CanonicalState, token: int, depth: int) -> bool:
        then = self.canonical.advance(state, token)
        if then is None or not self.grammar.vocabulary.token(token):
            return then is not None
        after = self.grammar.advance(position, token)
        return after == ASKS or (after >= 0 and self.alive(after, then, depth))


@pytest.mark.parametrize(("name", "schema"), diagonal(TOKENIZERS, SCHEMAS))
def test_what_can_go_on_is_what_the_plain_search_finds(name: str, schema: Any):
    """Along random texts whose tokens are allowed and canonical, at each place and after each of its tokens."""
    vocabulary, draw, asked = vocabulary_of(name), random.Random(0), 0
    grammar = sg.JsonSchema(schema).compile(vocabulary)
    plain, tried = PlainSearch(grammar), Continuations(grammar, vocabulary.canonical)
    for _ in range(2):
        position, state = grammar.start, AFRESH
        for _ in range(30):
            tokens = plain.allowed(position)
            live = tried.live(position, state)
            expected = [token for token in tokens if plain.behind(position, state, token, DEPTH)]
            if live is not None:
                assert ids_of(live).tolist() == expected
                asked += len(tokens)
            steps = [token for token in expected if vocabulary.token(token) and grammar.advance(position, token) >= 0]
            if not steps:
                break
            token = draw.choice(steps)
            following = vocabulary.canonical.advance(state, token)
            assert following is not None
            position, state = grammar.advance(position, token), following
    assert asked > 10


def test_a_beginning_that_leads_nowhere_is_dead():
    """` hum` begins "humanity" in a way in which the tokenizer does not write it."""
    vocabulary = vocabulary_of("one digit")
    encode = trained("one digit").encode
    ids = encode("human", add_special_tokens=False).ids
    letters = encode("h", add_special_tokens=False).ids
    assert ids[0] != letters[0]
    grammar = sg.Choice(["human"]).compile(vocabulary)
    tried = Continuations(grammar, vocabulary.canonical)
    assert not tried.leads_on(grammar.start, AFRESH, letters[0])
    live = tried.live(grammar.start, AFRESH)
    assert live is not None
    assert ids_of(live).tolist() == ids[:1]
