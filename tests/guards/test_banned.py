"""Banned words and patterns as guards: what they find, where, and that no split of the bytes hides it.

Covers `folding` and `words`.
"""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.guards import BannedPattern, BannedWords, Guard, GuardMask, Veto
from structgen.guards.folding import Fold
from structgen.guards.words import WordSearch
from structgen.testing import byte_vocabulary
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

EVERY = {"ignore_case": True, "normalised": True, "any_space": True}


def verdict(guard: Guard, text: bytes, cuts: random.Random | None = None) -> Veto | None:
    """The guard's first veto of a text that comes whole, byte by byte (no generator), or in random pieces."""
    state, at = guard.start(), 0
    while at < len(text):
        size = 1 if cuts is None else cuts.randint(1, 7)
        kept, state = state, guard.feed(state, text[at : at + size])
        assert guard.feed(kept, text[at : at + size]) == state  # pure
        if isinstance(state, Veto):
            return state
        assert guard.begun(state) <= at + len(text[at : at + size])
        at += size
    return guard.finish(state)


def assert_offset(guard: Guard, text: str | bytes, offset: int | None) -> None:
    """Three ways: whole, byte by byte, in random pieces."""
    data = text.encode() if isinstance(text, str) else text
    whole = guard.feed(guard.start(), data)
    found = whole if isinstance(whole, Veto) else guard.finish(whole)
    for seed in range(4):
        assert verdict(guard, data, random.Random(seed)) == found
    assert verdict(guard, data) == found
    assert (None if found is None else found.offset) == offset


FOUND = cases("guards/banned", "FOUND", globals())


@pytest.mark.parametrize(("words", "options", "text", "offset"), FOUND)
def test_a_banned_word_is_found_where_it_begins_in_any_pieces(words, options, text, offset):
    characters = text if offset is None else text.encode()[:offset].decode()
    assert_offset(BannedWords(words, **options), text, offset)
    assert text.startswith(characters)


@pytest.mark.parametrize(("pattern", "scope", "text", "offset"), cases("guards/banned", "a_banned_pattern_is"))
def test_a_banned_pattern_is_found_where_its_match_begins(pattern, scope, text, offset):
    assert_offset(BannedPattern(pattern, scope=scope), text, offset)


@given(
    words=st.lists(st.text("abA É\u0301ß _", min_size=1, max_size=4), min_size=1, max_size=5),
    text=st.text("abA É\u0301ß _.", max_size=24),
    options=st.fixed_dictionaries({name: st.booleans() for name in (*EVERY, "whole_word")}),
    seed=st.integers(0, 99),
)
def test_words_are_found_as_by_searching_the_folded_text(words, text, options, seed):
    """The plain twin looks for each word's units in the units of the whole text."""
    fold = Fold(**options)
    try:
        guard = BannedWords(words, **options)
    except OptionError:
        assert any(not fold.units(word).strip(b"\xff") for word in words)
        return
    found = verdict(guard, text.encode(), random.Random(seed))
    assert (found is not None) == any(fold.units(word) in fold.units(text) for word in words)


@given(text=st.text('ab"\\\n\u00e9\U0001f600', max_size=16), seed=st.integers(0, 99), ascii_only=st.booleans())
def test_a_string_of_json_is_searched_for_what_it_spells(text, seed, ascii_only):
    words = ["ab", '"', "\U0001f600b", "\u00e9\n"]
    data = json.dumps({"ab": [text, 1]}, ensure_ascii=ascii_only).encode()
    found = verdict(BannedWords(words, scope="strings"), data, random.Random(seed))
    assert (found is not None) == any(word in text for word in words)


@given(text=st.text("ab1 é", max_size=16), seed=st.integers(0, 99))
def test_a_pattern_is_found_as_by_searching_with_it(text, seed):
    for pattern in ("a[ab]*1", "é.b", "b{3}|1a"):
        found = verdict(BannedPattern(pattern), text.encode(), random.Random(seed))
        expected = re.search(pattern, text)
        assert (found is None) == (expected is None)


def test_ten_thousand_words_are_read_at_once_and_cost_next_to_nothing():
    """Built in half a second on a quiet core, a few microseconds for each token of a stream without a hit."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(6, 14))) for _ in range(10_000)]
    began = time.process_time()
    guard = BannedWords(words)
    built = time.process_time() - began
    tokens = [b" " + word.encode() for word in "the quick brown fox jumps over the lazy dog".split()] * 500
    state = guard.start()
    began = time.process_time()
    for token in tokens:
        state = guard.feed(state, token)
    assert built < 2
    assert (time.process_time() - began) / len(tokens) < 5e-5
    assert isinstance(guard.feed(state, words[17].encode()), Veto)


@pytest.mark.parametrize(
    "make",
    cases("guards/banned", "what_cannot_be_banned_is_refused", globals()),
)
def test_what_cannot_be_banned_is_refused_at_once(make):
    began = time.process_time()
    with pytest.raises(OptionError) as refusal:
        make()
    assert at_usual_speed(time.process_time() - began) < 2
    assert len(str(refusal.value)) < 400


NAMES = ["größe", "talk", "größer", "t", ""]


@pytest.mark.parametrize(("text", "offset"), cases("guards/banned", "names_that_the_schema"))  # fmt: skip
def test_names_that_the_schema_does_not_have_are_read_in_any_pieces(text, offset):
    guard = BannedWords(["ße", "alk"], scope="strings", ignore_case=text.isascii()).with_names(NAMES)
    assert_offset(guard, text, offset)


def test_the_scope_all_reads_the_text_as_written_and_as_spelled():
    guard = BannedWords(["talk", '": '], scope="all")
    for text, offset in (
        ('{"talk', 2),
        ('["ta\\u006ck', 2),
        ('{"t\\u0061lk', 2),
        ('{"a": ', 3),
        ('["a"]', None),
        ('["\\": ', 3),
    ):
        assert_offset(guard, text, offset)


def test_a_banned_text_may_begin_in_the_prompt():
    for guard in (BannedWords(["talk"], across_prompt=True), BannedPattern("talk", across_prompt=True)):
        behind = guard.after(b"We talk. Let us ta")
        for text, offset in (("lk", 0), ("lk to talk", 0), ("ke a talk", 5), ("ke", None)):
            assert_offset(behind, text, offset)
        assert behind.begun(behind.start()) == 0
        assert_offset(guard, "lk", None)
    with pytest.raises(OptionError, match="across_prompt=True is for the scope"):
        BannedWords(["a"], across_prompt=True, scope="strings")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["ab" * 1_000_000], [f"{i:06}-{i % 97:06}-" for i in range(100_000)]])
def test_the_most_that_can_be_banned_takes_seconds(words):
    """One of two million bytes, a hundred thousand; masks as well."""
    began = time.process_time()
    mask = GuardMask([BannedWords(words)], byte_vocabulary())
    for byte in words[-1].encode()[:9]:
        mask.mask()
        mask.advance(byte)
    assert at_usual_speed(time.process_time() - began) < 20


@pytest.mark.parametrize(
    "guard", [BannedWords(["ab", "b c"], any_space=True), BannedPattern("ab|b +c")], ids=["words", "pattern"]
)
def test_a_ban_can_be_pickled_before_and_behind_its_use(guard):
    """Processes that share work send it to each other."""
    vocabulary = byte_vocabulary()
    somewhere = BannedWords(["ab"], scope="/a/*")
    assert pickle.loads(pickle.dumps(somewhere)) == somewhere
    for _ in range(2):
        copied = pickle.loads(pickle.dumps(guard))
        for other in (copied, copy.deepcopy(guard)):
            found = verdict(other, b"xx b  c")
            assert found is not None
            assert found == verdict(guard, b"xx b  c")
            state = other.feed(other.start(), b"x b")
            expected = guard.suspects(guard.feed(guard.start(), b"x b"), vocabulary)
            assert other.suspects(state, vocabulary).tolist() == expected.tolist()


def test_equal_bans_are_equal_and_hash_alike():
    """Also before and behind their use; each option counts."""
    made = {
        BannedWords(["talk", "listen"]), BannedWords(["listen", "talk"]), BannedWords(["talk", "listen"], scope="/a"),
        BannedWords(["talk", "listen"], ignore_case=True), BannedPattern("talk"), BannedPattern("talk", scope="/a"),
    }  # fmt: skip
    assert len(made) == 6
    used = BannedWords(word for word in ("talk", "listen"))
    assert isinstance(verdict(used, b"I talk"), Veto)
    assert {used, BannedPattern("talk", scope="/a")} < made
    assert used not in (BannedPattern("talk"), "talk")


def test_rests_of_a_word_are_as_long_as_a_token_at_most():
    """A word of a million equal letters has a rest at each of them."""
    search = WordSearch(["a" * 1000, "ab"], Fold())
    place = search.feed(search.start, b"a" * 500, 0)
    assert set(search.rests(place.node, 3)) == {b"b"}
    assert {len(rest) for rest in search.rests(place.node, 502)} == {1, 500, 501, 502}
