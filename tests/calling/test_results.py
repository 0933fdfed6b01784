"""The calls of a turn are made side by side, and each result becomes text that a model can read."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.calling.results import Async, Caller, Sync, content, driven, failure


class Stay(BaseModel):
    nights: int


class Opaque:
    pass


def calls(*tools: sg.Tool) -> list[sg.ToolCall]:
    return [each.called("{}") for each in tools]


async def results(way, made: list[sg.ToolCall], confirm=None) -> list[str]:
    caller = Caller(way, confirm)
    asked = [sg.Ctx(None, each) if isinstance(each, sg.ToolCall) else each for each in await caller.allowed(made)]
    return [each.content async for each in caller.results(asked)]


def both(made: list[sg.ToolCall], confirm=None) -> list[str]:
    """The results, which are the same for sync and async code."""
    one = driven(results(Sync(), made, confirm))
    assert one == asyncio.run(results(Async(), made, confirm))
    return one


def meeting(count: int):
    """Tools that end only if all of them run at once: two of each kind."""
    barrier = threading.Barrier(count, timeout=5)

    @sg.tool
    def meets() -> str:
        barrier.wait()
        return "sync"

    @sg.tool
    async def ameets() -> str:
        await asyncio.to_thread(barrier.wait)
        return "async"

    return meets, ameets


def test_calls_of_a_turn_run_side_by_side_and_in_order():
    meets, ameets = meeting(4)
    assert both(calls(meets, ameets, ameets, meets)) == ["sync", "async", "async", "sync"]


def test_a_tool_that_is_not_concurrent_runs_alone():
    running, threads = [], set()

    @sg.tool(concurrent=False)
    def alone() -> int:
        running.append(1)
        assert len(running) == 1
        threads.add(threading.get_ident())
        running.pop()
        return 1

    made = calls(*[alone] * 4)
    assert driven(results(Sync(), made)) == ["1"] * 4
    assert threads == {threading.get_ident()}
    assert both(made) == ["1"] * 4


def test_a_person_is_asked_first_and_may_be_asked_async():
    made, order = [], []

    @sg.tool
    def book() -> str:
        made.append(1)
        return "booked"

    def confirm(call):
        order.append(len(made))
        return len(order) % 2 == 1 or "no \ud800"

    async def aconfirm(call):
        return confirm(call)

    assert both(calls(book, book), confirm) == ["booked", "no \ufffd"]
    assert order == [0, 0, 1, 1]
    assert both(calls(book, book), aconfirm) == ["booked", "no \ufffd"]
    assert both(calls(book), lambda call: None) == ["Error: the user does not allow this call."]


@pytest.mark.parametrize(
    ("result", "text"),
    [("text", "text"), (None, "null"), ({"a": (1, 2)}, '{"a": [1, 2]}'), (Stay(nights=2), '{"nights": 2}'),
     ([Stay(nights=1)], '[{"nights": 1}]'), (Decimal("1.5"), '"1.5"'), (b"abc", '"abc"'), ("ä", "ä"),
     ("\ud83d\ude00 \ud800!", "😀 \ufffd!"), (["\udfff"], '["\ufffd"]'), ((n for n in (1, 2)), "[1, 2]")],
)  # fmt: skip
def test_a_result_is_text_or_json_without_half_surrogates(result, text):
    assert content(result, None) == text
    content(result, None).encode()


def test_a_long_result_is_cut_and_says_so():
    tool = sg.tool(name="read", max_result=10)(lambda: "")
    assert content("x" * 10, tool) == "x" * 10
    assert content("x" * 200_010, tool) == "x" * 10 + "\n[200,000 more characters of the result were cut off]"
    assert len(content("x" * 200_000, None)) < 20_100


def test_what_no_text_can_be_made_of_is_an_error_of_the_tool():
    with pytest.raises(TypeError, match="the result is a Opaque"):
        content(Opaque(), None)

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert failure(Mute()).content == "Error: Mute: its message cannot be read"
    assert failure(ValueError("a\ud800")).content == "Error: ValueError: a\\ud800"
    assert both(calls(sg.tool(name="opaque")(Opaque)))[0].startswith("Error: ")
