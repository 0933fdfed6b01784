"""Injected faults: each ends in an answer, or in a conversation that `run` takes again and ends in an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.errors import RunError, ValidationFailed
from structgen.testing import scripted_chat
from tests.support.tables import cases


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


def raises(error: BaseException) -> Any:
    def fault() -> Any:
        raise error

    return fault


def recursive() -> Any:
    return recursive()


def breaks_off() -> Iterator[int]:
    yield 1
    raise OSError("the pipe is broken")


def forever() -> None:
    time.sleep(0.3)


class Opaque:
    """Has no text of its own."""


TOOL_FAULTS = cases("calling/faults", "TOOL_FAULTS", globals())


CALL = '<tool_call>\n{"name": "act", "arguments": {"w": "a"}}\n</tool_call>'


LEAVES = (SystemExit, KeyboardInterrupt)
"""What is raised although a tool raised it: it is not an error."""


def fine() -> str:
    return "fine"


fault: list[Any] = [fine]
"""What the tool does, in a list so that it can be mended."""


@sg.tool(name="act", timeout=0.1)
def act(w: str) -> Any:
    return fault[0]()


@sg.tool(name="act")
async def aact(w: str) -> Any:
    return fault[0]()


MODEL = replace(scripted_chat(CALL, *["OK"] * 9), set_context=900)
"""It calls in its first turn, and answers in all others."""


def ends(mode: str, wrong: Any = fine, **options: Any) -> Any:
    """The answer of a run, or the error with which it ends; then it was taken up again, to an answer."""

    def once(messages: Any, **options: Any) -> Any:
        options = {"limits": sg.Limits(200), **options}
        if mode == "sync":
            return sg.run(MODEL, messages, [act], **options)
        return asyncio.run(sg.arun(MODEL, messages, [act if wrong is forever else aact], **options))

    fault[0] = wrong
    try:
        return once("Go.", **options)
    except BaseException as error:  # noqa: BLE001 - that is what is tested
        stopped = error.conversation
        calls = [call.id for each in stopped.messages for call in each.get("tool_calls", ())]
        made = [each["tool_call_id"] for each in stopped.messages if each["role"] == "tool"]
        assert made == ([] if "confirm" in options else calls)  # what nobody has decided about is open
        fault[0] = fine
        if isinstance(MODEL.module.forward, Breaks):
            MODEL.module.forward = MODEL.module.forward.whole
        assert once(stopped) == "OK"
        return error
    finally:
        fault[0] = fine


each_mode = pytest.mark.parametrize("mode", ["sync", "async"])


@each_mode
def test_whatever_a_tool_does_there_is_an_answer_or_a_conversation(mode):
    for name in TOOL_FAULTS if mode == "sync" else ("error", "time", "cancelled", "exit", "opaque", "generator"):
        wrong = TOOL_FAULTS[name]
        outcome = ends(mode, wrong)
        assert outcome == "OK" or isinstance(outcome, LEAVES), (name, outcome)
    for name in ("error", "error without a message", "time", "opaque"):
        outcome = ends(mode, TOOL_FAULTS[name], max_errors=0)
        assert isinstance(outcome, RunError), (name, outcome)


def asks(error: BaseException | None, answer: Any = True) -> Any:
    def confirm(call: sg.ToolCall[Any]) -> Any:
        if error is not None:
            raise error
        return answer

    return confirm


class Vetoes(sg.Guard[None]):
    """A guard whose code fails."""

    def start(self) -> None:
        return None

    def feed(self, state: None, data: bytes) -> Any:
        raise KeyError("a bug")


class Breaks:
    """A forward pass that fails, in place of the model's own."""

    def __init__(self, error: Exception) -> None:
        self.error, self.whole = error, MODEL.module.forward

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise self.error


RUN_FAULTS = cases("calling/faults", "RUN_FAULTS", globals())


@each_mode
def test_whatever_else_fails_in_a_run_there_is_an_answer_or_a_conversation(mode):
    for name, (options, kind) in RUN_FAULTS.items():
        outcome = ends(mode, **options)
        assert isinstance(outcome, kind), (name, outcome)
    for error in (MemoryError("CUDA out of memory"), RuntimeError("the device is lost")):
        MODEL.module.forward = Breaks(error)
        outcome = ends(mode)
        assert error in (outcome, outcome.__cause__)


class Plan(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n


@each_mode
def test_an_answer_that_is_refused_goes_back_to_the_model_as_turns_that_alternate(mode):
    def once(*says: str, messages: Any = "Go.", **options: Any) -> Any:
        options = {"schema": Plan, "limits": sg.Limits(60, validations=0), "details": True, **options}
        if mode == "sync":
            return sg.run(scripted_chat(*says), messages, [act], **options)
        return asyncio.run(sg.arun(scripted_chat(*says), messages, [aact], **options))

    done = once('{"n": 1}', '{"n": 2}')
    assert done.answer == Plan(n=2)
    assert [each["role"] for each in done.messages] == ["user", "assistant", "user", "assistant"]
    assert "odd" in done.messages[2]["content"]
    with pytest.raises(RunError, match="more than max_errors allows") as raised:
        once('{"n": 1}', '{"n": 2}', max_errors=0)
    assert isinstance(raised.value.__cause__, ValidationFailed)
    assert once("", '{"n": 2}', messages=raised.value.conversation).answer == Plan(n=2)
    with pytest.raises(ValidationFailed) as raised:
        once('{"n": 1}', max_turns=1)
    assert once('{"n": 4}', messages=raised.value.conversation).answer == Plan(n=4)


def test_results_that_do_not_fit_into_the_context_are_cut():
    """Three of 20,000 characters each in a context of 1,200 tokens."""
    model = replace(scripted_chat("\n".join([CALL] * 3), "OK"), set_context=1200)
    fault[0] = TOOL_FAULTS["200,000 characters"]
    try:
        done = sg.run(model, "Go.", [act], details=True, max_turns=2, limits=sg.Limits(200))
    finally:
        fault[0] = fine
    assert done.answer == "OK"
    told = [each["content"] for each in done.messages if each["role"] == "tool"]
    assert all("more characters of the result were cut off" in each for each in told)
    assert 500 < sum(map(len, told)) < 1000
    with pytest.raises(sg.PromptTooLong) as raised:
        sg.run(model, "Go." * 3000, [act])
    assert (raised.value.context, raised.value.conversation.replies) == (1200, [])
