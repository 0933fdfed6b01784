"""The automaton of a source's pieces has all of them, and nothing else."""

from __future__ import annotations

import time
from itertools import product

import pytest

from structgen.errors import LimitExceeded
from structgen.regular.quotes import SPACES, WHOLE, MissingSource, Quotation, Source
from structgen.regular.substrings import FIRST_CHARACTER, SYMBOL, TO, quote_language, substrings
from tests.regular.test_quotes import hostile_texts
from tests.support.speed import at_usual_speed


def language(quotation: Quotation) -> set[str]:
    """All texts that the automaton accepts."""
    automaton, texts, left = substrings(quotation), set[str](), [("", 1)]
    while left:
        text, state = left.pop()
        if text and automaton.least[state] == 0:
            texts.add(text)
        rows = automaton.edges[automaton.starts[state] : automaton.starts[state + 1]].tolist()
        assert len({row[SYMBOL] for row in rows}) == len(rows), "two edges for one character"
        left += [(text + automaton.characters[row[SYMBOL] - FIRST_CHARACTER], row[TO]) for row in rows]
    return texts


def pieces(quotation: Quotation) -> set[str]:
    texts = [each.text for each in quotation.texts]
    every = {text[i:j] for text in texts for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    return {piece for piece in every if quotation.holds(piece)}


@pytest.mark.parametrize(("whole", "spaces"), product(WHOLE, SPACES))
def test_every_quote_can_be_reached_and_nothing_else(whole: str, spaces: str) -> None:
    small = ["".join(each) for size in range(1, 6) for each in product("a .", repeat=size)]
    for text in small[:: 1 if whole == "words" else 3] + hostile_texts(60, 12, seed=2):
        quotation = Quotation(whole, spaces, Source.of(text))
        assert language(quotation) == pieces(quotation), (text, whole, spaces)


@pytest.mark.parametrize("whole", WHOLE)
def test_the_quotes_are_a_language_too(whole: str) -> None:
    for text in ['ab"a\\b', "a b. ab", *hostile_texts(20, 9, seed=4)]:
        quotation = Quotation(whole, source=Source.of(text))
        made, wanted = quote_language(quotation), pieces(quotation)
        tried = ["".join(each) for size in range(4) for each in product({*text, "x"}, repeat=size)]
        assert [each for each in {*tried, *wanted} if made.matches(each)] == [
            each for each in {*tried, *wanted} if each in wanted
        ]
    with pytest.raises(MissingSource):
        quote_language(Quotation())
    with pytest.raises(LimitExceeded, match="no quotation marks"):
        quote_language(Quotation(source=Source.of("ab" * 9 + "".join(map(chr, range(0x4E00, 0x9E00))) * 3)))


def test_a_quote_does_not_reach_from_one_document_into_the_next() -> None:
    for texts in ({"x": "ab", "y": "ba"}, {"x": "a b", "y": "", "z": "b c a"}):
        for whole in WHOLE:
            quotation = Quotation(whole, source=Source.of(texts))
            assert language(quotation) == pieces(quotation)


def test_a_source_of_100_kilobytes_takes_few_milliseconds() -> None:
    """50 ms are the aim; 34 ms and 60 ms (words) were measured on a busy machine."""
    words = ["Zürich", "and", "the", "source", "of", "“quotes”", "line\n", "x"]
    text = " ".join(words[(i * i + i // 7) % 8] + str(i % 97) for i in range(9_000))[:100_000]
    for whole in ("characters", "words"):
        began = time.process_time()
        automaton = substrings(Quotation(whole, source=Source.of(text)))
        assert at_usual_speed(time.process_time() - began) < 0.5
        assert len(automaton.least) < 2 * len(text)
        assert len(automaton.edges) < 3 * len(text)
