"""Benchmark workers: a process per engine, started again after a time-out or a crash."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import ROOT

WORKER = ("-m", "benchmarks.worker")
START_UP_LIMIT = 300.0
"""Seconds an engine may take to build its tokenizer."""


class Worker:
    """One engine's process. `run` answers every job, whatever happens to the process."""

    def __init__(
        self, engine: str, tokenizer_folder: str, time_limit: float, *, program: Sequence[str] = WORKER
    ) -> None:
        self.engine = engine
        self.restarts = -1
        self.ready: dict[str, Any] = {}
        self._command = [sys.executable, *program, engine, tokenizer_folder]
        self._time_limit = time_limit
        self._log = Path(tokenizer_folder) / f"{engine}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """The worker's result, or `{"timeout": seconds}`, or `{"crash": exit code}`."""
        if self._process is None:
            self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(self._time_limit)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.stop()
            return {"timeout": self._time_limit}
        if not line:
            return {"crash": self.stop()}
        result: dict[str, Any] = json.loads(line)
        return result

    def start(self) -> None:
        """Start the process and wait until its engine is warm. Raises RuntimeError when it never is."""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=log, bufsize=0, env=environment
            )
        self._buffer = b""
        line = self._read_line(START_UP_LIMIT)
        if not line:
            said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{self.engine} did not start (exit code {self.stop()}):\n{said}")
        self.ready = self.ready or json.loads(line)
        self.restarts += 1

    def memory_mb(self) -> dict[str, float | None]:
        """What the process holds in memory now, in 10^6 bytes; None when it does not run.

        `rss` counts pages of files as well, libraries above all, which processes share; `private` does not.
        """
        if self._process is None:
            return {"rss": None, "private": None}
        process = psutil.Process(self._process.pid)
        private = sum(part.anonymous for part in process.memory_maps())
        return {"rss": round(process.memory_info().rss / 1e6, 1), "private": round(private / 1e6, 1)}

    def stop(self) -> int | None:
        """End the process and give its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with process:  # closes its pipes, whereupon an idle worker ends, and waits
            assert process.stdin is not None
            process.stdin.close()
            try:
                return process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.returncode

    def _read_line(self, limit: float) -> bytes | None:
        """A whole line, b"" at the end of the stream, None after `limit` seconds without one."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(process.stdout.fileno(), 1 << 20)
                if not chunk:
                    return b""
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
