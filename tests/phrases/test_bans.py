"""What guards leave of a phrase, held to all short texts: nothing that can be said is taken away."""

from __future__ import annotations

import itertools
import json
import random
import time

import pytest

import structgen as sg
from structgen.guards import BannedPattern, BannedWords
from structgen.phrases.bans import allowed
from structgen.phrases.progress import PhraseSet
from structgen.phrases.table import NEVER
from structgen.testing import byte_vocabulary, veto_of
from tests.decoding.beams.test_search import make
from tests.support.speed import at_usual_speed
from tests.support.tables import cases
from tests.support.thinning import thinned

TEXTS = [text for n in range(7) for text in map("".join, itertools.product("ab ", repeat=n))]


def left_of(phrase, *guards, at=None, is_json=False):
    return allowed(phrase.compile(), guards, at=at, is_json=is_json)


def has(table, text):
    return table.owed[table.after(0, text.encode())] == 0


@pytest.mark.parametrize("seed", range(12))
def test_every_text_with_the_phrase_that_is_not_banned_is_left(seed):
    """And where nothing is left, there is none."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("aAbB ", k=chance.randrange(1, 4))) for _ in range(3)]
    options = {name: chance.random() < 0.3 for name in ("ignore_case", "whole_word", "normalised", "any_space")}
    guard = BannedPattern(chance.choice(["a[ab]", "^b", "a b$"])) if seed % 4 == 0 else None
    try:
        guard = guard or BannedWords(words[:2], **options)
    except sg.OptionError:  # words of blanks only
        guard = BannedWords(["ab"], **options)
    first, second = (word.lower() for word in words[1:])
    phrase = chance.choice([
        sg.Phrase(first, whole_word=chance.random() < 0.5), sg.AnyOf(first, second), sg.Ordered(first, second),
        sg.Template(first, sg.Gap(characters=(0, 1)), second),
    ])  # fmt: skip
    plain, left = phrase.compile(), left_of(phrase, guard).table
    wanted = [text for text in TEXTS if has(plain, text)]
    said = [text for text in wanted if veto_of(guard, text) is None]
    assert all(has(left, text) for text in said)
    assert all(has(plain, text) for text in TEXTS if has(left, text))
    assert left.owed[0] < NEVER or not said


@pytest.mark.parametrize(
    ("phrase", "guard", "lost"), cases("phrases/bans", "phrases_of_which_nothing_is_left", globals())
)
def test_phrases_of_which_nothing_is_left(phrase, guard, lost):
    assert (left_of(phrase, guard).table.owed[0] >= NEVER) is lost


def test_only_what_is_said_is_proposed():
    left = left_of(sg.AnyOf("hello", "rain"), BannedWords(["ell"])).table
    assert left.completion(left.after(0, b"he")) == b"rain"


@pytest.mark.parametrize(
    ("at", "scope", "lost"),
    [("/a", "strings", True), ("/a", "/a", True), ("/a", "/*", True), ("/a", "/b", False), ("/*", "/*", True),
     ("/*", "/a", False), ("/a", "text", False)],  # as it is written, escapes are not banned
)  # fmt: skip
def test_guards_that_read_the_strings_to_which_a_phrase_is_bound(at, scope, lost):
    left = left_of(sg.Phrase("hello"), BannedWords(["ell"], scope=scope), at=at, is_json=True)
    assert (left.table.owed[0] >= NEVER) is lost


@pytest.mark.parametrize("seed", thinned(range(6), 3))
def test_what_is_banned_in_string_values_is_not_banned_in_names(seed):
    """Random JSON texts, with escapes, in which the phrase stands as it is written."""
    chance = random.Random(seed)
    guard = BannedWords(["ab", "a b"], scope="strings", whole_word=seed % 2 == 0)
    phrase = sg.Phrase(["ab", "xab", "a b", 'b": ', "b\\\\", "a"][seed])
    left, count = left_of(phrase, guard, is_json=True).table, 0
    pieces = ["ab", "xab", "a b", "a", "b", " ", "x", "y", "\\", "é", "日", "😀", '"']
    for _ in range(1000):
        some = ["".join(chance.choices(pieces, k=chance.randrange(5))) for _ in range(4)]
        value = chance.choice([some[0], {some[0]: some[1], some[2]: [some[3]]}, [{some[0]: {some[1]: 1}}, some[2]]])
        text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        text = text.replace("b", "\\u0062") if chance.random() < 0.2 else text
        if phrase.text in text and veto_of(guard, text) is None:
            count += 1
            assert has(left, text), text
    assert count > 1


def test_a_string_is_known_to_be_a_value_by_what_comes_behind_it():
    left = left_of(sg.Phrase("ab"), BannedWords(["ab"], scope="strings"), is_json=True).table
    assert has(left, '{"ab": 1}')
    assert has(left, '{"ab" : "b"}')
    assert not any(
        has(left, text) for text in ['"ab"', '["ab"]', '{"x": "ab"}', '"\\u0041 ab"', '"\\n\\"ab\\ud83d\\ude00"']
    )


SCHEMA = {
    "type": "object", "required": ["a"], "additionalProperties": False,
    "properties": {"a": {"type": "string", "maxLength": 30}, "b": {"type": "array", "items": {"type": "string"}}},
}  # fmt: skip
RULED_OUT = cases("phrases/bans", "RULED_OUT", globals())


@pytest.mark.parametrize("number", range(len(RULED_OUT)))
def test_a_phrase_that_is_ruled_out_is_told_at_once(number):
    schema, phrase, bans = RULED_OUT[number]
    for budget in (150, 200):  # the first may compile kernels
        began = time.thread_time()
        (run,) = sg.generate(
            make(), ["x"], *([] if schema is None else [schema]), phrases=[phrase], beams=2, limits=sg.Limits(budget),
            details=True, **bans,
        )  # fmt: skip
        assert isinstance(run.error, sg.DeadEnd)
        assert str(run.error).startswith("no text of the constraint has 'hello'")
        assert "without banned" in str(run.error)
        assert not run.token_ids
    assert at_usual_speed(time.thread_time() - began) < 2


def test_a_name_may_have_what_string_values_must_not():
    schema = {"type": "object", "required": ["hello"], "properties": {"hello": {"type": "integer", "maximum": 9}},
              "additionalProperties": False}  # fmt: skip
    run = sg.generate(make(), "x", schema, phrases=["hello"], banned=["ell"], beams=2, details=True)
    assert "hello" in run.value


def test_a_phrase_with_a_form_that_is_not_banned_is_not_lost():
    grammar = sg.JsonSchema(SCHEMA).compile(byte_vocabulary())
    phrases = PhraseSet([sg.AnyOf("hello", "b")], [BannedWords(["ell"], scope="strings")], is_json=True)
    matcher = grammar.matcher()
    for byte in b'{"a": "':
        matcher.advance(byte)
    state = phrases.feed(phrases.start, b'{"a": "')
    assert phrases.lost(state, grammar, matcher.position) == ""
