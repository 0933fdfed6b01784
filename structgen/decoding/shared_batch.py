"""One batch for the calls that wait for a model in several threads, so that they share its forward passes.

No thread of its own runs it. One of the waiting calls takes the steps for all of them; when its own rows are done,
another one goes on. The batch is closed when no call is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from structgen.decoding.loop import ROWS
from structgen.decoding.open_batch import OpenBatch, Seat
from structgen.decoding.session import Session
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model
from structgen.patience import LOOK_SECONDS, Deadline, sharing

T = TypeVar("T")

ALONE = threading.BoundedSemaphore(4)
"""How many runs that cannot be shared, as beam searches, go on at once in this context."""

PREPARING = threading.BoundedSemaphore(2)
"""How many calls that share batches are prepared at once. More would take turns at Python's lock, and the event loop
would get its turn after all of them."""
PREPARING_SECONDS = 0.2
"""A call waits so long for others that are being prepared: one may have a schema that takes long."""


@contextmanager
def turn_to_prepare(deadline: Deadline) -> Iterator[None]:
    """A block in which a call is prepared; one that shares its batch waits for its turn.

    Raises:
        Stopped: the call must end.
    """
    until, has_turn = time.monotonic() + PREPARING_SECONDS, False
    try:
        while sharing.get() and not has_turn and time.monotonic() < until:
            has_turn = PREPARING.acquire(timeout=LOOK_SECONDS)
            deadline.check()
        yield
    finally:
        if has_turn:
            PREPARING.release()


@dataclass(eq=False)
class _Call:
    """The rows of one call."""

    sessions: Sequence[Session]
    record: bool
    result: Callable[[int, Seat], Any]
    seats: list[Seat] = field(default_factory=list)
    results: list[Any] | None = None
    failed: BaseException | None = None
    left: bool = False  # nobody waits for it any more

    @property
    def deadline(self) -> Deadline:
        return self.sessions[0].patience.deadline

    @property
    def done(self) -> bool:
        return self.failed is not None or self.results is not None


class SharedBatch:
    """The batch of one model. Safe for threads."""

    _of: ClassVar[WeakKeyDictionary[object, SharedBatch]] = WeakKeyDictionary()
    _made: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived: list[_Call] = []
        self._running: list[_Call] = []
        self._led = False
        self._batch: OpenBatch | None = None
        self._stack = ExitStack()

    @classmethod
    def of(cls, model: Model) -> SharedBatch:
        """The batch of a model; it is made by the first call."""
        with cls._made:
            return cls._of.setdefault(model.module, SharedBatch())

    def run(
        self, model: Model, sessions: Sequence[Session], result: Callable[[int, Seat], T], *, record: bool
    ) -> list[T]:
        """Runs sessions to their end, beside those of other threads, and returns their results.

        Args:
            result: makes the result of a session that is done, by its number; may be called by another thread.
            record: measure every choice.

        Raises:
            Stopped: the call was cancelled while it waited for another one's step.
        """
        call = _Call(sessions, record, result)
        with self._changed:
            self._arrived.append(call)
        while self._must_lead(call):
            try:
                self._lead(model, call)
            finally:
                with self._changed:
                    self._led = False
                    self._changed.notify_all()
        if call.failed is not None:
            raise call.failed
        assert call.results is not None
        return call.results

    def _must_lead(self, call: _Call) -> bool:
        """Waits until the call is done (False), or nobody takes the steps."""
        with self._changed:
            while self._led and not call.done:
                self._changed.wait(LOOK_SECONDS)
                if call.deadline.is_cancelled and not call.done:
                    call.left = True
                    call.deadline.check()
            if not call.done:
                self._led = True
            return not call.done

    def _lead(self, model: Model, call: _Call) -> None:
        """Takes steps for all calls until this one is done."""
        try:
            while not call.done:
                batch = self._opened(model)
                self._admit(batch)
                batch.step()
                self._dismiss(batch)
        except BaseException as error:
            for each in (*self._running, *self._arrived):
                each.failed = error
            self._close()
            raise
        if not self._running:
            self._close()

    def _opened(self, model: Model) -> OpenBatch:
        if self._batch is None:
            self._stack.enter_context(evaluating(model.module))
            self._batch = OpenBatch(model, rows=ROWS)
            self._stack.callback(self._batch.close)
        return self._batch

    def _close(self) -> None:
        self._running.clear()
        self._batch = None
        self._stack.close()

    def _admit(self, batch: OpenBatch) -> None:
        with self._changed:
            arrived, self._arrived = self._arrived, []
        for call in arrived:
            call.seats = [batch.join(session, record=call.record) for session in call.sessions]
        self._running += arrived

    def _dismiss(self, batch: OpenBatch) -> None:
        """Removes the rows of calls that are done, or that nobody waits for."""
        over = [call for call in self._running if call.left or all(session.done for session in call.sessions)]
        if not over:
            return
        for call in over:
            if not call.left:
                call.results = [call.result(number, seat) for number, seat in enumerate(call.seats)]
            for seat in call.seats:
                batch.drop(seat)
            self._running.remove(call)
        with self._changed:
            self._changed.notify_all()
