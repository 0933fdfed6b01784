"""The process of a server: what it sets once its model is loaded, and how it ends. Covers `process`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.exploding import SCHEMAS
from tests.support.tables import cases

LOADED = cases("server/running", "LOADED", globals())


@pytest.mark.slow
def test_what_is_loaded_is_left_out_of_every_collection() -> None:
    """In a process of its own: the setting is for all of it."""
    subprocess.run([sys.executable, "-c", LOADED], check=True, timeout=120)


COMMAND = [sys.executable, "-c", "from structgen.cli import app; app()", "serve", "demo", "--port", "0"]


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command `serve` in a process of its own, and its address."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "running on" in line)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop the server
            yield process, line.split("running on http://")[1].split()[0]
        finally:
            process.kill()


def status(address: str, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.slow
def test_at_sigterm_a_server_says_that_it_is_not_ready_and_goes_on_for_a_while() -> None:
    body = json.dumps({"model": "demo", "prompt": "x", "max_tokens": 3})
    with serving("--drain-seconds", "4") as (process, address):
        assert status(address, "GET", "/ready") == 200
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        while status(address, "GET", "/ready") == 200:
            assert time.monotonic() - began < 2
            time.sleep(0.05)
        assert status(address, "HEAD", "/ready") == 503
        assert status(address, "GET", "/health") == status(address, "POST", "/v1/completions", body) == 200
        assert process.wait(30) in (0, -signal.SIGTERM)
        assert time.monotonic() - began > 3.5


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]])
def test_ctrl_c_and_a_second_signal_wait_for_no_balancer(signals: list[signal.Signals]) -> None:
    with serving("--drain-seconds", "60") as (process, address):
        assert status(address, "GET", "/ready") == 200
        for each in signals:
            process.send_signal(each)
            time.sleep(0.5)
        process.wait(20)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_keeps_little_of_exploding_schemas() -> None:
    """Eight schemas of 4 kB took 3 GB; five hundred, refused or answered, may take 100 MB."""

    def ask(kinds: Iterable[Callable[[int], Any]], number: int) -> None:
        for kind in kinds:
            schema = {"name": "x", "schema": kind(number)}
            asked = {"response_format": {"type": "json_schema", "json_schema": schema}, "max_tokens": 1}
            body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "x"}], **asked})
            told.append(status(address, "POST", "/v1/chat/completions", body))

    def resident() -> int:
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096

    told = list[int]()
    kinds = [kind for name, kind in SCHEMAS.items() if name not in ("enum", "const")]  # larger than the server takes
    with serving() as (process, address):
        for number in range(3):
            ask(kinds, 9_000 + number)
        before = resident()
        for number in range(500 // len(kinds) + 1):
            ask(kinds, number)
        assert resident() - before < 100 << 20
    assert {200, 400} >= {*told}
    assert told.count(400) > 100
