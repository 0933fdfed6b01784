"""Time limits: when a call must end, and how much work on the host a row may ask for.

Long work calls `check_patience` now and then, and so does writing the states of an automaton: what is not written yet
is written for the next row that comes there. So no row of a server can block the others, no schema a compiler's
thread, and a call ends in time.
"""

from __future__ import annotations

import math
import threading
import time
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


class OutOfPatience(Exception):
    """The time of a block is up. No error of ours: work that has another way out at a limit does not take this for one.

    The block raises a `LimitExceeded` in its place.
    """


class Patience:
    """A `with` block that limits the CPU time of a row's masks, checks and searches, over all its blocks.

    Forward passes do not count, except for the deadline; neither do reading a prompt and a server's garbage
    collection. Within a block of another one, the limits of both hold.

    Args:
        seconds: allowed for all blocks together, next to `each`; None for no limit.
        each: further seconds allowed for each block, so that a long text may take longer than a short one.
        deadline: no block begins after it.
        late: the deadlines of the blocks around it do not hold: it cleans up after them.
        work: what takes the time, for the message.

    Attributes:
        is_over: has a block used up the time?
    """

    def __init__(
        self,
        seconds: float | None = None,
        each: float = 0.0,
        deadline: Deadline = ENDLESS,
        *,
        late: bool = False,
        work: str = "what the constraint asks for takes more than {:g} s of work besides the model's",
    ) -> None:
        self.seconds, self.each, self.deadline = seconds, each, deadline
        self.late, self._work = late, work
        self.is_over = False
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
        self.is_over = self.is_over or (kind is None and self._is_spent())
        if self._began is not None:
            self._spent += time.thread_time() - self._began
        if self.is_over and (kind is None or kind is OutOfPatience):
            assert self.seconds is not None
            raise LimitExceeded(self._work.format(self.seconds)) from None

    def check(self) -> None:
        """Within a block, raises `OutOfPatience` where the time is up, and `Stopped` where the call must end."""
        block: Patience | None = self
        late = False
        while block is not None:
            if not late:
                block.deadline.check()
            late = late or block.late
            block.is_over = block._is_spent()
            if block.is_over:
                raise OutOfPatience
            block = block._outer

    def _is_spent(self) -> bool:
        if self.seconds is None or self._began is None:
            return False
        return self._spent + time.thread_time() - self._began > self.seconds + self._added

    def excuse(self, seconds: float) -> None:
        """Allows further seconds for a block and those around it."""
        block: Patience | None = self
        while block is not None:
            block._added += seconds
            block = block._outer


class _PerThread(threading.local):
    patience: Patience | None = None
    reading = 0.0


_thread = _PerThread()


def check_patience() -> None:
    """Raises an error where the work of this thread has no time left, or its call must end."""
    if _thread.patience is not None:
        _thread.patience.check()


def excuse(seconds: float) -> None:
    """Does not count seconds of CPU time that the blocks of this thread have spent."""
    if _thread.patience is not None:
        _thread.patience.excuse(seconds)


@contextmanager
def reading_prompt() -> Iterator[None]:
    """A block in which a prompt is written by its template and encoded: no work on a schema."""
    outer, spent, began = _thread.patience, time.thread_time(), time.perf_counter()
    _thread.patience = None
    try:
        yield
    finally:
        _thread.patience = outer
        excuse(time.thread_time() - spent)
        _thread.reading += 0.0 if outer is None else time.perf_counter() - began


def seconds_reading() -> float:
    """The seconds by the clock that this thread has spent on reading prompts within blocks of a `Patience`."""
    return _thread.reading
