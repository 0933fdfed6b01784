"""The tokens of prompts and the text of tokens, as vLLM's routes give them."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.server import Settings
from tests.support.serving import served
from tests.support.tables import cases

try:
    import httpx2 as httpx
except ImportError:  # Python 3.10
    import httpx


@pytest.fixture(scope="module")
def post():
    with served(sg.Model.of(*load_demo()), Settings(name="m", api_key="key")) as server:
        client = httpx.Client(base_url=server.url, headers={"Authorization": "Bearer key"})
        yield lambda route, **body: client.post(route, json=body)


def test_a_prompt_has_the_tokens_that_the_model_reads(post):
    model, tokenizer = load_demo()
    found = post("/tokenize", prompt="Lyon <|im_end|>").json()
    assert found == {"count": len(found["tokens"]), "max_model_len": 512, "tokens": tokenizer.encode("Lyon <|im_end|>")}
    assert post("/detokenize", tokens=found["tokens"]).json() == {"prompt": tokenizer.decode(found["tokens"])}
    messages = [{"role": "user", "content": "Lyon?"}]
    chat = post("/tokenize", messages=messages, model="m").json()["tokens"]
    run = sg.generate(sg.Model.of(model, tokenizer), messages, limits=sg.Limits(1), details=True)
    assert len(chat) == run.prompt_tokens
    assert post("/detokenize", tokens=chat).json()["prompt"] == run.prompt
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    assert post("/tokenize", messages=messages, tools=[tool]).json()["count"] > len(chat)


@pytest.mark.parametrize(("route", "body", "code"), cases("server/tokens", "what_cannot_be_read_is_refused", globals()))
def test_what_cannot_be_read_is_refused(post, route, body, code):
    answer = post(route, **body)
    assert (answer.status_code // 100, answer.json()["error"]["code"]) == (4, code)
