"""Labels with distributions, calibrated by examples, saved and loaded."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pytest

import structgen as sg
from structgen.classifying import _fitted, _probabilities, label_values
from structgen.demo import load_demo
from structgen.errors import OptionError
from structgen.testing import scripted

TEXTS = ["It broke at once.", "Does what it should. 4 out of 5.", "I love it!"]
LABELS = ["positive", "negative", "neutral"]


class Mood(Enum):
    GOOD = "positive"
    BAD = "negative"


@pytest.fixture(scope="module")
def model() -> sg.Model:
    return sg.Model.of(*load_demo())


def test_each_text_has_a_label_and_the_probability_of_all(model: sg.Model) -> None:
    results = sg.classify(model, TEXTS, LABELS)
    for text, result in zip(TEXTS, results, strict=True):
        assert sorted(result.distribution) == sorted(LABELS)
        assert sum(result.distribution.values()) == pytest.approx(1)
        assert list(result.distribution.values()) == sorted(result.distribution.values(), reverse=True)
        assert (result.label, result.probability) == next(iter(result.distribution.items()))
        assert (0 <= result.mass <= 1, result.labels) == (True, (result.label,))
        alone = sg.classify(model, text, LABELS)
        assert alone.distribution == pytest.approx(result.distribution, abs=1e-4)


def test_labels_are_texts_described_ones_an_enum_or_a_literal(model: sg.Model) -> None:
    assert sg.classify(model, TEXTS[0], Mood).label in Mood
    assert set(sg.classify(model, TEXTS[0], Literal["a", 2]).distribution) == {"a", 2}
    described = sg.classify(model, TEXTS[0], {"x": "a letter", "y": "another"}, prompt="{text}! ")
    assert set(described.distribution) == {"x", "y"}
    own = sg.classify(model, TEXTS[0], LABELS, prompt=lambda text: [{"role": "user", "content": text}])
    assert own.label in LABELS
    wrong: list[Any] = ["a", ["a"], ["a", "a"], ["a", ""], [str(n) for n in range(1_001)], 5]
    for labels in wrong:
        with pytest.raises(OptionError, match="labels="):
            label_values(labels)
    for options in ({"prompt": "no place"}, {"multi": 1}, {"prompt": "{text}", "multi": True}):
        with pytest.raises(OptionError, match=r"prompt|multi"):
            sg.classify(model, TEXTS[0], LABELS, **options)
    with pytest.raises(OptionError, match="texts"):
        sg.classify(model, 5, LABELS)


class Column:
    """Iterates over its values, as a series of pandas or polars."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


def test_a_text_without_a_label_says_why_and_the_others_have_theirs(model: sg.Model) -> None:
    bad: list[Any] = [TEXTS[0], "", None, float("nan"), "word " * 100_000, TEXTS[1]]
    for texts in (bad, tuple(bad), Column(bad)):
        results = sg.classify(model, texts, LABELS)
        assert [bool(each.error) for each in results] == [False, True, True, True, True, False]
        assert [each.label in LABELS for each in results] == [True, False, False, False, False, True]
        assert results[5].distribution == pytest.approx(sg.classify(model, TEXTS[1], LABELS).distribution, abs=1e-4)
    assert "texts[1]" in results[1].error
    assert "context holds 512" in results[4].error
    for none in ("", ["", None]):
        with pytest.raises(OptionError, match="not empty"):
            sg.classify(model, none, LABELS)


def test_with_multi_each_label_has_a_probability_by_itself(model: sg.Model) -> None:
    (result,) = sg.classify(model, TEXTS[:1], LABELS, multi=True)
    assert all(0 < each < 1 for each in result.distribution.values())
    assert set(result.labels) == {label for label, each in result.distribution.items() if each >= 0.5}
    calibration = sg.calibrate(
        model, [(TEXTS[0], ["negative"]), (TEXTS[2], ["positive", "neutral"])], LABELS, multi=True
    )
    (changed,) = sg.classify(model, TEXTS[:1], LABELS, multi=True, calibration=calibration)
    assert changed.distribution["negative"] > result.distribution["negative"]


def test_a_scripted_model_is_sure() -> None:
    result = sg.classify(scripted("negative"), "x", LABELS)
    assert result.label == "negative"
    assert result.probability > 0.99


def test_calibration_is_found_saved_and_applied(model: sg.Model, tmp_path: Path) -> None:
    examples = [(TEXTS[0], "negative"), (TEXTS[1], "neutral"), (TEXTS[2], "positive")] * 5
    calibration = sg.calibrate(model, examples, LABELS)
    calibration.save(tmp_path / "c.json")
    assert sg.Calibration.load(tmp_path / "c.json") == calibration
    right = [label for _, label in examples[:3]]
    before = sg.classify(model, TEXTS, LABELS)
    after = sg.classify(model, TEXTS, LABELS, calibration=calibration)
    likelihood = [sum(np.log(each.distribution[label]) for each, label in zip(results, right, strict=True))
                  for results in (before, after)]  # fmt: skip
    assert likelihood[1] > likelihood[0]
    content_free = sg.calibrate(model, ["N/A", ""], LABELS)
    same = sg.classify(model, ["N/A"], LABELS, calibration=sg.calibrate(model, ["N/A"], LABELS))[0]
    assert list(same.distribution.values()) == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert (content_free.temperature, sum(content_free.priors)) == (1, pytest.approx(0, abs=1e-9))
    for examples_, error in (([], "examples"), ([("x", "unknown")], "labels among")):
        with pytest.raises(OptionError, match=error):
            sg.calibrate(model, examples_, LABELS)
    with pytest.raises(OptionError, match="a calibration for the labels"):
        sg.classify(model, "x", ["a", "b"], calibration=calibration)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(OptionError, match=r"Calibration\.save"):
        sg.Calibration.load(tmp_path / "c.json")


def test_temperature_and_priors_lower_the_error_on_labels_that_were_held_out() -> None:
    """A made-up model that is too sure by a factor of 3 and favours the first label."""
    draw = np.random.default_rng(0)
    true = draw.normal(size=(4_000, 3)) * 1.5
    chances = _probabilities(true, 1.0, 0.0, multi=False)
    right = np.array([draw.choice(3, p=each) for each in chances])
    seen = 3.0 * (true + np.array([1.0, 0.0, 0.0]))
    temperature, priors = _fitted(seen[:2_000], np.eye(3, dtype=bool)[right[:2_000]], multi=False)
    assert temperature == pytest.approx(3, rel=0.1)
    assert np.array(priors) - np.mean(priors) == pytest.approx([-2 / 3, 1 / 3, 1 / 3], abs=0.15)

    def error(temperature: float, priors: Any) -> float:
        results = []
        for each in _probabilities(seen[2_000:], temperature, np.array(priors), multi=False):
            best = int(each.argmax())
            results.append(sg.Classification(best, float(each[best]), {}, 1.0, (best,)))
        return sg.calibration_error(results, right[2_000:].tolist())

    assert error(1.0, 0.0) > 0.2
    assert error(temperature, priors) < 0.04


def test_the_calibration_error_is_that_of_groups(tmp_path: Path) -> None:
    random.seed(0)
    results = [sg.Classification("a", 0.75, {}, 1.0, ("a",))] * 8
    assert sg.calibration_error(results, ["a"] * 6 + ["b"] * 2) == pytest.approx(0)
    assert sg.calibration_error(results, ["b"] * 8) == pytest.approx(0.75)
    results += [sg.Classification("b", 0.2, {}, 1.0, ("b",))] * 2
    assert sg.calibration_error(results, ["a"] * 8 + ["c"] * 2, plot=tmp_path / "a.svg") == pytest.approx(0.24)
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "10 texts, calibration error 0.24" in drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    circles = re.findall(r'cx="([0-9.]+)" cy="([0-9.]+)"', drawn)
    assert circles == [("40.0", "200.0"), ("150.0", "0.0")]
