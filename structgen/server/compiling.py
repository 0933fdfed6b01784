"""Schemas are read and compiled on threads of their own, each within a time.

The time is what the processor gave to the thread. A schema that waits for other threads or other programs is not
refused for it: on a busy machine one of 18 ms was, by a clock on the wall that ran to 0.75 s.
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

from structgen.kernels import no_compilation
from structgen.server.problems import Problem

T = TypeVar("T")

AGAIN = 0.05
"""Seconds until a thread that has not ended is interrupted again."""
SHORTEST = 0.005
"""Seconds between two looks at the clock of a thread."""


class _TimeIsUp(BaseException):
    """Raised in a thread from outside, as Ctrl-C is: no `except Exception` holds it up."""


@cache
def _lost_interrupts_are_silent() -> None:
    """Python reports no interrupt that a finalizer or the callback of a weak reference swallowed: another one comes."""
    report = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
        if unraisable.exc_type is not _TimeIsUp:
            report(unraisable)

    sys.unraisablehook = hook


class Compilers:
    """Threads that work on what requests ask for, each piece of work within a time.

    Args:
        seconds: of CPU time of its thread that each piece of work may take. Garbage collection, which clears up behind
            all threads in whichever it begins, is not counted.
    """

    def __init__(self, threads: int, seconds: float) -> None:
        if _count_collections not in gc.callbacks:
            gc.callbacks.append(_count_collections)
        _lost_interrupts_are_silent()
        self._pool = ThreadPoolExecutor(threads, "structgen-compiler")
        self._seconds = seconds

    async def run(self, work: Callable[[], T]) -> T:
        """The result of a piece of work.

        Raises:
            Problem: it takes too long; the thread is interrupted.
        """
        piece = _Piece(work, asyncio.get_running_loop())
        future = asyncio.get_running_loop().run_in_executor(self._pool, piece.run)
        future.add_done_callback(piece.is_over)
        try:
            await piece.begun.wait()
            while not future.done() and (left := self._seconds - piece.used()) > 0:
                await asyncio.wait([future], timeout=max(left, SHORTEST))
        except asyncio.CancelledError:
            self._end(piece)
            raise
        if not future.done():
            self._end(piece)
            told = f"reading and compiling the schemas takes more than {self._seconds:g} s of CPU time"
            raise Problem(400, told, "schema_too_slow")
        return future.result()

    def _end(self, piece: _Piece[T]) -> None:
        """Interrupts a piece of work until it is over."""
        if piece.interrupt():
            asyncio.get_running_loop().call_later(AGAIN, self._end, piece)

    def close(self) -> None:
        """No more work is taken."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Piece(Generic[T]):
    """A piece of work on a thread of the pool.

    Attributes:
        begun: set when the thread begins.
    """

    def __init__(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.begun = asyncio.Event()
        self._work, self._loop = work, loop
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._from = 0.0
        self._unwanted = self._interrupted = False

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
                self._from = _clock(self._thread)
            self._loop.call_soon_threadsafe(self.begun.set)
            try:
                return self._work()
            finally:
                self._over()
        except _TimeIsUp:
            while self._thread is not None or self._interrupted:  # more of them may come until it is over
                with suppress(_TimeIsUp):
                    self._over()
            raise TimeoutError from None

    def is_over(self, future: asyncio.Future[T]) -> None:
        """Ends the wait for the begin, which a pool that was closed never makes."""
        self.begun.set()
        _ = future.cancelled() or future.exception()  # or Python reports one that nobody asked for

    def used(self) -> float:
        """Seconds of CPU time since the thread began; 0 when it is over."""
        with self._lock:  # a thread that has ended has no clock any more
            return 0.0 if self._thread is None else _clock(self._thread) - self._from

    def _over(self) -> None:
        """From now on no interrupt comes, and one that is on its way arrives here.

        It cannot be taken back: Python looks for it before every call, in all threads, until it has come.
        """
        with self._lock:
            self._thread = None
        if self._interrupted:
            try:
                _interrupt(threading.get_ident())  # in place of one on its way
                while True:
                    pass
            except _TimeIsUp:
                self._interrupted = False

    def interrupt(self) -> bool:
        """Interrupts the thread, unless it may be compiling a kernel. False when there is nothing to interrupt."""
        with self._lock:
            self._unwanted = True
            if self._thread is None:
                return False
            with no_compilation() as is_safe:
                if is_safe:
                    self._interrupted = True
                    _interrupt(self._thread)
            return True


_collecting: dict[int, float] = {}
"""Of a thread that collects garbage: its time when it began."""
_collected: defaultdict[int, float] = defaultdict(float)
"""Of a thread: the seconds that it has collected garbage for."""


def _clock(thread: int) -> float:
    """The CPU time of a thread that runs, in seconds; where its clock cannot be read (macOS, Windows), wall time."""
    now = _time_of(thread)
    return _collecting.get(thread, now) - _collected[thread]


def _time_of(thread: int) -> float:
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return time.perf_counter() if clock_of is None else time.clock_gettime(clock_of(thread))


def _count_collections(phase: str, info: dict[str, int]) -> None:
    """Called by Python before and behind each collection, on the thread that it runs on."""
    thread = threading.get_ident()
    if phase == "start":
        _collecting[thread] = _time_of(thread)
    else:
        _collected[thread] += _time_of(thread) - _collecting.pop(thread, _time_of(thread))


def _interrupt(thread: int) -> None:
    """Raises `_TimeIsUp` in a thread when it comes to its next line of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TimeIsUp))
