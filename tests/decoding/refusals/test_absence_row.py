"""A threshold decides between null and a value, and a quote without support becomes null."""

from __future__ import annotations

import pickle
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.decoding.refusals.absence_row import thresholds_of
from structgen.demo import load_demo
from structgen.trace.records import Absence
from tests.support.calling_models import random_chat

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
TEXTS = ["Ada Moreau, 36, lives in Lyon.", "Ada Moreau is 36 years old."]
PROMPTS = [PROMPT.format(text) for text in TEXTS]


class Person(BaseModel):
    name: str
    age: int | None = None
    city: Annotated[str, sg.Quote(whole="words")] | None = None


def people(**options: Any) -> list[sg.Generation[Person]]:
    runs: list[sg.Generation[Person]] = sg.generate(
        sg.Model.of(*load_demo()), PROMPTS, Person, source=TEXTS, details=True, **options
    )
    return runs


@pytest.mark.parametrize("options", [{}, {"fast_forward": False}, {"canonical": True}, {"batch_size": 1}])
def test_a_quote_that_its_source_does_not_have_becomes_null(options: dict[str, Any]) -> None:
    both, without = people(absent="ask", **options)
    assert (both.value.city, without.value.city) == ("Lyon", None)
    assert (both.value.age, without.value.age) == (36, 36)
    absence = without.absences["/city"]
    assert absence.is_null
    assert absence.probability > 0.5 > both.absences["/city"].probability
    assert [undone.pointer for undone in without.trace] == ["/city"]
    assert people(**options)[1].value.city is not None  # the model alone writes some other piece of the source


def test_a_threshold_of_its_own_decides_about_each_member() -> None:
    asked = people(absent={"/age": 0, "/city": 2})
    assert [(run.value.age, run.value.city is None) for run in asked] == [(None, False), (None, False)]
    assert all(run.absences["/age"].threshold == 0 for run in asked)
    assert all(run.fields["/age"].values["null"] < 0.01 for run in asked)  # what the model thinks, without threshold
    assert pickle.loads(pickle.dumps(asked[0])).absences == asked[0].absences
    nothing = people(absent=0)
    assert [run.text for run in nothing] == ['{"name": "Ada Moreau", "age": null, "city": null}'] * 2


def test_the_probability_of_null_is_the_model_s_own() -> None:
    """A random model; in a list, `*` stands for the index."""
    model = random_chat("hermes")
    flag = {"type": ["boolean", "null"]}
    schema = {"type": "object", "properties": {"a": flag}, "required": ["a"], "additionalProperties": False}
    for threshold in (0.0, 2.0):
        run = sg.generate(model, "x", schema, absent=threshold, details=True)
        assert (run.value["a"] is None) == (threshold == 0)
        field = run.fields["/a"]
        assert run.absences["/a"].probability == pytest.approx(field.values["null"], abs=0.02)
    listed = {"type": "array", "items": schema, "minItems": 2, "maxItems": 2}
    run = sg.generate(model, "x", listed, absent={"/*/a": 0, "/1/a": 2}, details=True)
    assert [each["a"] is None for each in run.value] == [True, False]


def test_a_quote_is_begun_even_if_the_model_likes_null() -> None:
    """Random models want to write nothing of a short source; the first of these begins with a quote, the other not."""
    maybe = {"anyOf": [{"type": "string", "x-quote": {}}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"a": maybe}, "required": ["a"], "additionalProperties": False}
    liked = []
    for seed in (0, 6):
        model = random_chat("hermes", seed)
        liked.append(sg.generate(model, "x", schema, source="zq")["a"] is None)
        run = sg.generate(model, "x", schema, source="zq", absent="ask", details=True)
        assert run.value == {"a": None}
        assert run.absences["/a"].probability > 0.5
        assert [undone.pointer for undone in run.trace] == ["/a"]
    assert liked == [False, True]


def test_draws_and_streams_keep_the_thresholds() -> None:
    model = sg.Model.of(*load_demo())
    hot = sg.Sampling(temperature=2.0, seed=0).several(6)
    runs = sg.generate(model, PROMPTS[1:] * 6, Person, source=TEXTS[1], absent={"/age": 0}, sampling=hot, details=True)
    assert all(run.value.age is None for run in runs)
    assert all(run.value.city is None or run.value.city in TEXTS[1] for run in runs)
    shown = ""
    for event in sg.stream(model, PROMPTS[1], Person, source=TEXTS[1], absent="ask"):
        shown += event.text
    assert shown == people(absent="ask")[1].text


def test_what_cannot_be_asked_is_refused() -> None:
    model = sg.Model.of(*load_demo())
    for wrong in ("yes", True, {"/a": "x"}, {1: 0.5}, [0.5]):
        with pytest.raises(sg.OptionError, match="absent"):
            thresholds_of(wrong)
    with pytest.raises(sg.OptionError, match="absent= is for a type"):
        sg.generate(model, "x", sg.Regex("a"), absent="ask")
    with pytest.raises(sg.OptionError, match="absent= and beams="):
        sg.generate(model, "x", Person, absent="ask", beams=2, source="x")


def test_close_is_within_one_nat() -> None:
    assert Absence(0.6, 0.5, True).is_close
    assert not Absence(0.9, 0.5, True).is_close
    assert Absence(0.5, 2, False).margin > 20
