"""`acall`, `arun` and `astream_call`: what `call`, `run` and `stream_call` give, beside a loop that goes on."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, RunError
from structgen.testing import scripted_chat


class Plan(BaseModel):
    nights: int


def call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@sg.tool
async def double(n: int) -> int:
    """Doubles."""
    await asyncio.sleep(0)
    return 2 * n


@sg.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


DOUBLE = call_text("double", '{"n": 21}')
BOTH = DOUBLE + "\n" + call_text("add", '{"a": 1, "b": 2}')


def test_a_call_and_its_tool_are_awaited():
    async def check():
        model = scripted_chat(DOUBLE)
        (call,) = await sg.acall(model, "q", [double], choice=double)
        assert await call.ainvoke() == 42
        reply = await sg.acall(model, "q", [double, add], details=True)
        assert [each.arguments for each in reply.calls] == [{"n": 21}]
        assert await sg.acall(model, ["q", "q"], [double], choice="required") == [[call], [call]]
        with pytest.raises(OptionError, match="temperature"):
            await sg.acall(model, "q", [double], temperature=1)
        with pytest.warns(sg.BudgetWarning):
            await sg.acall(scripted_chat(call_text("double", '{"n": ' + "1" * 90)), "q", [double], choice=double,
                           limits=sg.Limits(80))  # fmt: skip

    asyncio.run(check())


def test_a_stream_has_the_events_of_a_sync_one():
    async def check():
        return [event async for event in sg.astream_call(scripted_chat("Well. " + DOUBLE), "q", [double])]

    events, wanted = asyncio.run(check()), [*sg.stream_call(scripted_chat("Well. " + DOUBLE), "q", [double])]
    told = [[(each.text, each.name, each.arguments, each.call) for each in some] for some in (events, wanted)]
    assert told[0] == told[1]
    assert events[-1].reply.calls[0].arguments == {"n": 21}
    with pytest.raises(OptionError, match="beams"):
        sg.astream_call(scripted_chat(DOUBLE), "q", [double], beams=2)


def test_a_conversation_has_the_answer_of_a_sync_one_and_the_loop_goes_on():
    async def check():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        done = await sg.arun(scripted_chat(BOTH, '{"nights": 3}'), "q", [double, add], schema=Plan, details=True)
        ticking.cancel()
        assert ticks > 3
        return done

    done = asyncio.run(check())
    assert done.answer == Plan(nights=3)
    assert [each["content"] for each in done.messages if each["role"] == "tool"] == ["42", "3"]
    wanted = sg.run(scripted_chat(BOTH, '{"nights": 3}'), "q", [double, add], schema=Plan, details=True)
    assert wanted.messages[1:] == [
        each | ({"tool_call_id": other["tool_call_id"]} if "tool_call_id" in each else {})
        for each, other in zip(done.messages[1:], wanted.messages[1:], strict=True)
    ]


def test_a_sync_conversation_within_a_loop_runs_async_tools():
    async def check():
        return sg.run(scripted_chat(BOTH, "Done."), "q", [double, add])

    assert asyncio.run(check()) == "Done."


def test_a_cancelled_conversation_can_be_taken_up_again():
    began = asyncio.Event()

    @sg.tool
    async def waits() -> str:
        began.set()
        await asyncio.sleep(10)
        return "late"

    model = scripted_chat(call_text("waits", "{}"), "Then not.")

    async def check():
        task = asyncio.create_task(sg.arun(model, "q", [waits]))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        stopped = raised.value.conversation
        assert "interrupted" in stopped.messages[-1]["content"]
        assert await sg.arun(model, stopped, [waits]) == "Then not."

    asyncio.run(check())


def test_failures_are_those_of_the_sync_loop():
    async def check():
        with pytest.raises(OptionError, match="max_turns"):
            await sg.arun(scripted_chat(""), "q", [add], max_turns=0)
        with pytest.raises(RunError, match="division") as raised:
            await sg.arun(scripted_chat(call_text("divide", '{"n": 0}')), "q", [divide], max_errors=0)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)

    @sg.tool
    async def divide(n: int) -> float:
        return 1 / n

    asyncio.run(check())
