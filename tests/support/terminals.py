"""Terminals for tests: what a program writes to one, as it comes."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest


class Seen(NamedTuple):
    """What a terminal was shown.

    Attributes:
        text: all of it, with control characters.
        silence: the longest time without anything, in seconds.
    """

    text: str
    silence: float

    @property
    def works(self) -> list[str]:
        """What was said of the work under way, without numbers, in the order in which it came."""
        told = [re.sub(r"\d+(?:,\d+)*", "N", each) for each in re.findall(r"structgen: ([^\r\x1b\n]*)", self.text)]
        return [re.sub(r", N s$", "", each) for each in dict.fromkeys(told)]


def run_on_terminal(command: Sequence[str], *, until: str = "", seconds: float = 120) -> Seen:
    """Runs a program whose standard output and error are a terminal.

    Args:
        until: it is ended when this was written.
        seconds: it is ended then.
    """
    pty = pytest.importorskip("pty", reason="there are no such terminals here")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text, silence, began = b"", 0.0, time.monotonic()
    last = began
    try:
        while time.monotonic() - began < seconds and not (until and until.encode() in text):
            if select.select([ours], [], [], 0.1)[0]:
                more = _read(ours)
                if not more:
                    break
                text, silence, last = text + more, max(silence, time.monotonic() - last), time.monotonic()
    finally:
        process.terminate()
        process.wait(30)
        os.close(ours)
    return Seen(text.decode("utf-8", "replace"), silence)


@contextmanager
def standard_error_on_terminal(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The standard error of this process is a terminal; the list has what was written to it, when the block is over."""
    pty = pytest.importorskip("pty", reason="there are no such terminals here")
    ours, theirs = pty.openpty()
    written: list[str] = []
    with patch.context() as patched, open(theirs, "w", encoding="utf-8") as stream:
        patched.setattr(sys, "stderr", stream)
        patched.setenv("TERM", "xterm")
        try:
            yield written
        finally:
            stream.flush()
            text = b""
            while select.select([ours], [], [], 0.05)[0]:
                text += _read(ours)
            written.append(text.decode("utf-8", "replace"))
            os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # its last writer has closed it
        return b""
