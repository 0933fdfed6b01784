"""The loop of turns: results, errors and refusals go back to the model."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, RunError
from structgen.testing import scripted_chat
from tests.support.tables import cases


class Plan(BaseModel):
    nights: int


def call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@sg.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@sg.tool
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


def test_results_go_back_until_there_is_an_answer():
    both = call_text("add", '{"a": 1, "b": 2}') + "\n" + call_text("add", '{"a": 3, "b": 4}')
    model = scripted_chat(both, '{"nights": 7}')
    done = sg.run(model, "How many?", [add], schema=Plan, details=True)
    assert done.answer == Plan(nights=7)
    assert [len(reply.calls) for reply in done.replies] == [2, 0]
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [message["content"] for message in done.messages if message["role"] == "tool"] == ["3", "7"]
    assert "<|im_start|>tool\n3<|im_end|>\n<|im_start|>tool\n7" in done.replies[1].prompt


@pytest.mark.parametrize("choice", ["required", "add", add])
def test_the_first_turn_calls_where_it_must(choice):
    model = scripted_chat('<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', "3.")
    done = sg.run(model, "How many?", [add, fail], choice=choice, details=True)
    assert (done.answer, [len(reply.calls) for reply in done.replies]) == ("3.", [1, 0])
    text_first = scripted_chat("Three.", "Three.")  # would answer at once, and must call
    assert len(sg.run(text_first, "How many?", [add, fail], choice=choice, details=True).replies[0].calls) == 1
    with pytest.raises(OptionError, match="2 or more where choice= asks for a call"):
        sg.run(model, "How many?", [add, fail], choice=choice, max_turns=1)


def test_errors_of_tools_are_told_to_the_model():
    wrong = call_text("fail", '{"why": "no such city"}')
    model = scripted_chat(wrong, "Sorry.")
    done = sg.run(model, "Go.", [fail], details=True)
    assert done.answer == "Sorry."
    assert "Error: ValueError: no such city" in done.replies[1].prompt


def test_too_many_errors_are_raised():
    wrong = call_text("fail", '{"why": "no such city"}')
    model = scripted_chat(wrong, wrong, "Sorry.")
    with pytest.raises(RunError, match="no such city") as raised:
        sg.run(model, "Go.", [fail], max_errors=1)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_call_may_need_a_persons_consent():
    calls = call_text("add", '{"a": 1, "b": 2}') + "\n" + call_text("fail", '{"why": "x"}')
    asked = []

    def confirm(call):
        asked.append(call.name)
        return "Not now." if call.name == "add" else False

    model = scripted_chat(calls, "Well.")
    done = sg.run(model, "Go.", [add, fail], confirm=confirm, details=True)
    assert done.answer == "Well."
    assert asked == ["add", "fail"]
    assert "Not now." in done.replies[1].prompt
    assert "does not allow" in done.replies[1].prompt


def test_the_last_turn_is_an_answer():
    again = call_text("add", '{"a": 1, "b": 2}')
    model = scripted_chat(again, "Three.")
    done = sg.run(model, "Go.", [add], max_turns=2, details=True)
    assert (done.answer, len(done.replies)) == ("Three.", 2)


def test_tools_must_be_able_to_run():
    model = scripted_chat("")
    with pytest.raises(OptionError, match="with a function"):
        sg.run(model, "Go.", [{"name": "ping"}])
    with pytest.raises(OptionError, match="max_turns"):
        sg.run(model, "Go.", [add], max_turns=0)


def test_async_tools_run():
    @sg.tool
    async def double(n: int) -> int:
        return 2 * n

    model = scripted_chat(call_text("double", '{"n": 21}'), "Done.")
    done = sg.run(model, "Go.", [double], details=True)
    assert done.answer == "Done."
    assert "42" in done.replies[1].prompt


def test_tools_are_a_list():
    """One tool alone, or a dict of tools, is told so, as by `call`."""
    for tools in (len, None, {"len": len}):
        with pytest.raises(sg.OptionError, match=r"tools=.*: expected a list of tools"):
            sg.run(scripted_chat("Fine."), "q", tools)


def test_text_may_stand_before_calls_although_the_answer_has_a_schema():
    says = "Let me see.\n" + call_text("add", '{"a": 3, "b": 4}'), "It is seven nights.", '{"nights": 7}'
    done = sg.run(scripted_chat(*says), "How many?", [add], schema=Plan, text_before_calls=True, details=True)
    assert done.answer == Plan(nights=7)
    assert [message["role"] for message in done.messages] == cases(
        "calling/conversation", "text_may_stand_before_calls_although_the_answer_has_a_schema_data"
    )
    assert [message["content"] for message in done.messages if message["role"] == "assistant"] == [
        "Let me see.", "It is seven nights.", '{"nights": 7}',
    ]  # fmt: skip
    assert '"nights"' in done.replies[2].prompt
    for turns in (1, 2):
        says = "It is seven nights.", "It is seven nights."
        answer = sg.run(scripted_chat(*says), "q", [add], schema=Plan, text_before_calls=True, max_turns=turns,
                        thinking=False, limits=sg.Limits(40), details=True).answer  # fmt: skip
        assert isinstance(answer, Plan)


STOP = threading.Event()


@sg.tool
def sleep(seconds: float) -> str:
    """Sleeps."""
    STOP.set()
    time.sleep(seconds)
    return "done"


@sg.tool
async def asleep(seconds: float) -> str:
    """Sleeps in the event loop."""
    STOP.set()
    await asyncio.sleep(seconds)
    return "done"


@pytest.mark.parametrize("tool", [sleep, asleep], ids=["sync", "async"])
def test_a_run_ends_while_its_tools_run(tool):
    """The conversation says that the call was interrupted."""
    for runs in (sg.run, lambda *given, **more: asyncio.run(sg.arun(*given, **more))):
        STOP.clear()
        model = scripted_chat(call_text(tool.name, '{"seconds": 30}'), "Well.")
        began = time.monotonic()
        with pytest.raises(sg.Stopped, match="cancelled") as caught:
            runs(model, "Go.", [tool], cancel=STOP, limits=sg.Limits(seconds=600))
        assert time.monotonic() - began < 20
        assert "interrupted" in caught.value.conversation.messages[-1]["content"]
    for runs in (sg.run, lambda *given, **more: asyncio.run(sg.arun(*given, **more))):
        with pytest.raises(sg.Stopped, match=r"seconds=2 are over"):
            runs(model, "Go.", [tool], limits=sg.Limits(seconds=2))
