"""A time limit on each row's own work on the host, so that no row of a server can block the others."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from structgen.errors import LimitExceeded


class Patience:
    """A `with` block that limits the CPU time of a row's masks, checks and searches, over all its blocks.

    Long work within a block calls `check_patience` now and then. Forward passes do not count.

    Args:
        seconds: allowed for all blocks together, beside `each`; None for no limit.
        each: further seconds allowed for each block, so that a long text may take longer than a short one.
    """

    def __init__(self, seconds: float | None = None, each: float = 0.0) -> None:
        self.seconds, self.each = seconds, each
        self._spent = self._began = self._added = 0.0
        self._outer: Patience | None = None

    def __enter__(self) -> None:
        self._began = time.thread_time()
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
                self.check()
        finally:
            self._spent += time.thread_time() - self._began

    def check(self) -> None:
        """Raises `LimitExceeded` where the time is up; called within a block."""
        if self.seconds is not None and self._spent + time.thread_time() - self._began > self.seconds + self._added:
            message = f"what the constraint asks for takes more than {self.seconds:g} s of work beside the model's own"
            raise LimitExceeded(message)


class _PerThread(threading.local):
    patience: Patience | None = None


_thread = _PerThread()


def check_patience() -> None:
    """Raises `LimitExceeded` where the row that this thread works for has no time left."""
    if _thread.patience is not None:
        _thread.patience.check()
