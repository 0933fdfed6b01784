"""What is called impossible is impossible: held to grammars whose every text is counted."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest

import structgen as sg
from structgen.masks import Matcher
from structgen.phrases import possible
from structgen.phrases.possible import Possible
from structgen.phrases.progress import PhraseSet
from structgen.testing import byte_vocabulary
from tests.support.tables import cases

VOCABULARY = byte_vocabulary()


def lost(constraint: Any, text: str, *phrases: sg.Phrase) -> bool:
    """Is a phrase called impossible behind a text?"""
    matcher = constraint.compile(VOCABULARY).matcher()
    tables = [phrase.compile() for phrase in phrases]
    for byte in text.encode():
        matcher.advance(byte)
    places = [table.after(0, text.encode()) for table in tables]
    return not Possible(matcher.grammar, tables).may(matcher.position, tuple(places))


def pattern(chance: random.Random, depth: int = 2) -> tuple[str, set[str]]:
    """A random pattern over three letters, and all its texts."""
    if depth == 0 or chance.random() < 0.2:
        letters = chance.choice(["a", "b", "c", "ab", "bc", "abc"])
        return f"[{letters}]", set(letters)
    parts = [pattern(chance, depth - 1) for _ in range(chance.randrange(2, 4))]
    if chance.random() < 0.5:
        return f"({'|'.join(part for part, _ in parts)})", set().union(*(texts for _, texts in parts))
    (first, firsts), (second, seconds) = parts[:2]
    if len(firsts) > 20 or len(seconds) > 20:
        return parts[0]
    some = {"", *firsts, *map("".join, itertools.product(firsts, repeat=2))}
    return f"({first}){{0,2}}({second})?", {one + two for one in some for two in {"", *seconds}}


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_the_texts_of_a_pattern_say(seed):
    """Behind prefixes of its texts, for words of up to three letters."""
    chance, texts = random.Random(seed), set[str]()
    while not 3 < len(texts) < 1000:
        wanted, texts = pattern(chance, 3)
    assert all(re.fullmatch(wanted, text) for text in texts)
    words = ["".join(chance.choices("abc", k=n)) for n in (1, 2, 2, 3, 3)]
    prefixes = sorted({text[:n] for text in texts for n in range(len(text) + 1)})
    for prefix in chance.sample(prefixes, min(len(prefixes), 8)):
        for word in words:
            has = any(word in text for text in texts if text.startswith(prefix))
            assert lost(sg.Regex(wanted), prefix, sg.Phrase(word)) != has, (wanted, prefix, word)


@pytest.mark.parametrize("seed", range(12))
def test_counts_and_phrases_together_are_what_the_texts_of_a_pattern_say(seed):
    """A phrase that may occur only so often is used up; two phrases may exclude each other."""
    chance, texts = random.Random(100 + seed), set[str]()
    while not 3 < len(texts) < 1000:
        wanted, texts = pattern(chance, 3)
    prefixes = sorted({text[:n] for text in texts for n in range(len(text) + 1)})
    found = set[bool]()
    for prefix in chance.sample(prefixes, min(len(prefixes), 5)):
        for _ in range(4):
            some = [
                ("".join(chance.choices("abc", k=n)), chance.choice(COUNTS))
                for n in (1, 1, 2)[: chance.choice([1, 2, 3])]
            ]
            has = any(
                all(least <= text.count(word) <= most for word, (least, most) in some)
                for text in texts if text.startswith(prefix)
            )  # fmt: skip
            asked = [sg.Phrase(word, times=(least, most if most < 99 else None)) for word, (least, most) in some]
            assert lost(sg.Regex(wanted), prefix, *asked) != has, (wanted, prefix, some)
            found.add(has)
    assert found == {True, False}


COUNTS = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 99), (1, 2), (2, 2), (2, 99)]
"""The least and the greatest number of times that a word may occur; 99 stands for any number."""

NESTED = cases("phrases/possible", "NESTED")


@pytest.mark.parametrize(("text", "phrase", "expected"), cases("phrases/possible", "frames_that_call_themselves"))
def test_frames_that_call_themselves(text, phrase, expected):
    assert lost(sg.JsonSchema(NESTED), text, sg.Phrase(phrase)) is expected


def test_counted_strings_have_room_for_so_much():
    schema = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {
        "type": "string", "maxLength": 6, "pattern": "^[a-z]*$",
    }}}  # fmt: skip
    assert not lost(sg.JsonSchema(schema), '{"a": "', sg.Phrase("abcdef"))
    assert lost(sg.JsonSchema(schema), '{"a": "', sg.Phrase("abcdefg"))
    assert lost(sg.JsonSchema(schema), '{"a": "x', sg.Phrase("abcdef"))
    assert not lost(sg.JsonSchema(schema), '{"a": "a', sg.Phrase("abcdef"))


def test_what_takes_too_long_counts_as_possible(monkeypatch):
    constraint = sg.Regex("[ab]{30,60}")
    assert lost(constraint, "", sg.Phrase("c"))
    monkeypatch.setattr(possible, "MAX_NODES", 20)
    assert not lost(constraint, "", sg.Phrase("c"))


def test_a_set_of_phrases_names_the_one_that_is_lost():
    grammar = sg.Regex("[ab]{1,9}").compile(VOCABULARY)
    phrases = PhraseSet([sg.Phrase("a"), sg.Phrase("abc"), sg.Phrase("ba")])
    assert phrases.lost(phrases.start, grammar, Matcher(grammar).position) == "'abc'"
    excluding = PhraseSet([sg.Phrase("a"), sg.Phrase("ba"), sg.Phrase("bb"), sg.Phrase("b", times=(0, 1))])
    assert excluding.lost(excluding.start, grammar, Matcher(grammar).position) == "'bb' and 'b', times=(0, 1)"
    bound = PhraseSet([sg.Phrase("abc", at="/a")])
    assert bound.lost(bound.start, grammar, Matcher(grammar).position) == ""
