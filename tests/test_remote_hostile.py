"""Hostile endpoints: each bad reply is its own row's error, within its time and memory; no other row is lost.

Covers `remote_replies`.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import socket
import socketserver
import threading
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, RunError, StructgenError, ToolError
from structgen.http_client import MAX_REPLY
from structgen.tools import Tool
from tests.support.bodies import junk, mutated
from tests.support.tables import cases


class Town(BaseModel):
    name: str
    size: int | None = None
    parts: list[str] = []


GOOD = json.dumps({"name": "Oslo", "size": 7, "parts": ["a"]})
PLAIN: Any = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}
TEXTS = cases("remote_hostile", "TEXTS", globals())
VENDORS = cases("remote_hostile", "VENDORS", globals())


def completion(content: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "reasoning_content": "hm"}
    own = {"finish": "complete", "forced_tokens": 3, "rollbacks": 0, "seed": 4,
           "caps": [{"name": "max_items", "pointer": "/parts", "limit": 3}]}  # fmt: skip
    choice = {"index": 0, "message": message, "finish_reason": "stop", "structgen": own}
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 2}}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def http(status: str, headers: list[str], body: bytes) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("utf-8", "replace") + body


def good() -> bytes:
    body = json.dumps(completion(GOOD)).encode()
    return http("200 OK", [f"Content-Length: {len(body)}"], body)


def hostile(rng: random.Random, elsewhere: str) -> bytes:
    """A reply in which something is wrong, or a good one."""
    value: Any = completion(rng.choice(TEXTS)) if rng.random() < 0.7 else rng.choice(VENDORS)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        value = mutated(value, rng)
    if rng.random() < 0.1:
        value = rng.choice([{"error": junk(rng)}, {"error": {"message": junk(rng)}}, {"choices": [junk(rng)]}])
    body = json.dumps(value).encode()
    if rng.random() < 0.1:
        deep = rng.choice([300, 100_000])
        body = rng.choice([b'{"choices":', b'{"error":']) + b"[" * deep + b"]" * deep + b"}"
    if rng.random() < 0.1:
        place = rng.randrange(len(body) + 1)
        body = (
            body[:place] + rng.choice([b"\xff", b"\x00", b'"', b"", b"\xef\xbb\xbf", b"1" * 5000]) + body[place + 1 :]
        )
    status = rng.choice([*["200 OK"] * 12, "201 Yes", "204 No", "301 There", "307 There", "400 No", "401 No", "404 No",
                         "429 No", "500 \x1b[31m", "599 No", "099 No", "2000 No", "abc"])  # fmt: skip
    headers = [f"Content-Length: {len(body)}"]
    change = rng.randrange(24)
    if change < 3:
        body = rng.choice([gzip.compress(body), zlib.compress(body), body, gzip.compress(body)[:-9]])
        headers = [f"Content-Length: {len(body)}", f"Content-Encoding: {rng.choice(['gzip', 'deflate', 'GZIP'])}"]
    elif change == 3:
        headers.append(f"Content-Encoding: {rng.choice(['br', 'zstd', 'gzip, gzip', 'identity', '', 'é'])}")
    elif change == 4:
        headers = [
            rng.choice(["Content-Length: 99999999", "Content-Length: 3", "Content-Length: -1", "X: y", "bad\x00"])
        ]
    elif change == 5:
        headers = ["Transfer-Encoding: chunked"]
        body = rng.choice([b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), body, b"zz\r\n", b"5\r\nab\r\n0\r\n\r\n"])
    elif change == 6:
        headers += ["Set-Cookie: " + rng.choice(["a=b; Domain=\x01", "=;;;", "x" * 3000, "a=b; expires=x; max-age=y"])]
    if status.startswith("30") or rng.random() < 0.03:
        headers.append("Location: " + rng.choice([elsewhere, "//evil", "http://[", "", "é\x1b", "http://x:99999/"]))
    whole = http(status, headers, body)
    if rng.random() < 0.03:
        whole = rng.choice([b"", whole[:20], b"\x00" * 50, whole.replace(b"\r\n", b"\n"), b"HTTP/0.9 200\r\n\r\n"])
    return whole


def dripped(seed: int, elsewhere: str) -> Iterator[bytes]:
    """A hostile reply in one piece, or in some with pauses between them."""
    rng = random.Random(seed)
    whole = hostile(rng, elsewhere)
    cuts = sorted(rng.randrange(len(whole) + 1) for _ in range(rng.choice([0] * 9 + [4])))
    for start, end in pairwise([0, *cuts, len(whole)]):
        yield whole[start:end]
        time.sleep(0.01 if cuts else 0)


class Endpoint(socketserver.BaseRequestHandler):
    """Writes the reply that a prompt asks for, byte for byte, and closes the connection."""

    came: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.request.settimeout(60)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.request.recv(65536) or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        self.came.append(head.decode("latin-1"))
        length = re.search(rb"(?i)content-length: (\d+)", head)
        while length and len(body) < int(length[1]):
            body += self.request.recv(65536)
        asked = re.search(rb"hostile (\d+)", body)
        elsewhere = f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere"
        with suppress(OSError):
            for piece in dripped(int(asked[1]), elsewhere) if asked else [good()]:
                self.request.sendall(piece)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

    def handle_error(self, *_: Any) -> None:
        """Quiet: the client may leave."""


@contextmanager
def serving(handler: Any):
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"])
def test_a_bad_reply_is_its_own_rows_error(count):
    """Batches of 12 rows, of which every fourth one is answered well."""
    Endpoint.came = []
    seen: Counter[str] = Counter()
    with serving(Endpoint) as address:
        ways = [({}, Town), ({"provider": "openai"}, Town), ({"structgen": True}, PLAIN),
                ({"provider": "openai"}, list), ({}, None), ({"response_format": "json_object"}, PLAIN)]  # fmt: skip
        for first in range(0, count, 9):
            options, schema = ways[first // 9 % len(ways)]
            remote = sg.Remote(f"{address}/v1", "m", api_key="secret", timeout=60, **options)
            prompts = [f"hostile {first + i - i // 4}" if i % 4 else "well" for i in range(12)]
            runs = sg.generate(remote, prompts, list[str] if schema is list else schema, details=True)
            for prompt, run in zip(prompts, runs, strict=True):
                assert run.error is None or isinstance(run.error, StructgenError)
                assert "\x1b" not in str(run.error)
                seen[type(run.error).__name__] += 1
                if prompt == "well" and schema is not list:
                    assert run.error is None, prompt
                    assert (run.prompt_tokens, run.stats.cached, run.seed) == (5, 2, 4)
    print(seen)
    assert {each.partition(" HTTP")[0] for each in Endpoint.came} == {"POST /v1/chat/completions"}
    assert min(seen["NoneType"], seen["RunError"], seen["ValidationFailed"], seen["OptionError"]) > count / 50


class Slow(socketserver.BaseRequestHandler):
    """Sends a byte of a head, or of a body, now and then; or nothing at all."""

    head: bytes
    pieces: bytes

    def handle(self) -> None:
        self.request.recv(65536)
        try:
            self.request.sendall(self.head)
            for byte in self.pieces:
                self.request.sendall(bytes([byte]))
                time.sleep(0.1)
            time.sleep(10)
        except OSError:
            pass


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "pieces"),
    [(b"", b""), (b"", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500), (CHUNKED, b"1\r\nx\r\n" * 100),
     (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b"{" * 500)],
    ids=["silent", "head", "chunks", "body"],
)  # fmt: skip
def test_the_time_of_an_answer_is_that_of_the_whole(head, pieces, monkeypatch):
    Slow.head, Slow.pieces = head, pieces
    document = {"openapi": "3.0.0", "paths": {"/p": {"get": {"operationId": "p"}}}}
    monkeypatch.setattr("structgen.tools.api_requests.SECONDS", 0.6)
    with serving(Slow) as address:
        began = time.monotonic()
        with pytest.raises(RunError, match=r"no whole answer within 0\.6 seconds"):
            sg.generate(sg.Remote(address, "m", timeout=0.6), "?", Town)
        (tool,) = Tool.from_openapi(document, server=address)
        with pytest.raises(ToolError, match=r"no whole answer within 0\.6 seconds"):
            tool.called("{}").invoke()
        assert time.monotonic() - began < 4


class Large(socketserver.BaseRequestHandler):
    """Sends a reply that is large, or becomes so when it is unpacked."""

    head: bytes
    piece: bytes

    def handle(self) -> None:
        self.request.recv(65536)
        try:
            self.request.sendall(self.head)
            for _ in range(10_000):
                self.request.sendall(self.piece)
        except OSError:
            pass


def bombs() -> list[tuple[bytes, bytes]]:
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(b" " * (100 << 20)) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return [(head + b"\r\n", b"x" * 65536), (head + b"Content-Encoding: gzip\r\n\r\n", bomb)]


def test_the_bytes_of_an_answer_are_bounded_also_those_that_it_unpacks_to():
    document = {"openapi": "3.0.0", "paths": {"/p": {"get": {"operationId": "p"}}}}
    for head, piece in bombs():
        Large.head, Large.piece = head, piece
        with serving(Large) as address:
            (tool,) = Tool.from_openapi(document, server=address)
            tracemalloc.start()
            for call, error in ((tool.called("{}").invoke, ToolError),
                                (lambda: sg.generate(sg.Remote(address, "m"), "?", Town), RunError)):  # fmt: skip
                with pytest.raises(error, match=f"more than {MAX_REPLY:,} bytes"):
                    call()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 4 * MAX_REPLY


def test_a_call_within_a_tool_that_runs_in_the_loop_of_this_process_ends():
    """`Remote` waits for that loop."""
    with serving(Endpoint) as address:

        @sg.tool
        async def ask() -> str:
            """Asks."""
            return sg.generate(sg.Remote(address, "m", timeout=20), "well", Town, details=True).value.name

        assert ask.called("{}").invoke() == "Oslo"


def test_an_address_that_nobody_listens_at_is_an_error_of_each_row():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        remote = sg.Remote(f"http://127.0.0.1:{free.getsockname()[1]}", "m")
        runs = sg.generate(remote, ["a", "b"], Town, details=True)
    assert [type(run.error) for run in runs] == [RunError] * 2


class Told(socketserver.BaseRequestHandler):
    """Answers each request with the same reply."""

    reply: bytes

    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(self.reply)


def answered(reply: bytes, schema: Any = Town) -> Any:
    Told.reply = reply
    with serving(Told) as address:
        return sg.generate(sg.Remote(f"{address}/v1?api-version=1", "m", timeout=20), ["?"], schema, details=True)[0]


PROVIDER = {"message": "Provider returned error", "metadata": {"raw": '{"error": {"message": "one image"}}'}}
LOCATED = [{"type": "x", "loc": ["body", "seed"], "msg": "no integer", "input": "x"}]


@pytest.mark.parametrize(
    ("error", "told"),
    [({"error": {"message": "no key", "type": "x", "param": None, "code": "y"}}, "no key"),  # OpenAI, vLLM
     ({"statusCode": 401, "message": "no subscription"}, "no subscription"),  # Azure
     ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),  # Anthropic
     ([{"error": {"code": 400, "message": "no key", "status": "INVALID_ARGUMENT"}}], "no key"),  # Gemini
     ({"object": "error", "message": {"detail": LOCATED}}, r"body\.seed: no integer"),  # Mistral
     ({"detail": LOCATED}, r"body\.seed: no integer"), ({"detail": "Not Found"}, "Not Found"),  # FastAPI
     ({"object": "error", "message": "no model", "type": "NotFoundError"}, "no model"),  # vLLM, older
     ({"error": "no model"}, "no model"), ({"error": "long", "error_type": "validation"}, "long"),  # Ollama, TGI
     ({"error": {"message": {"error": "no model"}, "type": "None"}}, "no model"),  # LiteLLM
     ({"error": PROVIDER, "user_id": "u"}, "Provider returned error; one image"),  # OpenRouter
     ({"error": {"code": 5}}, r'\{"error": \{"code": 5\}\}'), ("<html>", "<html>")],
)  # fmt: skip
def test_what_a_vendors_error_says_is_told(error, told):
    body = (error if isinstance(error, str) else json.dumps(error)).encode()
    for status in ("400 No", "500 No", "200 OK"):
        found = str(answered(http(status, [f"Content-Length: {len(body)}"], body)).error)
        assert re.search(rf"(answers \d+: |it says '){told}'?$", found), found


CALLED = {"name": "get", "arguments": '{"place": "Oslo"}'}


@pytest.mark.parametrize(
    ("change", "value", "error"),
    [({"finish_reason": "content_filter"}, None, "broke the answer off .content_filter."),
     ({"finish_reason": "error", "error": {"message": "died"}}, None, "broke the answer off .error.: died"),
     ({"message": {"content": None, "refusal": "I cannot"}}, None, "the model refuses: I cannot"),
     ({"message": {"content": "a", "refusal": None}}, "a", None),
     ({"message": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}]}}, "a", None),
     ({"message": {"content": None, "function_call": CALLED}}, None, "called 'get', and was offered no tools"),
     ({"message": {"content": "", "tool_calls": [{"function": CALLED}]}}, None, "called 'get'"),
     ({"message": {"content": "a", "function_call": None}}, "a", None),
     ({"message": {"content": "a", "reasoning": "hm"}}, "a", None)],
)  # fmt: skip
def test_an_answer_that_was_broken_off_is_none(change, value, error):
    body = json.dumps({"choices": [{"message": {"content": "half"}, "finish_reason": "stop", **change}]}).encode()
    run = answered(http("200 OK", [f"Content-Length: {len(body)}"], body), None)
    assert run.value == value
    assert error is None if run.error is None else re.search(error, str(run.error))
    assert run.thinking == change.get("message", {}).get("reasoning")


def test_a_packed_reply_is_read_to_its_end():
    whole = json.dumps(completion(GOOD)).encode()
    members = gzip.compress(whole[:50]) + gzip.compress(whole[50:])
    head = "Content-Encoding: gzip"
    for body in (members, members + bytes(99)):
        assert answered(http("200 OK", [head], body)).value.name == "Oslo"
    for body in (members[:-1], members + b"x"):
        assert isinstance(answered(http("200 OK", [head], body)).error, RunError)


@pytest.mark.parametrize(
    ("argument", "given"),
    [("api_key", each) for each in ("secret\n", " secret", "secrét", "", 5)]
    + [("headers", {"X-Key": each}) for each in ("secret\r\nA: b", "secrét", " secret", 5)]
    + [("headers", {each: "secret"}) for each in ("X Y", "", "é", "Content-Length")]
    + [("headers", None), ("headers", [("a", "secret")])]
    + [("url", each) for each in ("http://", "http://u:secret@x/v1", "http://x/v1#a", "http://x/v1\n", "http://[::1",
                                  "http://x:99999", "ftp://x", "http://u:secret@x/#", "x y", None)],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_without_showing_keys(argument, given):
    with pytest.raises(OptionError, match=argument) as refusal:
        sg.Remote(**{"url": "HTTP://x/v1", "model": "m", argument: given})
    assert "secr" not in str(refusal.value)
