"""Every way to ask a model says the same, whoever takes the steps; what ends one call hurts no other."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from json import dumps, loads

import pytest

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.engine import Engine
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.given_prompts import GivenPrompts
from structgen.server import Settings
from structgen.testing import byte_vocabulary
from tests.support.mixed_rows import llama, outcome, sessions
from tests.support.serving import served
from tests.support.stepping import Stepping

SAMPLING = sg.Sampling(temperature=1.0, seed=4)
SCHEMA = sg.JsonSchema(Person.model_json_schema())
SLOW = sg.Regex("([a-z]{9} ){20}")


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def prompt(age: int) -> str:
    return f"Extract the person: name, age, city.\nText: Ada Moreau, {age}, lives in Lyon.\nJSON: "


def idle(engine: Engine) -> bool:
    return not (engine._batch or engine._tickets or engine._owners or engine._waits or engine._leading)


def test_every_door_says_the_same(model):
    prompts, options = [prompt(age) for age in range(30, 34)], {"sampling": SAMPLING}
    expected = [sg.generate(model, each, SCHEMA, details=True, **options).text for each in prompts]

    async def asynchronous() -> list[str]:
        alone = (sg.agenerate(model, each, SCHEMA, details=True, **options) for each in prompts)
        texts = [run.text for run in await asyncio.gather(*alone)]
        for each in prompts:
            events = [event async for event in sg.astream(model, each, SCHEMA, **options)]
            texts.append("".join(event.text for event in events))
        return texts

    found = {
        "list": [run.text for run in sg.generate(model, prompts, SCHEMA, details=True, batch_size=3, **options)],
        "stream": ["".join(event.text for event in sg.stream(model, each, SCHEMA, **options)) for each in prompts],
        "async": asyncio.run(asynchronous()),
        "call": [sg.call(model, [{"role": "user", "content": "x"}], schema=SCHEMA, **options)],
    }
    streamed = "".join(
        event.text for event in sg.stream_call(model, [{"role": "user", "content": "x"}], schema=SCHEMA, **options)
    )
    assert dumps(found.pop("call")[0]) == dumps(loads(streamed))
    assert found == {"list": expected, "stream": expected, "async": expected * 2}
    values = [loads(text) for text in expected]
    greedy = [loads(sg.generate(model, each, SCHEMA, details=True).text) for each in prompts]
    job = sg.extract_many(model, prompts, SCHEMA, batch_size=2)
    assert job.values == greedy
    with served(model, Settings(name="demo", rows=3)) as server:

        def ask(text: str) -> object:
            body = {"model": "demo", "prompt": text, "temperature": 1.0, "seed": 4, "max_tokens": 256}
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA.schema}}
            headers = {"Content-Type": "application/json"}
            asked = urllib.request.Request(f"{server.url}/v1/completions", dumps(body).encode(), headers)
            with urllib.request.urlopen(asked, timeout=120) as answer:
                return loads(loads(answer.read())["choices"][0]["text"])

        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(ask, prompts)] == values
    assert idle(Engine.of(model))


def test_threads_share_forward_passes_and_searches_theirs_too(model):
    passes = [0]
    hook = model.module.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    beams = [1, 1, 1, 3]
    try:
        alone = [sg.generate(model, prompt(20 + n), Person, beams=beams[n % 4]) for n in range(8)]
        apart, passes[0] = passes[0], 0
        with ThreadPoolExecutor(8) as pool:
            work = [pool.submit(sg.generate, model, prompt(20 + n), Person, beams=beams[n % 4]) for n in range(8)]
            assert [each.result() for each in work] == alone
    finally:
        hook.remove()
    assert passes[0] < 0.6 * apart
    assert idle(Engine.of(model))


def test_no_token_is_chosen_ahead_of_a_streams_user_though_others_go_on(model):
    stream = sg.stream(model, prompt(40), Person)
    texts = [next(stream).text]
    assert sg.generate(model, prompt(41), Person).age == 41
    (ticket,) = Engine.of(model)._tickets
    assert ticket.rows[0].token_count <= 4
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(sg.generate, model, prompt(42), Person).result().age == 42
    texts += [event.text for event in stream]
    assert loads("".join(texts))["age"] == 40
    assert idle(Engine.of(model))


def test_rows_of_every_kind_say_beside_others_what_they_say_alone():
    """Which pause and go on, and some of which are cancelled on the way."""
    module, count = llama(), 9
    alone = sessions(3, count)
    with Stepping(sg.Model(module, None, alone[0]._vocabulary)) as one:
        tickets = [one.join(session, record=True) for session in alone]
        for ticket in tickets:
            ticket.wait()
        expected = [outcome(session, ticket) for session, ticket in zip(alone, tickets, strict=True)]
    rng, rows = random.Random(0), sessions(3, count)
    with Stepping(sg.Model(module, None, rows[0]._vocabulary), rows=4) as some:
        going = {n: some.join(row, record=True) for n, row in enumerate(rows)}
        gone = {n: some.join(row) for n, row in enumerate(sessions(3, count)) if n % 3 == 0}
        steps = 0
        while any(ticket.left for ticket in going.values()):
            wanted = [each for each in (*going.values(), *gone.values()) if each.left and rng.random() < 0.7]
            if wanted:
                some.engine.step(wanted)
                steps += 1
            if gone and steps > 5:
                gone.popitem()[1].cancel()
        assert [outcome(row, going[n]) for n, row in enumerate(rows)] == expected


class Stop(BaseException):
    """Ends a thread, as Ctrl-C does."""


@pytest.mark.parametrize("when", [2, 5, 8])
def test_what_interrupts_the_thread_that_steps_ends_its_own_call_alone(model, monkeypatch, when):
    """In a forward pass, in whichever thread takes that step; the others' rows are read anew."""
    forward, passes = model.module.forward, [0]

    def interrupted(*args, **kwargs):
        passes[0] += 1
        if passes[0] == when:
            raise Stop
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.module, "forward", interrupted)
    barrier, ends = threading.Barrier(4), {}

    def ask(n: int) -> None:
        barrier.wait()
        try:
            ends[n] = sg.generate(model, prompt(50 + n), Person).age
        except Stop:
            ends[n] = None

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(ends) == [0, 1, 2, 3]
    assert list(ends.values()).count(None) == 1
    assert all(age in (None, 50 + n) for n, age in ends.items())
    assert idle(Engine.of(model))


def test_of_many_requests_a_third_of_which_is_cancelled_none_is_lost():
    """They come in bursts from several threads, each of which waits for its own."""
    module, vocabulary = llama(), byte_vocabulary()
    owner = sg.Model(module, None, vocabulary)
    engine, each, ended = Engine.of(owner), 40, []

    def work(number: int) -> None:
        rng = random.Random(number)
        for n in range(each):
            options = CallOptions(limits=sg.Limits(1 + rng.randrange(6)), sampling=sg.Sampling(1.0, seed=n))
            request = prepare(owner, GivenPrompts.of([1 + rng.randrange(200) for _ in range(4)]), None, options)
            with request.submit(record=False) as ticket:
                if rng.random() < 1 / 3:
                    for _ in range(rng.randrange(3)):
                        ticket.step()
                else:
                    ticket.wait()
                    assert request.result(0, ticket).error is None
            ended.append(request.sessions[0])

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, number) for number in range(8)]:
            done.result(timeout=300)
    assert len(ended) == 8 * each
    assert all(session.done for session in ended)
    assert each < sum(session.error is not None for session in ended) < 4 * each
    assert idle(engine)


def test_a_call_whose_thread_waits_for_another_one_ends_when_it_is_cancelled(model):
    cancel, ends = threading.Event(), []
    long = threading.Thread(target=lambda: ends.append(sg.generate(model, prompt(30), SLOW)))
    long.start()
    time.sleep(0.05)

    def ask() -> None:
        with pytest.raises(sg.Stopped):
            sg.generate(model, prompt(31), sg.Regex("([a-z]{9} ){45}"), cancel=cancel)
        ends.append("cancelled")

    other = threading.Thread(target=ask)
    other.start()
    time.sleep(0.05)
    cancel.set()
    other.join(60)
    long.join(60)
    assert "cancelled" in ends
    assert len(ends) == 2
    assert idle(Engine.of(model))
