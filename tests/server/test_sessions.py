"""A recorded session of a coding agent: each turn reads only what its prompt does not share with an earlier one.

The requests are data: a long system prompt with a date at its end, tools, a call and its result, then the next day, and
a tool more. What a prompt shares with an earlier turn comes from the cache, whichever interface it came through.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from structgen.http_client import httpx
from structgen.server import Settings
from tests.support.calling_models import random_chat
from tests.support.serving import served
from tests.support.tables import cases

SESSION = cases("server/sessions", "SESSION")
"""The turns: messages as chat completions have them, and how many of the tools are sent."""
TOOLS = cases("server/sessions", "TOOLS")
SYSTEM = cases("server/sessions", "SYSTEM") * 12
SLACK = 32
"""Tokens at a seam that may be read again."""
DOORS = {
    "chat/completions": lambda usage: usage["prompt_tokens_details"]["cached_tokens"],
    "responses": lambda usage: usage["input_tokens_details"]["cached_tokens"],
    "messages": lambda usage: usage["cache_read_input_tokens"],
}


def request(door: str, turn: dict[str, Any]) -> dict[str, Any]:
    """A turn as a request of a door."""
    system, messages, tools = SYSTEM + turn["system"], turn["messages"], TOOLS[: turn["tools"]]
    if door == "chat/completions":
        head = [{"role": "system", "content": system}]
        return {"messages": head + messages, "tools": [{"type": "function", "function": tool} for tool in tools]}
    if door == "responses":
        items: list[dict[str, Any]] = []
        for message in messages:
            calls = message.get("tool_calls", ())
            if message["role"] == "tool":
                output = {"call_id": message["tool_call_id"], "output": message["content"]}
                items.append({"type": "function_call_output", **output})
            elif not calls:
                items.append(message)
            items += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
        return {"instructions": system, "input": items, "tools": [{"type": "function", **tool} for tool in tools]}
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = [
            {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {"path": "a.py"}}
            for call in message.get("tool_calls", ())
        ]
        if message["role"] == "tool":
            result = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
            turns.append({"role": "user", "content": [{"type": "tool_result", **result}]})
        else:
            turns.append({"role": message["role"], "content": blocks or message["content"]})
    tools = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
    return {"system": system, "messages": turns, "tools": tools, "max_tokens": 8}


@pytest.mark.parametrize("door", DOORS)
def test_each_turn_reads_only_what_is_new(door):
    model = random_chat("Qwen-Qwen3-0.6B")
    model.prefixes.bound = 1 << 28  # by default the size of the weights, which are small
    with served(model, Settings(name="m", temperature=0.0, max_tokens=8)) as server:
        earlier: list[list[int]] = []
        for turn in SESSION:
            body = {"model": "m", **request(door, turn)}
            usage = httpx.post(f"{server.url}/v1/{door}", json=body, timeout=60).json()["usage"]
            shown = {"model": "m", **request("chat/completions", turn)}
            ids = httpx.post(f"{server.url}/tokenize", json=shown, timeout=60).json()["tokens"]
            shared = max((sum(1 for _ in takewhile(_same, zip(ids, old, strict=False))) for old in earlier), default=0)
            assert shared - SLACK <= DOORS[door](usage) <= len(ids), turn["about"]
            assert shared >= turn["shared"] * len(ids), turn["about"]  # the session is what it says
            earlier.append(ids)


def _same(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]
