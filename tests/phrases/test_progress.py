"""Several phrases at once, in the text and in strings of JSON."""

from __future__ import annotations

import json
import random

import pytest

import structgen as sg
from structgen.phrases.progress import PhraseSet
from structgen.testing import byte_vocabulary
from tests.support.tables import cases


def fed(phrases, text, size=1):
    state = phrases.start
    for at in range(0, len(text), size):
        state = phrases.feed(state, text[at : at + size])
        if state is None:
            break
    return state


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_bound_to_a_pointer_a_phrase_is_looked_for_in_what_the_string_there_spells(ensure_ascii):
    chance, met, missed = random.Random(5), 0, 0
    phrases = PhraseSet([sg.Phrase('é"', at="/a"), sg.Phrase("x", at="/b/*/c")])
    for _ in range(800):
        text = lambda: "".join(chance.choices('é"x\\\n ', k=4))  # noqa: E731
        inner = [{chance.choice("cd"): text()} for _ in range(chance.randrange(3))]
        value = {"a": text(), "b": inner, "e": text()}
        written = json.dumps(value, ensure_ascii=ensure_ascii).encode()
        state = fed(phrases, written, chance.randrange(1, 9))
        first, second = 'é"' in value["a"], any("x" in each.get("c", "") for each in inner)
        assert (state is None) is not first  # the only string there has ended
        if state is not None:
            assert (phrases.owed(state) == 0) is second
            assert phrases.unmet(state) == ("" if second else "'x' at /b/*/c")
        met, missed = met + (first and second), missed + (not first)
    assert min(met, missed) > 5


def test_where_a_string_stands_at_the_pointer_its_phrase_is_proposed():
    phrases, known = PhraseSet([sg.Phrase("Paris", at="/city")]), byte_vocabulary()
    assert [chr(i) for i in phrases.proposals(fed(phrases, b'{"city": "P'), known)] == ["a"]
    assert [chr(i) for i in phrases.proposals(fed(phrases, b'{"city": "'), known)] == ["P"]
    assert phrases.proposals(fed(phrases, b'{"name": "'), known).tolist() == []
    assert phrases.proposals(fed(phrases, b'{"city": "Paris", "x": "'), known).tolist() == []
    assert phrases.wanted(fed(phrases, b'{"city": "Pa')) == b"ris"
    assert fed(phrases, b'{"city": "Rome"') is None


def test_an_overlap_counts_for_both_and_what_breaks_one_off_is_completed_again():
    phrases = PhraseSet([sg.Phrase("abc"), sg.Phrase("bcd")])
    assert phrases.owed(phrases.start) == 6
    assert phrases.owed(fed(phrases, b"abcd")) == 0
    assert phrases.owed(fed(phrases, b"ab")) == 1 + 2
    whole = PhraseSet([sg.Phrase("fast", whole_word=True), sg.Phrase("rain", whole_word=True)])
    for said in (b"", b"fas", b"breakfast", b"fast", b"rai"):
        state = fed(whole, said)
        assert whole.owed(fed(whole, said + whole.wanted(state))) == 0


@pytest.mark.parametrize(
    ("times", "has"),
    cases("phrases/progress", "of_many_strings", globals()),
)
def test_of_many_strings_one_has_the_least_number_and_none_more_than_the_greatest(times, has):
    chance, phrases, seen = random.Random(7), PhraseSet([sg.Phrase("x", at="/a/*", times=times)]), set()
    for _ in range(300):
        value = {"x": "xxx", "a": ["".join(chance.choices("xyz", k=4)) for _ in range(chance.randrange(4))]}
        state = fed(phrases, json.dumps(value).encode(), chance.randrange(1, 9))
        expected = has([text.count("x") for text in value["a"]])
        assert (state is not None and phrases.owed(state) == 0) is expected
        seen.add(expected)
    assert seen == {True, False}
