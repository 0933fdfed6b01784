"""Sessions that join and leave a running batch say what they say alone, and nothing is kept of those that left."""

from __future__ import annotations

import random

import pytest

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.loop import Execution
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import RunError
from structgen.given_prompts import GivenPrompts
from structgen.testing import scripted
from tests.support.stepping import Stepping
from tests.support.thinning import thinned

NAMES = ["Ada Moreau", "Tom Berg", "Nadia Petrova", "Wilhelm Roth", "Marta Kowalczyk", "Ravi Menon"]


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def prompt(name, age):
    return f"Extract the person: name, age, city.\nText: {name}, {age}, lives in Lyon.\nJSON: "


@pytest.mark.parametrize(("overlap", "seed"), thinned([(False, 0), (False, 1), (True, 0), (True, 1)], 3))
def test_rows_that_come_and_go_say_what_they_say_alone(model, seed, overlap):
    rng = random.Random(seed)
    prompts = [GivenPrompts.of(prompt(rng.choice(NAMES), rng.randrange(20, 90))) for _ in range(9)]
    schemas = [rng.choice([Person, None, {"type": "object"}]) for _ in prompts]
    options = [
        CallOptions(sampling=sg.Sampling(temperature=rng.choice([0.0, 1.0]), seed=i), limits=sg.Limits(24))
        for i in range(len(prompts))
    ]
    alone = [prepare(model, *each).results(record=True)[0] for each in zip(prompts, schemas, options, strict=True)]
    requests = [prepare(model, *each) for each in zip(prompts, schemas, options, strict=True)]
    execution, found, at = Execution(overlap=overlap), {}, {}
    with Stepping(model, rows=4, execution=execution) as batch:
        coming = list(enumerate(requests))
        while coming or at:
            if coming and (not at or rng.random() < 0.4):
                number, request = coming.pop()
                at[number] = batch.join(request.sessions[0], record=number % 2 == 0)
            batch.step()
            for number, seat in list(at.items()):
                if seat.rows[0].done:
                    found[number] = requests[number].result(0, seat)
                    at.pop(number).cancel()
        engine = batch.engine
        assert (engine.running, engine.waiting, engine._tickets, engine._measured, engine._batch) == (
            0,
            0,
            [],
            [],
            None,
        )
    for number, one in enumerate(alone):
        other = found[number]
        assert (other.text, other.token_ids, other.finish) == (one.text, one.token_ids, one.finish)
        if number % 2 == 0:
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-3, nan_ok=True)
        assert [token.id for token in other.trace.tokens] == ([] if number % 2 else [*one.token_ids])
        assert other.stats.tokens == one.stats.tokens
        assert 0 < other.stats.forwards
        assert other.stats.prefill_seconds >= 0 <= other.stats.decode_seconds


def test_a_row_that_is_dropped_fails_and_leaves_the_others_as_they_are(model):
    first, second, third = (prepare(model, GivenPrompts.of(prompt(name, 30)), Person) for name in NAMES[:3])
    with Stepping(model, rows=2) as batch:
        seats = [batch.join(request.sessions[0], record=False) for request in (first, second, third)]
        assert batch.engine.waiting == 3
        batch.step()
        assert batch.engine.waiting == 1
        seats[0].cancel()
        seats[0].cancel()
        assert isinstance(seats[0].rows[0].error, RunError)
        while batch.step():
            pass
        seats[1].cancel()
        assert second.result(0, seats[1]).value.name == NAMES[1]
        assert third.result(0, seats[2]).value.name == NAMES[2]
        assert seats[2].times(0)["prefill"] > 0


def test_a_row_that_waits_can_be_dropped(model):
    first, second = (prepare(model, GivenPrompts.of(prompt(name, 30)), Person) for name in NAMES[:2])
    with Stepping(model, rows=1) as batch:
        seats = [batch.join(request.sessions[0], record=False) for request in (first, second)]
        seats[1].cancel()
        while batch.step():
            pass
        assert first.result(0, seats[0]).value.name == NAMES[0]


@pytest.mark.parametrize("steps", [1, 12, 100])
def test_thinking_goes_on_with_the_answer_in_the_same_row(steps):
    model = scripted('It is Zoë.</think>\n\n{"name": "Zoë"}')
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    request = prepare(model, GivenPrompts.of("Who?"), schema, CallOptions(thinking=True))
    with Stepping(model) as batch:
        seat = batch.join(request.sessions[0], record=True)
        for _ in range(steps):
            if not batch.step():
                break
        if steps == 100:
            found = request.result(0, seat)
            assert (found.thinking, found.value) == ("It is Zoë.", {"name": "Zoë"})
        seat.cancel()
        assert batch.engine._batch is None
    assert isinstance(request.sessions[0].error, RunError) == (steps < 100)


class Poisoned(Exception):
    """What the forward pass of a model raises."""


@pytest.mark.parametrize("guilty", [(), (1,), (0, 3)])
def test_a_step_that_fails_ends_only_the_rows_that_fail_alone(model, monkeypatch, guilty):
    """With no guilty row the pass fails for more than two rows: then two run at once, and all come to their end."""
    requests = [prepare(model, GivenPrompts.of(prompt(name, 30)), Person) for name in NAMES[:5]]
    forward = model.module.forward
    own = [set(request.sessions[0].row.ids) for request in requests]
    poison = {min(own[n] - set().union(*own[:n], *own[n + 1 :])) for n in guilty}

    def poisoned(*args, **kwargs):
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        if poison & set(ids.flatten().tolist()) if guilty else ids.shape[0] > 2:
            raise Poisoned("bad row")
        return forward(*args, **kwargs)

    with Stepping(model, rows=4) as batch:
        seats = [batch.join(request.sessions[0], record=True) for request in requests]
        if not guilty:
            batch.step()
        monkeypatch.setattr(model.module, "forward", poisoned)
        while batch.step():
            pass
        for number, (request, seat) in enumerate(zip(requests, seats, strict=True)):
            result = request.result(0, seat)
            assert isinstance(result.error and result.error.__cause__, Poisoned if number in guilty else type(None))
            assert number in guilty or result.value.name == NAMES[number]
            seat.cancel()
        assert batch.engine._batch is None


def test_an_exception_in_a_rows_own_work_ends_that_row(model, monkeypatch):
    requests = [prepare(model, GivenPrompts.of(prompt(name, 30)), Person) for name in NAMES[:3]]
    with Stepping(model) as batch:
        seats = [batch.join(request.sessions[0], record=False) for request in requests]
        batch.step()

        def broken(*args):
            raise KeyError("a bug")

        monkeypatch.setattr(requests[1].sessions[0]._transcript, "take", broken)
        while batch.step():
            pass
        results = [request.result(0, seat) for request, seat in zip(requests, seats, strict=True)]
    assert [result.error is None for result in results] == [True, False, True]
    assert isinstance(results[1].error.__cause__, KeyError)
    assert results[2].value.name == NAMES[2]
