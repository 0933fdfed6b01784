"""A call that a limit cuts off is one at no door: the answer says `length`, `incomplete` or `max_tokens`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.http_client import httpx
from structgen.server import Settings
from structgen.testing import scripted_chat
from tests.support.serving import served

FILE = "".join(f"line {number} of the file, " for number in range(100))
PARAMETERS = {
    "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
    "wipe": {},
}
CALL = json.dumps({"name": "write_file", "arguments": {"path": "a.txt", "content": FILE}})
FIRST = '<tool_call>\n{"name": "write_file", "arguments": {"path": "b", "content": "x"}}\n</tool_call>\n'
MESSAGES = [{"role": "user", "content": "Do it."}]


def schema(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": PARAMETERS[name], "required": [*PARAMETERS[name]]}


OPENAI = [{"type": "function", "function": {"name": name, "parameters": schema(name)}} for name in PARAMETERS]
RESPONSES = [{"type": "function", "name": name, "parameters": schema(name)} for name in PARAMETERS]
ANTHROPIC = [{"name": name, "input_schema": schema(name)} for name in PARAMETERS]


@pytest.fixture(scope="module", params=["cut", "whole, then cut", "repeated"])
def door(request):
    """A server whose model's last call is cut off, how many calls are whole before, and a limit that is high enough."""
    calls = {
        "cut": f"<tool_call>\n{CALL}\n</tool_call>",
        "whole, then cut": f"{FIRST}<tool_call>\n{CALL}\n</tool_call>",
        "repeated": '<tool_call>\n{"name": "write_file", "arguments": {"path": "' + "=" * 600,
    }
    with served(scripted_chat(*[calls[request.param]] * 9), Settings(temperature=0)) as server:
        yield server, int(request.param == "whole, then cut"), 500 if request.param == "repeated" else 180


def asked(server: Any, path: str, **body: Any) -> Any:
    answer = httpx.post(f"{server.url}/v1/{path}", json={"model": "model", **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    if not body.get("stream"):
        return answer.json()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_chat_completions_say_length(door, choice):
    server, whole, limit = door
    body = {"messages": MESSAGES, "tools": OPENAI, "tool_choice": choice, "max_tokens": limit}
    (told,) = asked(server, "chat/completions", **body)["choices"]
    assert (told["finish_reason"], told["structgen"]["finish"]) == ("length", "cut")
    *made, last = told["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in made] == [{"path": "b", "content": "x"}] * whole
    assert last["function"]["name"] == "write_file"
    with pytest.raises(ValueError, match=r"."):
        json.loads(last["function"]["arguments"])
    chunks = asked(server, "chat/completions", **body, stream=True)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    pieces = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [each["function"]["name"] for each in pieces if "id" in each] == ["write_file"] * (whole + 1)


def test_responses_say_incomplete(door):
    server, whole, limit = door
    body = {"input": "Do it.", "tools": RESPONSES, "max_output_tokens": limit}
    told = asked(server, "responses", **body)
    assert (told["status"], told["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["status"] for item in told["output"]] == ["completed"] * whole + ["incomplete"]
    events = asked(server, "responses", **body, stream=True)
    assert events[-1]["type"] == "response.incomplete"
    done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert len(done) == whole


def test_messages_say_max_tokens(door):
    server, whole, limit = door
    body = {"messages": MESSAGES, "tools": ANTHROPIC, "max_tokens": limit}
    told = asked(server, "messages", **body)
    assert told["stop_reason"] == "max_tokens"
    assert [block["input"] for block in told["content"]] == [{"path": "b", "content": "x"}] * whole
    events = asked(server, "messages", **body, stream=True)
    (end,) = [event for event in events if event["type"] == "message_delta"]
    assert end["delta"]["stop_reason"] == "max_tokens"
    assert sum(event["type"] == "content_block_stop" for event in events) == whole + 1


def test_text_beside_tools_that_comes_to_its_limit_says_length():
    with served(scripted_chat("No tool is of any use here."), Settings(temperature=0)) as server:
        for choice in ("auto", "none"):
            body = {"messages": MESSAGES, "tools": OPENAI, "tool_choice": choice, "max_tokens": 7}
            (told,) = asked(server, "chat/completions", **body)["choices"]
            assert (told["finish_reason"], told["message"]["content"]) == ("length", "No tool")


@pytest.mark.parametrize("mode", ["required", "auto"])
def test_allowed_tools_that_are_not_there_are_refused_by_name(mode):
    names = [{"type": "function", "function": {"name": name}} for name in ("wipe", "wipe_al", "x")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": names}}
    body = {"model": "model", "messages": MESSAGES, "tools": OPENAI, "tool_choice": choice}
    with served(scripted_chat("Hello."), Settings()) as server:
        for given in (body, {**body, "tools": []}):
            answer = httpx.post(f"{server.url}/v1/chat/completions", json=given, timeout=60)
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "tool_choice.allowed_tools.tools"
            assert "wipe_al" in answer.json()["error"]["message"]
