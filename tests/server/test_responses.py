"""`/v1/responses`, read by the openai package's own types: `create`, `parse`, `stream` and raw events.

Covers `responses_answers` and `responses_wire`.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.server import Settings
from structgen.server.responses_wire import ResponsesRequest
from structgen.testing import scripted_chat
from tests.support.serving import served
from tests.support.tables import cases

ASK = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."
ADA = Person(name="Ada Moreau", age=36, city="Lyon")
EVENT = TypeAdapter(ResponseStreamEvent)


@pytest.fixture(scope="module")
def demo():
    with served(sg.Model.of(*load_demo()), Settings(name="demo", max_tokens=400, rows=4, queue=4)) as server:
        yield server


@pytest.fixture
def respond(demo):
    """A request with the openai client, at temperature 0; the answer has every field that its type requires."""

    def create(**options):
        answer = demo.client.responses.create(**{"model": "demo", "input": ASK, "temperature": 0, **options})
        if isinstance(answer, Response):
            Response.model_validate(answer.model_dump(by_alias=True), strict=False)
        return answer

    return create


def strictly(events) -> list[SimpleNamespace]:
    """Events of a stream, numbered from 0, each validated as what its name says."""
    events = list(events)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    for event in events:
        assert type(EVENT.validate_python(event.model_dump(by_alias=True))) is type(event)
    return events


def schema_text(schema) -> dict:
    return {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}


def refused(create, **options):
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**options)
    return refusal.value.body


def test_a_text_and_what_the_answer_tells_of_itself(respond):
    answer = respond(instructions="Say it as JSON.", metadata={"a": "b"}, max_output_tokens=100)
    assert "Moreau" in json.loads(answer.output_text)["name"]
    assert (answer.status, answer.error, answer.incomplete_details) == ("completed", None, None)
    (item,) = answer.output
    assert (item.type, item.role, item.status) == ("message", "assistant", "completed")
    assert (answer.instructions, answer.metadata, answer.max_output_tokens) == ("Say it as JSON.", {"a": "b"}, 100)
    usage = answer.usage
    assert usage.input_tokens > 20 < usage.total_tokens - 5
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    again = respond(instructions="Say it as JSON.").usage.input_tokens_details.cached_tokens
    assert 20 < again <= usage.input_tokens
    assert answer.model_extra["structgen"]["finish"] == "end"


def test_a_typed_answer_and_its_stream(demo):
    options = {"model": "demo", "input": [{"role": "user", "content": ASK}], "temperature": 0}
    assert demo.client.responses.parse(text_format=Person, **options).output_parsed == ADA
    with demo.client.responses.stream(text_format=Person, **options) as stream:
        events = list(stream)
        assert stream.get_final_response().output_parsed == ADA
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 5
    assert Person.model_validate_json("".join(pieces)) == ADA


def test_the_events_of_a_text_have_their_names_and_numbers(respond):
    events = strictly(respond(stream=True, text=schema_text(Person.model_json_schema())))
    names = [event.type.removeprefix("response.") for event in events]
    text = "output_text.delta"
    deltas = names.count(text)
    assert names == [
        "created", "in_progress", "output_item.added", "content_part.added", *[text] * deltas,
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert events[0].response.status == events[2].item.status == "in_progress"
    assert (events[0].response.output, events[0].response.usage, events[2].item.content) == ([], None, [])
    final = events[-1].response
    assert Person.model_validate_json(final.output_text) == ADA
    assert {final.id} == {events[0].response.id, events[1].response.id}
    assert {final.output[0].id} == {event.item_id for event in events[3:-2]}
    assert events[-2].item == final.output[0]
    assert "".join(event.delta for event in events if event.type.endswith(text)) == final.output_text


def test_a_text_that_is_cut_is_incomplete_and_so_is_a_value_that_is_closed(respond):
    cut = respond(max_output_tokens=4)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (cut.output[0].status, cut.usage.output_tokens) == ("incomplete", 4)
    last = strictly(respond(max_output_tokens=4, stream=True))[-1]
    assert (last.type, last.response.output_text) == ("response.incomplete", cut.output_text)
    closed = respond(max_output_tokens=17, text=schema_text(Person.model_json_schema()))
    assert (closed.status, Person.model_validate_json(closed.output_text).name) == ("incomplete", "Ada Moreau")
    assert closed.model_extra["structgen"]["finish"] == "closed_by_budget"
    assert closed.model_extra["structgen"]["caps"][0]["pointer"] == "/city"


def test_log_probabilities_spell_the_text(respond):
    options = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 6}
    (item,) = respond(**options).output
    told = item.content[0].logprobs
    assert b"".join(bytes(token.bytes) for token in told).decode() == item.content[0].text
    assert {len(token.top_logprobs) for token in told} == {2}
    done = next(event for event in respond(stream=True, **options) if event.type == "response.output_text.done")
    assert [token.token for token in done.logprobs] == [token.token for token in told]
    assert respond(max_output_tokens=4).output[0].content[0].logprobs == []


def test_our_own_field_and_fields_without_an_effect(respond):
    own = {"structgen": {"choice": ["yes", "no"]}}
    answer = respond(extra_body=own, store=False, user="me", truncation="disabled", reasoning={"effort": "none"})
    assert answer.output_text in ("yes", "no")


WEATHER = cases("server/responses", "WEATHER")
CALLS = """Let me see.
<tool_call>
{"name": "weather", "arguments": {"city": "Paris", "days": 2}}
</tool_call>
<tool_call>
{"name": "weather", "arguments": {"city": "Rome", "days": 1}}
</tool_call>"""


def test_calls_their_outputs_and_the_answer():
    with served(scripted_chat(CALLS, "Sunny."), Settings(name="m")) as server:
        items = [{"role": "user", "content": [{"type": "input_text", "text": "The weather in Paris and Rome?"}]}]
        options = {"model": "m", "temperature": 0, "tools": [WEATHER]}
        answer = server.client.responses.create(input=items, **options)
        message, *calls = answer.output
        assert (answer.status, message.type, answer.output_text) == ("completed", "message", "Let me see.")
        said = [(call.type, call.name, json.loads(call.arguments)) for call in calls]
        assert said == [
            ("function_call", "weather", {"city": "Paris", "days": 2}),
            ("function_call", "weather", {"city": "Rome", "days": 1}),
        ]
        assert answer.tools[0].name == "weather"
        items += [item.model_dump() for item in answer.output]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls]
        assert server.client.responses.create(input=items, **options).output_text == "Sunny."


def test_calls_are_streamed_as_items_and_fragments():
    with served(scripted_chat(CALLS), Settings(name="m")) as server:
        options = {"model": "m", "temperature": 0, "input": "The weather?", "tools": [WEATHER]}
        events = strictly(server.client.responses.create(stream=True, **options))
        done = [event for event in events if event.type == "response.function_call_arguments.done"]
        assert [(each.name, json.loads(each.arguments)["city"], each.output_index) for each in done] == [
            ("weather", "Paris", 1),
            ("weather", "Rome", 2),
        ]
        fragments = [each for each in events if each.type == "response.function_call_arguments.delta"]
        assert len(fragments) > 10
        for each in done:
            assert "".join(other.delta for other in fragments if other.item_id == each.item_id) == each.arguments
        with server.client.responses.stream(**options) as stream:
            final = stream.until_done().get_final_response()
        assert [item.type for item in final.output] == ["message", "function_call", "function_call"]
        one = server.client.responses.create(parallel_tool_calls=False, **options)
        assert [item.type for item in one.output].count("function_call") == 1
        choice = {"type": "function", "name": "weather"}
        named = server.client.responses.create(tool_choice=choice, reasoning={"effort": "none"}, **options)
        assert named.output[-1].name == "weather"
        assert named.tool_choice.name == "weather"


def test_reasoning_is_an_item_of_its_own():
    with served(scripted_chat("It rains.</think>\n\n4"), Settings(name="m")) as server:
        options = {"model": "m", "temperature": 0, "input": "?", "text": schema_text({"type": "integer"})}
        options |= {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
        answer = server.client.responses.create(**options)
        thought, message = answer.output
        assert (thought.type, thought.content[0].text.strip(), thought.summary) == ("reasoning", "It rains.", [])
        assert (message.content[0].text, answer.reasoning.effort) == ("4", "low")
        assert answer.usage.output_tokens_details.reasoning_tokens > 5
        events = strictly(server.client.responses.create(stream=True, **options))
        names = [event.type.removeprefix("response.") for event in events]
        assert names.index("reasoning_text.done") < names.index("output_text.delta")
        deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
        assert "".join(deltas) == thought.content[0].text


def test_what_the_model_said_between_two_turns_is_one_message():
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    request = ResponsesRequest(
        model="m", instructions="Be kind.",
        input=[
            {"role": "user", "content": "a"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
            {**call, "call_id": "1"}, {**call, "call_id": "2"},
            {"type": "function_call_output", "call_id": "1", "output": "c"},
            {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "d"}]},
            {"role": "assistant", "content": "e"},
        ],
    )  # fmt: skip
    written = [message.model_dump(exclude_none=True) for message in request.chat.messages]
    function = {"name": "f", "arguments": "{}"}
    assert written == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "a"},
        {
            "role": "assistant", "content": "b", "reasoning_content": "hm",
            "tool_calls": [{"id": str(i), "type": "function", "function": function} for i in (1, 2)],
        },
        {"role": "tool", "content": "c", "tool_call_id": "1"},
        {"role": "tool", "content": "d", "tool_call_id": "2"},
        {"role": "assistant", "content": "e"},
    ]  # fmt: skip


IMAGE = {"type": "input_image", "image_url": "data:x"}


@pytest.mark.parametrize(
    ("options", "code", "told"), cases("server/responses", "what_cannot_work_is_refused_by_name", globals())
)
def test_what_cannot_work_is_refused_by_name(respond, options, code, told):
    for stream in (False, True):
        body = refused(respond, stream=stream, **options)
        assert body["code"] == code, body
        assert told in body["message"] or told == body["param"], body


def test_a_run_that_fails_ends_its_stream_with_the_failed_response(demo, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no memory")

    monkeypatch.setattr(demo.engine.model.module, "forward", fail)
    *_, last = strictly(demo.client.responses.create(model="demo", input=ASK, stream=True))
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", "server_error")
    assert "no memory" in last.response.error.message
    with pytest.raises(openai.InternalServerError, match="no memory"):
        demo.client.responses.create(model="demo", input=ASK)
    demo.await_idle()
