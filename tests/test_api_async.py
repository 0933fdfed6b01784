"""`agenerate`: the values of `generate`, beside a loop that goes on; calls share passes, cancelled ones end.

Covers `decoding.threads`.
"""

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
        assert "".join(token.text for token in run.trace.tokens) == run.text
        assert all(token.seconds is None or token.seconds >= 0 for token in run.trace.tokens)
        assert any(token.allowed for token in run.trace.tokens)
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


def test_calls_of_one_model_share_its_forward_passes_and_have_their_own_errors(model):
    """Each has the value that it has alone, whatever ends another one."""
    texts = [f"Ada Moreau, {20 + number}, lives in Lyon." for number in range(12)]
    prompts = [f"Extract the person: name, age, city.\nText: {text}\nJSON: " for text in texts]

    async def check():
        passes, hook = [], model.module.register_forward_pre_hook(lambda *_: passes.append(1))
        calls = [sg.agenerate(model, prompt, Person) for prompt in prompts]
        wrong = sg.agenerate(model, prompts[0], Person, limits=sg.Limits(12, strict=True))
        *values, error = await asyncio.gather(*calls, wrong, return_exceptions=True)
        hook.remove()
        assert [value.age for value in values] == [20 + number for number in range(12)]
        assert isinstance(error, BudgetExhausted)
        assert len(passes) < 120  # some 20 of each call alone
        beams = await asyncio.gather(*(sg.agenerate(model, prompt, Person, beams=2) for prompt in prompts[:2]))
        assert beams == values[:2]

    asyncio.run(check())


def test_half_of_50_calls_are_cancelled_and_the_others_come(model):
    """The loop's own threads are free meanwhile, and a call that is given up is over soon."""

    async def check():
        schema = sg.Regex("([a-z]{9} ){20}")
        calls = [asyncio.create_task(sg.agenerate(model, PROMPT, schema)) for _ in range(50)]
        began = time.perf_counter()
        await asyncio.to_thread(time.sleep, 0.05)
        free, times = time.perf_counter() - began, []

        async def cancelled(call):
            before = time.perf_counter()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            times.append(time.perf_counter() - before)

        await asyncio.gather(*(cancelled(call) for call in calls[::2]))
        assert free < 1.5 > max(times)
        assert len(set(await asyncio.gather(*calls[1::2]))) == 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sg.agenerate(model, [PROMPT] * 64, sg.Regex("[a-z]{400}")), 0.05)

    asyncio.run(check())


def test_an_error_of_a_step_comes_to_all_calls_and_the_next_ones_run(model):
    async def check():
        def broken(*_):
            raise OSError("the device is lost")

        hook = model.module.register_forward_pre_hook(broken)
        calls = [sg.agenerate(model, PROMPT, Person) for _ in range(3)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        hook.remove()
        assert all("the device is lost" in f"{error}{error.__cause__}" for error in errors), errors
        assert (await sg.agenerate(model, PROMPT, Person)).age == 36

    asyncio.run(check())


def test_other_event_loops(model):
    """Calls, streams and cancelling under trio; what needs asyncio says so."""
    trio = pytest.importorskip("trio", reason="trio is not installed")

    async def check():
        values = []

        async def one():
            values.append(await sg.agenerate(model, PROMPT, Person))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        assert values == [Person(name="Ada Moreau", age=36, city="Lyon")] * 3
        events = [event async for event in sg.astream(model, PROMPT, Person)]
        assert events[-1].result.value == values[0]
        began = trio.current_time()
        with trio.move_on_after(0.1) as scope:
            await sg.agenerate(model, PROMPT, sg.Regex("([a-z]{9} ){45}"), sampling=sg.Sampling(temperature=1.0))
        assert scope.cancelled_caught
        assert trio.current_time() - began < 2
        (call,) = await sg.acall(model, "2 and 3?", [max_of], choice="required")
        for wait in (call.ainvoke(), sg.arun(model, "2 and 3?", [max_of])):
            with pytest.raises(OptionError, match="needs a running event loop of asyncio"):
                await wait

    trio.run(check)


def max_of(a: int, b: int) -> int:
    """The larger one."""
    return max(a, b)
