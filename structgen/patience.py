"""Time limits: when a call must end, and how much work on the host a row may ask for.

Long work of a row calls `check_patience` now and then, and so does writing the states of an automaton: what is not
written yet is written for the next row that comes there. Work that has another way out when a limit stops it, as on a
pattern, calls `check_deadline`. So no row of a server can block the others, and a call ends in time.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

from structgen.errors import LimitExceeded, Stopped


class CancelEvent(Protocol):
    """A `threading.Event`, or what behaves like one."""

    def is_set(self) -> bool:
        """Has it come?"""


GRACE_SECONDS = 0.03
"""The time in which values are closed after a deadline, those of all its rows together."""
LOOK_SECONDS = 0.03
"""Who waits looks so often whether the call must end."""

stopped_by: ContextVar[CancelEvent | None] = ContextVar("stopped_by", default=None)
"""An event that ends the calls of this context; may be set from another thread."""


class Deadline:
    """When a call must end: at a time, or as soon as an event is set.

    Args:
        seconds: from now on, by the clock; None for no limit.
        events: each of them ends the call.
    """

    def __init__(self, seconds: float | None = None, events: Iterable[CancelEvent | None] = ()) -> None:
        self.seconds, self._events = seconds, [event for event in events if event is not None]
        self.is_bounded = seconds is not None or bool(self._events)
        """May it ever come?"""
        self.restart()

    def restart(self) -> None:
        """The time begins now."""
        self._until = math.inf if self.seconds is None else time.monotonic() + self.seconds
        self._grace: Deadline | None = None

    @property
    def left(self) -> float | None:
        """The seconds that are left, above 0; None for no limit."""
        return None if self._until == math.inf else max(self._until - time.monotonic(), 1e-6)

    @property
    def grace(self) -> Deadline:
        """When no value is closed any more. Its time begins with the first row that asks for it."""
        if self._grace is None:
            self._grace = Deadline(GRACE_SECONDS)
        return self._grace

    @property
    def is_cancelled(self) -> bool:
        """Is an event set?"""
        return any(event.is_set() for event in self._events)

    @property
    def is_over(self) -> bool:
        """Must the call end?"""
        return self.is_bounded and (time.monotonic() > self._until or self.is_cancelled)

    def check(self) -> None:
        """Raises `Stopped` where the call must end."""
        if self.is_over:
            raise Stopped("the call was cancelled" if self.is_cancelled else f"seconds={self.seconds:g} are over")


ENDLESS = Deadline()


class Patience:
    """A `with` block that limits the CPU time of a row's masks, checks and searches, over all its blocks.

    Forward passes do not count, except for the deadline.

    Args:
        seconds: allowed for all blocks together, next to `each`; None for no limit.
        each: further seconds allowed for each block, so that a long text may take longer than a short one.
        deadline: no block begins after it.
    """

    def __init__(self, seconds: float | None = None, each: float = 0.0, deadline: Deadline = ENDLESS) -> None:
        self.seconds, self.each, self.deadline = seconds, each, deadline
        self._spent = self._added = 0.0
        self._began: float | None = None
        self._outer: Patience | None = None

    @property
    def is_bounded(self) -> bool:
        """May a block of it ever raise?"""
        return self.seconds is not None or self.deadline.is_bounded

    def __enter__(self) -> None:
        """Begins a block.

        Raises:
            Stopped: the call must end.
        """
        if self.deadline.is_bounded:
            self.deadline.check()
        self._began = None if self.seconds is None else time.thread_time()  # the clock takes a microsecond
        self._added += self.each
        self._outer, _thread.patience = _thread.patience, self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """Counts the time since the block began.

        Raises:
            LimitExceeded: the time is up, and the block raised no error of its own.
        """
        _thread.patience = self._outer
        try:
            if kind is None:
                self._check_spent()
        finally:
            if self._began is not None:
                self._spent += time.thread_time() - self._began

    def check(self) -> None:
        """Raises `LimitExceeded` where the time is up, and `Stopped` where the call must end; within a block."""
        self.check_deadline()
        self._check_spent()

    def check_deadline(self) -> None:
        """Raises `Stopped` where the call must end; within a block."""
        self.deadline.check()
        if self.deadline is ENDLESS and self._outer is not None:
            self._outer.check_deadline()

    def _check_spent(self) -> None:
        if self.seconds is None or self._began is None:
            return
        if self._spent + time.thread_time() - self._began > self.seconds + self._added:
            message = f"what the constraint asks for takes more than {self.seconds:g} s of work besides the model's"
            raise LimitExceeded(message)


_reading: dict[int, tuple[float, float]] = {}
"""A thread that reads a prompt -> its CPU time and the clock when it began."""
_read: defaultdict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
"""A thread -> the seconds of CPU time, and those by the clock, that it has spent on reading prompts."""


@contextmanager
def reading_prompt() -> Iterator[None]:
    """A block in which a prompt is written by its template and encoded: no work on a schema."""
    thread, outer = threading.get_ident(), threading.get_ident() in _reading
    if not outer:
        _reading[thread] = time.thread_time(), time.perf_counter()
    try:
        yield
    finally:
        if not outer:
            _read[thread] = seconds_reading(thread, time.thread_time())
            del _reading[thread]


def seconds_reading(thread: int, now: float) -> tuple[float, float]:
    """The seconds that a thread has spent on reading prompts: of its CPU time, which is `now`; by the clock."""
    used, passed = _read[thread]
    began = _reading.get(thread)
    if began is not None:
        used, passed = used + max(now - began[0], 0.0), passed + time.perf_counter() - began[1]
    return used, passed


class _PerThread(threading.local):
    patience: Patience | None = None


_thread = _PerThread()


def check_patience() -> None:
    """Raises an error where the row that this thread works for has no time left, or its call must end."""
    if _thread.patience is not None:
        _thread.patience.check()


def check_deadline() -> None:
    """Raises `Stopped` where the call that this thread works for must end. Time that is spent does not count."""
    if _thread.patience is not None:
        _thread.patience.check_deadline()
