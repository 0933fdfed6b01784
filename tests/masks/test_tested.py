"""Masks where tests stand behind the position: equal to the plain twin's, and the texts are those of the checks.

Covers `suspicious`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structgen
from structgen import JsonSchema, Whitespace
from structgen.errors import DeadEnd, TokenRejected
from structgen.masks.grammar import Grammar, Matcher
from structgen.vocabulary import Vocabulary
from tests.support.late_texts import good, loose_json
from tests.support.matching import (
    END,
    PIECES,
    Checked,
    allowed,
    byte_vocabulary,
    plain_verdict,
    rich_vocabulary,
    splits,
    takes,
    vocabulary_of,
)  # fmt: skip
from tests.support.reference_masks import Reference
from tests.support.tables import cases
from tests.support.walking import tokens_of

BITS = cases("masks/tested", "BITS", globals())


def random_value(draw: random.Random, depth: int = 3) -> Any:
    """Values that often break a rule, and often do not."""
    kind = draw.randrange(8 if depth else 5)
    if kind < 2:
        return draw.choice(["<", "a", "ab", "abba", "abcb", "end", "", 'q"', "é", "aa", "abab"])
    if kind < 4:
        return draw.choice([1, 11, 12, 1.5, 1212, 10, 0, 2])
    if kind == 4:
        return draw.choice([True, None])
    if kind < 7:
        return [random_value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(["a", "ab", "é", "b", 'q"']): random_value(draw, depth - 1) for _ in range(draw.randint(0, 3))}


def spoilt(draw: random.Random, text: str) -> str:
    """The same text, sometimes with a member's name like another's."""
    return text.replace('"b":', '"a":') if draw.random() < 0.5 else text


def test_texts_are_those_of_the_checks() -> None:
    """Byte by byte, for random values: accepted exactly when a parser finds nothing wrong with them."""
    draw, verdicts = random.Random(3), [0, 0]
    grammars = {free: Grammar(loose_json(free=free), byte_vocabulary()) for free in (False, True)}
    for _ in range(600):
        text = spoilt(draw, json.dumps(random_value(draw), ensure_ascii=False)).encode()
        for free, grammar in grammars.items():
            assert plain_verdict(grammar, text) == good(text, free=free), text
            verdicts[good(text, free=free)] += 1
    assert min(verdicts) > 100


@pytest.mark.parametrize("first", [11, 12])
def test_masks_are_the_plain_twins_at_every_split(first: int) -> None:
    """Random values byte by byte and in random tokens, several tests within one of them."""
    draw = random.Random(first)
    for seed in range(25):
        text = spoilt(draw, json.dumps(random_value(draw), ensure_ascii=False)).encode()
        ways = splits(text, seed, 2) if len(text) > 1 else []
        pieces = sorted({piece for way in ways for piece in way} | {text})
        vocabulary = vocabulary_of([*pieces, *draw.sample(BITS, 12)])
        ids = {piece: END + 1 + i for i, piece in enumerate(pieces)}
        grammar = Grammar(loose_json(free=draw.random() < 0.5), vocabulary)
        verdicts = {takes(grammar, list(text)), takes(grammar, [ids[text]])}
        verdicts |= {takes(grammar, [ids[piece] for piece in way]) for way in ways}
        assert len(verdicts) == 1, text


@pytest.mark.parametrize("seed", range(6))
def test_random_walks_end_in_good_texts(seed: int) -> None:
    """Over bytes and tokens of every kind; each mask is the plain twin's, and so is each verdict."""
    draw = random.Random(seed)
    vocabulary = [vocabulary_of(BITS), rich_vocabulary(), vocabulary_of((*PIECES, *BITS))][seed % 3]
    grammar = Grammar(loose_json(free=seed % 4 < 2), vocabulary)
    walk = Checked(grammar)
    for _ in range(70):
        choices = tokens_of(walk.mask())
        longer = [token for token in choices if token > END]
        token = draw.choice(longer if longer and draw.random() < 0.5 else choices)
        if token == END:
            break
        assert walk.take(token)
    if walk.matcher.can_finish:
        assert good(walk.matcher.text, free=seed % 4 < 2)


def test_a_fork_and_a_rollback_have_the_masks_of_their_own_texts() -> None:
    """Masks that were corrected for one text are not those of another at the same position."""
    grammar = Grammar(loose_json(), byte_vocabulary())
    walk = grammar.matcher()
    for byte in b'{"a": 1, "':
        walk.advance(byte)
    before = walk.mask().copy()
    twin = walk.fork()
    walk.advance(ord("a"))
    twin.advance(ord("b"))
    assert walk.position == twin.position
    assert not allowed(walk.mask(), 0x22)
    assert allowed(twin.mask(), 0x22)
    walk.rollback(1)
    assert np.array_equal(walk.mask(), before)
    walk.advance(ord("b"))
    assert allowed(walk.mask(), 0x22)
    walk.rollback(10)
    for byte in b'"b": 1, "b':
        walk.advance(byte)
    assert not allowed(walk.mask(), 0x22)
    with pytest.raises(TokenRejected):
        walk.advance(0x22)
    assert walk.mask() is walk.mask()


def test_a_number_ends_with_the_text_only_if_its_check_holds() -> None:
    """`can_finish` and the end token's bit, for the number that is the whole text."""
    grammar = Grammar(loose_json(), byte_vocabulary())
    for text, ends in ((b"12", True), (b"11", False), (b"112", True), (b"1.1", False), (b"1.", False)):
        walk = grammar.matcher()
        for byte in text:
            walk.advance(byte)
        assert walk.can_finish == ends == allowed(walk.mask(), END)
        if not ends:
            with pytest.raises(TokenRejected):
                walk.advance(END)


def test_a_position_where_every_token_is_refused_is_a_dead_end() -> None:
    """No letter, no other digit: the only name that this vocabulary can spell is taken."""
    tokens: list[bytes | None] = [bytes([b]) if bytes([b]) in b'{":, 1' else None for b in range(256)]
    walk = Grammar(loose_json(), Vocabulary.from_tokens([*tokens, b'"1', None], [257])).matcher()
    for token in (0x7B, 0x22, 0x22, 0x3A, 0x20, 0x31, 0x2C, 0x20, 0x22):
        walk.advance(token)
    assert 0x22 not in tokens_of(walk.mask())


def test_equal_texts_share_a_mask_and_no_check_means_the_cached_one() -> None:
    """Where nothing can collide the mask is the cached row itself."""
    grammar = Grammar(loose_json(free=True), byte_vocabulary())
    walk, other = grammar.matcher(), grammar.matcher()
    for byte in b'{"a": {"b": 1}, "x':
        walk.advance(byte)
    for byte in b'{"c": {"d": 1}, "y':
        other.advance(byte)
    assert walk.mask() is other.mask()


def test_dead_end_is_raised_where_nothing_is_left() -> None:
    """A vocabulary whose only way on is a name that is taken."""
    tokens: list[bytes | None] = [None] * 256 + [b'{"a": 1, "', b'a": 1}', b'a": 1', b'{"a', None]
    walk: Matcher = Grammar(loose_json(), Vocabulary.from_tokens(tokens, [260])).matcher()
    walk.advance(256)
    with pytest.raises(DeadEnd):
        walk.mask()


def test_masks_over_a_real_tokenizer_are_the_plain_twins() -> None:
    """The tokenizer of the bundled model: its own tokens of good and bad texts, in strings, names and numbers."""
    from transformers import PreTrainedTokenizerFast

    folder = Path(structgen.__file__).parent / "demo" / "model"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    draw = random.Random(2)
    for round_ in range(6):
        grammar = Grammar(loose_json(free=round_ % 2 == 0), vocabulary)
        text = json.dumps(random_value(draw), ensure_ascii=False)
        matcher, reference = grammar.matcher(), Reference.of(grammar)
        place = reference.start
        for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
            mask = matcher.mask()
            assert np.array_equal(mask, reference.mask(place)), matcher.text
            after = reference.advance(place, token)
            assert (after is not None) == allowed(mask, token)
            if after is None:
                break
            place = after
            matcher.advance(token)
        assert np.array_equal(matcher.mask(), reference.mask(place))


UNIQUE = cases("masks/tested", "UNIQUE")
REPEATS = cases("masks/tested", "REPEATS", globals())


@pytest.mark.parametrize("seed", range(8))
def test_items_that_a_token_holds_whole_are_looked_up(seed: int) -> None:
    """Nothing but `uniqueItems` is asked about: strings between quotes are looked up, all other items are followed."""
    draw = random.Random(seed)
    grammar = JsonSchema(UNIQUE, whitespace=Whitespace.COMPACT).compile(vocabulary_of(REPEATS))
    walk = Checked(grammar)
    assert walk.take(ord("["))
    for _ in range(50):
        choices = [token for token in tokens_of(walk.mask()) if token != END]
        longer = [token for token in choices if token > END]
        token = draw.choice(longer if longer and draw.random() < 0.8 else choices or [END])
        if token == END:
            break
        assert walk.take(token)


@pytest.mark.parametrize(("text", "token", "fits"), cases("masks/tested", "what_a_token_completes_is_new", globals()))
def test_what_a_token_completes_is_new(text: str, token: bytes, *, fits: bool) -> None:
    """A token that holds an item whole, in the array that is read or in one around it."""
    grammar = JsonSchema(UNIQUE, whitespace=Whitespace.COMPACT).compile(vocabulary_of([token]))
    walk = Checked(grammar)
    for byte in text.encode():
        assert walk.take(byte)
    assert allowed(walk.mask(), END + 1) == fits
