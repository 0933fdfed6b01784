"""Sources, what may be quoted of them, and where a quote stands."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from structgen.errors import OptionError
from structgen.given_prompts import plain
from structgen.regular.quotes import MissingSource, Place, Quotation, Source, quotation_of

HOSTILE = [
    "a", "b", "A", "é", "e\u0301", "\u0301", "ß", "𝄞", "👩‍🔬", "日本", "ไทย", '"', "\\", "\\n", "\n",
    "\r\n", "\t", " ", "  ", "\u00a0", "\u2028", "\x00", "\x1f", "\x7f", "/", "_", "7", ".", "’", "\ufeff", "\u202e",
]  # fmt: skip


def hostile_texts(count: int, longest: int, seed: int = 0) -> list[str]:
    """Random texts of characters that are escaped, combined, wide, invisible or blank."""
    draw = random.Random(seed)
    return ["".join(draw.choices(HOSTILE, k=draw.randint(1, longest))) for _ in range(count)]


def test_a_source_is_a_text_a_list_or_a_dict_of_texts() -> None:
    assert Source.of("a").documents == (("", "a"),) == Source.of(plain("a")).documents
    assert Source.of(["a", "b"]).documents == (("0", "a"), ("1", "b"))
    assert Source.of({"x": "a"}) == Source.of(Source.of({"x": "a"}))
    assert hash(Source.of({"x": "a"})) == hash(Source.of({"x": "a"}))
    for wrong in (1, [], {}, ["a", 2], {"x": None}, "\ud800"):
        with pytest.raises(OptionError, match="source"):
            Source.of(wrong)
    with pytest.raises(OptionError, match="whole='halves': expected one of characters, words, lines, sentences"):
        quotation_of({"whole": "halves"})
    with pytest.raises(OptionError, match="no other members than"):
        quotation_of({"by": "words"})
    assert "source=" in str(MissingSource())


def test_a_quote_stands_at_each_of_its_places() -> None:
    quotation = Quotation(source=Source.of({"one": "aaa", "two": "bab"}))
    assert quotation.places("aa") == (Place(0, 2, "one"), Place(1, 3, "one"))
    assert quotation.places("ab") == (Place(1, 3, "two"),)
    assert quotation.places("") == quotation.places("aab") == ()
    assert quotation.holds("bab")
    assert not quotation.holds("ba b")
    assert Quotation().holds("anything")


def test_whole_words_lines_and_sentences_are_not_cut() -> None:
    def all_quotes(text: str, whole: str) -> set[str]:
        quotation = Quotation(whole, source=Source.of(text))
        pieces = {text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
        return {piece for piece in pieces if quotation.holds(piece)}

    assert all_quotes("He paid $5, ok", "words") >= {"He", "He paid", "paid $5", "$5", "$", "5", "$5, ok", ","}
    assert all_quotes("He paid", "words") == {"He", "paid", "He paid"}
    assert all_quotes("cafe\u0301s", "words") == {"cafe\u0301s"}  # no accent is cut from its letter
    assert all_quotes("日本人", "words") >= {"日", "日本", "本人"}  # no blanks between words
    assert all_quotes(" a b \r\n\n  c", "lines") == {"a b", "c", "a b \r\n\n  c"}
    sentences = "Dr. No came. He left!\n\nA title\n\n“Why?” she asked."
    assert all_quotes(sentences, "sentences") >= {"No came.", "He left!", "A title", "No came. He left!", "she asked."}
    assert all_quotes("日本。はい。", "sentences") == {"日本。", "はい。", "日本。はい。"}


def test_the_places_of_quotes_with_single_blanks_are_those_of_the_source() -> None:
    """Each piece of a document, with its blanks made single, stands where it was taken from."""
    for text in hostile_texts(300, 30, seed=1):
        quotation = Quotation(spaces="single", source=Source.of(text))
        units = [match.span() for match in re.finditer(r"\s+|\S", text)]
        for first, last in pairwise(sorted(random.Random(text).sample(range(len(units) + 1), min(3, len(units) + 1)))):
            start, end = units[first][0], units[last - 1][1]
            quote = re.sub(r"\s+", " ", text[start:end])
            assert (start, end) in [(each.start, each.end) for each in quotation.places(quote)], (text, quote)
