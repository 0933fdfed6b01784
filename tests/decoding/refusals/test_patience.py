"""A row whose constraint asks for more work than its patience has fails, and no other does."""

from __future__ import annotations

import time

import pytest

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.refusals.patience import Patience
from structgen.decoding.request import prepare
from structgen.errors import DeadEnd, LimitExceeded
from structgen.testing import scripted


def work(seconds):
    """Uses the processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_adds_up():
    patience = Patience(0.05)
    for _ in range(2):
        with patience:
            work(0.01)
            time.sleep(0.05)  # waiting costs nobody
    with pytest.raises(LimitExceeded, match=r"0\.05 s"), patience:
        work(0.04)
    with pytest.raises(DeadEnd), patience:
        raise DeadEnd("another error stays")
    with Patience():
        work(0.01)


class Slow(sg.Guard[bytes]):
    """Takes long, from when it is told to."""

    seconds = 0.0

    def start(self) -> bytes:
        return b""

    def feed(self, state: bytes, data: bytes) -> bytes:
        work(self.seconds)
        return b""

    def finish(self, state: bytes) -> None:
        return None


def test_one_row_that_takes_long_fails_alone():
    schema = {"type": "string"}
    guard = Slow()
    options = CallOptions(guards=[[guard], []])
    request = prepare(scripted(['"abcdefgh"', '"abcdefgh"']), ["a", "b"], schema, options)
    for session in request.sessions:
        session.patience.seconds = 0.03
    guard.seconds = 0.02
    slow, fast = request.results(record=False)
    assert isinstance(slow.error, LimitExceeded)
    assert fast.value == "abcdefgh"
