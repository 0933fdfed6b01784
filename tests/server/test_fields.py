"""Every field that OpenAI's SDK knows is honoured, ignored with a header, or refused with what to use instead."""

from __future__ import annotations

import json

import openai
import pytest
from openai.types import completion_create_params as texts
from openai.types.chat import completion_create_params as chats
from openai.types.responses import response_create_params as responses

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.server import Settings
from structgen.server.fields import IGNORED, NEUTRAL, translated
from structgen.server.problems import Problem
from structgen.server.responses_wire import NOT_KEPT, ResponsesRequest
from structgen.server.wire import _REFUSED, ChatRequest, TextRequest
from tests.support.serving import served
from tests.support.tables import cases

ASK = [{"role": "user", "content": "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."}]
NULL = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "null"}}}
FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("params", "request_class"),
    [
        (chats.CompletionCreateParamsBase, ChatRequest),
        (texts.CompletionCreateParamsBase, TextRequest),
        (responses.ResponseCreateParamsBase, ResponsesRequest),
    ],
)
def test_every_field_of_the_sdk_is_known(params, request_class):
    known = {*request_class.model_fields, *IGNORED, *_REFUSED, *NEUTRAL, *NOT_KEPT}
    assert {name for name in params.__annotations__ if name not in known} == set()


@pytest.mark.parametrize(
    ("given", "read", "ignored"), cases("server/fields", "fields_are_read_as_clients_mean_them", globals())
)
def test_fields_are_read_as_clients_mean_them(given, read, ignored):
    body, names = translated(given)
    assert (body, sorted(names)) == (read, sorted(ignored))


def test_fields_that_contradict_each_other():
    for given in (
        {"top_k": 3, "structgen": {"top_k": 4}},
        {"structured_outputs": {"json": {}}, "response_format": {"type": "text"}},
        {"structured_outputs": 5},
        {"guided_json": "{"},
    ):
        with pytest.raises(Problem):
            translated(given)


def test_what_clients_send_by_themselves_is_answered_and_told():
    with served(sg.Model.of(*load_demo()), Settings(name="m", max_tokens=60)) as server:
        create = server.client.chat.completions.with_raw_response.create

        def ask(**options):
            raw = create(**{"model": "m", "messages": ASK, "temperature": 0, **options})
            return raw.parse().choices[0], raw.headers.get("x-structgen-ignored")

        schema = {"type": "json_schema", "json_schema": {"name": "p", "schema": Person.model_json_schema()}}
        usual = {"reasoning_effort": "low", "verbosity": "low", "prediction": {"type": "content", "content": "x"}}
        choice, ignored = ask(response_format=schema, stop=["Ada"], max_tokens=60, max_completion_tokens=50, **usual)
        assert Person.model_validate_json(choice.message.content).age == 36
        assert set(ignored.split(", ")) == {"stop", "verbosity", "prediction", "reasoning_effort"}
        choice, ignored = ask(max_tokens=3, logprobs=True, top_logprobs=20)
        assert ignored == "top_logprobs above 8"
        assert len(choice.logprobs.content[0].top_logprobs) == 8
        tools = [{"type": "function", "function": {**FUNCTION, "name": name}} for name in ("weather", "news")]
        allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "news"}}]}
        choice, _ = ask(tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
        assert [call.function.name for call in choice.message.tool_calls][:1] == ["news"]
        assert ask(tools=tools, tool_choice="required", stop=["{"])[1] == "stop"
        choice, ignored = ask(tools=tools, tool_choice="none", stop=["Moreau"])
        assert ("Moreau" in choice.message.content, choice.finish_reason, ignored) == (False, "stop", None)
        called = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        history = [
            *ASK,
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "1", "content": "rain"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            *ASK,
        ]
        assert ask(messages=history, tools=tools, max_tokens=40)[0].finish_reason
        extra = {"guided_choice": ["yes", "no"], "top_k": -1, "repetition_penalty": 1.0, "chat_template_kwargs": {}}
        assert ask(extra_body=extra)[0].message.content in ("yes", "no")
        with pytest.raises(openai.BadRequestError, match="before it"):
            server.client.completions.create(model="m", prompt="x", echo=True)
        stream = server.client.chat.completions.create(
            model="m", messages=ASK, stream=True, max_tokens=2, verbosity="low"
        )
        assert stream.response.headers["x-structgen-ignored"] == "verbosity"
        assert json.loads(list(stream)[-1].model_dump_json())["choices"][0]["finish_reason"] == "length"
