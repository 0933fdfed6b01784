"""Each JSON answer and each event of the three doors is what the clients' own packages publish, in strict mode.

A field that their types do not have, one that they require and that is missing, and a value of another type are named
by their places. A stream tells the same as the answer without one. Covers `answers`, `responses_answers` and
`messages_answers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from structgen.http_client import httpx
from structgen.server import Settings
from structgen.testing import scripted_chat
from tests.support.patches import PATCH_GRAMMAR
from tests.support.serving import served
from tests.support.tables import cases

FURTHER = re.compile(
    r"(|/response|/choices/[0-9]+)/structgen"
    r"|/choices/[0-9]+/(delta|message)/reasoning_content"  # as all servers of open models have it
    r"|(/response)?/store|.*/(output/[0-9]+|item)/status|/name"  # OpenAI's OpenAPI document has them
    r"|/logprobs/[0-9]+(/top_logprobs/[0-9]+)?/bytes"  # as in the items
    r"|/choices/[0-9]+/delta/tool_calls/[0-9]+/custom"  # OpenAI's own streams have it, its types do not
    r"|/error/(param|code|details)"
)
"""The places of fields that the packages' types do not have."""
WHOLE = {
    "chat/completions": openai.types.chat.ChatCompletion,
    "completions": openai.types.Completion,
    "responses": openai.types.responses.Response,
    "messages": anthropic.types.Message,
    "messages/count_tokens": anthropic.types.MessageTokensCount,
}
EVENTS = {
    "chat/completions": openai.types.chat.ChatCompletionChunk,
    "completions": openai.types.Completion,
    "responses": openai.types.responses.ResponseStreamEvent,
    "messages": anthropic.types.RawMessageStreamEvent,
}


def differences(kind: Any, data: Any) -> list[str]:
    """What a JSON value has that a published type does not know, and what it lacks, by the places."""
    try:
        value = TypeAdapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        return [f"/{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return [place for place in _unknown(value, "") if not FURTHER.fullmatch(place)]


def _unknown(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from (f"{place}/{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{place}/{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _unknown(each, f"{place}/{number}")


def events_of(text: str) -> list[tuple[str | None, Any]]:
    """The events of a stream: their names, and their data."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields.get("data") not in (None, "[DONE]"):
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


def as_published(data: Any) -> Any:
    """A chunk with other values where OpenAI's own streams have what its types refuse."""
    for choice in data.get("choices", ()):
        if data["object"] == "text_completion":
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        for call in choice.get("delta", {}).get("tool_calls", ()):
            call |= {"type": "function"} if "type" in call else {}
    return data


def said(door: str, whole: Any) -> list[list[Any]]:
    """What an answer says, without ids."""
    if door == "responses":
        texts = {"reasoning": lambda item: [part["text"] for part in item["content"] + item["summary"]],
                 "message": lambda item: [part["text"] for part in item["content"]]}  # fmt: skip
        items = [
            [item["type"], *texts[item["type"]](item)] if item["type"] in texts
            else [item["type"], item.get("namespace"), item["name"], item.get("arguments", item.get("input"))]
            for item in whole["output"]
        ]  # fmt: skip
        return [*items, [whole["status"], whole["usage"]["output_tokens"]]]
    if door == "messages":
        blocks = [[each["type"], each.get("name"), each.get("text", each.get("thinking", each.get("input")))]
                  for each in whole["content"]]  # fmt: skip
        return [*blocks, [whole["stop_reason"], whole["stop_sequence"], whole["usage"]["output_tokens"]]]
    answers = []
    for choice in whole["choices"]:
        message = choice.get("message", {"content": choice.get("text")})
        calls = [list(call[call["type"]].values()) for call in message.get("tool_calls", ())]
        text = [message.get("reasoning_content", ""), message["content"] or ""]
        answers.append([*text, *calls, choice["finish_reason"], choice["logprobs"]])
    return answers


def folded(door: str, events: list[Any]) -> Any:
    """The answer that the events of a stream tell."""
    if door == "responses":
        return events[-1]["response"]
    if door == "messages":
        whole = {**events[0]["message"], "content": []}
        for event in events[1:]:
            if event["type"] == "content_block_start":
                whole["content"].append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                block, delta = whole["content"][event["index"]], event["delta"]
                field = {"input_json_delta": "json", "signature_delta": "signature"}.get(
                    delta["type"], delta["type"][:-6]
                )
                block[field] += delta.get("partial_json", delta.get(delta["type"][:-6]))
            elif event["type"] == "message_delta":
                whole |= {**event["delta"], "usage": event["usage"]}
        uses = [block for block in whole["content"] if block["type"] == "tool_use"]
        if whole["stop_reason"] == "max_tokens" and uses:
            whole["content"].remove(uses.pop())  # a call that is cut is in no answer
        for block in uses:
            block["input"] = json.loads(block["json"])
        return whole
    count = 1 + max(choice["index"] for event in events for choice in event["choices"])
    choices = [{"message": {"content": ""}, "text": "", "logprobs": None} for _ in range(count)]
    for piece in [choice for event in events for choice in event["choices"]]:
        choice, delta = choices[piece["index"]], piece.get("delta", {"content": piece.get("text")})
        choice["finish_reason"] = piece["finish_reason"]
        for field in {"content", "reasoning_content"} & {*delta}:
            choice["message"][field] = choice["message"].get(field, "") + delta[field]
        for call in delta.get("tool_calls", ()):
            calls = choice["message"].setdefault("tool_calls", [])
            if "id" in call:
                calls.append(call)
            else:
                kind = calls[call["index"]]["type"]
                (field,) = call[kind]
                calls[call["index"]][kind][field] += call[kind][field]
        for field, entries in (piece["logprobs"] or {}).items():
            choice["logprobs"] = choice["logprobs"] or dict.fromkeys(piece["logprobs"])
            choice["logprobs"][field] = entries if entries is None else (choice["logprobs"][field] or []) + entries
    return {"choices": choices}


CALL = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
PATH = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path"]}
PATCH = "*** Begin Patch\n*** Delete File: a b.py\n*** End Patch"
WRITE = json.dumps({"path": "a.py", "text": "é\n"})
SAYS = {
    "text": "It is done.",
    "thought": "It rains.</think>\n\nIt is done.",
    "calls": f"Let me see.\n{CALL.format('write', WRITE)}\n{CALL.format('files__read', json.dumps({'path': 'b.py'}))}",
    "custom": CALL.format(
        "apply_patch", json.dumps({"input": "*** Begin Patch\n*** Delete File: a b.py\n*** End Patch"})
    ),
}
"""What the model says, by the number of its turns before: a conversation chooses it by its length."""


@pytest.fixture(scope="module")
def server():
    with served(scripted_chat(*SAYS.values()), Settings(name="m", temperature=0.0, max_choices=3)) as server:
        yield server


CASES = cases("server/published", "ANSWERED")
"""Doors, what the model says, and the further fields of the request."""


def body_of(door: str, says: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A request whose conversation lets the model say a text."""
    turns = [{"role": "user", "content": "?"}]
    turns += [{"role": "assistant", "content": "x"}, *turns] * [*SAYS].index(says)
    conversation = {"responses": {"input": turns}, "completions": {"prompt": "?"}}.get(door, {"messages": turns})
    text = json.dumps(fields).replace('"PATCH_GRAMMAR"', json.dumps(PATCH_GRAMMAR)).replace('"PATH"', json.dumps(PATH))
    return {"model": "m", **conversation, **json.loads(text)}


@pytest.mark.parametrize(("door", "says", "fields"), CASES)
def test_answers_and_their_streams_have_the_published_types(server, door, says, fields):
    body = body_of(door, says, fields)
    answer = httpx.post(f"{server.url}/v1/{door}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    whole = answer.json()
    assert differences(WHOLE[door], whole) == []
    if door not in EVENTS:
        return
    if door == "chat/completions":
        body["stream_options"] = {"include_usage": True}
    streamed = httpx.post(f"{server.url}/v1/{door}", json={**body, "stream": True}, timeout=60).text
    events = [data for _, data in events_of(streamed)]
    assert all(name == data.get("type") for name, data in events_of(streamed))
    told = [differences(EVENTS[door], as_published(data)) for _, data in events_of(streamed)]
    assert [each for each in told if each] == []
    assert said(door, folded(door, events)) == said(door, whole)
