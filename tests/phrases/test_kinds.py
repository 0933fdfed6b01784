"""What texts have a phrase: each kind against Python's `re`, in any pieces of bytes."""

from __future__ import annotations

import random
import re

import pytest

import structgen as sg
from structgen.phrases.table import NEVER
from tests.support.tables import cases

KINDS = cases("phrases/kinds", "KINDS", globals())


@pytest.mark.parametrize(("phrase", "pattern"), KINDS, ids=[str(phrase) for phrase, _ in KINDS])
def test_a_phrase_is_met_by_the_texts_in_which_it_stands(phrase, pattern):
    table, chance = phrase.compile(), random.Random(7)
    met = 0
    for _ in range(3000):
        text = "".join(chance.choices([*"aabb AB.é😀", "ab ", "ba"], k=chance.randrange(14)))
        data, state = text.encode(), 0
        while data:  # in pieces of any size
            size = chance.randrange(1, 4)
            state, data = table.after(state, data[:size]), data[size:]
        expected = re.search(pattern, text, re.DOTALL) is not None
        assert (table.owed[state] == 0) is expected, text
        met += expected
        completed = text.encode() + table.completion(state)
        assert len(table.completion(state)) == table.owed[state]
        assert re.search(pattern, completed.decode(), re.DOTALL), completed
    assert met >= 5


@pytest.mark.parametrize(
    ("times", "least", "most"), [(2, 2, 2), ((1, 2), 1, 2), ((3, 3), 3, 3), (0, 0, 0), ((0, 2), 0, 2)]
)
def test_a_phrase_stands_in_the_text_so_often(times, least, most):
    table, chance = sg.Phrase("aba", times=times).compile(), random.Random(7)
    seen = set()
    for _ in range(3000):
        text = "".join(chance.choices(["a", "ba", "ab", " "], k=chance.randrange(14)))
        state = table.after(0, text.encode())
        count = text.count("aba")
        assert (table.owed[state] == 0) is (least <= count <= most), text
        assert (table.owed[state] == NEVER) is (count > most), text
        seen.add(count)
    assert seen > {most, most + 1}


class EvenCommas(sg.BytePhrase[int]):
    def start(self):
        return 0

    def step(self, state, byte):
        return state ^ (byte == ord(","))

    def is_met(self, state):
        return state == 0


def test_an_automaton_of_the_callers_own():
    table = EvenCommas().compile()
    assert [table.owed[table.after(0, text)] for text in (b"", b"a,b", b",,", b",a,b,")] == [0, 1, 0, 1]
    assert table.completion(1) == b","


class Counting(EvenCommas):
    def step(self, state, byte):
        return state + 1

    def is_met(self, state):
        return state == 3


class Failing(EvenCommas):
    def step(self, state, byte):
        raise KeyError(byte)


class Never(EvenCommas):
    def is_met(self, state):
        return False


def test_automata_that_do_not_work_are_refused():
    with pytest.raises(sg.OptionError, match="16,384 states"):
        Counting().compile()
    with pytest.raises(sg.CallbackError, match="Failing raised KeyError"):
        Failing().compile()
    assert Never().compile().owed[0] == NEVER


def test_within_a_character_the_phrase_is_owed_behind_it():
    table = sg.Phrase("ab").compile()
    state = table.after(0, "日".encode()[:1])
    assert table.owed[state] == 4
    assert (b"\xe6" + table.completion(state)).decode().endswith("ab")
    assert table.owed[table.after(state, b"ab")] == 0  # bytes that belong to no character stand before it


def test_phrases_are_values():
    assert sg.Phrase("a") == sg.Phrase("a") != sg.Phrase("a", at="/b")
    assert sg.AnyOf("a", "b") == sg.AnyOf("a", sg.Phrase("b")) != sg.Ordered("a", "b")
    assert sg.Phrase("a").compile() is sg.Phrase("a").compile()
    shown = str(sg.Template("the", ..., sg.AnyOf("a", "b"), at="/c"))
    assert shown == "Template('the', ..., AnyOf('a', 'b')) at /c"
    assert str(sg.Phrase(sg.Regex("a+"), times=2)) == "Regex(pattern='a+'), times=2"


@pytest.mark.parametrize(
    "wrong",
    cases("phrases/kinds", "what_is_no_phrase_is_refused", globals()),
)
def test_what_is_no_phrase_is_refused(wrong):
    with pytest.raises(sg.OptionError):
        wrong()
