"""The benchmark of quotes: how places are judged, and that its page is of its results."""

from __future__ import annotations

import quotes
from quality_texts import cases


def test_places_are_compared_with_the_values_of_their_member() -> None:
    wanted = {"name": [[(0, 3), (10, 13)]], "product": [[(20, 26)], [(30, 34)]]}
    told = {"name": [(10, 13)], "product": [(30, 33), (30, 33), (50, 55)], "email": [(1, 2)]}
    row = quotes.judged("way", "text", wanted, told, cpu=1.0)
    assert (row.told, row.there, row.both) == (3 + 3 + 5 + 1, 3 + 6 + 4, 3 + 3)
    assert (row.spans, row.wanted, row.exact) == (4, 3, 1)
    assert [round(each, 3) for each in quotes.f1([12, 13, 6, 4, 3, 1])] == [0.48, 0.286]


def test_the_right_places_are_those_of_the_text() -> None:
    for task in quotes.TASKS:
        for case in cases(task, final=False)[:10]:
            text = quotes.text_of(case)
            for _, _, value in quotes.members(case.gold):
                assert all(text[start:end] == value for start, end in quotes.places(text, value))
            assert quotes.gold(case)
    assert all(quotes.gold(case)["name"] for case in quotes.sentences(20))


def test_the_page_has_the_saved_results() -> None:
    assert quotes.TABLE.read_text(encoding="utf-8") == quotes.told(quotes.saved())
