"""What coding agents send is taken as they send it: tools of all kinds, bounds, fields that say nothing here.

Covers `client_lines`, `notes`, `offered_tools` and `sessions`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import anthropic
import openai
import pytest

from structgen.server import CLIENTS, Settings, client_lines
from structgen.testing import scripted_chat
from tests.support.patches import PATCH_GRAMMAR
from tests.support.serving import served
from tests.support.tables import cases

PATCH = "*** Begin Patch\n*** Delete File: a b.py\n*** End Patch"
ANY = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
PATCHES = {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR}
TOOLS = cases("server/agents", "TOOLS", globals())
CALLS = cases("server/agents", "CALLS", globals())


@pytest.fixture(scope="module")
def agents():
    with served(scripted_chat(*CALLS), Settings(name="m", max_tokens=400, max_choices=3, temperature=0)) as server:
        yield server


def test_a_session_with_a_patch_and_a_namespace(agents):
    usual = {"client_metadata": {"turn": "1"}, "prompt_cache_key": "k", "context_management": None}
    items = [{"role": "developer", "content": "Edit."}, {"role": "user", "content": "Go on."}]
    seen = []
    for _ in range(3):
        with agents.client.responses.stream(
            model="m", input=items, tools=TOOLS, store=False, include=["reasoning.encrypted_content"], extra_body=usual
        ) as stream:
            events = list(stream)
            done = stream.get_final_response()
        item = json.loads(done.output[-1].model_dump_json(exclude_none=True))
        seen.append((item, [event for event in events if "input" in event.type or "arguments" in event.type]))
        about = done.model_extra["structgen"]
        assert (about["ignored"], about["left_out"]) == (["client_metadata"], ["web_search"])
        result = {"type": f"{item['type']}_output", "call_id": item.get("call_id"), "output": "done"}
        items += [item, {**result, "output": [{"type": "input_text", "text": "done"}]}]
        items += [{"type": "function_call_output", "name": "goal", "namespace": "agent", "output": "to edit"}]
    (patch, pieces), (read, _), (said, _) = seen
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    assert "".join(event.delta for event in pieces[:-1]) == pieces[-1].input == PATCH
    assert len(pieces) > 10
    assert (read["namespace"], read["name"], json.loads(read["arguments"])) == ("mcp__files", "read", {"x": "é"})
    assert said["content"][0]["text"] == "It is done."


def test_custom_tools_of_chat_completions(agents):
    custom = {"name": "apply_patch", "format": {"type": "grammar", "grammar": {**PATCHES, "type": None}}}
    ask = {
        "model": "m",
        "messages": [{"role": "user", "content": "?"}],
        "tools": [{"type": "custom", "custom": custom}],
    }
    (call,) = agents.client.chat.completions.create(**ask).choices[0].message.tool_calls
    assert (call.type, call.custom.name, call.custom.input) == ("custom", "apply_patch", PATCH)
    chunks = list(agents.client.chat.completions.create(**ask, stream=True))
    deltas = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or ()]
    assert "".join((each.model_extra["custom"] or {}).get("input", "") for each in deltas) == PATCH


def test_bounds_are_lowered_and_told(agents):
    create = agents.client.chat.completions.with_raw_response.create
    raw = create(model="m", messages=[{"role": "user", "content": "?"}], max_tokens=32_000, n=5)
    assert raw.headers["x-structgen-clamped"] == "n=5: 3, max_tokens=32000: 400"
    choices = raw.parse().choices
    assert [choice.model_extra["structgen"]["clamped"] for choice in choices] == [
        ["n=5: 3", "max_tokens=32000: 400"]
    ] * 3


@pytest.mark.parametrize(("field", "refused"), cases("server/agents", "unknown_fields_are_ignored"))
def test_unknown_fields_are_ignored_unless_they_constrain(agents, field, refused):
    def ask():
        messages = [{"role": "user", "content": "?"}]
        return agents.client.chat.completions.with_raw_response.create(model="m", messages=messages, extra_body=field)

    if refused:
        with pytest.raises(openai.BadRequestError, match="unknown field"):
            ask()
    else:
        assert ask().headers["x-structgen-ignored"] == next(iter(field))


def test_tools_that_no_mask_holds_end_no_request(agents):
    broken = {
        "elsewhere": {**ANY, "properties": {"x": {"$ref": "https://example.org/x.json"}, "y": {"type": "integer"}}},
        "wrong": {**ANY, "properties": {"x": {"type": "string", "minLength": "3"}}},
        "nothing": {"allOf": [{"type": "string"}, {"type": "object"}]},
    }
    tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in broken.items()]
    done = agents.client.responses.create(model="m", input="?", tools=[*tools, TOOLS[0]], tool_choice="required")
    assert done.output[0].type == "function_call"
    told = done.model_extra["structgen"]["unmasked"]
    assert {each.partition("/")[0] for each in told} == {*broken}


def test_allowed_tools_of_responses(agents):
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]}
    done = agents.client.responses.create(model="m", input="?", tools=TOOLS, tool_choice=allowed)
    assert {item.name for item in done.output} == {"look"}
    named = {"type": "function", "name": "read", "namespace": "mcp__files"}
    done = agents.client.responses.create(model="m", input="?", tools=TOOLS, tool_choice=named)
    assert [item.name for item in done.output] == ["read"]
    with pytest.raises(openai.BadRequestError, match="not among the tools"):
        agents.client.responses.create(model="m", input="?", tools=TOOLS, tool_choice={"type": "function", "name": "x"})


def test_answers_are_kept_where_store_asks_for_it(agents):
    create = agents.client.responses.create
    first = create(model="m", input="?", store=True, tools=TOOLS)
    outcome = {"type": "custom_tool_call_output", "call_id": first.output[0].call_id, "output": "done"}
    second = create(model="m", input=[outcome], store=True, tools=TOOLS, previous_response_id=first.id)
    assert (second.output[0].name, second.previous_response_id) == ("read", first.id)
    third = create(model="m", input="And?", tools=TOOLS, previous_response_id=second.id)
    assert third.output_text == "It is done."
    with pytest.raises(openai.NotFoundError, match="is not kept"):
        create(model="m", input="?", previous_response_id=third.id)


def test_messages_with_fields_of_their_agent(agents):
    client = anthropic.Anthropic(base_url=agents.url, api_key="none", max_retries=0)
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    tools = [
        {"name": "look", "input_schema": ANY, "cache_control": {"type": "ephemeral"}, "defer_loading": True},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
    ]
    text = {"type": "text", "text": "?", "cache_control": {"type": "ephemeral"}}
    ask = {"role": "user", "content": [text]}
    raw = client.messages.with_raw_response.create(
        model="m", max_tokens=8_000, messages=[ask], tools=tools, tool_choice={"type": "any"},
        thinking={"type": "adaptive"}, extra_body={"context_management": edits},
    )  # fmt: skip
    assert raw.parse().content[-1].name == "look"
    assert raw.headers["x-structgen-left-out"] == "web_search, bash"
    begun = [ask, {"role": "assistant", "content": "I think"}]
    done = client.messages.create(model="m", max_tokens=20, messages=begun, tools=tools)
    counted = client.messages.count_tokens(model="m", messages=begun, tools=tools).input_tokens
    assert done.usage.input_tokens + (done.usage.cache_read_input_tokens or 0) == counted
    assert counted - client.messages.count_tokens(model="m", messages=[ask], tools=tools).input_tokens == len("I think")


def test_the_page_of_a_session(agents):
    create = agents.client.responses.create
    asked = {"model": "m", "tools": TOOLS, "prompt_cache_key": "run-7", "input": "?"}
    items = [{"role": "user", "content": "?"}, *(item.model_dump() for item in create(**asked).output)]
    items += [{"type": "custom_tool_call_output", "call_id": items[-1]["call_id"], "output": "done"}]
    create(**{**asked, "input": items})
    url = f"{agents.url}/structgen/session/run-7"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "application/json"})) as answer:
        first, second = json.load(answer)["turns"]
    assert (first["calls"], second["calls"], first["tools"]) == (["apply_patch"], ["mcp__files__read"], 3)
    assert first["prompt_tokens"] < second["prompt_tokens"]
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    assert "mcp__files__read" in text
    assert "web_search" in text
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{agents.url}/structgen/session/other")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_lines_of_a_client_have_the_address_and_the_name(client):
    lines = client_lines(client, "http://127.0.0.1:8000", "qwen", keyed=True)
    assert "http://127.0.0.1:8000" in lines
    assert "$" not in lines
    assert "qwen" in lines
    assert "YOUR_KEY" in lines or "STRUCTGEN_API_KEY" in lines
