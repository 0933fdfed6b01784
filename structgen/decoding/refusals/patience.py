"""How long a row's own work on the host may take: for rows of people who do not know each other."""

from __future__ import annotations

import time
from types import TracebackType

from structgen.errors import LimitExceeded


class Patience:
    """Counts the CPU time that a row's masks, checks and searches for a close take, not that of forward passes.

    Args:
        seconds: what they may take together; None for no end.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._spent = self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """Counts the time since the block began.

        Raises:
            LimitExceeded: it is over; not where there is another error already.
        """
        self._spent += time.thread_time() - self._began
        if self.seconds is not None and self._spent > self.seconds and kind is None:
            told = f"what the constraint asks for takes more than {self.seconds:g} s of work beside the model's own"
            raise LimitExceeded(told)
