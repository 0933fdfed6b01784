"""Lists from documents: every row comes back, and no list says that it is complete with a row missing.

Covers `html_text`, `proof` and `windows`.
"""

from __future__ import annotations

import json
import random
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.documents.html_text import text_of
from structgen.documents.windows import cut, units_of, window_of
from structgen.errors import OptionError
from tests.support.readers import reader


class Row(BaseModel):
    n: str
    a: int


def rows_in(text: str) -> list[dict[str, Any]]:
    """The rows of a document as a model that makes no mistake reads them."""
    found = []
    for line in text.splitlines():
        cells = line.strip().strip("|-").replace("|", ",").split(",")
        if len(cells) == 2 and cells[1].strip().isdigit():
            found.append({"n": cells[0].strip(), "a": int(cells[1])})
    return found


def document(kind: str, count: int) -> str:
    names = [f"N{number}" for number in range(count)]
    table = "".join(f"| {name} | {number % 7} |\n" for number, name in enumerate(names))
    return {
        "text": "".join(f"{name}, {number % 7}\n" for number, name in enumerate(names)),
        "bullets": "# All\n\nWho is there:\n\n" + "".join(f"- {name}, {n % 7}\n" for n, name in enumerate(names)),
        "markdown": f"# Report\n\nWho is there:\n\n| n | a |\n| --- | --- |\n{table}\nThe end.\n",
        "html": "<html><head><title>x</title></head><body><p>Who is there:</p><table><tr><th>n</th><th>a</th></tr>"
        + "".join(f"<tr><td>{name}</td><td>{n % 7}</td></tr>\n" for n, name in enumerate(names))
        + "</table></body></html>",
    }[kind]


@pytest.mark.parametrize(
    ("kind", "count", "overlap"), [("text", 100, 0), ("bullets", 100, 60), ("html", 120, 0), ("markdown", 300, 40)]
)
def test_every_row_comes_back(kind: str, count: int, overlap: int) -> None:
    model = reader(lambda text: json.dumps(rows_in(text)))
    windows = sg.Windows(tokens=400, overlap=overlap)
    found = sg.extract(model, document(kind, count), list[Row], windows=windows)
    assert [row.n for row in found.values] == [f"N{number}" for number in range(count)]
    assert (found.complete, found.conflicts, found.failures) == (True, [], [])
    assert all(place is not None and row.n in found.text[place.start : place.end]
               for row, place in zip(found.values, found.places, strict=True))  # fmt: skip
    assert found.windows > 1
    assert all(each.score < 0.5 for each in found.unused)


@pytest.mark.parametrize("seed", range(12))
def test_no_list_says_complete_with_a_row_missing(seed: int) -> None:
    """A model that leaves rows out, mixes them, repeats them and makes some up; two rows of a document are equal."""
    chance = random.Random(seed)
    kind = ("text", "bullets", "markdown", "html")[seed % 4]

    def wrong(text: str) -> str:
        rows = rows_in(text)
        for _ in range(chance.randrange(3)):
            fault, place = chance.choice(["drop", "mix", "repeat", "invent"]), chance.randrange(len(rows) or 1)
            if fault == "drop":
                del rows[place : place + 1]
            elif fault == "mix" and len(rows) > 1:
                rows[place] = {"n": rows[place]["n"], "a": rows[place - 1]["a"]}
            elif fault == "repeat" and rows:
                rows[-1] = rows[place]
            else:
                rows[place : place + 1] = [{"n": "Nobody", "a": 3}]
        return json.dumps(rows)

    source = document(kind, 30).replace("N5,", "N4,").replace("| N9 |", "| N2 |")
    found = sg.extract(reader(wrong), source, list[Row], windows=sg.Windows(300, passes=1 + seed % 2))
    wanted = sorted(map(str, rows_in(text_of(source))))
    made = sorted(str(row.model_dump()) for row in found.values)
    missing = [row for row in wanted if wanted.count(row) > made.count(row)]
    assert not (found.complete and missing)
    rows = [each for each in found.unused if each.score >= 0.5]
    assert len(rows) >= len(set(missing))


def test_what_is_left_is_read_again() -> None:
    """A second pass has the rows that the first left out, with the header of their table."""
    seen = list[str]()

    def lazy(text: str) -> str:
        seen.append(text)
        rows = rows_in(text)
        return json.dumps(rows if len(rows) < 10 else rows[:-2])

    source = document("markdown", 60)
    found = sg.extract(reader(lazy), source, list[Row], windows=sg.Windows(tokens=300))
    assert (len(found.values), found.complete) == (60, True)
    assert all("| n | a |" in text for text in seen if "| N" in text)
    once = sg.extract(reader(lazy), source, list[Row], windows=sg.Windows(300, passes=1))
    assert not once.complete
    assert {each.text for each in once.unused if each.score >= 0.5} >= {"| N59 | 3 |", "| N58 | 2 |"}


def test_members_may_be_in_other_words_and_two_rows_of_a_line_are_told() -> None:
    class Item(BaseModel):
        n: str
        state: Literal["open", "closed"]

    answer = [{"n": "Ada", "state": "closed"}, {"n": "Bob", "state": "open"}, {"n": "Cy", "state": "open"}]
    source = "Ada is done\nBob works on\nCy works on\n"
    model = reader(lambda text: json.dumps(answer))
    assert sg.extract(model, source, list[Item]).complete
    double = source.replace("Cy works on", "Cy works on, Dan and Eve and Fay and Gil and Hal and Ian work, too")
    found = sg.extract(model, double, list[Item], windows=sg.Windows(passes=1))
    assert (found.complete, [each.score for each in found.unused]) == (False, [0.7])


def test_windows_end_where_they_may() -> None:
    text = "# A\none\ntwo\n# B\nthree\n\f# C\nfour four four four\nfive\n"
    for by, expected in {
        "lines": ["# A\none\ntwo\n# B", "three\n\f# C", "four four four four", "five"],
        "headings": ["# A\none\ntwo", "# B\nthree", "# C", "four four four four", "five"],
    }.items():
        units = units_of(text, by)
        costs = [unit.end - unit.start + 1 for unit in units]
        made = cut(units, costs, range(len(units)), sg.Windows(tokens=17, by=by))
        assert [window_of(text, units, window).text for window in made] == expected, by
    sentences = "One is here. Two, too!\nThree\ngoes on? Four"
    assert [sentences[unit.start : unit.end] for unit in units_of(sentences, "sentences")] == [
        "One is here.", "Two, too!", "Three\ngoes on?", "Four",
    ]  # fmt: skip


def test_what_is_no_list_is_refused() -> None:
    for schema in (Row, {"type": "object"}):
        with pytest.raises(OptionError, match="a list, as"):
            sg.extract(reader(str), "x", schema)
    with pytest.raises(OptionError, match="by='words'"):
        sg.Windows(by="words")


def test_a_chat_model_is_shown_the_schema() -> None:
    """Without a prompt of the caller's, and only then."""
    model = sg.testing.scripted_chat('[{"n": "Ada", "a": 3}]')
    prompts = list[str]()
    encode = model.tokenizer.apply_chat_template

    def noted(messages: Any, *given: Any, **options: Any) -> Any:
        prompts.extend(message["content"] for message in messages)
        return encode(messages, *given, **options)

    model.tokenizer.apply_chat_template = noted
    found = sg.extract(model, "Ada, 3\n", list[Row], windows=sg.Windows(passes=1))
    assert (found.values, found.complete) == ([Row(n="Ada", a=3)], True)
    (asked,) = {each for each in prompts if "Ada, 3" in each}
    assert '"n": string' in asked
