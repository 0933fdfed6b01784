"""What pages of other sites and contradicting requests get, and connections that say nothing."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from contextlib import ExitStack

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.server import Settings, process
from tests.server.test_app import fetch
from tests.support.serving import head, served
from tests.support.tables import cases

BODY = json.dumps({"model": "m", "prompt": "x", "max_tokens": 1})


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def address(server):
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


def raw(server, *sent):
    """What comes back for bytes, until the server closes the connection."""
    with socket.create_connection(address(server), timeout=60) as connection:
        for piece in sent:
            connection.sendall(piece)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


HOSTS = cases("server/gate", "HOSTS")


def test_a_server_without_a_key_is_called_by_names_of_this_machine(model, caplog):
    caplog.set_level("INFO", "structgen.requests")
    with served(model, Settings(name="m")) as server:
        for host, is_ours in HOSTS.items():
            for method, path, body in (("POST", "/v1/completions", BODY), ("GET", "/v1/models", None)):
                status, _, answer = fetch(server, method, path, body, Host=host)
                assert status == (200 if is_ours else 403), host
                assert is_ours or (answer["error"]["code"], "--allow-host" in str(answer)) == ("host_not_allowed", True)
        status, _, answer = fetch(server, "POST", "/v1/messages", BODY, Host="evil.example")
        assert (status, answer["type"]) == (403, "error")
    last = json.loads(caplog.records[-1].message)
    assert (last["route"], last["status"], last["code"]) == ("/v1/messages", 403, "host_not_allowed")
    for own in ({"hosts": ["Proxy.example"]}, {"hosts": ["*"]}, {"api_key": "k"}):
        with served(model, Settings(name="m", **own)) as server:
            asks = {"Host": "proxy.example:80", "Authorization": "Bearer k"}
            assert fetch(server, "POST", "/v1/completions", BODY, **asks)[0] == 200
            other = 200 if "*" in own.get("hosts", ()) else 403 if "hosts" in own else 401
            assert fetch(server, "GET", "/v1/models", Host="x")[0] == other
    with pytest.raises(sg.OptionError, match="hosts"):
        Settings(hosts="proxy.example")


def test_a_body_is_json_and_says_so(model):
    """A page of another site may send any other type without asking, also none."""
    with served(model, Settings(name="m")) as server:
        for kind in ("text/plain", "text/plain; x=application/json", "application/x-www-form-urlencoded", "", "json",
                     "multipart/form-data; boundary=x", "application/jsonx", "x/application/json",
                     "application/x www+json", "application/json, text/plain"):  # fmt: skip
            for path in ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize"):
                answer = fetch(server, "POST", path, BODY, **{"Content-Type": kind, "Origin": "https://evil.example"})
                assert (answer[0], answer[2]["error"]["code"]) == (415, "unsupported_media_type")
                assert answer[1]["x-request-id"]
        for kind in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"):
            assert fetch(server, "POST", "/v1/completions", BODY, **{"Content-Type": kind})[0] == 200
        without = head("/v1/completions", len(BODY)).replace(b"Content-Type: application/json\r\n", b"")
        assert b" 415 " in raw(server, without + BODY.encode())
        for two in (["Content-Type: text/plain"], ["Content-Type: text/plain", "Content-Type: application/json"]):
            assert b" 415 " in raw(server, head("/v1/completions", len(BODY), *two) + BODY.encode())
        for encoding, status in (("gzip", 415), ("br, gzip", 415), ("x-any", 415), ("identity", 200), ("", 200)):
            asks = {"Content-Type": "application/json", "Content-Encoding": encoding}
            answer = fetch(server, "POST", "/v1/completions", BODY, **asks)
            assert answer[0] == status
            assert status == 200 or "Content-Encoding" in str(answer[2])
        preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        _, headers, _ = fetch(server, "OPTIONS", "/v1/completions", **preflight)
        assert "access-control-allow-origin" not in headers


def test_a_whole_address_is_a_target_whose_host_counts(model):
    """It takes the place of the `Host` header, as RFC 9112 says."""
    asked = {"http://localhost/v1/models": 200, "HTTP://127.0.0.1:8000/v1/models?a=b": 200, "http://localhost": 200,
             "http://localhost?a": 200, "http://evil.example/v1/models": 403, "http:///v1/models": 403,
             "http://localhost/http://localhost/v1/models": 404, "http://localhost//v1/models": 404}  # fmt: skip
    with served(model, Settings(name="m")) as server:
        for target, status in asked.items():
            sent = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            assert b" %d " % status in raw(server, sent)[:20], target
        posted = head("http://localhost/v1/messages", len(BODY), "Connection: close") + BODY.encode()
        assert b"request-id: " in raw(server, posted).replace(b"x-request-id", b"")


def test_a_length_beside_chunks_is_refused(model):
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY.encode())
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(model, Settings(name="m")) as server:
        answer = raw(server, head("/v1/completions", len(chunks), "Transfer-Encoding: chunked") + chunks + smuggled)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        only = head("/v1/completions", 0, "Transfer-Encoding: chunked", "Connection: close")
        assert b" 200 " in raw(server, only.replace(b"Content-Length: 0\r\n", b"") + chunks)


def test_connections_that_say_nothing_or_half_of_it_are_closed(model, monkeypatch):
    monkeypatch.setattr(process, "HEAD", 0.6)
    monkeypatch.setattr(process, "IDLE", 0.6)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unread = head("/v1/nothing", 10**9)  # the answer comes before the body
    begins = [b"", b"P", whole[:20], b"GET /health HTTP/1.1\r\nX: " + b"x" * 60_000, whole, whole + whole[:9], unread]
    with served(model, Settings(name="m", body_seconds=0.6)) as server, ExitStack() as stack:
        began, connections = time.monotonic(), []
        for beginning in [*begins * 4, head("/v1/completions", 99)]:
            connection = stack.enter_context(socket.create_connection(address(server), timeout=60))
            connection.sendall(beginning)
            connections.append(connection)
        open_, dripped, answers = {*connections}, 0, dict.fromkeys(connections, b"")
        while open_ and time.monotonic() - began < 30:
            time.sleep(0.1)
            for connection in [*open_]:
                try:
                    connection.sendall(b"x" if connection in connections[len(begins) :] else b"")  # most drip on
                    connection.settimeout(0.001)
                    while data := connection.recv(65536):
                        answers[connection] += data
                    open_.discard(connection)
                except TimeoutError:
                    dripped += 1
                except OSError:
                    open_.discard(connection)
        assert not open_
        assert all(answer.startswith(b"HTTP/1.1 ") for answer in answers.values() if answer)
        assert dripped > len(connections)
        assert time.monotonic() - began < 10
        assert fetch(server, "GET", "/health")[0] == 200


def test_a_client_that_does_not_read_its_answers_is_closed(model, monkeypatch):
    monkeypatch.setattr(process, "UNREAD", 0.6)
    with served(model, Settings(name="m")) as server, socket.create_connection(address(server), timeout=60) as client:
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10**6)
        assert fetch(server, "GET", "/health")[0] == 200


def test_an_answer_may_take_longer_than_a_head(model, monkeypatch):
    monkeypatch.setattr(process, "HEAD", 0.2)
    with served(model, Settings(name="m")) as server:
        body = {"model": "m", "prompt": "x", "max_tokens": 300, "temperature": 2, "stream": True, "n": 8}
        began = time.monotonic()
        chunks = [*server.client.completions.create(**body)]
        assert time.monotonic() - began > 0.3
        assert len([choice for chunk in chunks for choice in chunk.choices if choice.finish_reason]) == 8


def test_a_client_that_leaves_within_its_body_is_cancelled_and_no_error(model, caplog):
    caplog.set_level("INFO", "structgen")
    with served(model, Settings(name="m")) as server:
        for path in ("/v1/completions", "/v1/messages", "/tokenize"):
            with socket.create_connection(address(server)) as connection:
                connection.sendall(head(path, 999) + b'{"model"')
                time.sleep(0.2)
        until = time.monotonic() + 20
        while sum(map(float, re.findall(r'status="cancelled"} (\S+)', fetch(server, "GET", "/metrics")[2]))) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert 'status="500"' not in fetch(server, "GET", "/metrics")[2]
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_probes_may_ask_by_head_and_metrics_have_a_key_of_their_own(model):
    with served(model, Settings(name="m", api_key="k", metrics_key="scrapes")) as server:
        for path in ("/health", "/ready"):
            assert fetch(server, "HEAD", path)[::2] == (200, "")
        for key, status in (("scrapes", 200), ("k", 401), ("", 401)):
            asks = {"Authorization": f"Bearer {key}"}
            assert [fetch(server, method, "/metrics", **asks)[0] for method in ("GET", "HEAD")] == [status] * 2
            assert fetch(server, "GET", "/v1/models", **asks)[0] == (200 if key == "k" else 401)
    with served(model, Settings(name="m", metrics_key="scrapes")) as server:
        assert fetch(server, "GET", "/metrics")[0] == 401
        assert fetch(server, "GET", "/v1/models")[0] == 200
    for wrong in ("", " a", 5):
        with pytest.raises(sg.OptionError, match="metrics_key"):
            Settings(metrics_key=wrong)


def test_while_it_drains_a_server_is_not_ready_and_answers(model):
    with served(model, Settings(name="m", drain_seconds=1.5)) as server:
        server.process.handle_exit(signal.SIGTERM, None)
        until = time.monotonic() + 10
        while fetch(server, "GET", "/ready")[0] == 200:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert fetch(server, "HEAD", "/ready")[0] == 503
        assert fetch(server, "POST", "/v1/completions", BODY)[0] == fetch(server, "GET", "/health")[0] == 200
        began = time.monotonic()
        while True:
            try:
                assert fetch(server, "GET", "/ready")[0] == 503
            except OSError:
                break
        assert 0.1 < time.monotonic() - began < 10


LONG, NINES = "1" * 5000, "9" * 4000


def test_numbers_of_thousands_of_digits_are_refused_by_name(model):
    """Python makes no text of them, and no number of their texts."""
    asks = {"model": "m", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x"}
    paths = {"/v1/chat/completions": ("messages",), "/v1/completions": ("prompt",), "/v1/responses": ("input",),
             "/v1/messages": ("messages",), "/tokenize": ("prompt",), "/detokenize": ()}  # fmt: skip
    names = "logit_bias max_tokens n seed top_p temperature top_logprobs logprobs stop tokens max_completion_tokens "
    names += "max_output_tokens frequency_penalty structgen top_k metadata"
    with served(model, Settings(name="m", max_tokens=8)) as server:
        for path, wanted in paths.items():
            for name in names.split():
                for value in (LONG, f"[{LONG}]", f'{{"{LONG}": 1}}', f'{{"budget": {{"rollbacks": {LONG}}}}}',
                              NINES, f'{{"budget": {{"max_digits": -{NINES}}}}}', f'{{"{NINES}": -1}}'):  # fmt: skip
                    usual = {"model": "m", **{each: asks[each] for each in wanted}, "max_tokens": 2}
                    if path == "/v1/responses":
                        usual["max_output_tokens"] = usual.pop("max_tokens")
                    usual.pop(name, None)
                    body = json.dumps(usual)[:-1] + f', "{name}": {value}}}'
                    status, _, answer = fetch(server, "POST", path, body)
                    assert status in (200, 400), (path, name, value[:40], answer)
        status, _, answer = fetch(
            server, "POST", "/v1/completions", json.dumps({**json.loads(BODY), "logit_bias": {LONG: 1}})
        )
        assert (status, answer["error"]["param"]) == (400, "logit_bias")
