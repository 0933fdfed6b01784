"""Faults that are injected into a running server are found from its log alone: lines of JSON, and tracebacks."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.server import Settings
from tests.support.serving import served

MARK = "☠"
ASK = {"model": "m", "prompt": "Say it: ", "max_tokens": 450, "temperature": 2, "structgen": {"regex": "[a-z ]{300}"}}
SLOW = {"allOf": [{"patternProperties": {f"^{'.' * i}[a-f{i}]{{3,9}}": {"minLength": i}}} for i in range(60)]}


class Faults:
    """What is wrong with the model's forward pass: it is slow, or it fails for a row with a mark."""

    def __init__(self, model, monkeypatch):
        self.slow, forward, mark = False, model.module.forward, model.tokenizer.encode(MARK)[-1]

        def faulty(input_ids=None, **others):
            if self.slow:
                time.sleep(0.05)
            if (input_ids == mark).any():
                raise RuntimeError("no kernel for this input")
            return forward(input_ids=input_ids, **others)

        monkeypatch.setattr(model.module, "forward", faulty)


def diagnosis(line, traceback):
    """What has happened to a request, by its line in the log and the traceback under its id."""
    code, stages = line["code"], {name: ms for name, ms in line.items() if name.endswith("_ms") and name != "all_ms"}
    where = max(stages, key=stages.__getitem__, default="")
    if traceback:
        kinds = {"no kernel for this input": "the forward pass failed", "KeyError: 'a bug'": "a bug of the server"}
        return next((kind for text, kind in kinds.items() if text in traceback), "unknown")
    named = {
        "invalid_value": f"wrong field {line.get('param')}", "model_not_found": "unknown model",
        "invalid_api_key": "wrong key", "schema_too_slow": "a schema too slow", "queue_full": "queue full",
        "unsatisfiable_schema": f"no value fits {line.get('param')}", "request_timeout": "the body did not come",
        "timeout": f"deadline passed, {where}", "cancelled": f"client gone, {where}", "shutting_down": "shutdown",
        None: "fine",
    }  # fmt: skip
    return named[code]


class Client:
    """Sends requests whose ids say nothing of them, and remembers what was wrong with each."""

    def __init__(self, server):
        self.host, self.truth = server.url.removeprefix("http://"), {}

    def ask(self, fault, key="k", length=None, **changes):
        """Sends a request. Returns its connection and its answer, once that begins."""
        id_, body = f"request-{len(self.truth)}", json.dumps({**ASK, **changes})
        self.truth[id_] = fault
        headers = {"X-Request-Id": id_, "Authorization": f"Bearer {key}"}
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(
            "POST", "/v1/completions", body, headers if length is None else {**headers, "Content-Length": length}
        )
        return connection

    def told(self, fault, **changes):
        """Sends a request and reads its whole answer."""
        with closing(self.ask(fault, **changes)) as connection:
            return connection.getresponse().read()

    def begun(self, fault, **changes):
        """Sends a request for a stream and reads the first bytes of the answer."""
        connection = self.ask(fault, stream=True, **changes)
        connection.getresponse().read(300)
        return connection


def leave(connection):
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def until(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.slow
def test_faults_are_found_from_the_log_alone(monkeypatch, caplog):
    """Fourteen, each by one line and, where the server is at fault, by a traceback under the same id."""
    caplog.set_level("INFO", "structgen")
    model = sg.Model.of(*load_demo())
    faults = Faults(model, monkeypatch)
    settings = Settings(name="m", api_key="k", rows=2, queue=1, body_seconds=1, schema_seconds=0.5, max_tokens=450)
    with served(model, settings) as server, ThreadPoolExecutor(4) as pool:
        client = Client(server)
        engine = server.engine
        client.told("fine", max_tokens=5, structgen={})
        client.told("wrong field logit_bias", logit_bias={"x": 1})
        client.told("unknown model", model="other")
        client.told("wrong key", key="other")
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SLOW}}
        client.told("a schema too slow", response_format=form, structgen={})
        none = {"type": "object", "required": ["a"], "properties": {"a": {"enum": [1], "type": "string"}}}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": none}}
        client.told("no value fits schema at /properties/a", response_format=form, structgen={})
        client.told("the body did not come", length="9999")
        beside = pool.submit(client.told, "fine", max_tokens=60, structgen={})
        client.told("the forward pass failed", prompt=MARK, structgen={})
        beside.result()
        with monkeypatch.context() as patch:
            patch.setattr("structgen.server.service.EngineJob", lambda *a, **k: {}["a bug"])
            client.told("a bug of the server")
        faults.slow = True
        streams = [client.begun("client gone, decode_ms") for _ in range(2)]
        waits = client.ask("client gone, queue_ms")
        until(lambda: engine.waiting)
        client.told("queue full")
        time.sleep(1.5)  # longer than a busy machine takes to begin
        leave(waits)
        for stream in streams:
            leave(stream)
        until(lambda: not server.engine.texts)
        server.service.settings = replace(settings, request_seconds=4)
        streams = [client.begun("deadline passed, decode_ms"), client.begun("deadline passed, decode_ms")]
        client.told("deadline passed, queue_ms")
        for stream in streams:
            stream.close()
        server.await_idle()
        server.service.settings = settings
        stream = client.begun("shutdown")
        server.service.end_requests()
        until(lambda: not server.engine.texts)
        stream.close()
    records = [each for each in caplog.records if each.name.startswith("structgen")]
    lines = {
        line["request"]: line
        for each in records
        if each.name == "structgen.requests"
        for line in [json.loads(each.message)]
    }
    format_ = caplog.handler.formatter.format
    tracebacks = {
        id_: "".join(format_(each) for each in records if each.exc_info and f"request {id_}" in each.message + ":")
        for id_ in lines
    }
    assert {id_: diagnosis(line, tracebacks[id_]) for id_, line in lines.items()} == client.truth
    assert len(set(client.truth.values())) >= 14
