"""Quotes as bytes: in JSON each character has one spelling; a longest length never leads into a dead end."""

from __future__ import annotations

import json
import random

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.constraints.quotes import Quote
from structgen.masks.grammar import Matcher
from structgen.regular.quotes import Quotation, Source
from tests.regular.test_quotes import hostile_texts
from tests.regular.test_substrings import pieces
from tests.support.matching import allowed, byte_vocabulary


def texts_of(matcher: Matcher) -> set[bytes]:
    """All texts of a grammar; each step must allow a byte or the end."""
    texts, left = set[bytes](), [(matcher, b"")]
    while left:
        matcher, text = left.pop()
        mask = matcher.mask()
        if matcher.can_finish:
            texts.add(text)
        for byte in (byte for byte in range(256) if allowed(mask, byte)):
            after = matcher.fork()
            after.advance(byte)
            left.append((after, text + bytes([byte])))
    return texts


@pytest.mark.parametrize("text", ['ab"a\\b', "\n\x01\x02\x1f\t/", "é€èa\u0301𝄞", "aaaaaa"])
@pytest.mark.parametrize("maximum", [None, 1, 3])
def test_each_quote_has_one_spelling(text: str, maximum: int | None) -> None:
    wanted = {each for each in pieces(Quotation(source=Source.of(text))) if len(each) <= (maximum or 9)}
    schema = {"type": "string", "x-quote": {}, **({} if maximum is None else {"maxLength": maximum})}
    matcher = JsonSchema(schema, source=text).compile(byte_vocabulary()).matcher()
    assert texts_of(matcher) == {json.dumps(each, ensure_ascii=False).encode() for each in wanted}
    assert texts_of(Quote(text, max_length=maximum).compile(byte_vocabulary()).matcher()) == {
        each.encode() for each in wanted
    }


@pytest.mark.parametrize("listed", [["ax", "none", "a"], ['a"c', "é", "", 'ab"a'], ['b"a\\n']])
@pytest.mark.parametrize("rest", [{}, {"minLength": 2}])
def test_listed_texts_stand_beside_quotes(listed: list[str], rest: dict[str, int]) -> None:
    """Some begin as quotes do, and some are quotes."""
    source = 'ab"a\\b'
    schema = {"anyOf": [{"type": "string", "x-quote": {}, **rest}, {"enum": listed}]}
    matcher = JsonSchema(schema, source=source).compile(byte_vocabulary()).matcher()
    quotes = {each for each in pieces(Quotation(source=Source.of(source))) if len(each) >= rest.get("minLength", 0)}
    assert texts_of(matcher) == {json.dumps(each, ensure_ascii=False).encode() for each in {*quotes, *listed}}
    schema = {"anyOf": [{"type": "string", "x-quote": {"whole": "words"}}, {"enum": listed}]}
    matcher = JsonSchema(schema, source=" ").compile(byte_vocabulary()).matcher()  # nothing can be quoted
    assert texts_of(matcher) == {json.dumps(each, ensure_ascii=False).encode() for each in listed}


def test_a_longest_length_ends_at_whole_words() -> None:
    text = "one two three, four"
    quotation = Quotation("words", source=Source.of(text))
    for maximum in range(1, 12):
        wanted = {each.encode() for each in pieces(quotation) if len(each) <= maximum}
        quote = Quote(text, whole="words", max_length=maximum)
        assert texts_of(quote.compile(byte_vocabulary()).matcher()) == wanted


def test_random_quotes_of_hostile_texts_are_taken_and_changed_ones_are_not() -> None:
    draw = random.Random(3)
    for text in hostile_texts(150, 40, seed=3):
        grammar = JsonSchema({"type": "string", "x-quote": {}}, source=text).compile(byte_vocabulary())
        for _ in range(3):
            start = draw.randrange(len(text))
            quote = text[start : draw.randint(start + 1, len(text))]
            changed = quote[::-1] if draw.random() < 0.5 else quote + draw.choice('aé"\\\n ')
            for each in (quote, changed):
                matcher, fits = grammar.matcher(), True
                for byte in json.dumps(each, ensure_ascii=False).encode():
                    fits = fits and allowed(matcher.mask(), byte)
                    if fits:
                        matcher.advance(byte)
                assert (fits and matcher.can_finish) == (each in text), (text, each)
