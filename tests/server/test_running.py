"""The process of a server: what it sets once its model is loaded, and how it ends. Covers `process`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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
            yield process, line.split("running on http://")[1].split()[0]
        finally:
            process.kill()


def status(address: str, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPConnection(address, timeout=30)
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
