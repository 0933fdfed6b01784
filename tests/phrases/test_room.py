"""All tokens that leave no room for the phrases, found at once, are those that are found one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import structgen as sg
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT
from structgen.decoding.beams import candidates
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.masks.words import ids_of
from structgen.phrases.progress import PhraseSet
from structgen.phrases.room import PhraseRoom
from structgen.vocabulary import Vocabulary
from tests.decoding.beams.test_search import SIZES
from tests.support.matching import rich_vocabulary
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases

TEXTS = ["the rain in Spain stays mainly", "is fast no ab abc scared", "scream screams"]
PHRASES = cases("phrases/room", "PHRASES", globals())
BOUND = cases("phrases/room", "BOUND", globals())


def text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def constraint(chance: random.Random) -> Any:
    members = {"a": text(chance.randrange(6, 30)), "b": text(chance.randrange(4, 30))}
    return chance.choice([
        sg.JsonSchema({"type": "object", "properties": members, "required": [*members], "additionalProperties": False}),
        sg.JsonSchema({"type": "array", "items": {"enum": ["rain", "is fast"]}, "maxItems": 4, "uniqueItems": True}),
        sg.JsonSchema({"type": "object", "additionalProperties": {"type": "integer"}}),
        sg.Regex(f"[a-z ]{{0,{chance.randrange(8, 30)}}}"),
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(36))
def test_all_tokens_are_judged_as_each_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3 == 0:  # the codes of combinations are numbered again, as those of eight long phrases are
        monkeypatch.setattr("structgen.phrases.room.MAX_CODE", 1 << 12)
    chance, given = random.Random(seed), PHRASES if seed < 24 else PHRASES + BOUND + BOUND
    vocabulary = Vocabulary.from_tokenizer(byte_level_bpe(TEXTS * 3, 400)) if seed % 2 else rich_vocabulary()
    grammar, found = constraint(chance).compile(vocabulary), 0
    phrases = PhraseSet([sg.Phrase(one) if isinstance(one, str) else one for one in chance.sample(given, 2)])
    room, matcher, state = PhraseRoom(grammar, phrases), grammar.matcher(), phrases.start
    for _ in range(12):
        words = matcher.mask()
        lost, leaving = room.lost(matcher.position, state, words)
        kept = []
        for token in ids_of(words).tolist():
            spelled, after = vocabulary.token(token), phrases.feed(state, vocabulary.token(token))
            position = grammar.advance(matcher.position, token) if spelled else -1
            has_room = after is not None and (position < 0 or phrases.has_room(after, grammar, position))
            is_lost = bool(spelled) and not has_room
            leaves = (position ^ matcher.position) >> FRAME_SHIFT & FRAME_MASK != 0
            if grammar.automaton.checks:  # what depends on the text is judged one by one
                assert (token in lost) <= is_lost, spelled
            else:
                assert (token in lost) == is_lost, spelled
                assert (token in leaving) == (is_lost and leaves), spelled
            kept += [token] if spelled and after is not None and not is_lost else []
        found += len(lost)
        if not kept:
            break
        token = chance.choice(kept)
        matcher.advance(token)
        after = phrases.feed(state, vocabulary.token(token))
        assert after is not None
        state = after
    assert found or seed not in (0, 4)


def flat_model(size: int, seed: int) -> tuple[Any, Any]:
    tokenizer = byte_level_bpe(TEXTS * 3, size)
    torch.manual_seed(seed)
    config = hf.LlamaConfig(**SIZES | {"vocab_size": len(tokenizer)}, eos_token_id=tokenizer.eos_token_id)
    return hf.LlamaForCausalLM(config).eval(), tokenizer


def searched(seed: int) -> list[Any]:
    chance = random.Random(seed)
    module, tokenizer = flat_model(400, seed)
    (run,) = sg.generate(
        module, ["x"], constraint(chance), tokenizer=tokenizer, phrases=chance.sample(PHRASES, 2), details=True,
        beams=chance.choice([2, 4, 6]), limits=sg.Limits(chance.randrange(24, 40), rollbacks=8),
    )  # fmt: skip
    return [(found.token_ids, found.score, found.error and found.error.message) for found in run.beams]


@pytest.mark.parametrize("seed", [0, 3, 5, 11])
def test_tokens_that_are_refused_without_being_taken_change_no_search(seed: int, monkeypatch: Any) -> None:
    """The slow twin takes each token, in a fork of its text."""
    monkeypatch.setattr(candidates, "PATIENCE", 1 << 20)
    found = searched(seed)
    monkeypatch.setattr(Hypothesis, "refuses", lambda self, token: False)
    assert searched(seed) == found


@pytest.mark.parametrize("phrases", cases("phrases/room", "FEW", globals()))
def test_a_step_judges_few_tokens_however_many_are_refused(phrases: Any, monkeypatch: Any) -> None:
    counts = Counter[str]()

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def counting(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        monkeypatch.setattr(owner, name, counting)

    counted(candidates.BeamCandidates, "learn")
    counted(Hypothesis, "taking")
    counted(Hypothesis, "refuses")
    monkeypatch.setattr(candidates, "PATIENCE", 16)
    module, tokenizer = flat_model(600, 1)
    schema = {"type": "object", "properties": {"t": text(16)}, "required": ["t"], "additionalProperties": False}
    run = sg.generate(module, "x", schema, tokenizer=tokenizer, phrases=phrases, beams=4, details=True)
    assert run.error is None
    assert counts["taking"] < 16 * counts["learn"]
    assert counts["refuses"] < 32 * counts["learn"]


def test_positions_are_forgotten_where_they_are_many(monkeypatch: Any) -> None:
    monkeypatch.setattr("structgen.phrases.room.MAX_POSITIONS", 8)
    grammar = sg.JsonSchema(text(20)).compile(rich_vocabulary())
    phrases = PhraseSet([sg.Phrase("rain"), sg.Phrase("fast")])
    room, matcher = PhraseRoom(grammar, phrases), grammar.matcher()
    for token in b'"abc':
        matcher.advance(token)
        state = phrases.feed(phrases.start, matcher.text)
        assert state is not None
        lost, _ = room.lost(matcher.position, state, matcher.mask())
        fresh, _ = PhraseRoom(grammar, phrases).lost(matcher.position, state, matcher.mask())
        assert np.array_equal(lost, fresh)
