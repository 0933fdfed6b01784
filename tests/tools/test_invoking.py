"""How the functions of tools run: in any context, within their time, as often as they may."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from functools import partial

import pytest

from structgen.tools import tool
from structgen.tools.invoking import in_background, in_thread

asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


@tool(timeout=0.05)
def sleeps(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


@tool(timeout=0.05)
async def asleeps(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "awake"


@pytest.mark.parametrize("each", [sleeps, asleeps], ids=["sync", "async"])
def test_a_call_that_takes_too_long_is_over(each):
    slow, quick = each.called('{"seconds": 1}'), each.called('{"seconds": 0}')
    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"no result within 0.05 seconds"):
        slow.invoke()
    with pytest.raises(TimeoutError, match=r"no result within 0.05 seconds"):
        asyncio.run(slow.ainvoke())
    assert time.perf_counter() - began < 0.8
    assert (quick.invoke(), asyncio.run(quick.ainvoke())) == ("awake", "awake")


@pytest.mark.parametrize("is_async", [False, True])
def test_what_raises_is_tried_again(is_async):
    tries = []

    def fails() -> int:
        tries.append(1)
        if len(tries) % 3:
            raise ConnectionError("not yet")
        return len(tries)

    async def afails() -> int:
        return fails()

    for retries, outcome in ((2, 3), (1, None)):
        tries.clear()
        call = tool(name="fails", retries=retries)(afails if is_async else fails).called("{}")
        for invoke in (call.invoke, lambda: asyncio.run(call.ainvoke())):  # noqa: B023
            if outcome is None:
                with pytest.raises(ConnectionError):
                    invoke()
                tries.clear()
            else:
                assert invoke() % 3 == 0


def test_an_async_tool_keeps_its_loop_from_call_to_call():
    loops = []

    @tool
    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return asked_by.get()

    asked_by.set("Ada")
    assert where.called("{}").invoke() == where.called("{}").invoke() == "Ada"
    assert loops[0] is loops[1]

    @tool
    async def outer() -> str:
        return where.called("{}").invoke()  # blocks the loop it runs in

    assert outer.called("{}").invoke() == "Ada"


def test_a_sync_function_that_returns_an_awaitable_is_awaited():
    async def later() -> int:
        return 3

    call = tool(name="later")(partial(lambda: later())).called("{}")
    assert call.invoke() == asyncio.run(call.ainvoke()) == 3


def test_an_exit_or_a_cancelled_task_in_a_tool_does_not_end_the_loop():
    @tool
    async def leaves() -> None:
        raise SystemExit(3)

    @tool
    async def cancelled() -> None:
        raise asyncio.CancelledError

    for _ in range(2):
        with pytest.raises(SystemExit):
            leaves.called("{}").invoke()
        with pytest.raises(RuntimeError, match="cancelled itself"):
            cancelled.called("{}").invoke()
    with pytest.raises(RuntimeError, match="cancelled itself"):
        asyncio.run(cancelled.called("{}").ainvoke())


def test_a_cancelled_call_cancels_its_tool():
    ended = threading.Event()

    @tool
    async def waits() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.set()

    async def check() -> None:
        task = asyncio.create_task(waits.called("{}").ainvoke())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(check())
    assert ended.wait(1)


def test_threads_and_the_loop_hand_over_results_and_errors():
    assert in_thread(lambda: 3).result() == 3
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0).result()
    assert in_background(asyncio.sleep(0, "done")) == "done"
