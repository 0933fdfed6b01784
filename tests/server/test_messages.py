"""`/v1/messages`, read by the anthropic package's own types: `create`, `parse`, `stream`, tools and `count_tokens`.

Covers `messages_answers` and `messages_wire`.
"""

from __future__ import annotations

import http.client
import json

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.server import Settings
from structgen.server.fields import IGNORED, NEUTRAL
from structgen.server.messages_wire import MessagesRequest
from structgen.server.wire import _REFUSED
from structgen.testing import scripted_chat
from tests.support.calling_models import random_chat
from tests.support.serving import served
from tests.support.tables import cases

anthropic = pytest.importorskip("anthropic")

ASK = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."
ADA = Person(name="Ada Moreau", age=36, city="Lyon")
USER = [{"role": "user", "content": ASK}]
WEATHER = cases("server/messages", "WEATHER")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


NO_TOOLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def client_of(server, key="none"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def demo():
    with served(
        sg.Model.of(*load_demo()), Settings(name="demo", aliases=["claude"], max_tokens=400, temperature=0.0)
    ) as server:
        yield server


@pytest.fixture(scope="module")
def client(demo):
    return client_of(demo)


@pytest.fixture
def create(client):
    def create(**options):
        return client.messages.create(**{"model": "demo", "messages": USER, "max_tokens": 100, **options})

    return create


def test_every_field_of_the_sdk_is_known():
    from anthropic.types import beta, message_create_params

    known = {*MessagesRequest.model_fields, *IGNORED, *_REFUSED, *NEUTRAL}
    for params in (message_create_params, beta.message_create_params):
        assert {name for name in params.MessageCreateParamsBase.__annotations__ if name not in known} == set()


def test_a_text_and_what_it_cost(create, client):
    answer = create(system="Say it as JSON.")
    anthropic.types.Message.model_validate(answer.model_dump(), strict=False)
    assert "Moreau" in json.loads(answer.content[0].text)["name"]
    assert (answer.stop_reason, answer.stop_sequence, answer.role) == ("end_turn", None, "assistant")
    assert answer._request_id.startswith("req-")
    counted = client.messages.count_tokens(model="demo", messages=USER, system="Say it as JSON.")
    assert counted.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 20
    again = create(system="Say it as JSON.").usage
    assert (counted.input_tokens - again.input_tokens, again.input_tokens > 0) == (again.cache_read_input_tokens, True)
    assert again.cache_read_input_tokens > 20
    assert answer.usage.output_tokens > 5
    assert answer.model_extra["structgen"]["finish"] == "end"
    cut = create(max_tokens=3)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    assert [model.id for model in client.models.list()] == ["demo", "claude"]
    assert client.models.retrieve("claude").display_name == "claude"
    assert create(max_tokens=3, model="claude").model == "claude"


def test_a_typed_answer_and_its_stream(client):
    options = {"model": "demo", "messages": USER, "max_tokens": 100}
    assert client.messages.parse(output_format=Person, **options).parsed_output == ADA
    with client.messages.stream(output_format=Person, **options) as stream:
        pieces = list(stream.text_stream)
        assert stream.get_final_message().parsed_output == ADA
    assert len(pieces) > 5
    assert Person.model_validate_json("".join(pieces)) == ADA


def test_the_events_of_a_text(create):
    events = list(create(stream=True, stop_sequences=["Moreau"]))
    assert [event.type for event in events[:2]] == ["message_start", "content_block_start"]
    assert [event.type for event in events[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    assert {event.type for event in events[2:-3]} == {"content_block_delta"}
    begun, end = events[0].message, events[-2]
    assert (begun.content, begun.stop_reason, begun.usage.input_tokens > 20) == ([], None, True)
    assert (end.delta.stop_reason, end.delta.stop_sequence) == ("stop_sequence", "Moreau")
    assert end.usage.input_tokens + end.usage.cache_read_input_tokens == begun.usage.input_tokens
    text = "".join(event.delta.text for event in events[2:-3])
    assert text == create(stop_sequences=["Moreau"]).content[0].text
    assert text.endswith("Ada ")


def test_calls_their_results_and_their_stream():
    with served(scripted_chat(CALL + "\n" + CALL, "Sunny. So it is."), Settings(name="m", max_tokens=300)) as server:
        client = client_of(server)
        options = {"model": "m", "max_tokens": 200, "tools": [WEATHER], "messages": USER}
        turn = client.messages.create(**options, tool_choice={"type": "any"})
        assert turn.stop_reason == "tool_use"
        assert [(block.type, block.name, block.input) for block in turn.content] == [
            ("tool_use", "weather", {"city": "Rome"})
        ] * 2
        first, second = turn.content
        assert first.id.startswith("toolu_")
        assert first.id != second.id
        alone = client.messages.create(
            **options, tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
        )
        assert len(alone.content) == 1
        with client.messages.stream(**options) as stream:
            kinds = {event.type for event in stream}
            assert [block.input for block in stream.get_final_message().content] == [{"city": "Rome"}] * 2
        assert "input_json" in kinds
        results = [
            {"type": "tool_result", "tool_use_id": first.id, "content": "Rome: sunny"},
            {"type": "tool_result", "tool_use_id": second.id, "content": [{"type": "text", "text": "Rome: hot"}]},
            {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
        ]
        history = [*USER, {"role": "assistant", "content": turn.content}, {"role": "user", "content": results}]
        last = client.messages.create(**{**options, "messages": history}, stop_sequences=[" So"])
        assert (last.content[0].text, last.stop_reason, last.stop_sequence) == ("Sunny.", "stop_sequence", " So")
        shown = client.messages.count_tokens(model="m", messages=history, tools=[WEATHER])
        assert shown.input_tokens == last.usage.input_tokens + last.usage.cache_read_input_tokens


def test_thoughts_are_blocks_that_may_be_sent_back():
    with served(random_chat("Qwen-Qwen3-0.6B"), Settings(name="m", max_tokens=300, temperature=0.0)) as server:
        client = client_of(server)
        options = {
            "model": "m",
            "messages": USER,
            "max_tokens": 40,
            "thinking": {"type": "enabled", "budget_tokens": 12},
        }
        turn = client.messages.create(**options)
        thinking = turn.content[0]
        assert (thinking.type, thinking.signature) == ("thinking", "structgen")
        assert 0 < turn.usage.output_tokens_details.thinking_tokens <= 16
        events = list(client.messages.create(**options, stream=True))
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
        assert "".join(d.thinking for d in deltas if d.type == "thinking_delta") == thinking.thinking
        assert [d.signature for d in deltas if d.type == "signature_delta"] == ["structgen"]
        omitted = {"thinking": {"type": "enabled", "budget_tokens": 12, "display": "omitted"}}
        assert client.messages.create(**{**options, **omitted}).content[0].thinking == ""
        history = [*USER, {"role": "assistant", "content": turn.content}, *USER]
        again = client.messages.create(model="m", messages=history, max_tokens=5, thinking={"type": "disabled"})
        assert all(block.type == "text" for block in again.content)


def test_errors_have_anthropics_form_and_keys_its_header(create, client, demo):
    def refused(**options):
        with pytest.raises(anthropic.APIStatusError) as refusal:
            create(**options)
        error = refusal.value.body["error"]
        return refusal.value.status_code, error["type"], error["param"], error["message"]

    assert refused(model="other")[:3] == (404, "not_found_error", "model")
    thread = {"thread": {"type": "create"}}  # after this error the package's tool runner goes on without one
    with pytest.raises(anthropic.BadRequestError) as refusal:
        create(extra_body=thread)
    assert refusal.value.error_code == "thread_unsupported_request"
    assert refused(max_tokens=0)[:3] == (400, "invalid_request_error", "max_tokens")
    alone = {"role": "assistant", "content": "Hi"}
    assert refused(messages=[alone])[:3] == (400, "invalid_request_error", "messages")
    assert "pass a tool of your own" in refused(container="c")[3]
    last = [*USER, {"role": "assistant", "content": "The answer is ("}]
    format_ = {"type": "json_schema", "schema": {"type": "integer"}}
    assert refused(messages=last, output_config={"format": format_})[2] == "messages.1.role"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert refused(messages=[{"role": "user", "content": [image]}])[0] == 400
    result = {"type": "tool_result", "tool_use_id": "x", "content": "y"}
    assert refused(messages=[{"role": "assistant", "content": [result]}, *USER])[2] == "messages.0.content.0.type"
    with served(scripted_chat("Hi."), Settings(name="m", api_key="secret")) as server:
        with pytest.raises(anthropic.AuthenticationError):
            client_of(server, "wrong").messages.create(model="m", messages=USER, max_tokens=9)
        assert (
            client_of(server, "secret").messages.create(model="m", messages=USER, max_tokens=9).content[0].text == "Hi."
        )
    connection = http.client.HTTPConnection(demo.url.removeprefix("http://"))
    connection.request("POST", "/v1/messages", b"[", {"X-Request-Id": "mine", "Content-Type": "application/json"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["request-id"]) == (400, "mine")
    assert json.loads(answer.read())["type"] == "error"


def test_texts_of_an_answer_say_nothing_of_citations(create, client):
    """The Vercel AI SDK's provider takes a list or nothing, and refuses null."""
    assert "citations" not in create().content[0].model_fields_set
    with client.messages.stream(model="demo", messages=USER, max_tokens=5) as stream:
        begun = [event.content_block for event in stream if event.type == "content_block_start"]
    assert begun
    assert "citations" not in begun[0].model_fields_set


def test_a_template_without_tools_is_told_at_the_start_and_to_clients(caplog):
    """The message names the option of the server; with it, tools are called and counted."""
    plain = scripted_chat(CALL)
    plain.tokenizer.chat_template = NO_TOOLS
    asks = {"model": "m", "messages": USER, "tools": [WEATHER]}
    with served(plain, Settings(name="m")) as server:
        told = [each.message for each in caplog.records if "tools" in each.message]
        assert len(told) == 1
        assert "--call-format hermes" in told[0]
        for ask in (client_of(server).messages.create, client_of(server).messages.count_tokens):
            with pytest.raises(anthropic.BadRequestError, match="--call-format hermes"):
                ask(**asks, **({"max_tokens": 90} if ask.__name__ == "create" else {}))
    caplog.clear()
    with served(plain, Settings(name="m", call_format="hermes", temperature=0.0)) as server:
        assert not caplog.records
        client = client_of(server)
        assert client.messages.create(**asks, max_tokens=90).content[0].input == {"city": "Rome"}
        assert (
            client.messages.count_tokens(**asks).input_tokens
            > client.messages.count_tokens(model="m", messages=USER).input_tokens
        )
