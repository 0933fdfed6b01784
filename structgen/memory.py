"""Byte budgets: how much memory the compiled form of one constraint may take.

What grows while a constraint is compiled, or later, when a text reaches a part of it for the first time, counts its
bytes with `spend`: states, nodes of schemas, rules of grammars. Work arrays that are freed again ask `afford` first.
The bytes of Python objects are estimates, those of arrays are exact. So an explosion ends in `LimitExceeded` after a
fixed amount of work, the same on every machine and beside any other thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from structgen.errors import LimitExceeded
from structgen.patience import Patience, check_patience

P = ParamSpec("P")
T = TypeVar("T")

MAX_BYTES = 64 << 20
"""The most bytes of one constraint, with the arrays at work on it."""
MAX_SECONDS = 10.0
"""The most seconds of CPU time in which a constraint is compiled. What has no bound of its own ends by this one."""
_TOO_SLOW = "compiling the constraint takes more than {:g} s of CPU time; simplify it"
BYTES_OF_NODE, BYTES_OF_STATE, BYTES_OF_KEY = 512, 512, 192
"""Estimates, with the entries of the dictionaries that hold them: of a node or shape of a schema; of a state that is
written by a function of its own, or asks a check; of one progress through a container in the key of a state."""


class Memory:
    """Counts the bytes of one constraint.

    Attributes:
        held: the bytes so far.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0

    def spend(self, size: int) -> None:
        """Counts further bytes that stay. Raises LimitExceeded beyond `MAX_BYTES`, again at each call from then on."""
        self.held += size
        if self.held > MAX_BYTES:
            raise _exceeded()

    @property
    def left(self) -> int:
        """The bytes that may still be taken."""
        return max(MAX_BYTES - self.held, 0)


class counted:  # noqa: N801 - a context manager
    """A block whose bytes are counted by a `Memory`."""

    __slots__ = ("_memory", "_outer")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __enter__(self) -> None:
        self._outer = _thread.memory, _thread.frame
        _thread.memory, _thread.frame = self._memory, sys._getframe(1)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        _thread.memory, _thread.frame = self._outer


class _PerThread(threading.local):
    memory: Memory | None = None
    frame: FrameType | None = None  # of the innermost block


_thread = _PerThread()


def current_memory() -> Memory:
    """The memory of the innermost block of this thread; outside of any, a new one.

    An interrupt between two lines may end a block without its `__exit__`. So the block's frame must still be running.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not _thread.frame:
        frame = frame.f_back
    if frame is None:
        _thread.memory = _thread.frame = None
    return _thread.memory or Memory()


def spend(size: int) -> None:
    """Counts bytes that stay as long as the constraint that is being compiled, and checks the time, too.

    Raises:
        LimitExceeded: the constraint takes more than `MAX_BYTES`. Also what `check_patience` raises.
    """
    check_patience()
    if _thread.memory is not None:
        _thread.memory.spend(size)


def afford(size: int, of: str = "the constraint") -> None:
    """Raises LimitExceeded where arrays of so many bytes, to be freed again, are too large beside what is held.

    Args:
        of: whose they are, for the message.
    """
    check_patience()
    if size > affordable():
        raise _exceeded(of)


def affordable() -> int:
    """The largest number that `afford` takes."""
    return MAX_BYTES if _thread.memory is None else _thread.memory.left


def bounded(compile_: Callable[P, T]) -> Callable[P, T]:
    """A function that compiles a constraint within `MAX_SECONDS`, with a `Memory` of its own unless it is a part of
    another compilation."""

    @wraps(compile_)
    def within(*args: P.args, **options: P.kwargs) -> T:
        with Patience(MAX_SECONDS, work=_TOO_SLOW), counted(current_memory()):
            return compile_(*args, **options)

    return within


def _exceeded(of: str = "the constraint") -> LimitExceeded:
    return LimitExceeded(f"{of} takes more than {MAX_BYTES >> 20} MB of memory; simplify it")
