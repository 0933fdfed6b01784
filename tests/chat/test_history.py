"""Messages are read the same at every door: broken arguments of calls are repaired, and slips are refused."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import structgen as sg
from structgen.chat.history import as_json_message, read_messages
from structgen.http_client import httpx
from structgen.server import Settings
from structgen.testing import scripted_chat
from tests.support.calling_models import TEMPLATES
from tests.support.calling_models import scripted_chat as chat_of
from tests.support.serving import served
from tests.support.tables import cases


@sg.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


BROKEN: dict[str, tuple[Any, dict[str, Any]]] = cases("chat/history", "BROKEN", globals())
FINE: dict[str, Any] = {"a dict": {"a": 1}, "text": '{"a": 1}', "text with blanks": ' {"a" : 1}\n'}


def history(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "wrong"},
        {"role": "user", "content": "Go on."},
    ]


@pytest.mark.parametrize("name", [*BROKEN, *FINE])
def test_arguments_are_read_as_far_as_they_are_an_object(name):
    given, wanted = BROKEN.get(name) or (FINE[name], FINE[name])
    messages, repaired = read_messages(history(given))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == wanted
    assert len(repaired) == (name in BROKEN)
    assert all("messages: message 1: the arguments of 'add' in tool_calls[0] are no JSON object" in e for e in repaired)
    assert read_messages(messages) == (messages, [])
    assert history(given)[1]["tool_calls"][0]["function"]["arguments"] == given  # the caller's are as they were


UNWRITABLE: dict[str, tuple[Any, dict[str, Any]]] = cases("chat/history", "UNWRITABLE", globals())
"""Arguments that JSON cannot write."""


@pytest.mark.parametrize("name", UNWRITABLE)
def test_arguments_that_json_cannot_write_are_repaired(name):
    given, wanted = UNWRITABLE[name]
    messages, repaired = read_messages(history(given))
    assert (messages[1]["tool_calls"][0]["function"]["arguments"], len(repaired)) == (wanted, 1)


def test_endpoints_and_files_get_arguments_as_text():
    """OpenAI's interface refuses them as an object."""
    for given, wanted in [*BROKEN.values(), *UNWRITABLE.values(), ({"a": 1}, {"a": 1})]:
        messages, _ = read_messages(history(given))
        del messages[1]["tool_calls"][0]["id"]  # some clients have none
        told = [*map(as_json_message, messages)]
        assert json.loads(told[1]["tool_calls"][0]["function"]["arguments"]) == wanted
        read = sg.Conversation.from_json(sg.Conversation("-", messages, []).to_json())
        assert read.messages[1]["tool_calls"][0].arguments == wanted


DOORS = {
    "generate": lambda model, messages: sg.generate(model, messages),
    "call": lambda model, messages: sg.call(model, messages, [add]),
    "stream_call": lambda model, messages: [*sg.stream_call(model, messages, [add])][-1].reply.answer,
    "run": lambda model, messages: sg.run(model, messages, [add]),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_door_of_the_library_warns_and_goes_on(door, template):
    for given, _ in BROKEN.values():
        with pytest.warns(sg.MessageWarning, match=r"message 1: the arguments of 'add'") as told:
            assert DOORS[door](chat_of(template, "Fine."), history(given)) == "Fine."
        assert [each.filename for each in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in FINE.values():
            assert DOORS[door](chat_of(template, "Fine."), history(given)) == "Fine."


def test_the_model_reads_the_repaired_call_and_a_run_warns_once():
    model = scripted_chat("-", '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', "Three.")
    with pytest.warns(sg.MessageWarning) as told:
        done = sg.run(model, history('{"a": 7, "b":'), [add], details=True)
    assert (done.answer, len(told)) == ("Three.", 1)
    assert '"arguments": {"a": 7}}' in done.replies[-1].prompt


@pytest.fixture(scope="module")
def server():
    with served(scripted_chat(*["Fine."] * 9), Settings(temperature=0)) as running:
        yield running


def items(arguments: Any) -> list[dict[str, Any]]:
    """The history as items of `/v1/responses`."""
    return [
        {"role": "user", "content": "How many?"},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": arguments},
        {"type": "function_call_output", "call_id": "call_1", "output": "wrong"},
        {"role": "user", "content": "Go on."},
    ]


def blocks(arguments: Any) -> list[dict[str, Any]]:
    """The history as messages of `/v1/messages`."""
    return [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "add", "input": arguments}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "wrong"}]},
        {"role": "user", "content": "Go on."},
    ]


BODIES = {
    "chat/completions": lambda given: {"messages": history(given), "max_tokens": 20},
    "responses": lambda given: {"input": items(given), "max_output_tokens": 20},
    "messages": lambda given: {"messages": blocks(given), "max_tokens": 20},
}


@pytest.mark.parametrize("door", BODIES)
def test_every_door_of_the_server_says_so_and_goes_on(server, door, caplog):
    for name, (given, _) in BROKEN.items():
        caplog.clear()
        answer = httpx.post(f"{server.url}/v1/{door}", json={"model": "model", **BODIES[door](given)}, timeout=60)
        assert answer.status_code == 200, (name, answer.text)
        assert "Fine." in answer.text
        assert "the arguments of 'add' in tool_calls[0]" in answer.headers["X-Structgen-Repaired"]
        assert sum("the arguments of 'add'" in each.message for each in caplog.records) == 1
    for given in FINE.values():
        answer = httpx.post(f"{server.url}/v1/{door}", json={"model": "model", **BODIES[door](given)}, timeout=60)
        assert answer.status_code == 200
        assert "X-Structgen-Repaired" not in answer.headers


SLIPS = cases("chat/history", "SLIPS", globals())


@pytest.mark.parametrize("name", SLIPS)
@pytest.mark.parametrize("door", DOORS)
def test_a_slip_in_a_message_is_an_error_and_no_empty_prompt(door, name):
    messages, why = SLIPS[name]
    for template in TEMPLATES:
        with pytest.raises(sg.OptionError, match=why):
            DOORS[door](chat_of(template, "Fine."), messages)


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_in_a_message_is_refused_by_the_server(server, name):
    body = {"model": "model", "messages": SLIPS[name][0]}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("messages")


KNOWS = """{% for message in messages %}{% if message.role in ['user', 'users'] %}U{{ message.content }}\
{% elif message.role == 'assistant' %}A{{ message.content }}{% endif %}{% endfor %}"""
"""A template with a role of its own, which leaves out all that it does not know."""


def test_a_template_may_know_further_roles():
    model = chat_of("hermes", "Fine.")
    assert sg.generate(model, [{"role": "robot", "content": "Hi."}]) == "Fine."  # which it writes as it is
    model.tokenizer.chat_template = KNOWS
    assert sg.generate(model, [{"role": "users", "content": "Hi."}]) == "Fine."
    with pytest.raises(sg.OptionError, match="the chat template knows no role 'robot'"):
        sg.generate(model, [{"role": "robot", "content": "Hi."}])
