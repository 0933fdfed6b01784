"""The thread that runs the model: jobs that come, go, fail, and are cancelled."""

from __future__ import annotations

import time
from queue import Queue

import pytest
import torch

import structgen as sg
from structgen.calling.request import TurnRequest
from structgen.decoding.call_options import CallOptions
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import RunError
from structgen.given_prompts import GivenPrompts
from structgen.server.engine import EngineJob, ModelThread, News

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


@pytest.fixture
def engine(model):
    made = ModelThread(model, rows=2, deliver=deliver)
    yield made
    made.close()
    assert not made.alive


def deliver(told):
    for job, news in told:
        job.tell(news)


def job(model, *schemas, stream=False, **options):
    """A job with a queue of its news."""
    turns = [
        TurnRequest(prepare(model, GivenPrompts.of(PROMPT), each, CallOptions(**options)), {}, None, None)
        for each in schemas
    ]
    queue = Queue[News]()
    return EngineJob(turns, record=False, stream=stream, tell=queue.put), queue


def last(queue):
    """The last news of a text."""
    while (news := queue.get(timeout=60)).generation is None and news.error is None:
        pass
    return news


def idle(engine):
    until = time.monotonic() + 60
    while engine.running or engine.waiting:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_jobs_with_more_texts_than_rows(model, engine):
    jobs = [job(model, Person, Person, Person, stream=stream) for stream in (False, True)]
    for each, _ in jobs:
        engine.submit(each)
    for _, queue in jobs:
        for _ in range(3):
            assert last(queue).generation.value == Person(name="Ada Moreau", age=36, city="Lyon")
    idle(engine)


def test_a_job_that_is_cancelled_frees_its_rows_for_others(model, engine):
    long, queue = job(model, None, None, stream=True, limits=sg.Limits(400))
    engine.submit(long)
    queue.get(timeout=60)
    short, answers = job(model, Person)
    engine.submit(short)
    engine.cancel(long)
    assert last(answers).generation.value.age == 36
    engine.cancel(long)
    engine.cancel(short)
    idle(engine)
    steps = engine.steps
    time.sleep(0.1)
    assert engine.steps == steps


def test_a_forward_pass_that_fails_ends_the_jobs_that_run_and_no_later_one(model, engine, monkeypatch):
    def fail(*args, **kwargs):
        raise torch.cuda.OutOfMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(model.module, "forward", fail)
        failing, queue = job(model, Person, None)
        engine.submit(failing)
        news = last(queue)
    assert isinstance(news.error, RunError)
    assert "no memory" in str(news.error)
    idle(engine)
    fine, answers = job(model, Person)
    engine.submit(fine)
    assert last(answers).generation.value.name == "Ada Moreau"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_ends_the_thread_ends_all_jobs_at_once(model, monkeypatch):
    engine, waiting = ModelThread(model, rows=1, deliver=deliver), job(model, Person)

    def end(*args, **kwargs):
        engine.submit(waiting[0])
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(model.module, "forward", end)
        running = job(model, Person, None)
        engine.submit(running[0])
        for _, queue in (running, waiting):
            assert "thread has ended: SystemExit" in str(last(queue).error)
        engine.close()
    assert not engine.alive


def test_what_runs_when_the_engine_is_closed_fails(model):
    engine = ModelThread(model, rows=2, deliver=deliver)
    long, queue = job(model, None, stream=True, limits=sg.Limits(400))
    engine.submit(long)
    queue.get(timeout=60)
    engine.close()
    assert "being stopped" in str(last(queue).error)
