"""Chat completions and completions, read by the openai package's own types.

Covers `answers`, `asking`, `wire`, `problems` and `settings`.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import jsonschema
import openai
import pytest

import structgen as sg
from structgen.arguments import options_with
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.options import Limits, Sampling
from structgen.server import Settings
from structgen.server.wire import Budget, Extras
from structgen.testing import scripted_chat
from tests.support.calling_models import random_chat
from tests.support.serving import served
from tests.support.tables import cases
from tests.support.thinning import thinned

ASK = [{"role": "user", "content": "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."}]
ADA = Person(name="Ada Moreau", age=36, city="Lyon")


@pytest.fixture(scope="module")
def demo():
    with served(sg.Model.of(*load_demo()), Settings(name="demo", max_tokens=400, max_choices=4)) as server:
        yield server


@pytest.fixture
def chat(demo):
    """A request with the openai client, at temperature 0."""

    def create(**options):
        return demo.client.chat.completions.create(**{"model": "demo", "messages": ASK, "temperature": 0, **options})

    return create


def refused(create, **options):
    """The error of a request that must be refused."""
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**options)
    return refusal.value.body


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def test_a_typed_answer(demo):
    parsed = demo.client.chat.completions.parse(model="demo", messages=ASK, temperature=0, response_format=Person)
    (choice,) = parsed.choices
    assert choice.message.parsed == ADA
    assert (choice.finish_reason, choice.message.role, choice.logprobs) == ("stop", "assistant", None)
    assert parsed.usage.prompt_tokens > 20 < parsed.usage.total_tokens - 5
    assert parsed.usage.completion_tokens_details.reasoning_tokens == 0
    again = demo.client.chat.completions.create(model="demo", messages=ASK, max_tokens=2).usage
    assert 16 <= again.prompt_tokens_details.cached_tokens <= again.prompt_tokens
    assert choice.model_extra["structgen"]["finish"] == "complete"


def test_a_stream_says_the_same_piece_by_piece(demo):
    options = {"model": "demo", "messages": ASK, "temperature": 0, "stream_options": {"include_usage": True}}
    with demo.client.chat.completions.stream(response_format=Person, **options) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == ADA
    assert len(pieces) > 5
    assert final.usage.completion_tokens > 5
    raw = list(demo.client.chat.completions.create(stream=True, **options))
    assert raw[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in raw[:-1]] == [None] * (len(raw) - 2) + ["stop"]
    assert (raw[-1].choices, raw[-2].usage) == ([], None)
    assert {chunk.id for chunk in raw} == {raw[0].id}


def test_any_object_and_plain_text(chat):
    assert isinstance(json.loads(chat(response_format={"type": "json_object"}).choices[0].message.content), dict)
    text = chat(response_format={"type": "text"}).choices[0].message.content
    assert json.loads(text)["name"] == "Ada Moreau"  # which the demo model says without a constraint, too
    cut = chat(max_completion_tokens=4)
    assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 4)
    assert chat(stop=[" Mor"]).choices[0].message.content == '{"name": "Ada'


def test_a_value_that_a_limit_closes_is_valid_and_still_cut(demo, chat):
    schema = Person.model_json_schema()
    (choice,) = chat(response_format=schema_format(schema), max_tokens=17).choices
    assert Person.model_validate_json(choice.message.content)
    assert choice.finish_reason == "length"
    assert choice.model_extra["structgen"]["finish"] == "closed_by_budget"
    assert choice.model_extra["structgen"]["caps"] == [
        {"name": "max_new_tokens", "pointer": "/city", "limit": 17, "offset": 44}
    ]
    parse = demo.client.chat.completions.parse
    with pytest.raises(openai.LengthFinishReasonError):
        parse(model="demo", messages=ASK, temperature=0, max_tokens=17, response_format=Person)
    capped = {"structgen": {"budget": {"max_characters": 3}}}
    (choice,) = chat(response_format=schema_format(schema), extra_body=capped).choices
    assert (choice.finish_reason, choice.model_extra["structgen"]["finish"]) == ("length", "capped")
    strict = {"structgen": {"budget": {"strict": True}}}
    body = refused(chat, response_format=schema_format(schema), max_tokens=17, extra_body=strict)
    assert body["code"] == "budget_exhausted"


def test_several_texts_and_seeds(chat):
    options = {"temperature": 1.5, "n": 3, "max_tokens": 20, "response_format": schema_format({"type": "string"})}
    first, again, other = chat(seed=-5, **options), chat(seed=-5, **options), chat(seed=6, **options)
    said = [[choice.message.content for choice in each.choices] for each in (first, again, other)]
    assert said[0] == said[1] != said[2]
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    assert len(set(said[0])) > 1
    assert first.usage.prompt_tokens == chat(max_tokens=1).usage.prompt_tokens
    streamed = {0: "", 1: "", 2: ""}
    for chunk in chat(seed=-5, stream=True, **options):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert list(streamed.values()) == said[0]
    greedy = chat(n=2, response_format=schema_format(Person.model_json_schema()))
    assert {choice.message.content for choice in greedy.choices} == {
        ADA.model_dump_json().replace(":", ": ").replace(",", ", ")
    }


def test_log_probabilities_spell_the_text(chat):
    options = {"logprobs": True, "top_logprobs": 3, "response_format": schema_format(Person.model_json_schema())}
    (choice,) = chat(**options).choices
    tokens = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    asked = [token for token in tokens if token.top_logprobs]
    assert asked
    for token in asked:
        assert len(token.top_logprobs) <= 3
        assert token.top_logprobs[0].token == token.token  # greedy
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob, abs=1e-4)
        assert token.logprob <= 1e-6
    streamed = [c for chunk in chat(stream=True, **options) for c in chunk.choices if c.logprobs is not None]
    assert [entry for c in streamed for entry in c.logprobs.content] == tokens
    assert len(streamed) > 5
    assert all(c.delta.content == "".join(entry.token for entry in c.logprobs.content) for c in streamed)
    plain = chat(logprobs=True, top_logprobs=2, max_tokens=3).choices[0].logprobs.content
    assert [len(token.top_logprobs) for token in plain] == [2, 2, 2]
    assert refused(chat, top_logprobs=3)["param"] == "top_logprobs"
    assert refused(chat, logprobs=True, top_logprobs=21)["param"] == "top_logprobs"


def test_the_extra_fields_are_made_of_the_options():
    names = options_with(Sampling, "extra")
    assert names == ("top_k", "min_p", "typical_p", "repetition_penalty", "penalties")
    assert {name: getattr(Extras(), name) for name in names} == {name: getattr(Sampling(), name) for name in names}
    assert {**dict(Budget()), "max_new_tokens": None, "stop": ()} == asdict(Limits())
    assert Extras(top_k=None, min_p=None, banned=None) == Extras()
    assert Extras(budget={"max_digits": None, "rollbacks": None}).budget == Budget(max_digits=None)


def test_a_plan_is_bounded_by_the_budget(chat):
    def planned(most):
        budget = {"max_plan_tokens": most}
        return chat(extra_body={"structgen": {"choice": ["yes", "no"], "plan": "free", "budget": budget}})

    assert planned(3).choices[0].message.content in ("yes", "no")
    assert planned(3).usage.completion_tokens < 30
    lowered = planned(1_000_000).choices[0].model_extra["structgen"]["clamped"]
    assert lowered == [f"structgen.budget.max_plan_tokens=1000000: {Limits().max_plan_tokens}"]


def test_the_field_for_what_openai_has_no_field_for(chat):
    def said(response_format=None, **extras):
        options = {} if response_format is None else {"response_format": response_format}
        return chat(extra_body={"structgen": extras}, **options).choices[0].message.content

    person = schema_format(Person.model_json_schema())
    assert said(regex="[a-c]{3}") in {a + b + c for a in "abc" for b in "abc" for c in "abc"}
    assert said(choice=["yes", "no"]) in ("yes", "no")
    assert said(grammar='start: "a" ("b" | "c")') in ("ab", "ac")
    assert chat(extra_body={"grammar": 'root ::= "a" [bc]'}).choices[0].message.content in ("ab", "ac")
    tag = {"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "[bc]"}, "end": "</a>"}
    assert said({"type": "structural_tag", "format": tag}) in ("<a>b</a>", "<a>c</a>")
    assert "Lyon" not in said(person, banned=["Lyon"])
    assert list(json.loads(said(person, order=["city", "name", "age"])))[:3] == ["city", "name", "age"]
    assert said(person, whitespace="compact").startswith('{"name":"')
    assert said(person, whitespace=2).startswith('{\n  "name": "')
    assert json.loads(said(person, canonical="strict", prompt_schema=True))["age"] >= 0
    assert len(json.loads(said(person, budget={"max_characters": 3}))["name"]) <= 3
    assert said(top_k=1, min_p=0.1, typical_p=0.9, repetition_penalty=1.1)
    (choice,) = chat(extra_body={"structgen": {"choice": ["x", "q"], "losses": True}}).choices
    (loss, *_) = choice.model_extra["structgen"]["losses"]
    assert loss["instead"] == choice.message.content
    assert loss["why"]["expected"] == "`q` or `x`"
    assert loss["probability"] >= 0.05
    two = {"structgen": {"regex": "a"}}
    assert refused(chat, response_format=person, extra_body=two)["param"] == "structgen"


def test_a_bias_makes_tokens_more_or_less_likely_among_those_that_may_come(demo, chat):
    tokenizer = demo.engine.model.tokenizer
    letters = {letter: tokenizer.convert_tokens_to_ids(letter) for letter in "abcz"}
    letter = {"extra_body": {"structgen": {"regex": "[a-c]"}}}
    for wanted in "abc":
        bias = {str(letters[wanted]): 100, str(letters["z"]): 100}
        assert chat(logit_bias=bias, **letter).choices[0].message.content == wanted
    never = {str(letters[each]): -100 for each in "ab"}
    assert {choice.message.content for choice in chat(logit_bias=never, n=4, temperature=2, **letter).choices} == {"c"}
    assert chat(logit_bias={"5": 0}).choices[0].message.content == chat().choices[0].message.content
    text = demo.client.completions.create(model="demo", prompt="a", max_tokens=3, logit_bias={str(letters["b"]): 100})
    assert text.choices[0].text == "bbb"


@pytest.mark.parametrize(
    ("options", "code", "told"), cases("server/chat", "what_cannot_work_is_refused_by_name", globals())
)
def test_what_cannot_work_is_refused_by_name(chat, options, code, told):
    for stream in (False, True):
        body = refused(chat, stream=stream, **options)
        assert body["code"] == code, body
        assert told in body["message"] or told == body["param"], body
        assert body["type"] == "invalid_request_error"


def test_fields_without_an_effect_and_parts_of_messages_are_taken(chat):
    parts = [{"type": "text", "text": ASK[0]["content"][:20]}, {"type": "text", "text": ASK[0]["content"][20:]}]
    messages = [{"role": "developer", "content": ""}, {"role": "user", "content": parts, "name": "me"}]
    answer = chat(messages=messages[1:], user="me", store=False, metadata={"a": "b"}, tool_choice="required")
    assert json.loads(answer.choices[0].message.content)["name"] == "Ada Moreau"
    assert chat(messages=messages, max_tokens=3).choices


def test_completions(demo):
    create = demo.client.completions.create
    answer = create(model="demo", prompt=["Text: a", "Text: b"], max_tokens=5, n=2, logprobs=2, temperature=0)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text == answer.choices[1].text
    logprobs = answer.choices[0].logprobs
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert logprobs.text_offset == [sum(map(len, logprobs.tokens[:i])) for i in range(len(logprobs.tokens))]
    assert len(logprobs.top_logprobs[0]) == 2
    assert (answer.object, answer.usage.total_tokens > 10) == ("text_completion", True)
    ids = demo.engine.model.tokenizer.encode("Text: a")
    again = create(model="demo", prompt=ids, max_tokens=5, temperature=0)
    assert again.choices[0].text == answer.choices[0].text
    streamed = create(model="demo", prompt="Text: a", max_tokens=5, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == answer.choices[0].text
    typed = {"response_format": schema_format({"enum": ["Lyon", "Oslo"]}), "structgen": {"prompt_schema": True}}
    one = create(model="demo", prompt="Where?", temperature=0, extra_body=typed)
    assert one.choices[0].text in ('"Lyon"', '"Oslo"')


def test_completions_with_canonical_tokens_stream_what_they_say(demo):
    options = {
        "model": "demo",
        "prompt": "Text: Ada Moreau lives in Ly",
        "max_tokens": 12,
        "temperature": 0,
        "logprobs": 1,
    }
    options["extra_body"] = {"structgen": {"canonical": True}}
    (choice,) = demo.client.completions.create(**options).choices
    streamed = demo.client.completions.create(stream=True, **options)
    assert "".join(chunk.choices[0].text for chunk in streamed) == choice.text == "".join(choice.logprobs.tokens)


WEATHER = cases("server/chat", "WEATHER")
BOOK = {"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {}}}}
CALLS = """Let me see.
<tool_call>
{"name": "weather", "arguments": {"city": "Paris", "days": 2}}
</tool_call>
<tool_call>
{"name": "weather", "arguments": {"city": "Rome", "days": 1}}
</tool_call>"""


def test_calls_their_results_and_the_answer():
    with served(scripted_chat(CALLS, "Sunny."), Settings(name="m")) as server:
        messages = [{"role": "user", "content": "The weather in Paris and Rome?"}]
        options = {"model": "m", "temperature": 0, "tools": [WEATHER, BOOK]}
        answer = server.client.chat.completions.create(messages=messages, **options)
        (choice,) = answer.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
        said = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
        assert said == [("weather", {"city": "Paris", "days": 2}), ("weather", {"city": "Rome", "days": 1})]
        assert len({call.id for call in choice.message.tool_calls}) == 2
        messages.append(choice.message.model_dump())
        ids = [call.id for call in choice.message.tool_calls]
        messages += [{"role": "tool", "tool_call_id": each, "content": "sunny"} for each in ids]
        final = server.client.chat.completions.create(messages=messages, **options).choices[0]
        assert (final.finish_reason, final.message.content, final.message.tool_calls) == ("stop", "Sunny.", None)


def test_calls_are_streamed_as_names_and_fragments():
    with served(scripted_chat(CALLS), Settings(name="m")) as server:
        messages = [{"role": "user", "content": "The weather in Paris and Rome?"}]
        with server.client.chat.completions.stream(
            model="m", temperature=0, messages=messages, tools=[WEATHER]
        ) as stream:
            events = list(stream)
            message = stream.get_final_completion().choices[0].message
        done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
        assert [(each.name, json.loads(each.arguments)["city"]) for each in done] == [
            ("weather", "Paris"),
            ("weather", "Rome"),
        ]
        assert sum(event.type == "tool_calls.function.arguments.delta" for event in events) > 10
        assert message.content == "Let me see."
        one = server.client.chat.completions.create(
            model="m", temperature=0, messages=messages, tools=[WEATHER], parallel_tool_calls=False
        )
        assert len(one.choices[0].message.tool_calls) == 1


@pytest.mark.parametrize("template", thinned(["hermes", "mistral", "xml"], 3))
def test_a_random_model_calls_what_it_must_call(template):
    with served(random_chat(template), Settings(name="m", max_tokens=300)) as server:
        named = {"type": "function", "function": {"name": "weather"}}
        for choice, names in (("required", {"weather", "book"}), (named, {"weather"}), ("none", set()), ("auto", None)):
            for stream in (False, True):
                answer = server.client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "Rome?"}], tools=[WEATHER, BOOK], n=2,
                    tool_choice=choice, max_tokens=70, temperature=1.2, seed=3, stream=stream,
                )  # fmt: skip
                for calls, finish in (
                    folded(answer)
                    if stream
                    else [
                        (
                            [(c.function.name, c.function.arguments) for c in each.message.tool_calls or []],
                            each.finish_reason,
                        )
                        for each in answer.choices
                    ]
                ):
                    assert finish in ("tool_calls", "length", "stop")
                    if names is not None:
                        assert {name for name, _ in calls} <= names
                        assert bool(calls) == bool(names) or (names and finish == "length")
                    assert len(calls) <= 1 or choice is not named
                    for name, arguments in calls[:-1] if finish == "length" else calls:
                        if name == "weather":
                            jsonschema.validate(json.loads(arguments), WEATHER["function"]["parameters"])


def folded(chunks):
    """The calls and the finish reason of each text of a stream."""
    calls, finish = {0: [], 1: []}, {}
    for chunk in chunks:
        for choice in chunk.choices:
            finish[choice.index] = choice.finish_reason or finish.get(choice.index)
            for call in choice.delta.tool_calls or []:
                if call.function.name:
                    assert call.index == len(calls[choice.index])
                    assert call.id
                    calls[choice.index].append((call.function.name, ""))
                name, arguments = calls[choice.index][call.index]
                calls[choice.index][call.index] = name, arguments + (call.function.arguments or "")
    return [(calls[i], finish[i]) for i in calls]


def test_tools_beside_a_schema():
    schema = schema_format({"type": "object", "properties": {"sunny": {"type": "boolean"}}, "required": ["sunny"]})
    with served(scripted_chat('{"sunny": true}'), Settings(name="m")) as server:
        answer = server.client.chat.completions.create(
            model="m",
            temperature=0,
            messages=[{"role": "user", "content": "?"}],
            tools=[WEATHER],
            response_format=schema,
        )
    assert json.loads(answer.choices[0].message.content) == {"sunny": True}


def test_a_plan_comes_apart_from_the_answer():
    """It is the message's reasoning, and its tokens are counted there."""
    with served(scripted_chat("Three and one are four."), Settings(name="m")) as server:
        answer = server.client.chat.completions.create(
            model="m", temperature=0, messages=[{"role": "user", "content": "?"}],
            response_format=schema_format({"const": "four"}), extra_body={"structgen": {"plan": "free"}},
        )  # fmt: skip
    message = answer.choices[0].message
    assert (message.reasoning_content, message.content) == ("Three and one are four.", '"four"')
    assert answer.usage.completion_tokens_details.reasoning_tokens == len("Three and one are four.") + 1


def test_reasoning_comes_apart_from_the_answer():
    thinks = {"structgen": {"thinking": True}}
    with served(scripted_chat("It rains.</think>\n\n4"), Settings(name="m")) as server:
        options = {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "?"}]}
        options |= {"response_format": schema_format({"type": "integer"}), "extra_body": thinks}
        message = server.client.chat.completions.create(**options).choices[0].message
        assert (message.reasoning_content.strip(), message.content) == ("It rains.", "4")
        chunks = list(server.client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **options
        ))  # fmt: skip
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert "".join((d.model_extra or {}).get("reasoning_content", "") for d in deltas) == message.reasoning_content
        assert "".join(delta.content or "" for delta in deltas) == "4"
        assert chunks[-1].usage.completion_tokens_details.reasoning_tokens > 5
        short = {"structgen": {"thinking": {"max_tokens": 3}}}
        cut = server.client.chat.completions.create(**{**options, "extra_body": short})
        assert cut.choices[0].model_extra["structgen"]["caps"][0]["name"] == "thinking.max_tokens"


def test_a_quote_of_the_last_message_or_of_a_source_has_its_places(chat):
    city = {"type": "string", "x-quote": {"whole": "words"}}
    schema = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
    said = chat(response_format=schema_format(schema)).choices[0]
    place = said.structgen["quotes"]["/city"][0]
    value = json.loads(said.message.content)["city"]
    assert ASK[0]["content"][place["start"] : place["end"]] == value
    body = {"structgen": {"source": {"a": "Oslo", "b": "or Oslo"}}}
    said = chat(response_format=schema_format(schema), extra_body=body).choices[0]
    assert {each["document"] for each in said.structgen["quotes"]["/city"]} <= {"a", "b"}
    tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
    with served(random_chat("hermes"), Settings(name="m")) as server:
        asked = {"model": "m", "temperature": 0, "messages": ASK, "tools": [tool], "tool_choice": "required"}
        said = server.client.chat.completions.create(extra_body=body, **asked).choices[0]
        last = [*server.client.chat.completions.create(extra_body=body, stream=True, **asked)][-1].choices[0]
    places = said.structgen["quotes"]["/0/city"]
    assert places == last.structgen["quotes"]["/0/city"]
    quote = json.loads(said.message.tool_calls[0].function.arguments)["city"]
    texts = {"a": "Oslo", "b": "or Oslo"}
    assert places
    assert all(texts[each["document"]][each["start"] : each["end"]] == quote for each in places)
    plain = schema_format({"type": "string"})
    assert "no string of this one" in refused(chat, response_format=plain, extra_body=body)["message"]
