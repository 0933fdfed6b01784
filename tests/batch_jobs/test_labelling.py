"""Labels of many inputs: as `classify` gives them, in files, with resume, and failures that are set aside."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.errors import OptionError

LABELS = ["positive", "negative", "neutral"]
ROWS: list[Any] = [
    {"id": "a", "title": "Lamp", "text": "It broke at once."},
    {"id": "b", "title": "Cup", "text": None},
    {"id": "c", "title": "Chair", "text": "word " * 20_000},
    {"id": "d", "title": "Desk", "text": "I love it!"},
]


class Mood(Enum):
    GOOD = "positive"
    BAD = "negative"


@pytest.fixture(scope="module")
def model() -> sg.Model:
    return sg.Model.of(*load_demo())


def lines(path: Path) -> dict[str, Any]:
    return {entry["id"]: entry for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def test_each_input_has_the_label_that_classify_gives(model: sg.Model) -> None:
    """With the default prompt, with fields in a template, with a function, with several labels each."""

    def made(row: Any) -> str:
        return f"{row['title']}: {row['text']}\nMood:"

    prompts: list[tuple[Any, Any]] = [(None, None), ("{title}: {text}\nMood:", made), (made, made)]
    for prompt, own in prompts:
        job = sg.classify_many(model, ROWS, LABELS, prompt=prompt)
        assert (job.done, job.failed) == ((3, 1) if callable(prompt) else (2, 2))
        for place in (0, 3):
            row, entry = ROWS[place], job.results[place]
            text, template = row["text"] if own is None else own(row), prompt and "{text}"
            template = str if callable(prompt) else template
            alone = sg.classify(model, text, LABELS, prompt=template)
            assert (entry["value"], job.values[place].label) == (alone.label, alone.label)
            assert entry["distribution"] == pytest.approx(alone.distribution, abs=1e-4)
            assert entry["confidence"]["value"] == pytest.approx(alone.probability, abs=1e-3)
            assert entry["mass"] == pytest.approx(alone.mass, abs=1e-3)
    several = sg.classify_many(model, ["I love it!"], LABELS, multi=True)
    assert several.results[0]["value"] == list(sg.classify(model, "I love it!", LABELS, multi=True).labels)
    assert sg.classify_many(model, ["I love it!"], Mood).results[0]["value"] in ("positive", "negative")


def test_a_job_goes_on_and_sets_aside_what_has_no_label(model: sg.Model, tmp_path: Path) -> None:
    out = tmp_path / "moods.jsonl"
    for counts in ((1, 1, 0), (1, 2, 1)):
        rows = ROWS[: 2 if not out.exists() else 4]
        job = sg.classify_many(model, rows, LABELS, out=out, resume=True, keep=["title"], batch_size=2)
        assert (job.done, job.failed, job.skipped) == counts
    assert {id_: entry["input"]["title"] for id_, entry in lines(out).items()} == {"a": "Lamp", "d": "Desk"}
    failed = lines(tmp_path / "moods.jsonl.errors.jsonl")
    assert "is null in this row" in failed["b"]["error"]["message"]
    assert "tokens, the model's context holds" in failed["c"]["error"]["message"]
    for changed in ({"labels": LABELS[:2]}, {"multi": True}, {"prompt": "{text}"}):
        given: dict[str, Any] = {"labels": LABELS, **changed}
        with pytest.raises(OptionError, match="a job with another"):
            sg.classify_many(model, ROWS, out=out, resume=True, keep=["title"], **given)
    sg.classify_many(model, ROWS, LABELS, out=tmp_path / "moods.csv", keep=["title"])
    head = (tmp_path / "moods.csv").read_text().splitlines()[0].split(",")
    assert head[:2] == ["id", "title"]
    assert {"value", "confidence.value", *(f"distribution.{label}" for label in LABELS)} < {*head}


def test_what_cannot_be_labelled_is_refused_before_anything_runs(model: sg.Model) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"windows": sg.Windows(10)}, "windows"), ({"resume": True}, "out="), ({"labels": ["a"]}, "labels"),
        ({"prompt": "{tetx}"}, "did you mean"), ({"prompt": "{text}", "multi": True}, "multi=True"),
        ({"calibration": sg.records.Calibration(("x",), 1.0, (0.0,))}, "calibration for the labels"),
    ]  # fmt: skip
    for options, told in refused:
        with pytest.raises(OptionError, match=told):
            sg.classify_many(model, ROWS, **{"labels": LABELS, **options})
    with pytest.raises(OptionError, match="no weights here"):
        sg.classify_many(sg.Remote("http://127.0.0.1:9/v1", "m"), ROWS, LABELS)
