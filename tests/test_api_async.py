"""`agenerate`: the values of `generate`, beside a loop that goes on; cancelled calls end."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import BudgetExhausted, OptionError

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def test_it_gives_what_generate_gives(model):
    async def check():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        one, many, run, empty = await asyncio.gather(
            sg.agenerate(model, PROMPT, Person),
            sg.agenerate(model, [PROMPT, PROMPT], [Person, None]),
            sg.agenerate(model, PROMPT, Person, details=True),
            sg.agenerate(model, []),
        )
        ticking.cancel()
        assert (one, many[0], run.value, empty) == (Person(name="Ada Moreau", age=36, city="Lyon"), one, one, [])
        assert isinstance(many[1], str)
        assert ticks > 3

    asyncio.run(check())


def test_errors_and_warnings_come_to_the_caller(model):
    async def check():
        with pytest.raises(OptionError, match="temperature"):
            await sg.agenerate(model, PROMPT, Person, temperature=1)
        with pytest.raises(OptionError, match="details"):
            await sg.agenerate(model, PROMPT, Person, details="yes")
        with pytest.raises(BudgetExhausted):
            await sg.agenerate(model, PROMPT, Person, limits=sg.Limits(12, strict=True))
        runs = await sg.agenerate(model, [PROMPT], Person, limits=sg.Limits(12, strict=True), details=True)
        assert isinstance(runs[0].error, BudgetExhausted)
        with pytest.warns(sg.BudgetWarning):
            await sg.agenerate(model, PROMPT, Person, limits=sg.Limits(17))

    asyncio.run(check())


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_is_cancelled_ends_and_leaves_the_model_as_it_was(model, times):
    async def check():
        call = asyncio.create_task(
            sg.agenerate(model, PROMPT, sg.Regex("([a-z]{9} ){45}"), sampling=sg.Sampling(temperature=1.0))
        )
        await asyncio.sleep(0.1)
        began, threads = time.perf_counter(), threading.active_count()
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.perf_counter() - began < 5
        assert threading.active_count() <= threads
        assert await sg.agenerate(model, PROMPT, Person) == Person(name="Ada Moreau", age=36, city="Lyon")

    asyncio.run(check())
