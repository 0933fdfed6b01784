"""`Limits(seconds=)` and `cancel=`: a call ends in time, with a whole value, or with what there is."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from itertools import count

import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.testing import scripted
from tests.support.tables import cases

TEXT = '{"name": "' + 300 * "Paris " + '", "tags": []}'
CITY = {
    "type": "object", "required": ["name", "tags"],
    "properties": {"name": {"type": "string"}, "tags": {"type": "array"}},
}  # fmt: skip
STEP = 0.004


class Stubborn(BaseModel):
    """Its name is refused."""

    name: str

    @field_validator("name")
    @classmethod
    def refused(cls, name: str) -> str:
        raise ValueError("no such name")


class Endless:
    """A machine that accepts no text."""

    start = 0

    def step(self, state: int, byte: int) -> int:
        return state + 1

    def accepts(self, state: int) -> bool:
        return False


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Masks and kernels are there."""
    for options in ({}, {"beams": 2}):
        sg.generate(scripted(TEXT), "x", CITY, limits=sg.Limits(40), details=True, **options)


def slow(text=TEXT, step=lambda: time.sleep(STEP)):
    """A model whose steps take a while, or call something else."""
    model = scripted(text)
    model.module.register_forward_pre_hook(lambda *_: step())
    return model


def limits(seconds=0.25, **others):
    return sg.Limits(2000, seconds=seconds, **others)


def timed(call, seconds=0.25):
    """The result of a call, which ends in time: some steps of the model and the time to close are allowed."""
    began = time.monotonic()
    try:
        return call()
    finally:
        assert seconds - 0.01 < time.monotonic() - began < seconds + 1.5


def test_a_value_is_closed_when_the_time_is_over():
    run = timed(lambda: sg.generate(slow(), "x", CITY, limits=limits(), details=True))
    assert run.value["name"].startswith("Paris")
    assert (run.value["tags"], run.finish) == ([], "closed_by_budget")
    assert [(cap.name, cap.pointer, cap.limit) for cap in run.caps] == [("seconds", "/name", 0.25)]
    with pytest.warns(sg.BudgetWarning, match=r"at /name by seconds=0\.25"):
        sg.generate(slow(), "x", CITY, limits=limits())
    with pytest.warns(sg.BudgetWarning):
        events = timed(lambda: [*sg.stream(slow(), "x", CITY, limits=limits())])
    assert events[-1].result.finish == "closed_by_budget"
    assert "".join(event.text for event in events) == events[-1].result.text
    plain = timed(lambda: sg.generate(slow("word " * 99), "x", limits=limits(), details=True))
    assert plain.finish == "length"
    assert plain.value
    assert ("word " * 99).startswith(plain.value)  # a busy machine says less in the time


def test_streams_show_what_closes_a_value_wherever_the_time_ends():
    """Here while the caller looks at an event of the row before."""
    texts, results = ["", ""], {}

    def watch():
        for event in sg.stream(slow(), ["x", "x"], CITY, limits=limits(0.6)):
            texts[event.row] += event.text
            if event.result is not None:
                results[event.row] = event.result
            elif event.row == 0 and len(texts[0]) > 20:
                time.sleep(0.7)

    with pytest.warns(sg.BudgetWarning):
        watch()
    assert texts == [results[row].text for row in range(2)]
    assert {result.finish for result in results.values()} == {"closed_by_budget"}


def test_a_search_closes_its_best_text():
    run = timed(lambda: sg.generate(slow(), "x", CITY, limits=limits(), beams=2, details=True))
    assert (run.value["tags"], run.finish) == ([], "closed_by_budget")


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    cases("decoding/deadlines", "what_cannot_be_closed", globals()),
)
def test_what_cannot_be_closed_is_an_error_with_what_there_is(schema, options, told):
    if not isinstance(schema, sg.Machine):
        with suppress(sg.StructgenError):  # so that the time is not spent on the schema
            sg.generate(scripted(TEXT), "x", schema, **{**options, "limits": sg.Limits(40)}, details=True)
    with pytest.raises(sg.Stopped, match=told) as caught:
        timed(lambda: sg.generate(slow(), "x", schema, **{"limits": limits(0.5), **options}), 0.5)
    assert isinstance(caught.value.text, str)


def test_rows_that_have_not_begun_fail_and_the_others_have_their_values():
    options = {"limits": limits(0.6), "batch_size": 2, "details": True}
    run = timed(lambda: sg.generate(slow(), ["x"] * 6, CITY, **options), 0.6)
    assert [each.finish for each in run] == ["closed_by_budget"] * 2 + ["error"] * 4
    assert all(isinstance(each.error, sg.Stopped) and each.error.text in ("", '{"name": "') for each in run[2:])
    own = [limits(0.6), sg.Limits(25)]
    first, second = sg.generate(slow(), ["x", "x"], CITY, limits=own, details=True)
    assert ([cap.name for cap in first.caps], second.caps[0].name) == (["seconds"], "max_new_tokens")


@pytest.mark.parametrize("options", [{}, {"beams": 2}])
def test_an_event_ends_a_call(options):
    cancel, steps = threading.Event(), count()
    model = slow(step=lambda: cancel.set() if next(steps) == 60 else None)
    with pytest.raises(sg.Stopped, match="the call was cancelled; text so far") as caught:
        sg.generate(model, "x", CITY, limits=limits(None), cancel=cancel, **options)
    assert next(steps) < 70
    assert caught.value.text.startswith('{"name": "')
    with pytest.raises(sg.Stopped, match="cancelled"):
        sg.generate(scripted(TEXT), "x", CITY, cancel=cancel)
    with pytest.raises(sg.OptionError, match=r"cancel=5: expected a threading.Event"):
        sg.generate(scripted(TEXT), "x", CITY, cancel=5)
    for wrong in (0, -1, "1", True):
        with pytest.raises(sg.OptionError, match="seconds"):
            sg.Limits(seconds=wrong)


class SlowGuard(sg.Guard[int]):
    """Takes 10 ms for each token, also for those that close the value."""

    def start(self):
        return 0

    def feed(self, state, text):
        time.sleep(0.01)
        return state

    def finish(self, state):
        return None


def test_checks_of_the_close_end_in_time():
    many = {"type": "array", "items": {"type": "integer"}, "minItems": 60}
    began = time.monotonic()
    with pytest.raises(sg.Stopped, match=r"seconds=0\.1 are over") as caught:
        sg.generate(scripted(f"[{', '.join(60 * ['7'])}]"), "x", many, limits=limits(0.1), guards=[SlowGuard()])
    assert time.monotonic() - began < 0.5  # the whole close would take 0.7 s
    assert not caught.value.text.endswith("]")


def test_each_input_of_a_job_has_its_time():
    job = sg.extract_many(slow(), ["x"] * 3, CITY, limits=limits(0.3), batch_size=1)
    assert (job.done, job.cut, job.failed) == (0, 3, 0)
