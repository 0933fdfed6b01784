"""How long a row's own work on the host may take: for rows of people who do not know each other."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from structgen.errors import LimitExceeded


class Patience:
    """Counts the CPU time that a row's masks, checks and searches for a close take, not that of forward passes.

    Work within the block that may take long looks at it by `check_patience`.

    Args:
        seconds: what they may take together, beside what each block adds; None for no end.
        each: seconds that each block adds, so that a long text may take longer than a short one.
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
            LimitExceeded: it is over; not where there is another error already.
        """
        _thread.patience = self._outer
        try:
            if kind is None:
                self.check()
        finally:
            self._spent += time.thread_time() - self._began

    def check(self) -> None:
        """Within the block: is there time left?"""
        if self.seconds is None:
            return
        if self._spent + time.thread_time() - self._began > self.seconds + self._added:
            told = f"what the constraint asks for takes more than {self.seconds:g} s of work beside the model's own"
            raise LimitExceeded(told)


class _Thread(threading.local):
    patience: Patience | None = None


_thread = _Thread()


def check_patience() -> None:
    """Is there time left for the row that this thread works for, if it does?

    Raises:
        LimitExceeded: there is none.
    """
    if _thread.patience is not None:
        _thread.patience.check()
