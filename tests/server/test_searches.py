"""Beam search and phrases through the server, beside texts of the batch, with the openai client."""

from __future__ import annotations

import json
import threading
import time

import openai
import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.server import Settings
from tests.support.serving import served
from tests.support.tables import cases

ASK = [{"role": "user", "content": "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


@pytest.fixture(scope="module")
def demo(model):
    with served(model, Settings(name="demo", max_tokens=64, max_choices=8, rows=16)) as server:
        yield server


def create(demo, extras, **options):
    given = {"model": "demo", "messages": ASK, "response_format": FORMAT, "extra_body": {"structgen": extras}}
    return demo.client.chat.completions.create(**given | options)


@pytest.mark.parametrize(
    ("phrase", "python"),
    cases("server/searches", "phrases_are_said_as", globals()),
    ids=["text", "pointer", "any of", "ordered", "template"],
)
def test_phrases_are_said_as_generate_says_them(demo, model, phrase, python):
    (choice,) = create(demo, {"phrases": [phrase], "beams": 4}).choices
    Person.model_validate_json(choice.message.content)
    wanted = sg.generate(
        model, ASK, sg.JsonSchema(Person.model_json_schema()), phrases=[python], beams=4, limits=sg.Limits(64),
        details=True,
    )  # fmt: skip
    assert choice.message.content == wanted.text
    assert choice.finish_reason == "stop"


def test_the_likeliest_text_without_phrases(demo):
    answer = create(demo, {"beams": 3}, logprobs=True, top_logprobs=2)
    assert json.loads(answer.choices[0].message.content) == {"name": "Ada Moreau", "age": 36, "city": "Lyon"}
    assert answer.choices[0].logprobs.content
    assert answer.usage.completion_tokens > 5


def test_a_stream_has_the_text_when_it_is_found(demo):
    chunks = list(create(demo, {"phrases": ["Bo"], "beams": 4}, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Bo" in Person.model_validate_json(text).model_dump_json()
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_searches_and_samples_beside_each_other(demo):
    """Three searches wait for each other, five sampled texts do not wait for them; nothing is mixed up."""
    texts: dict[int, str] = {}

    def ask(number):
        phrase = {"phrases": [f"{number}x"], "beams": 4} if number < 3 else {"banned": [f"{number}x"]}
        options = {} if number < 3 else {"temperature": 1.0, "seed": number}
        texts[number] = create(demo, phrase, **options).choices[0].message.content

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == list(range(8))
    for number, text in texts.items():
        Person.model_validate_json(text)
        assert (f"{number}x" in text) == (number < 3)


def test_a_client_that_leaves_frees_the_search(demo):
    for _ in range(3):
        stream = create(demo, {"phrases": ["Bo"], "beams": 8}, stream=True)
        next(iter(stream))
        stream.close()
    response = demo.client.responses.create(
        model="demo", input=ASK, text={"format": {"type": "json_schema", **FORMAT["json_schema"]}},
        extra_body={"structgen": {"phrases": ["Bo"], "beams": 4}},
    )  # fmt: skip
    assert "Bo" in Person.model_validate_json(response.output_text).model_dump_json()
    deadline = time.monotonic() + 60
    while demo.engine.texts and time.monotonic() < deadline:
        time.sleep(0.02)
    assert demo.engine.texts == 0


@pytest.mark.parametrize(
    ("extras", "options", "code", "told"), cases("server/searches", "what_a_search_cannot", globals())
)
def test_what_a_search_cannot_do_is_refused_by_name(demo, extras, options, code, told):
    with pytest.raises(openai.APIStatusError) as refusal:
        create(demo, extras, **options)
    body = refusal.value.body
    assert body["code"] == code, body
    assert told in body["message"] or told == body["param"], body


def test_a_search_of_as_many_beams_as_texts_are_given_lowers_n(demo):
    (choice,) = create(demo, {"phrases": ["a"]}, n=2).choices
    assert choice.model_extra["structgen"]["clamped"] == ["n=2: 1"]
