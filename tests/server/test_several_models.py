"""Several models in one server: each request reaches its own, and all of them are listed, counted and ended.

Covers `app`, `service`, `settings`.
"""

from __future__ import annotations

import json
import time

import anthropic
import openai
import pytest

import structgen as sg
from structgen.http_client import httpx
from structgen.server import Settings, create_app
from structgen.testing import scripted_chat
from tests.support.serving import served

ASK = [{"role": "user", "content": "Hello."}]
LENGTHS = {"one": 24, "two": 48}


@pytest.fixture(scope="module")
def server():
    """Two models of which each says its name, again and again, and a third name of the first one."""
    models = {name: scripted_chat(*[f"{name} " * length] * 9) for name, length in LENGTHS.items()}
    with served(models, Settings(aliases=["gpt"], temperature=0, max_tokens=8)) as made:
        yield made


def get(server, path):
    return httpx.get(server.url + path)


def post(server, path, **body):
    return httpx.post(server.url + path, json=body).json()


@pytest.mark.parametrize(("asked", "says"), [("one", "one one "), ("two", "two two "), ("gpt", "one one ")])
def test_each_route_answers_with_the_model_of_the_request(server, asked, says):
    client = server.client
    chat = client.chat.completions.create(model=asked, messages=ASK)
    assert (chat.choices[0].message.content, chat.model) == (says, asked)
    assert client.completions.create(model=asked, prompt="x").choices[0].text == says
    assert client.responses.create(model=asked, input="x").output_text == says
    pieces = client.chat.completions.create(model=asked, messages=ASK, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == says
    messages = anthropic.Anthropic(base_url=server.url, api_key="-", max_retries=0).messages
    assert messages.create(model=asked, messages=ASK, max_tokens=8).content[0].text == says
    assert messages.count_tokens(model=asked, messages=ASK).input_tokens > 5
    tokens = post(server, "/tokenize", model=asked, prompt="abc")["tokens"]
    assert post(server, "/detokenize", model=asked, tokens=tokens) == {"prompt": "abc"}
    assert client.models.retrieve(asked).id == asked


def test_a_name_that_none_has_is_refused_with_all_names(server):
    for ask in (
        lambda: server.client.chat.completions.create(model="three", messages=ASK),
        lambda: server.client.models.retrieve("three"),
    ):
        with pytest.raises(openai.NotFoundError, match="'three' here: this server has 'one', 'two'"):
            ask()
    assert post(server, "/tokenize", model="three", prompt="a")["error"]["code"] == "model_not_found"


def test_all_are_listed_counted_and_healthy(server):
    listed = get(server, "/v1/models").json()
    assert [each["id"] for each in listed["data"]] == ["one", "two", "gpt"]
    assert all(each["context_length"] and each["max_tokens"] == 8 for each in listed["data"])
    server.client.completions.create(model="two", prompt="x", max_tokens=3)
    text = get(server, "/metrics").text
    for name in ("one", "two"):
        assert f'structgen_running{{model="{name}"}} 0.0' in text
        assert f'structgen_requests_total{{model="{name}",path="/v1/completions",status="200"}}' in text
        assert f'structgen_tokens_total{{kind="generated",model="{name}"}}' in text
    assert [get(server, path).status_code for path in ("/health", "/ready")] == [200, 200]


def test_each_model_has_its_own_queue_and_one_that_ends_is_reported():
    models = {name: scripted_chat(f"{name} " * 900) for name in LENGTHS}
    with served(models, Settings(rows=1, queue=0, temperature=0)) as server:
        busy = server.client.completions.create(model="one", prompt="x", stream=True, max_tokens=900)
        next(iter(busy))
        with pytest.raises(openai.RateLimitError):
            server.client.completions.create(model="one", prompt="x")
        assert server.client.completions.create(model="two", prompt="x", max_tokens=4).choices[0].text == "two "
        server.service.threads["two"].stop()
        until = time.monotonic() + 60
        while server.service.alive:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert get(server, "/health").status_code == 503
        with pytest.raises(openai.InternalServerError):
            server.client.completions.create(model="two", prompt="x")
        server.service.end_requests()
        with pytest.raises(openai.APIError, match="stopped"):
            list(busy)
        server.await_idle()


def test_several_models_without_a_port():
    models = {name: scripted_chat(f"{name} " * 9) for name in LENGTHS}
    with openai.OpenAI(api_key="-", http_client=sg.transport(models), max_retries=0) as client:
        said = [
            client.completions.create(model=name, prompt="x", max_tokens=3, temperature=0).choices[0].text
            for name in ("two", "one", "other")
        ]
    assert said == ["two", "one", "one"]


@pytest.mark.parametrize("names", [[], [""], [1], ["gpt"], ["a", "b"]], ids=json.dumps)
def test_names_that_cannot_work_are_refused(names):
    model = scripted_chat("a")
    with pytest.raises(sg.OptionError, match="each with one name"):
        create_app(dict.fromkeys(names, model), Settings(aliases=["gpt"]))
