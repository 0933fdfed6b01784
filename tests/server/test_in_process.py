"""`sg.transport`: clients whose requests are answered in this process."""

from __future__ import annotations

import asyncio

import anthropic
import openai
import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.server import Settings


class City(BaseModel):
    name: str
    country: str


MESSAGES = [{"role": "user", "content": "Lyon is in France."}]


@pytest.fixture(scope="module")
def model():
    return sg.load("demo")


@pytest.fixture(scope="module")
def client(model):
    with openai.OpenAI(api_key="-", http_client=sg.transport(model, Settings(max_choices=2)), max_retries=0) as client:
        yield client


def test_answers_streams_and_refusals_are_those_of_the_server(client):
    chat = client.chat.completions.parse(model="any-name", messages=MESSAGES, response_format=City, max_tokens=60)
    assert chat.choices[0].message.parsed.country
    with client.responses.stream(model="gpt-5", input="Lyon", text_format=City) as events:
        assert "response.output_text.delta" in {event.type for event in events}
        assert isinstance(events.get_final_response().output_parsed, City)
    with pytest.raises(openai.BadRequestError, match="messages"):
        client.chat.completions.create(model="x", messages=[])
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=1e-6).completions.create(model="x", prompt="a", max_tokens=400)


def test_a_stream_that_is_left_frees_its_row(client):
    for _ in range(100):  # more than there are rows
        with client.completions.create(model="x", prompt="a", max_tokens=900, stream=True) as stream:
            next(iter(stream))
    assert client.completions.create(model="x", prompt="a", max_tokens=2).choices


def test_asynchronous_clients_and_those_of_anthropic(model):
    async def answers():
        http = sg.transport(model, asynchronous=True)
        async with openai.AsyncOpenAI(api_key="-", http_client=http) as client:
            asked = [client.completions.create(model="m", prompt=f"{n}", max_tokens=3) for n in range(5)]
            stream = await client.completions.create(model="m", prompt="a", max_tokens=3, stream=True)
            return await asyncio.gather(*asked), [chunk async for chunk in stream]

    texts, chunks = asyncio.run(answers())
    assert (len(texts), len(chunks) >= 3) == (5, True)
    with anthropic.Anthropic(api_key="-", http_client=sg.transport(model)) as client:
        answer = client.messages.create(model="claude", max_tokens=8, messages=MESSAGES, extra_body={"temperature": 0})
        assert answer.usage.output_tokens == 8


def test_a_closed_client_has_ended_its_thread_and_other_models_are_refused(model):
    http = sg.transport(model)
    client = openai.OpenAI(api_key="-", http_client=http, max_retries=0)
    client.completions.create(model="m", prompt="a", max_tokens=2)
    client.close()
    with pytest.raises((openai.APIConnectionError, RuntimeError)):
        client.completions.create(model="m", prompt="a", max_tokens=2)
    with pytest.raises(sg.OptionError, match="expected a model"):
        sg.transport("demo")
