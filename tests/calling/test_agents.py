"""Examples from the documentation of other agent frameworks, ported: what they do is done by `run` and its options.

Each names its source. The models are scripted: they want to say what the framework's page shows.

Covers `events`, `loop`, `remote_turns`, `reply`, `running`.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.errors import OptionError, RunError, ValidationFailed
from structgen.records import Conversation
from structgen.testing import scripted_chat
from tests.support.tables import cases
from tests.support.thinning import as_slow


def says(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def both(*script: str, tools: list[Any], **options: Any) -> Any:
    """The conversation by `run`; `arun` gives the same."""
    one = sg.run(scripted_chat(*script), "Go.", tools, details=True, **options)
    other = asyncio.run(sg.arun(scripted_chat(*script), "Go.", tools, details=True, **options))
    assert one.answer == other.answer
    assert [each.get("content") for each in one.messages] == [each.get("content") for each in other.messages]
    return one


def results(done: Any) -> list[Any]:
    return [each["content"] for each in done.messages if each["role"] == "tool"]


@sg.tool
def roll_dice() -> str:
    """Rolls a six-sided die."""
    return "4"


@sg.tool
def get_player_name(ctx: sg.Ctx[str]) -> str:
    """The player's name."""
    return ctx.deps


@sg.tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"The weather in {city} is sunny"


@sg.tool
def delete_file(path: str) -> str:
    """Deletes a file."""
    return f"File {path!r} deleted"


def test_dice_game_with_dependencies():
    """pydantic-ai, Function Tools: `RunContext[str]` and `deps=`."""
    assert get_player_name.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    both_tools = says("get_player_name") + "\n" + says("roll_dice")
    done = both(both_tools, "Congratulations Anne, you guessed correctly!", tools=[roll_dice, get_player_name],
                deps="Anne")  # fmt: skip
    assert results(done) == ["Anne", "4"]
    assert get_player_name.called("{}").invoke(sg.Ctx("Bo")) == "Bo"
    assert get_player_name(sg.Ctx("Cy")) == "Cy"


@dataclass
class Bank:
    names: dict[int, str]
    customer: int


class Support(BaseModel):
    advice: str
    block_card: bool
    risk: int = Field(ge=0, le=10)


def test_bank_support_agent():
    """pydantic-ai, the first page: dependencies, an async tool, a typed answer."""

    @sg.tool
    async def customer_balance(ctx: sg.Ctx[Bank], include_pending: bool) -> str:
        assert ctx.call.arguments == {"include_pending": True}
        return f"{ctx.deps.names[ctx.deps.customer]}: $123.45"

    answer = '{"advice": "Your balance is $123.45.", "block_card": false, "risk": 1}'
    done = both(says("customer_balance", include_pending=True), answer, tools=[customer_balance], schema=Support,
                deps=Bank({123: "John"}, 123))  # fmt: skip
    assert (done.answer.risk, results(done)) == (1, ["John: $123.45"])


def test_events_of_a_run():
    """pydantic-ai, `run_stream_events`; openai-agents, `Runner.run_streamed`; smolagents, `run(stream=True)`."""
    script = "Let me look. " + says("get_weather", city="Paris"), "It is sunny."
    events = [*sg.stream_run(scripted_chat(*script), "Weather?", [get_weather])]
    kinds = [each.kind for each in events]
    assert list(dict.fromkeys(kinds)) == ["text", "call", "result", "answer"]
    assert "".join(each.text for each in events if each.kind == "text") == "Let me look.It is sunny."
    assert [each.call.arguments for each in events if each.kind in ("call", "result")] == [{"city": "Paris"}] * 2
    assert [each.value for each in events if each.kind == "result"] == ["The weather in Paris is sunny"]
    assert (events[-1].answer, len(events[-1].conversation.messages)) == ("It is sunny.", 4)

    async def check():
        return [each.kind async for each in sg.astream_run(scripted_chat(*script), "Weather?", [get_weather])]

    assert asyncio.run(check()) == kinds
    for event in sg.stream_run(scripted_chat(*script), "Weather?", [get_weather]):
        if event.kind == "call":
            break  # whoever stops makes no call
    with pytest.raises(OptionError, match="max_turns"):
        sg.stream_run(scripted_chat(*script), "Weather?", [get_weather], max_turns=0)


def test_approval_with_other_arguments():
    """pydantic-ai, Human-in-the-Loop: `ToolApproved(override_args=...)` and `ToolDenied("...")`."""
    script = says("delete_file", path=".env") + "\n" + says("delete_file", path="README.md"), "Done."
    done = both(*script, tools=[delete_file],
                confirm=lambda call: {"path": "x.txt"} if call.arguments["path"] == ".env" else "Keep it.")  # fmt: skip
    assert results(done) == ["File 'x.txt' deleted", "Keep it."]
    assert [call.arguments["path"] for call in done.messages[1]["tool_calls"]] == ["x.txt", "README.md"]
    with pytest.raises(ValidationFailed, match="path") as caught:
        sg.run(scripted_chat(*script), "Go.", [delete_file], confirm=lambda call: {"path": 3})
    assert caught.value.conversation.messages[-1]["role"] == "assistant"


class Undecided(Exception):
    """Somebody else decides, later."""


def waits(call: sg.ToolCall[Any]) -> bool:
    raise Undecided(call.name)


RESUME = cases("calling/agents", "RESUME")


@pytest.mark.parametrize("form", [as_slow("pickle"), "json"])
def test_a_run_waits_for_approval_and_goes_on_in_another_process(form):
    """openai-agents, Human in the loop: `result.to_state().to_json()`, `RunState.from_json`, `state.approve(...)`."""
    with pytest.raises(Undecided) as caught:
        sg.run(scripted_chat(says("delete_file", path="a.txt")), "Delete it.", [delete_file], confirm=waits)
    stopped = caught.value.conversation
    assert [each["role"] for each in stopped.messages] == ["user", "assistant"]
    assert pickle.loads(pickle.dumps(stopped)).messages == stopped.messages
    sent = pickle.dumps(stopped) if form == "pickle" else stopped.to_json().encode()
    ran = subprocess.run([sys.executable, "-c", RESUME, form], input=sent, capture_output=True, check=True)
    done = Conversation.from_json(ran.stdout)
    assert (done.answer, results(done)) == ("All gone.", ["deleted a.txt"])
    assert [each.arguments for each in done.messages[1]["tool_calls"]] == [{"path": "a.txt"}]
    assert Conversation.from_json(done.to_json()) == done
    with pytest.raises(OptionError, match="delete_file"):
        sg.run(scripted_chat(""), stopped, [get_weather])
    for wrong in ("", "{}", '{"messages": 3, "answer": 1}', '{"messages": [3], "answer": 1}'):
        with pytest.raises(OptionError, match="to_json"):
            Conversation.from_json(wrong)


def test_a_tool_ends_the_run():
    """openai-agents, `StopAtTools`; smolagents, `FinalAnswerTool`; pydantic-ai, output functions."""

    @sg.tool(ends=True)
    def final_answer(value: int) -> dict[str, int]:
        if value < 0:
            raise ValueError("below 0")
        return {"value": value}

    done = both(says("roll_dice") + "\n" + says("final_answer", value=4), "never", tools=[roll_dice, final_answer])
    assert (done.answer, len(done.replies), results(done)) == ({"value": 4}, 1, ["4", '{"value": 4}'])
    refused = both(says("final_answer", value=-1), says("final_answer", value=2), tools=[final_answer], max_turns=2)
    assert (refused.answer, len(refused.replies)) == ({"value": 2}, 2)
    assert (
        both(says("final_answer", value=1), tools=[final_answer], max_turns=1, choice="required").answer["value"] == 1
    )
    said_no = both(says("final_answer", value=1), "Well.", tools=[final_answer], confirm=lambda call: False)
    assert said_no.answer == "Well."


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_hooks_around_calls(kind):
    """openai-agents, `RunHooks.on_tool_start` and `on_tool_end`; smolagents, `step_callbacks`."""
    seen = list[Any]()

    def before(ctx: sg.Ctx[str]) -> None:
        seen.append((ctx.deps, ctx.call.name, len(ctx.messages)))

    def after(ctx: sg.Ctx[str], result: Any) -> Any:
        seen.append(result)
        return "recovered" if isinstance(result, Exception) else None

    async def abefore(ctx: sg.Ctx[str]) -> None:
        before(ctx)

    async def aafter(ctx: sg.Ctx[str], result: Any) -> Any:
        return after(ctx, result)

    @sg.tool
    def fails() -> str:
        raise ValueError("no")

    hooks = {"before_call": before, "after_call": after}
    if kind == "async":
        hooks = {"before_call": abefore, "after_call": aafter}
    done = both(says("roll_dice"), says("fails"), "Done.", tools=[roll_dice, fails], deps="me", max_errors=0, **hooks)
    assert results(done) == ["4", "recovered"]
    assert seen[:3] == [("me", "roll_dice", 2), "4", ("me", "fails", 4)]

    def breaks(*given: Any) -> None:
        raise LookupError("a bug of the hook")

    for hook in hooks:
        with pytest.raises(LookupError):
            both(says("roll_dice"), tools=[roll_dice], **{hook: breaks})
        with pytest.raises(OptionError, match=hook):
            sg.run(scripted_chat(""), "Go.", [roll_dice], **{hook: 3})


def test_long_histories_are_compacted():
    """pydantic-ai, `history_processors`: keep the last messages; or a summary by another model."""

    def keep_recent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lengths.append(len(messages))
        return messages if len(messages) < 4 else [messages[0], *messages[-2:]]

    async def summarise(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return keep_recent(messages)

    for compact in (keep_recent, summarise):
        lengths = list[int]()
        done = both(*[says("roll_dice")] * 9, tools=[roll_dice], compact=compact, max_turns=4, schema=Support)
        assert lengths == [1, 3, 5, 5] * 2
        assert [each["role"] for each in done.messages] == ["user", "assistant", "tool", "assistant"]
    with pytest.raises(OptionError, match="compact"):
        sg.run(scripted_chat("Done."), "Go.", [roll_dice], compact=lambda messages: 3)


def test_an_agent_is_a_tool_of_another():
    """smolagents, managed agents; openai-agents, `agent.as_tool(...)`: a function that runs one."""

    @sg.tool
    def forecaster(task: str) -> str:
        """Asks an agent that knows the weather."""
        return sg.run(scripted_chat(says("get_weather", city="Oslo"), "Sunny in Oslo."), task, [get_weather])

    assert results(both(says("forecaster", task="Oslo?"), "Sunny.", tools=[forecaster])) == ["Sunny in Oslo."]


def test_the_model_tries_again_after_an_error():
    """pydantic-ai, `ModelRetry`: what a tool raises is told to the model."""

    @sg.tool
    def get_user(name: str) -> int:
        if " " not in name:
            raise ValueError(f"No user found with name {name!r}, remember to provide their full name")
        return 123

    done = both(says("get_user", name="John"), says("get_user", name="John Doe"), "123.", tools=[get_user])
    assert "provide their full name" in results(done)[0]
    assert results(done)[1] == "123"


class Endpoint(BaseHTTPRequestHandler):
    """Answers with the messages of `replies`, in their order, and keeps the requests."""

    replies: list[dict[str, Any]]
    seen: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        reply = self.replies[len(self.seen) - 1]
        choice = {"index": 0, "finish_reason": reply.pop("finish", "stop"), "message": {"role": "assistant", **reply}}
        body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint():
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()

    def replying(*replies: dict[str, Any]) -> sg.Remote:
        Endpoint.replies, Endpoint.seen = [*replies], []
        return sg.Remote(f"http://127.0.0.1:{server.server_port}/v1", "m")

    yield replying
    server.shutdown()
    server.server_close()


def called(name: str, arguments: str) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function",
                                             "function": {"name": name, "arguments": arguments}}]}  # fmt: skip


def test_a_remote_model_runs_tools(endpoint):
    """smolagents, `OpenAIModel`; pydantic-ai, `OpenAIChatModel`: any endpoint of OpenAI's interface."""
    script = (called("get_weather", '{"city": 3}'), called("nothing", "{}"), called("get_weather", '{"city": "Rome"}'),
              {"content": '{"advice": "Go.", "block_card": false, "risk": 2}', "reasoning_content": "Hm."})  # fmt: skip
    events = [*sg.stream_run(endpoint(*script), "Rome?", [get_weather], schema=Support)]
    assert events[-1].answer == Support(advice="Go.", block_card=False, risk=2)
    assert [each.kind for each in events] == ["call", "result", "thought", "text", "answer"]
    first, *_, last = Endpoint.seen
    assert (first["tool_choice"], first["parallel_tool_calls"]) == ("auto", True)
    assert first["tools"] == [get_weather.declaration]
    assert first["response_format"]["type"] == "json_schema"
    turn, result = last["messages"][-2:]
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
    assert (result["tool_call_id"], result["content"]) == ("c1", "The weather in Rome is sunny")
    refusals = [each["content"] for each in last["messages"] if each["role"] == "user"][1:]
    assert ["city" in refusals[0], "there is no tool 'nothing'" in refusals[1]] == [True, True]
    older = {"content": None, "function_call": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    assert sg.call(endpoint(older), "a", [get_weather])[0].arguments == {"city": "Oslo"}
    one, two = sg.call(
        endpoint(called("get_weather", '{"city": "Oslo"}'), {"content": "No."}), ["a", "b"], [get_weather]
    )
    assert {str(one), str(two)} >= {"No."}
    cut = {**called("get_weather", '{"city": "Os'), "finish": "length"}
    with pytest.raises(RunError, match="cut off"):
        sg.run(endpoint(cut), "Rome?", [get_weather], max_errors=0)
    for options in ({"call_format": "hermes"}, {"thinking": True}, {"parallel": (2, 3)}, {"choice": "other"}):
        with pytest.raises(OptionError):
            sg.run(endpoint(cut), "Rome?", [get_weather], **options)
    with pytest.raises(OptionError, match="Remote"):
        sg.stream_call(endpoint(cut), "Rome?", [get_weather])
