"""Reads prompts and compiles schemas on separate threads, each within a limit of CPU time.

A limit of wall time would refuse schemas for the load of the machine: on a busy one, a schema of 18 ms took 0.75 s.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from structgen.errors import LimitExceeded
from structgen.patience import Deadline, Patience, excuse, seconds_reading
from structgen.server.problems import Problem

T = TypeVar("T")

SHARE, LONGEST = 0.5, 50
"""What each tool adds to the time of a request, in times of one schema's; and the most that they add up to."""


class Compilers:
    """Threads that read prompts and compile schemas for requests, each piece of work within a time.

    Args:
        threads: for requests of usual sizes. Large ones have a thread of their own, so that they make no others wait.
        seconds: the CPU time that a piece of work may take on its thread next to reading its prompt. Garbage collection
            is not counted: it clears up after all threads, on whichever it begins.
    """

    def __init__(self, threads: int, seconds: float) -> None:
        if _excuse_collections not in gc.callbacks:
            gc.callbacks.append(_excuse_collections)
        self._pool = ThreadPoolExecutor(threads, "structgen-compiler")
        self._large = ThreadPoolExecutor(1, "structgen-large")
        self._seconds = seconds

    async def run(
        self, work: Callable[[], T], *, large: bool = False, times: dict[str, float] | None = None, tools: int = 0
    ) -> T:
        """Runs a piece of work and returns its result. If nobody waits for that any more, the work ends early.

        Args:
            large: the request is a large one.
            times: gets the seconds by the clock that were spent waiting for a thread, reading the prompt, and on all
                else.
            tools: their number: each adds a `SHARE` of the time, and the format of calls as much as two.

        Raises:
            Problem: it took too long, and was stopped.
        """
        seconds = self._seconds * (min(1 + (tools + 2) * SHARE, LONGEST) if tools else 1)
        gone, came = threading.Event(), time.perf_counter()
        message = "reading and compiling the schemas takes more than {:g} s of CPU time"
        patience = Patience(seconds, deadline=Deadline(events=[gone]), work=message)

        def limited() -> T:
            began, read = time.perf_counter(), seconds_reading()
            try:
                with patience:
                    return work()
            except LimitExceeded as error:
                if patience.is_over:
                    raise Problem(400, str(error), "schema_too_slow") from None
                raise
            finally:
                if times is not None:
                    prompt = seconds_reading() - read
                    schema = time.perf_counter() - began - prompt
                    times.update(compile_queue=began - came, prompt=prompt, schema=schema)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._large if large else self._pool, limited)
        finally:
            gone.set()

    def close(self) -> None:
        """Takes no more work."""
        for pool in (self._pool, self._large):
            pool.shutdown(wait=False, cancel_futures=True)


_collecting = threading.local()


def _excuse_collections(phase: str, info: dict[str, int]) -> None:
    """Is called by Python before and after each collection, on the collecting thread, whose work does not count it."""
    if phase == "start":
        _collecting.began = time.thread_time()
    else:
        now = time.thread_time()
        excuse(now - getattr(_collecting, "began", now))
