"""The server as HTTP: ids, keys, sizes, queues, times, clients that go away, the end of the process.

Covers `service`, `observing`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, nullcontext

import openai
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import structgen as sg
from structgen import telemetry
from structgen.demo import load_demo
from structgen.server import Settings, service, wire
from structgen.server.gate import is_local
from structgen.server.problems import Problem
from tests.support.serving import head, served
from tests.support.speed import at_usual_speed
from tests.support.thinning import as_slow

ASK = [{"role": "user", "content": "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."}]


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def fetch(server, method, path, body=None, **headers):
    """Status, headers and JSON of a request by hand."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, json.loads(text) if text.startswith("{") else text


def endless(server, **options):
    """A stream of plain text that goes on for long."""
    return server.client.chat.completions.create(
        model="m", messages=ASK, temperature=2, max_tokens=450, stream=True, **options
    )


def test_models_health_metrics_and_what_is_not_there(model):
    with served(model, Settings(name="m")) as server:
        (listed,) = server.client.models.list()
        assert (listed.id, server.client.models.retrieve("m").owned_by) == ("m", "structgen")
        assert fetch(server, "GET", "/health")[::2] == (200, {"status": "ok"})
        assert fetch(server, "GET", "/ready")[::2] == (200, {"status": "ready"})
        server.client.chat.completions.create(model="m", messages=ASK, max_tokens=5)
        status, headers, text = fetch(server, "GET", "/metrics")
        assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
        assert 'structgen_requests_total{model="m",path="/v1/chat/completions",status="200"} 1.0' in text
        assert 'structgen_tokens_total{kind="generated",model="m"} 5.0' in text
        assert 'structgen_between_tokens_seconds_count{model="m"} 1.0' in text
        for stage in ("body", "compile_queue", "prompt", "schema", "queue", "prefill", "decode"):
            assert f'structgen_stage_seconds_count{{model="m",stage="{stage}"}} 1.0' in text
        assert sys.platform != "linux" or "process_resident_memory_bytes " in text
        for path in ("/v1/nothing", "/v1/models/other"):
            assert fetch(server, "GET", path)[0] == 404
        status, _, body = fetch(server, "GET", "/v1/chat/completions")
        assert (status, body["error"]["code"]) == (405, "not_found")
        with pytest.raises(openai.NotFoundError):
            server.client.chat.completions.create(model="other", messages=ASK)


def test_without_the_key_there_is_nothing_but_health(model):
    with served(model, Settings(name="m", api_key="sécret")) as server:
        assert fetch(server, "GET", "/health")[0] == 200
        for key in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic x"}):
            for method, path in (("GET", "/metrics"), ("GET", "/v1/models"), ("POST", "/v1/chat/completions")):
                status, _, body = fetch(server, method, path, "{}", **key)
                assert (status, body["error"]["code"]) == (401, "invalid_api_key")
        right = {"Authorization": "Bearer sécret".encode().decode("latin-1")}
        assert fetch(server, "GET", "/v1/models", **right)[0] == 200


def test_several_keys_origins_of_pages_and_bodies_that_do_not_come(model, caplog):
    settings = Settings(name="m", api_key=["one", "two"], cors_origins=["https://page.example"], body_seconds=0.2)
    with served(model, settings) as server:
        for key, status in (("one", 200), ("two", 200), ("three", 401), ("", 401)):
            assert fetch(server, "GET", "/v1/models", Authorization=f"Bearer {key}")[0] == status
        asks = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
        _, headers, _ = fetch(server, "OPTIONS", "/v1/chat/completions", **asks)
        assert headers["access-control-allow-origin"] == "https://page.example"
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head("/v1/completions", 9, "Authorization: Bearer one") + b"{")
            assert b"408" in connection.recv(1000).split(b"\r\n")[0]
    for wrong in ("", [], ["a", ""], [" a"]):
        with pytest.raises(sg.OptionError, match="api_key"):
            Settings(api_key=wrong)
    assert (is_local("127.0.0.1"), is_local("::1"), is_local("localhost"), is_local("0.0.0.0")) == (True,) * 3 + (
        False,
    )


def test_nothing_of_a_request_is_code_or_reads_files(model):
    with served(model, Settings(name="m")) as server:
        for extras, told in (
            ({"template_options": {"chat_template": "{{ 'a' * 10**9 }}"}}, "no variable of the chat template"),
            ({"template_options": {"max_length": 10**8}}, "no variable of the chat template"),
            ({"grammar": "%import .secret.X\nstart: X"}, "from a file"),
            ({"grammar": "%import secret.X\nstart: X"}, "from a file"),
        ):
            with pytest.raises(openai.BadRequestError, match=told):
                server.client.chat.completions.create(model="m", messages=ASK, extra_body={"structgen": extras})


def test_a_prompt_beyond_the_context_is_refused_before_it_is_encoded(model):
    with served(model, Settings(name="m")) as server:
        for text, told in (("word " * 700_000, "has [0-9]+ tokens"), ("word " * 4000, "has [0-9]+ tokens")):
            began = time.process_time()
            with pytest.raises(openai.BadRequestError, match=told) as refusal:
                server.client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
            assert refusal.value.code == "context_length_exceeded"
            assert at_usual_speed(time.process_time() - began) < 2


def test_bodies_and_schemas_that_are_too_large(model):
    with served(model, Settings(name="m", max_body_bytes=5000, max_schema_bytes=1000)) as server:
        status, _, body = fetch(server, "POST", "/v1/completions", b"x" * 6000)
        assert (status, body["error"]["code"]) == (413, "request_too_large")
        infinite = b'{"model": "m", "prompt": "x", "metadata": {"a": 1e999}}'
        for text in (b"", b"{", b"[]", b'"\xff"', b'{"model": "m", "prompt": 5}', b"NaN", infinite):
            status, _, body = fetch(server, "POST", "/v1/completions", text)
            assert (status, body["error"]["code"]) == (400, "invalid_value")
        schema = {"enum": ["x" * 1000]}
        options = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        with pytest.raises(openai.BadRequestError, match="1,000"):
            server.client.chat.completions.create(model="m", messages=ASK, response_format=options)


def test_a_schema_that_takes_too_long_is_refused_and_others_are_not(model):
    slow = {"allOf": [{"patternProperties": {f"^{'.' * i}[a-f{i}]{{3,9}}": {"minLength": i}}} for i in range(30)]}
    with served(model, Settings(name="m", schema_seconds=0.3)) as server:
        options = {"type": "json_schema", "json_schema": {"name": "x", "schema": slow}}
        for _ in range(2):
            began = time.process_time()
            with pytest.raises(openai.BadRequestError) as refusal:
                server.client.chat.completions.create(model="m", messages=ASK, response_format=options)
            assert refusal.value.code in ("schema_too_slow", "limit_exceeded")
            assert at_usual_speed(time.process_time() - began) < 3
            assert server.client.chat.completions.create(model="m", messages=ASK, max_tokens=3).choices
        server.await_idle()


def test_a_full_queue_refuses_and_is_free_again(model):
    with served(model, Settings(name="m", rows=1, queue=1)) as server:
        streams = [endless(server), endless(server)]
        next(streams[0])
        with pytest.raises(openai.RateLimitError) as refusal:
            endless(server)
        assert refusal.value.code == "queue_full"
        assert refusal.value.response.headers["retry-after"] == "1"
        for stream in streams:
            stream.close()
        server.await_idle()
        assert server.client.chat.completions.create(model="m", messages=ASK, max_tokens=3).choices


def test_a_request_has_an_id_and_a_line_in_the_log_and_a_bug_is_told_there_alone(model, monkeypatch, caplog):
    caplog.set_level("INFO", "structgen")
    with served(model, Settings(name="m")) as server:
        ask = json.dumps({"model": "m", "prompt": "x", "max_tokens": 3})
        _, headers, _ = fetch(server, "POST", "/v1/completions", ask, **{"X-Request-Id": "mine-1"})
        assert headers["x-request-id"] == "mine-1"
        made = fetch(server, "GET", "/health", **{"X-Request-Id": "no id\tat all"})[1]["x-request-id"]
        assert made.startswith("req-")

        def bug(*args, **kwargs):
            raise RuntimeError("/secret/path")

        monkeypatch.setattr("structgen.server.service.EngineJob", bug)
        for stream in (False, True):
            body = json.dumps({**json.loads(ask), "stream": stream})
            status, _, failed = fetch(server, "POST", "/v1/completions", body, **{"X-Request-Id": "mine-2"})
            assert (status, failed["error"]["code"]) == (500, "internal_error")
            assert "secret" not in json.dumps(failed)
        for level in ("INFO", "DEBUG"):
            caplog.set_level(level, "structgen.requests")
            fetch(server, "POST", "/v1/completions", json.dumps({**json.loads(ask), "logit_bias": {"x": 1}}))
        server.await_idle()
    lines = [json.loads(each.message) for each in caplog.records if each.message.startswith("{")]
    told = [(line.get("param"), "message" in line) for line in lines[3:]]
    assert told == [("logit_bias", False), ("logit_bias", True)]
    assert [(line["request"], line["status"], line["code"]) for line in lines[:3]] == [
        ("mine-1", 200, None), ("mine-2", 500, "internal_error"), ("mine-2", 500, "internal_error"),
    ]  # fmt: skip
    assert (lines[0]["route"], lines[0]["tokens"], lines[0]["prompt_tokens"]) == ("/v1/completions", 3, 2)
    stages = ["body_ms", "compile_queue_ms", "prompt_ms", "schema_ms", "queue_ms", "prefill_ms", "decode_ms"]
    assert [name for name in lines[0] if name.endswith("_ms")] == [*stages, "all_ms"]
    assert lines[0]["all_ms"] + 1 >= sum(lines[0][stage] for stage in stages) > 0 < lines[0]["decode_ms"]
    assert "queue_ms" not in lines[1]
    assert ["/secret/path" in str(each.exc_info) for each in caplog.records if each.exc_info] == [True, True]


def test_a_request_is_a_span_of_its_clients_trace(model):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.instrument(provider)
    try:
        with served(model, Settings(name="m")) as server:
            exporter.clear()  # those of the warm-up
            for extras in ({"max_tokens": 40}, {"stream": True}, {"structgen": {"beams": 2}}, {"max_tokens": -1}):
                told = {"X-Request-Id": "mine", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
                schema = {"type": "object", "title": f"new {extras}", "properties": {"n": {"type": "boolean"}}}
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                ask = {"model": "m", "messages": ASK, "response_format": form, **extras}
                fetch(server, "POST", "/v1/chat/completions", json.dumps(ask), **told)
                server.await_idle()
            fetch(server, "POST", "/tokenize", json.dumps({"model": "m", "prompt": "x"}), traceparent="wrong")
    finally:
        telemetry.uninstrument()
    spans = exporter.get_finished_spans()
    *requests, refused, tokenize = [span for span in spans if span.kind == SpanKind.SERVER]
    assert [span.name for span in (*requests, refused)] == ["POST /v1/chat/completions"] * 4
    assert (tokenize.name, tokenize.parent) == ("POST /tokenize", None)
    for span in requests:
        assert (f"{span.context.trace_id:x}", f"{span.parent.span_id:x}") == ("a" * 32, "b" * 16)
        names = sorted(each.name for each in spans if each.parent and each.parent.span_id == span.context.span_id)
        assert names == ["structgen.compile", "structgen.generate"]
        seen = span.attributes
        assert (seen["gen_ai.operation.name"], seen["structgen.request"]) == ("chat", "mine")
        assert (seen["http.response.status_code"], seen["http.route"]) == (200, "/v1/chat/completions")
        assert seen["gen_ai.usage.output_tokens"] > 0 < seen["gen_ai.usage.input_tokens"]
        assert seen["structgen.decode_ms"] > 0
        assert "error.type" not in seen
    assert (refused.attributes["error.type"], refused.attributes["http.response.status_code"]) == ("invalid_value", 400)
    assert refused.status.status_code == StatusCode.UNSET


@pytest.mark.parametrize("stream", [as_slow(False), True])
def test_a_client_that_goes_away_frees_its_row(model, stream):
    with served(model, Settings(name="m", rows=1)) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        body = {"model": "m", "messages": ASK, "max_tokens": 450, "n": 4, "temperature": 2, "stream": stream}
        text = json.dumps(body).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head("/v1/chat/completions", len(text)) + text)
            until = time.monotonic() + 60
            while not server.engine.running:
                assert time.monotonic() < until
                time.sleep(0.005)
        server.await_idle()
        assert 'status="cancelled"} 1.0' in fetch(server, "GET", "/metrics")[2]


def test_a_large_request_whose_client_has_gone_no_longer_waits(model, monkeypatch):
    """It waits for the thread of large requests, on which another one is."""
    go, read = threading.Event(), []

    def slow(*args):
        read.append(args)
        go.wait(60)
        raise Problem(400, "slow", "slow")

    monkeypatch.setitem(service._KINDS, wire.TextRequest, (slow, service.TextAnswer))
    text = json.dumps({"model": "m", "prompt": "x" * (300 << 10)}).encode()
    with served(model, Settings(name="m", rows=1)) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as first, ExitStack() as stack:
            first.sendall(head("/v1/completions", len(text)) + text)
            waiting = stack.enter_context(socket.create_connection((host, int(port))))
            waiting.sendall(head("/v1/completions", len(text)) + text)
            until = time.monotonic() + 60
            while server.engine.texts < 2:
                assert time.monotonic() < until
                time.sleep(0.005)
            stack.close()
            while server.engine.texts > 1:
                assert time.monotonic() < until
                time.sleep(0.005)
            go.set()
            assert b" 400 " in first.recv(100)
        assert len(read) == 1


def test_an_answer_that_takes_too_long_ends_in_an_error(model):
    with served(model, Settings(name="m", request_seconds=0.001)) as server:
        with pytest.raises(openai.InternalServerError) as late:
            server.client.chat.completions.create(model="m", messages=ASK, max_tokens=450, temperature=2)
        assert (late.value.status_code, late.value.code) == (504, "timeout")
        with pytest.raises(openai.APIError, match="takes longer"):
            list(endless(server))
        server.await_idle()


COMMAND = [sys.executable, "-c", "from structgen.cli import app; app()", "serve", "demo", "--port", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(("grace", "whole"), [("60", True), ("1", False)])
def test_a_server_that_is_told_to_end_lets_streams_end_within_the_grace_time(grace, whole):
    environment, command = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, [*COMMAND, "--grace-seconds", grace]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        line = next(line for line in process.stderr if "running on" in line)
        url = line.split("running on ")[1].split()[0]
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        long = {"structgen": {"regex": "([a-z]{9} ){45}"}}
        stream = client.chat.completions.create(
            model="demo", messages=ASK, n=16, max_tokens=500, stream=True, extra_body=long
        )
        next(stream)
        process.send_signal(signal.SIGTERM)
        ends = []
        with nullcontext() if whole else pytest.raises(openai.APIError, match="being stopped"):
            ends = [choice.finish_reason for chunk in stream for choice in chunk.choices if choice.finish_reason]
        assert ends == ["stop"] * 16 * whole
        process.stderr.read()
        assert process.wait(60) in (0, -signal.SIGTERM)
