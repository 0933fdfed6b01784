"""No tokenisation lets a banned word out: real tokenizers, random words, a model that tries every way.

Covers `patterns`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from structgen.constraints.basic import JsonSchema
from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.session import Session
from structgen.demo import load_demo
from structgen.guards import BannedPattern, BannedWords, Guard, GuardMask, Veto
from structgen.guards.lookahead import GuardSet, everything
from structgen.masks import Matcher
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary
from tests.support.mistral import mistral

PROMPT = [5, 6, 7]
MAX_WAYS = 300
WORDS = int(os.environ.get("STRUCTGEN_BANNED_WORDS", "12"))


@cache
def mistral_vocabulary(name: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(mistral(name))


LARGE = "llama3", "tekken_240911.json"
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in LARGE]


@pytest.fixture(params=["demo", "tokenizer.model.v1", *SLOW])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """The demo model's tokenizer, Llama-3's, and two of Mistral's: byte-level BPE, SentencePiece and tiktoken."""
    if request.param == "demo":
        return Vocabulary.from_tokenizer(load_demo()[1])
    if request.param == "llama3":
        found: Vocabulary = request.getfixturevalue("llama")[1]
        return found
    return mistral_vocabulary(request.param)


@cache
def by_bytes(vocabulary: Vocabulary) -> dict[bytes, int]:
    return {text: i for i in range(vocabulary.width - 1, -1, -1) if (text := vocabulary.token(i))}


def random_words(vocabulary: Vocabulary, count: int, rng: random.Random) -> list[str]:
    """Texts of one to four of the vocabulary's tokens, of whatever scripts it has, some with spaces."""
    tokens, words = list(by_bytes(vocabulary)), list[str]()
    while len(words) < count:
        text = b"".join(rng.choices(tokens, k=rng.randint(1, 4))).strip()
        if 2 <= len(text) <= 24 and is_text(text):
            words.append(text.decode())
    return words


def is_text(text: bytes) -> bool:
    try:
        return text.decode().isprintable()
    except UnicodeDecodeError:
        return False


def ways(vocabulary: Vocabulary, text: bytes, start: int = 0) -> Iterator[list[bytes]]:
    """Every way to spell a text in tokens."""
    if start == len(text):
        yield []
    for end in range(len(text), start, -1):
        if text[start:end] in by_bytes(vocabulary):
            for rest in ways(vocabulary, text, end):
                yield [text[start:end], *rest]


def test_every_tokenisation_of_a_banned_word_is_vetoed_from_its_first_byte(vocabulary):
    """At the token that completes it, be the token longer than the word or not."""
    rng = random.Random(3)
    checked = 0
    for word in random_words(vocabulary, 200, rng):
        guard = BannedWords([word])
        before = guard.feed(guard.start(), b"\n\n")
        for _, tokens in zip(range(MAX_WAYS), ways(vocabulary, word.encode()), strict=False):
            state = before
            for token in tokens[:-1]:
                state = guard.feed(state, token)
            assert guard.feed(state, tokens[-1]) == Veto(2, f"banned word {word!r}")
            assert isinstance(guard.feed(state, tokens[-1] + b"x"), Veto)
            checked += 1
    assert checked > 1000


class Stubborn(ScriptedModel):
    """Wants the words it is told and nothing else, in tokens that it chooses anew at each prefix."""

    def _scores(self, row: int, said: list[int]) -> torch.Tensor:
        word, text = self.wanted[row % len(self.wanted)], self.vocabulary.decode(said)
        begun = next(n for n in range(min(len(word), len(text)), -1, -1) if text.endswith(word[:n]))
        begun = 0 if begun == len(word) else begun
        rest, known = word[begun:], by_bytes(self.vocabulary)
        wanted = [known[rest[:n]] for n in range(1, len(rest) + 1) if rest[:n] in known]
        scores = torch.zeros(self.vocabulary.width)
        scores[known.get(b"\n", wanted[0] if wanted else 0)] = 1.0
        order = random.Random(hash(tuple(said)))
        for token in wanted:
            scores[token] = 10 + order.random()
        return scores


@pytest.mark.parametrize("rollbacks", [0, 12])
def test_a_model_that_tries_every_tokenisation_never_gets_a_word_out(vocabulary, rollbacks):
    """Words of one to four tokens, a batch of rows, with a budget for going back and with masks alone."""
    rng = random.Random(rollbacks)
    words = random_words(vocabulary, WORDS, rng)
    model = Stubborn(words, vocabulary)
    sessions = [
        Session(
            Prompt(PROMPT),
            vocabulary,
            matcher=None,
            sampling=Sampling(),
            limits=Limits(14, rollbacks=rollbacks),
            rules=Rules(Guarding([BannedWords([word])], vocabulary)),
        )
        for word in words
    ]
    decode(model, vocabulary, sessions)
    for word, session in zip(words, sessions, strict=True):
        assert session.error is None
        assert session.undone, word
        assert word.encode() not in session.said


def with_each_vocabulary(name: str, values: list[Any]) -> pytest.MarkDecorator:
    """Each value for the demo model's tokenizer; larger ones are for the slow suite."""
    rows = [("demo", value) for value in values]
    slow = [(large, value) for large in ("tokenizer.model.v1", *LARGE) for value in values]
    rows += [pytest.param(*row, marks=pytest.mark.slow) for row in slow]
    return pytest.mark.parametrize(("vocabulary", name), rows, indirect=["vocabulary"])


@with_each_vocabulary(
    "options", [{}, {"whole_word": True}, {"ignore_case": True, "normalised": True, "any_space": True}]
)
def test_look_ahead_masks_refuse_what_feeding_every_token_refuses(vocabulary, options):
    """The tokens that come into question are all that are vetoed, at random places; the plain twin feeds all."""
    rng = random.Random(5)
    words = random_words(vocabulary, 60, rng)
    guard = BannedWords(words, **options)
    allowed = everything(vocabulary)
    for word in words[:3]:
        text = word.encode()
        assert_mask(guard, vocabulary, allowed, text[: rng.randint(0, len(text) - 1)])
    assert_mask(guard, vocabulary, allowed, words[0].encode()[:-1] + b"\xe2\x82")  # within a character


@with_each_vocabulary("pattern", [r"[0-9]{3}-[0-9]{4}", r"\bthe\b", r"^\W*[A-M]", r"(an|in)+e$", r"[^\x00-\x7f]{2}"])
def test_look_ahead_masks_of_a_pattern_refuse_what_feeding_every_token_refuses(vocabulary, pattern):
    """All tokens walk through the automaton at once; the plain twin feeds one after the other."""
    allowed = everything(vocabulary)
    for text in (b"", b"No. 555-1", b" th", "\u00e9".encode(), b"ban", b"x \xe2\x82"):
        assert_mask(BannedPattern(pattern), vocabulary, allowed, text)
    inside = GuardMask([BannedPattern(pattern, scope="strings")], vocabulary)
    slow = GuardMask([Unhinted(pattern, scope="strings")], vocabulary)
    for token in map(by_bytes(vocabulary).get, [b'"', b"t", b"h", b'"']):
        assert token is not None
        assert (inside.mask() == slow.mask()).all()
        inside.advance(token)
        slow.advance(token)


class Unhinted(BannedPattern):
    """Has every token fed."""

    def suspects(self, state: Any, vocabulary: Vocabulary) -> None:
        return None


def assert_mask(guard: Guard, vocabulary: Vocabulary, allowed: np.ndarray, text: bytes) -> None:
    guards = GuardSet([guard])
    state = guard.start()
    for byte in text:
        after = guard.feed(state, bytes([byte]))
        if isinstance(after, Veto):
            break
        state = after
    ends = set(vocabulary.end_ids) if guard.finish(state) else set[int]()
    after = {i: guard.feed(state, vocabulary.token(i)) for i in ids_of(allowed)}
    expected = {i for i, found in after.items() if not isinstance(found, Veto)} - ends
    assert set(ids_of(guards.without_refused((state,), allowed, vocabulary))) == expected
    last = {i for i in expected if not vocabulary.token(i) or guard.finish(after[i]) is None}
    assert set(ids_of(guards.without_refused((state,), allowed, vocabulary, last=True))) == last


def ids_of(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def test_masks_of_guards_and_a_schema_walk_to_a_value_without_the_words():
    """Someone else's loop: random legal tokens give JSON that has none of the words in its strings."""
    vocabulary = Vocabulary.from_tokenizer(load_demo()[1])
    schema = {"type": "array", "items": {"type": "string", "pattern": "^[talkw]{1,6}$"}, "maxItems": 4}
    grammar = JsonSchema(schema).compile(vocabulary)
    guards = [BannedWords(["kk"], scope="strings"), BannedPattern("ta?l|wa", scope="strings")]
    for seed in range(8):
        rng = random.Random(seed)
        watch, matcher = GuardMask(guards, vocabulary, grammar.matcher()), grammar.matcher()
        while not walked(watch, matcher, rng):
            pass
        assert not re.search(rb"ta?l|wa|kk", matcher.text)


def walked(watch: GuardMask, matcher: Matcher, rng: random.Random) -> bool:
    """One random token; True when it ended the text. Taking it back and again changes nothing."""
    token = rng.choice(ids_of(watch.mask()))
    watch.advance(token)
    watch.rollback(1)
    watch.advance(token)
    matcher.advance(token)
    return matcher.finished
