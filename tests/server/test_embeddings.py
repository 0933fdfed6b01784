"""`/v1/embeddings`: what `openai` reads of it, beside the states of the model itself. Covers `embeddings`."""

from __future__ import annotations

import openai
import openai.types
import pytest
import torch
from pydantic import TypeAdapter

import structgen as sg
from structgen.http_client import httpx
from structgen.server import Settings
from structgen.testing import scripted_chat
from tests.support.serving import served

TEXTS = ["Ada lives in Lyon.", "Ada Moreau, 36, lives in Lyon.", "x"]


@pytest.fixture(scope="module")
def server():
    models = {"demo": sg.load("demo"), "scripted": scripted_chat("a")}
    with served(models, Settings(rows=2)) as made:
        yield made


def expected(model, text):
    """The mean of the last states as transformers gives them, scaled."""
    ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        mean = model.module(ids, output_hidden_states=True).hidden_states[-1][0].mean(0)
    return (mean / mean.norm()).tolist(), ids[0].tolist()


def test_they_are_the_mean_of_the_last_states_in_both_encodings(server):
    model, create = server.engine.model, server.client.embeddings.create
    vectors, ids = zip(*(expected(model, text) for text in TEXTS), strict=True)
    for given, size in ((TEXTS, 3), (list(ids), 3), (TEXTS[0], 1), (ids[0], 1)):
        for encoding in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            found = create(model="demo", input=given, **encoding)
            assert [each.index for each in found.data] == list(range(size))
            assert found.usage.prompt_tokens == found.usage.total_tokens == sum(map(len, ids[:size]))
            if encoding.get("encoding_format") == "base64":  # the client decodes what it asked for by itself
                assert all(isinstance(each.embedding, str) for each in found.data)
                continue
            for each, vector in zip(found.data, vectors, strict=False):
                assert each.embedding == pytest.approx(vector, abs=1e-5)


def test_an_answer_is_of_the_published_type_and_says_what_it_is(server):
    body = {"model": "demo", "input": TEXTS}
    answer = httpx.post(f"{server.url}/v1/embeddings", json=body).json()
    assert answer.pop("structgen") == {"embedding": "mean of last hidden states"}
    read = TypeAdapter(openai.types.CreateEmbeddingResponse).validate_python(answer, strict=True)
    assert (read.model_dump(), read.model_extra) == (answer, {})
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'structgen_requests_total{model="demo",path="/v1/embeddings",status="200"}' in metrics


def test_they_come_while_texts_are_written(server):
    create = server.client.completions.create
    with create(model="demo", prompt="a", stream=True, max_tokens=300, temperature=2) as stream:
        next(iter(stream))
        assert server.engine.running
        assert len(server.client.embeddings.create(model="demo", input=TEXTS * 3).data) == 9
        assert [piece for piece in stream if piece.choices]


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"dimensions": 8}, 400, "as many as the model's states"),
        ({"input": []}, 400, "input"),
        ({"input": ["a", ""]}, 400, "empty"),
        ({"input": [[1 << 40]]}, 400, "token"),
        ({"input": "a" * 9000}, 400, "context"),
        ({"encoding_format": "int8"}, 400, "encoding_format"),
        ({"model": "scripted"}, 404, "no hidden states"),
        ({"model": "other"}, 404, "no model"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(server, asked, status, message):
    body = {"model": "demo", "input": "a", **asked}
    refused = httpx.post(f"{server.url}/v1/embeddings", json=body)
    assert (refused.status_code, message in refused.json()["error"]["message"]) == (status, True), refused.text


def test_a_server_that_ends_refuses_them():
    with served(sg.load("demo"), Settings(name="m")) as server:
        server.service.end_requests()
        with pytest.raises(openai.InternalServerError, match="stopped"):
            server.client.embeddings.create(model="m", input="a")
