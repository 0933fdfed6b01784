"""Thresholds from examples lie between what is there and what is not."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.absence import _threshold
from structgen.demo import load_demo
from structgen.testing import scripted
from tests.decoding.refusals.test_absence_row import PROMPT, PROMPTS, TEXTS, Person


def test_thresholds_of_examples_separate_them() -> None:
    model = sg.Model.of(*load_demo())
    facts = [
        *((f"{name} lives in {city}.", Person(name=name, city=city)) for name, city in [
            ("Omar Said", "Rome"), ("Eva Silva", "Paris"), ("Raj Patel", "Delhi"), ("Ana Ruiz", "Quito"),
        ]),
        *((f"{name} is {age} years old.", {"name": name, "age": age}) for name, age in [
            ("Mia Lund", 29), ("Tom Berg", 52), ("Kim Novak", 47), ("Paul Wirth", 38),
        ]),
    ]  # fmt: skip
    examples = [(PROMPT.format(text), value) for text, value in facts]
    found = sg.absence_thresholds(model, examples, Person, source=[text for text, _ in facts])
    assert found.keys() == {"", "/age", "/city"}
    runs = sg.generate(model, [*PROMPTS, PROMPT.format("Lena Vogel lives in Oslo.")], Person, absent=found,
                       source=[*TEXTS, "Lena Vogel lives in Oslo."])  # fmt: skip
    assert [(run.age, run.city) for run in runs] == [(36, "Lyon"), (36, None), (None, "Oslo")]
    few = sg.absence_thresholds(model, examples[3:5], Person, source=[text for text, _ in facts[3:5]])
    assert few.keys() == {""}


def test_a_threshold_weighs_mistakes() -> None:
    scores = [(0.1, False), (0.2, True), (0.3, False), (0.9, True), (0.95, True)]
    assert 0.3 < _threshold(scores, 1.0) < 0.9
    assert _threshold(scores, 10.0) <= 0.2
    assert _threshold([(0.3, False)], 1.0) == 0.5


def test_examples_that_say_nothing_are_refused() -> None:
    model = sg.Model.of(*load_demo())
    with pytest.raises(sg.OptionError, match="examples"):
        sg.absence_thresholds(model, [], Person)
    with pytest.raises(sg.OptionError, match="may be null"):
        sg.absence_thresholds(model, [("x", {"a": 1})], {"properties": {"a": {"enum": [1]}}, "required": ["a"]})
    with pytest.raises(sg.OptionError, match="1 of 1 members are null"):
        sg.absence_thresholds(scripted('{"a": 1}'), [("x", {"a": None})], {"properties": {"a": {"enum": [1, None]}}})
