"""Continuous batching: sessions join and leave a batch while it runs, and share its forward passes."""

from __future__ import annotations

import time
from itertools import islice, pairwise
from typing import Any, ClassVar

import torch

from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Stats
from structgen.decoding.loop import AUTOMATIC, ROWS, Batch, Execution
from structgen.decoding.prompt_parts import PromptParts
from structgen.decoding.run import begun, end
from structgen.decoding.session import Session
from structgen.errors import RunError
from structgen.models.model import Model
from structgen.telemetry import Operation


class Seat:
    """One session's place in an `OpenBatch`. `Request.result` takes it like a run.

    Attributes:
        ledger: where its choices are measured; None if they are not.
        traced: are they measured as a trace needs it?
    """

    def __init__(
        self,
        session: Session,
        ledger: Ledger | None,
        forwards: int,
        operation: Operation,
        since: float | None = None,
        *,
        traced: bool = False,
    ) -> None:
        self.traced = traced
        self.session, self.rows, self.ledger = session, (session,), ledger
        self._drafted = 0
        self._first_step = 0 if ledger is None else ledger.steps
        self._forwards_before, self._forwards = forwards, forwards
        self._joined = time.perf_counter() if since is None else since
        self._began: float | None = None
        self._first_token: float | None = None
        self._over: float | None = None
        self._how: dict[str, Any] = {}
        self._operation = operation

    @property
    def seconds_to_first_token(self) -> float | None:
        """From joining to the first token, thinking included; None before."""
        return None if self._first_token is None else self._first_token - self._joined

    def times(self) -> dict[str, float]:
        """The seconds so far by stage: waiting for a row, until the first token, from then on. For any thread."""
        ends = self._joined, self._began, self._first_token, self._over or time.perf_counter()
        marks = [each for each in ends[:3] if each is not None]
        spent = [end - start for start, end in pairwise([*marks, ends[3]])]
        return dict(zip(("queue", "prefill", "decode"), spent, strict=False))

    def stats(self, number: int) -> Stats:
        """The cost of the row. Forward passes are those of the batch while the row was there."""
        session = self.session
        now = self._over or time.perf_counter()
        first = self._first_token or now
        return Stats(
            forwards=self._forwards - self._forwards_before,
            tokens=session.token_count,
            prefill_seconds=first - self._joined,
            decode_seconds=now - first,
            drafted=self._drafted,
            **session.costs(),
            **self._how,
        )


class OpenBatch(Batch):
    """A batch without an end: `join` adds a session, which is read from the next step on; `drop` removes one.

    All methods are called by one thread, while the model is `evaluating`. `close` frees the model's cache.
    """

    _admits: ClassVar[bool] = True
    _survives: ClassVar[type[Exception]] = Exception

    def __init__(self, model: Model, *, rows: int = ROWS, execution: Execution = AUTOMATIC) -> None:
        super().__init__(model.module, model.vocabulary, (), rows=rows, execution=execution)
        self._measures = Ledger()
        self._seats: dict[Session, Seat] = {}
        self._parts = PromptParts()

    def __len__(self) -> int:
        """The number of sessions that are decoded or wait."""
        return len(self._seats)

    @property
    def waiting(self) -> int:
        """The number of sessions that wait for a row."""
        return len(self._waiting)

    def join(self, session: Session, *, record: bool, since: float | None = None) -> Seat:
        """Adds a new session, which may be done already.

        Args:
            record: measure its choices, and those of all others meanwhile.
            since: when it came, by `time.perf_counter`; now by default.
        """
        ledger = self._measures if record or session.needs_measures else None
        seat = Seat(session, ledger, self._forward.count, begun(self._model, 1), since, traced=record)
        first = session.before or session
        for each in {first, session}:
            each.measured_in(seat.ledger)
        self._seats[session] = seat
        if not first.done:
            self._waiting.append(first)
        return seat

    def step(self) -> bool:
        """See `Run.step`. Sessions that are done keep their seats until they are dropped.

        What a step raises ends the rows that raise it by themselves, and no others.
        """
        self.ledger = self._measures if any(seat.ledger is not None for seat in self._seats.values()) else None
        self._measures.traced = any(seat.traced for seat in self._seats.values())
        self._note_beginnings()
        began = time.perf_counter()
        more = super().step()
        now = time.perf_counter()
        self._parts.ended(now - began)
        for seat in self._seats.values():
            if seat._over is None:
                seat._forwards = self._forward.count
                if seat._first_token is None and seat.session.token_count:
                    seat._first_token = now
                if seat.session.is_over:
                    self._finish(seat, now)
        return more

    def _hold_back(self) -> None:
        self._held = self._parts.read(self._forward, self._active)

    def _note_beginnings(self) -> None:
        """Notes the time for the sessions that this step will take out of the queue."""
        new = [seat for seat in self._seats.values() if seat._began is None]
        later = set(islice(self._waiting, max(self._at_once - len(self._active), 0), None)) if new else ()
        now = time.perf_counter()
        for seat in new:
            if (seat.session.before or seat.session) not in later:
                seat._began = now

    @torch.inference_mode()
    def drop(self, seat: Seat) -> None:
        """Removes a session and its measures, and frees its row. A session that is not done fails."""
        session = seat.session
        if self._seats.pop(session, None) is None:
            return
        for each in {session.before or session, session}:
            if not each.done:
                each.fail(RunError("the request was cancelled"))
            if each in self._waiting:
                self._waiting.remove(each)
            if each in self._active:
                self._leave(each)
        if seat._over is None:
            self._finish(seat, time.perf_counter())
        kept = [other._first_step for other in self._seats.values() if other.ledger is not None]
        self._measures.forget(min(kept, default=self._measures.steps))

    def _finish(self, seat: Seat, now: float) -> None:
        session = seat.session
        seat._over, seat._how = now, self._how()
        seat._drafted = self._drafted.pop(session, 0)
        self._drafted.pop(session.before or session, None)
        if seat._operation.watched:
            end(seat._operation, seat.rows, [seat.stats(0)])
