"""From where texts can go on in canonical tokens: the kernels against a plain search.

Covers `masks.canonical_walk`.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

import structgen as sg
from structgen.errors import DeadEnd
from structgen.masks import Grammar
from structgen.masks.advance import ASKS
from structgen.masks.canonical_walk import DEPTH, WIDE
from structgen.masks.continuations import NOT_FEW, Continuations
from structgen.masks.words import ids_of
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical import CanonicalState
from tests.support.tables import cases
from tests.support.thinning import diagonal
from tests.vocabulary.test_canonical import trained

SCHEMAS: list[Any] = cases("masks/continuations", "SCHEMAS")
TOKENIZERS = ["GPT-4o", "DeepSeek-V3", "GPT-4o, composed", "one digit"]


@cache
def vocabulary_of(name: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(trained(name), end_ids=[0])


class PlainSearch:
    """The search by masks alone, in the order of ids."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar, self.canonical = grammar, grammar.vocabulary.canonical
        self.known: dict[Any, bool] = {}

    def allowed(self, position: int, state: CanonicalState) -> list[int]:
        try:
            words = self.grammar.mask(position)[0]
        except DeadEnd:
            return []
        ids: list[int] = ids_of(words & self.canonical.mask(state)).tolist()
        return ids

    def alive(self, position: int, state: CanonicalState, depth: int = DEPTH) -> bool:
        key = position, state, depth
        if key not in self.known:
            tokens = self.allowed(position, state)
            wide = len(tokens) > WIDE or (depth == 0 and bool(tokens))
            self.known[key] = wide or any(self.behind(position, state, token, depth - 1) for token in tokens)
        return self.known[key]

    def behind(self, position: int, state: CanonicalState, token: int, depth: int) -> bool:
        if not self.grammar.vocabulary.token(token):
            return True
        after, then = self.grammar.advance(position, token), self.canonical.advance(state, token)
        if after == ASKS:
            return then is not None
        return after >= 0 and then is not None and self.alive(after, then, depth)


@pytest.mark.parametrize(("name", "schema"), diagonal(TOKENIZERS, SCHEMAS))
def test_what_kernels_tell_is_what_masks_tell(name: str, schema: Any):
    """Along random texts whose tokens are allowed and canonical, at each place and behind each of its tokens."""
    vocabulary, draw = vocabulary_of(name), random.Random(0)
    plain = PlainSearch(sg.JsonSchema(schema).compile(vocabulary))
    tried = Continuations(sg.JsonSchema(schema).compile(vocabulary), vocabulary.canonical)
    asked = dead = 0
    for _ in range(2):
        position, other, state = plain.grammar.start, tried._grammar.start, vocabulary.canonical.afresh
        for _ in range(30):
            tokens = plain.allowed(position, state)
            live = tried.live(other, state)
            if live is not None:
                assert ids_of(live).tolist() == [
                    token for token in tokens if plain.behind(position, state, token, DEPTH)
                ]
            steps = []
            for token in draw.sample(tokens, min(len(tokens), 20)):
                if not vocabulary.token(token):
                    continue
                after, then = plain.grammar.advance(position, token), vocabulary.canonical.advance(state, token)
                if after < 0 or then is None:
                    continue
                behind = tried._grammar.advance(other, token)
                expected, asked = plain.alive(after, then), asked + 1
                _, words, count, few = tried.overlap_at(behind, then)
                assert ids_of(words).tolist() == plain.allowed(after, then)
                known = draw.choice([NOT_FEW, few])
                assert (tried.alive(behind, then, tokens=known) if 0 < count <= WIDE else count > 0) == expected
                dead += not expected
                steps.append((after, behind, then))
            if not steps:
                break
            position, other, state = draw.choice(steps)
    assert asked > 10


def test_a_beginning_that_leads_nowhere_is_dead():
    """` hum` begins "humanity" in a way in which the tokenizer does not write it."""
    vocabulary = vocabulary_of("one digit")
    encode = trained("one digit").encode
    ids = encode("human", add_special_tokens=False).ids
    letters = encode("h", add_special_tokens=False).ids
    assert ids[0] != letters[0]
    grammar = sg.Choice(["human"]).compile(vocabulary)
    tried, canonical = Continuations(grammar, vocabulary.canonical), vocabulary.canonical
    state = canonical.advance(canonical.afresh, letters[0])
    assert state is not None
    assert not tried.alive(grammar.advance(grammar.start, letters[0]), state)
    live = tried.live(grammar.start, canonical.afresh)
    assert live is not None
    assert ids_of(live).tolist() == ids[:1]
