"""What follows the same words elsewhere in the text, as tokens."""

from __future__ import annotations

import random

import pytest

import structgen as sg
from structgen.decoding.ahead.lookup import STRICTEST, Lookup
from structgen.testing import byte_vocabulary

WORDS = [b" ", b'"', b'": "', b" Hall", b"Hall", b"or", b"an", b" Ltd", b"INV", b" INV", b"-", b"77", b"30", b"x", b"H"]
VOCABULARY = sg.Vocabulary.from_tokens([*WORDS, None], end_ids=[len(WORDS)])


def ids(*words: bytes) -> list[int]:
    return [WORDS.index(word) for word in words]


PROMPT = ids(b" INV", b"-", b"77", b"30", b" Hall", b"or", b"an", b" Ltd", b"x")


def after(lookup, *said, most=8):
    return [WORDS[i] for i in lookup.after(PROMPT + ids(b'": "', *said), most)]


def test_a_word_goes_on_as_it_does_in_the_prompt_whatever_its_tokens_are_there():
    lookup = Lookup(VOCABULARY)
    assert after(lookup, b"INV") == [b"-", b"77", b"30", b" Hall", b"or", b"an", b" Ltd", b"x"]
    assert after(lookup, b"INV", most=2) == [b"-", b"77"]
    assert after(lookup, b"Hall") == [b"or", b"an", b" Ltd", b"x", b'": "', b"Hall"]


def test_nothing_follows_a_quote_nor_what_is_cut_elsewhere():
    """Behind a quote a value begins; the only H of the prompt is the beginning of a token."""
    lookup = Lookup(VOCABULARY)
    assert after(lookup) == []
    assert after(lookup, b"H") == []


def test_wrong_guesses_ask_for_longer_words_and_right_ones_for_shorter():
    lookup = Lookup(VOCABULARY)
    for _ in range(3):
        lookup.learn(right=False)
    assert after(lookup, b"INV") == []
    assert after(lookup, b"INV", b"-", b"77", b"30")[:2] == [b" Hall", b"or"]  # eight bytes are alike
    lookup.learn(right=True)
    lookup.learn(right=True)
    assert after(lookup, b"INV")[:1] == [b"-"]
    for _ in range(20):
        lookup.learn(right=False)
    assert after(lookup, b"INV", b"-", b"77", b"30", b" Hall", b"or") == []
    for _ in range(STRICTEST.bit_length()):
        lookup.learn(right=True)
    assert after(lookup, b"INV") != []


@pytest.mark.parametrize("seed", range(3))
def test_a_row_that_goes_back_and_on_is_looked_up_like_a_fresh_one(seed):
    rng, lookup, text = random.Random(seed), Lookup(byte_vocabulary()), list(b"some words, some other words")
    found = 0
    for _ in range(300):
        del text[rng.randrange(len(text) // 2, len(text)) + 1 :]
        text += [rng.choice(b"some wrd,") for _ in range(rng.randrange(4))]
        guess = lookup.after(text, 5)
        assert guess == Lookup(byte_vocabulary()).after(text, 5)
        found += bool(guess)
    assert found > 100
