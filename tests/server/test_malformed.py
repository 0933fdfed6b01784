"""Malformed requests beside streams: each gets an answer in JSON, and no neighbour loses its text."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.http_client import httpx
from structgen.server import Settings
from tests.support.bodies import body
from tests.support.serving import served
from tests.support.tables import cases

ANSWERED = cases("server/malformed", "ANSWERED")
"""Routes and bodies, each with its answer's status, and a text that is in the error or in a header."""
OVERLOADED = {"queue_full", "shutting_down"}


@contextmanager
def neighbours(server, count):
    """Streams that begin again when they are over. Each has a text of its own, which must come whole."""
    over, lost, texts = threading.Event(), [], Counter()

    def stream(number):
        while not over.is_set():
            text = f"neighbour {number}, time {texts[number]}"
            options = {"model": "m", "prompt": "Say it.", "stream": True, "max_tokens": 40}
            extras = {"structgen": {"regex": text, "canonical": bool(number % 2)}}
            try:
                chunks = server.client.completions.create(**options, extra_body=extras)
                came = "".join(choice.text for chunk in chunks for choice in chunk.choices)
            except Exception as error:  # noqa: BLE001 - a lost neighbour is what this looks for
                came = repr(error)
            if came != text:
                lost.append((text, came))
            texts[number] += 1

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield texts, lost
    finally:
        over.set()
        for thread in threads:
            thread.join()


def ask(server, seed):
    """The status, the code of the error and the body of a malformed request."""
    route, data = body(random.Random(seed), "m")
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    connection.request("POST", route, data, {"X-Request-Id": f"seed-{seed}", "Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.headers["x-request-id"] == f"seed-{seed}"
    if answer.headers["content-type"].startswith("text/event-stream"):
        events = [line[6:] for line in text.decode().splitlines() if line.startswith("data: ") and line[6:] != "[DONE]"]
        pieces = [json.loads(event) for event in events]
        assert pieces, data
        error = pieces[-1].get("error") or (pieces[-1].get("response") or {}).get("error")
        return answer.status, error and error["code"], data
    found = json.loads(text)
    if answer.status == 200:
        assert {"choices", "output", "content"} & found.keys()
        return 200, None, data
    error = found["error"]
    assert (found.get("type") == "error") == (route == "/v1/messages")
    assert error.keys() - {"details"} == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert "site-packages" not in error["message"]
    assert "pydantic" not in error["message"].lower()
    return answer.status, error["code"], data


def test_each_malformed_part_has_its_answer():
    with served(sg.Model.of(*load_demo()), Settings(name="m", max_tokens=40)) as server:
        for route, given, status, told in ANSWERED:
            asked = {"model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 30, **given}
            if route == "responses":
                asked = {"model": "m", "input": "?", "max_output_tokens": 30, **given}
            answer = httpx.post(f"{server.url}/v1/{route}", json=asked, timeout=120)
            assert answer.status_code == status, (given, answer.text)
            headers = " ".join(value for name, value in answer.headers.items() if name.startswith("x-structgen"))
            assert told in (headers if status == 200 else answer.json()["error"]["message"]), (
                given,
                answer.text,
                headers,
            )


@pytest.mark.parametrize(
    ("bodies", "streams"), [(40, 2), pytest.param(10_000, 32, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_malformed_requests_hurt_nobody(bodies, streams):
    settings = Settings(name="m", max_tokens=40, rows=48)
    with served(sg.Model.of(*load_demo()), settings) as server:
        with neighbours(server, streams) as (texts, lost), ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda seed: ask(server, seed), range(bodies)))
        assert not lost
        assert min(texts[number] for number in range(streams)) >= 1
        wrong = [(code, data[:2000]) for status, code, data in answers if status >= 500 and code not in OVERLOADED]
        assert not wrong
        assert not [data for _, code, data in answers if code in ("internal_error", "run_error", "server_error")]
        counts = Counter(code for _, code, _ in answers)
        assert len(counts) >= 5, counts
        server.await_idle()
        print(counts, sum(texts.values()))
