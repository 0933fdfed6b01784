"""Reads prompts and compiles schemas on separate threads, each within a limit of CPU time.

A limit of wall time would refuse schemas for the load of the machine: on a busy one, a schema of 18 ms took 0.75 s.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Generic, TypeVar

from structgen.patience import seconds_reading
from structgen.server.problems import Problem

T = TypeVar("T")

AGAIN = 0.05
"""Seconds until a thread that has not ended is interrupted again."""
SHARE, LONGEST = 0.5, 50
"""What each tool adds to the time of a request, in times of one schema's; and the most that they add up to."""
SHORTEST = 0.005
"""The shortest time between two looks at the clock of a thread, in seconds."""


class _TimeIsUp(BaseException):
    """Raised in a thread from outside, as Ctrl-C is: no `except Exception` catches it."""


@cache
def _lost_interrupts_are_silent() -> None:
    """Stops Python from reporting interrupts that a finalizer swallows: another one will follow."""
    report = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
        if unraisable.exc_type is not _TimeIsUp:
            report(unraisable)

    sys.unraisablehook = hook


class Compilers:
    """Threads that read prompts and compile schemas for requests, each piece of work within a time.

    Args:
        threads: for requests of usual sizes. Large ones have a thread of their own, so that they make no others wait.
        seconds: the CPU time that a piece of work may take on its thread beside reading its prompt. Garbage collection
            is not counted: it clears up behind all threads, on whichever it begins.
        prompt_seconds: the CPU time that it may take to read the prompt.
    """

    def __init__(self, threads: int, seconds: float, prompt_seconds: float = 60.0) -> None:
        if _count_collections not in gc.callbacks:
            gc.callbacks.append(_count_collections)
        _lost_interrupts_are_silent()
        self._pool = ThreadPoolExecutor(threads, "structgen-compiler")
        self._large = ThreadPoolExecutor(1, "structgen-large")
        self._seconds, self._prompt_seconds = seconds, prompt_seconds

    async def run(
        self, work: Callable[[], T], *, large: bool = False, times: dict[str, float] | None = None, tools: int = 0
    ) -> T:
        """Runs a piece of work and returns its result.

        Args:
            large: the request is a large one.
            times: gets the seconds of its stages, see `_PooledWork.times`.
            tools: their number: each adds a `SHARE` of the time, and the format of calls as much as two.

        Raises:
            Problem: it took too long, and was interrupted.
        """
        seconds = self._seconds * (min(1 + (tools + 2) * SHARE, LONGEST) if tools else 1)
        piece = _PooledWork(work, asyncio.get_running_loop())
        future = asyncio.get_running_loop().run_in_executor(self._large if large else self._pool, piece.run)
        future.add_done_callback(piece.is_over)
        try:
            await piece.begun.wait()
            while not future.done():
                schema, prompt = piece.used()
                left = min(seconds - schema, self._prompt_seconds - prompt)
                if left <= 0:
                    break
                await asyncio.wait([future], timeout=max(left, SHORTEST))
        except asyncio.CancelledError:
            self._end(piece)
            raise
        finally:
            if times is not None:
                times.update(piece.times())
        if not future.done():
            self._end(piece)
            if prompt >= self._prompt_seconds:
                message = f"reading the prompt takes more than {self._prompt_seconds:g} s of CPU time"
                raise Problem(400, message, "prompt_too_slow")
            message = f"reading and compiling the schemas takes more than {seconds:g} s of CPU time"
            raise Problem(400, message, "schema_too_slow")
        return future.result()

    def _end(self, piece: _PooledWork[T]) -> None:
        """Interrupts a piece of work until it is over."""
        if piece.interrupt():
            asyncio.get_running_loop().call_later(AGAIN, self._end, piece)

    def close(self) -> None:
        """Takes no more work."""
        for pool in (self._pool, self._large):
            pool.shutdown(wait=False, cancel_futures=True)


class _PooledWork(Generic[T]):
    """A piece of work on a thread of the pool. `begun` is set when the thread begins."""

    def __init__(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.begun = asyncio.Event()
        self._work, self._loop = work, loop
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._from, self._read_before = 0.0, (0.0, 0.0)
        self._unwanted = self._interrupted = False
        self._came, self._began = time.perf_counter(), 0.0
        self._times: dict[str, float] | None = None

    def run(self) -> T:
        """Runs the work on this thread.

        Raises:
            TimeoutError: it was interrupted.
        """
        try:
            with self._lock:
                if self._unwanted:
                    raise TimeoutError
                self._thread = threading.get_ident()
                self._from, self._began = _clock(self._thread), time.perf_counter()
                self._read_before = seconds_reading(self._thread, self._from)
            self._loop.call_soon_threadsafe(self.begun.set)
            try:
                return self._work()
            finally:
                self._over()
        except _TimeIsUp:
            while self._thread is not None or self._interrupted:  # more interrupts may come until then
                with suppress(_TimeIsUp):
                    self._over()
            raise TimeoutError from None

    def is_over(self, future: asyncio.Future[T]) -> None:
        """Ends the wait for `begun`, also if the pool was closed before the work began."""
        self.begun.set()
        _ = future.cancelled() or future.exception()  # else Python reports an exception that was never retrieved

    def used(self) -> tuple[float, float]:
        """Returns the seconds of CPU time for schemas and for the prompt since the thread began; 0 when it is over."""
        with self._lock:  # a thread that has ended has no clock any more
            if self._thread is None:
                return 0.0, 0.0
            now = _clock(self._thread)
            prompt = seconds_reading(self._thread, now)[0] - self._read_before[0]
            return now - self._from - prompt, prompt

    def times(self) -> dict[str, float]:
        """Returns the seconds by the clock so far: waiting for a thread, reading the prompt, and all else."""
        with self._lock:
            return self._stages() if self._times is None else self._times

    def _stages(self) -> dict[str, float]:
        now = time.perf_counter()
        if not self._began:
            return {"compile_queue": now - self._came}
        thread = self._thread
        prompt = 0.0 if thread is None else seconds_reading(thread, self._from)[1] - self._read_before[1]
        schema = now - self._began - prompt
        return {"compile_queue": self._began - self._came, "prompt": prompt, "schema": schema}

    def _over(self) -> None:
        """Ends the work: no interrupt comes from now on, and one that is on its way arrives here.

        An interrupt cannot be taken back: Python looks for it before every call until it has come.
        """
        with self._lock:
            if self._thread is not None:
                self._times = self._stages()
            self._thread = None
        if self._interrupted:
            try:
                _interrupt(threading.get_ident())  # it replaces an interrupt that is on its way
                while True:
                    pass
            except _TimeIsUp:
                self._interrupted = False

    def interrupt(self) -> bool:
        """Interrupts the thread. Returns False if the work is over."""
        with self._lock:
            self._unwanted = True
            if self._thread is None:
                return False
            self._interrupted = True
            _interrupt(self._thread)
            return True


_collecting: dict[int, float] = {}
"""A thread that collects garbage -> its CPU time when the collection began."""
_collected: defaultdict[int, float] = defaultdict(float)
"""A thread -> the seconds that it has spent on garbage collection."""


def _clock(thread: int) -> float:
    """Returns the CPU time of a running thread in seconds; on macOS and Windows, which do not tell it, wall time."""
    now = _time_of(thread)
    return _collecting.get(thread, now) - _collected[thread]


def _time_of(thread: int) -> float:
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return time.perf_counter() if clock_of is None else time.clock_gettime(clock_of(thread))


def _count_collections(phase: str, info: dict[str, int]) -> None:
    """Is called by Python before and behind each collection, on the collecting thread."""
    thread = threading.get_ident()
    if phase == "start":
        _collecting[thread] = _time_of(thread)
    else:
        _collected[thread] += _time_of(thread) - _collecting.pop(thread, _time_of(thread))


def _interrupt(thread: int) -> None:
    """Raises `_TimeIsUp` in a thread when it comes to its next line of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TimeIsUp))
