"""The benchmark of right answers: its texts, how an answer is judged, and the interval of a difference."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from benchmarks.quality_picture import PICTURE, picture
from benchmarks.quality_report import PAGE, filled
from benchmarks.quality_rows import balanced, by_text, paired, saved
from benchmarks.quality_scores import score
from benchmarks.quality_texts import TASKS, cases
from benchmarks.reliability import PICTURE as RELIABILITY
from benchmarks.reliability import RESULTS, Judged, error, groups
from benchmarks.reliability import picture as reliability


@pytest.mark.parametrize("task", TASKS)
def test_the_right_answers_are_right_and_no_text_is_in_both_halves(task):
    halves = [cases(task, final=final) for final in (False, True)]
    assert not {case.name for case in halves[0]} & {case.name for case in halves[1]}
    if task != "calls":
        for case in (*halves[0], *halves[1]):
            assert Draft202012Validator(case.schema).is_valid(case.gold)
        assert len(halves[0]) + len(halves[1]) >= {"labels": 299, "problems": 160}.get(task, 80)


def test_an_answer_is_judged_by_its_members():
    case = next(case for case in cases("absent", final=False) if case.gold["email"] is None and case.gold["phone"])
    right = json.dumps({**case.gold, "name": case.gold["name"].upper()})
    assert score(case, right, free=False).whole
    wrong = score(case, right.replace("null", '"a@b.example"'), free=False)
    assert (wrong.valid, wrong.right, wrong.whole, wrong.invented, wrong.lost) == (True, 2, False, 1, 0)
    free = score(case, f"Sure! {{no}}\n```json\n{right}\n``` {{}}", free=True)
    assert (free.valid, free.whole) == (True, True)
    flat = cases("flat", final=False)[0]
    texts = score(flat, json.dumps({key: str(value) for key, value in flat.gold.items()}), free=True)
    assert (texts.valid, texts.whole) == (False, True)
    lost = score(case, "I do not know.", free=True)
    assert (lost.valid, lost.right, lost.lost) == (False, 0, 2)


def test_free_text_counts_by_its_last_number_or_the_label_it_names():
    problem, label = cases("problems", final=True)[0], cases("labels", final=True)[0]
    answer, name = problem.gold["answer"], label.gold["label"]
    assert score(problem, f"2 and 3 make {answer}.", free=True).whole
    assert not score(problem, f"{answer}, not 1,000.", free=True).whole
    assert score(problem, f"She is \\(\\boxed{{{answer}}}\\) years old in 1,000 years.", free=True).whole
    assert score(label, f"It is {name}.", free=True).whole


def test_the_picture_shows_the_results():
    """Made from the rows in the repository; so are the tables of the page."""
    rows, _ = saved()
    assert PICTURE.read_text(encoding="utf-8") == picture(rows)
    source = PAGE.read_text(encoding="utf-8")
    assert "<!-- quality -->" in source
    assert filled(source, rows) == source


def test_the_reliability_diagram_shows_its_results():
    read = {
        model: {name: [Judged(*row) for row in rows] for name, rows in each.items()}
        for model, each in json.loads(RESULTS.read_text(encoding="utf-8")).items()
    }
    assert RELIABILITY.read_text(encoding="utf-8") == reliability(read)
    sure = [Judged(0.9, right) for right in (True, True, False, False)]
    assert groups(sure) == [(0.9, 0.5, 4)]
    assert error(sure) == pytest.approx(0.4)
    assert error([*sure, Judged(0.3, False)]) == pytest.approx(0.38)


def test_ways_are_compared_on_the_texts_that_both_have_answered():
    rows, _ = saved()
    texts = paired(rows, ["llama.cpp, free", "structgen on llama.cpp"])
    assert {(text[0].model, text[0].task, text[0].name) for text in texts} <= {*by_text(rows, "llama.cpp, free")}
    assert all(text[0].way == "llama.cpp, free" and text[0].name == text[1].name for text in texts)
    middle, low, high = balanced(texts, lambda text: text[1].share - text[0].share)
    assert low <= middle <= high
