"""Continuous batching: sessions join and leave a batch while it runs, and share its forward passes."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.drafts import Drafts
from structgen.decoding.generation import Stats
from structgen.decoding.loop import AUTOMATIC, ROWS, Batch, Execution
from structgen.decoding.prompt_parts import PromptParts
from structgen.decoding.run import begun, end
from structgen.decoding.session import Session
from structgen.errors import RunError, unforeseen
from structgen.models.forward import forward_for
from structgen.models.model import Model
from structgen.models.prefixes import prefixes_of
from structgen.models.row import Over
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

    def __init__(self, model: Model, *, rows: int = ROWS, execution: Execution = AUTOMATIC) -> None:
        super().__init__(model.module, model.vocabulary, (), rows=rows, execution=execution)
        self._measures, self._model = Ledger(), model.module
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
        try:
            more = super().step()
        except Exception as error:  # noqa: BLE001 - memory that runs out, and whatever else a model raises
            self._step_apart(error)
            more = bool(self._active or self._waiting)
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

    def _step_apart(self, error: Exception) -> None:
        """After a step that failed: steps halves of its rows, and halves of these, until the rows that raise are alone.

        Rows are read anew, as a broken step may have left anything in the cache. If a row's own work has raised, it has
        failed already, and the others are not tried. If no row fails alone, the memory is too small for all of them at
        once: then fewer run at once from now on. What was remembered is forgotten: it takes memory.
        """
        if isinstance(self._model, PreTrainedModel):
            prefixes_of(self._model).clear()
        waiting, tried = self._waiting, tuple(self._active)
        going = self._going_anew(tried, error)
        if not any(session.error is not None for session in tried):
            tried = tuple(going)
            going = self._alive_of_halves(tried, error)
            if not any(session.error is not None for session in tried):
                self._at_once = max(1, len(tried) // 2)
        self._waiting = deque([*self._going_anew(going, error), *waiting])
        self._active = []

    def _alive_of_halves(self, group: Sequence[Session], error: Exception) -> list[Session]:
        """Steps the halves of some rows, whose step has failed together. Returns those that go on."""
        if len(group) == 1:
            group[0].fail(unforeseen("the model's forward pass failed", error))
            return self._going_anew(group, error)
        middle, alive = (len(group) + 1) // 2, list[Session]()
        for half in filter(None, (group[:middle], group[middle:])):
            self._going_anew(half, error)
            try:
                super().step()
                alive += self._active
            except Exception as again:  # noqa: BLE001 - as in `step`
                alive += self._alive_of_halves(self._going_anew(self._active, again), again)
        return alive

    def _going_anew(self, group: Sequence[Session], error: Exception) -> list[Session]:
        """Makes rows the active ones, without those that are over, in a new cache. Nobody waits."""
        self._begin_anew(group, error)
        self._leave_done()
        return list(self._active)

    @torch.inference_mode()
    def _begin_anew(self, sessions: Sequence[Session], error: Exception) -> None:
        """Makes sessions the active ones, of which nothing is read yet, in a new cache. Nobody waits.

        A prompt with images cannot be read again together with what was generated: its row fails.
        """
        traceback.clear_frames(error.__traceback__)  # they hold the old cache
        count, self._forward = self._forward.count, Over(self._forward)
        self._forward = forward_for(self._model, graphs=self._graphs)
        self._forward.count, self._ahead = count, ((), None)
        if self._drafts is not None:
            self._drafts = Drafts(self._forward, self._vocabulary)
            self._drafts.accepted = self._drafted
        self._waiting, self._active = deque(), list(sessions)
        for session in sessions:
            row = session.row
            if row.inputs is not None and len(row.ids) > row.given and not session.done:
                session.fail(unforeseen("a step failed, and images cannot be read again", error))
            row.valid, row.encoded = 0, None

    def _finish(self, seat: Seat, now: float) -> None:
        session = seat.session
        seat._over, seat._how = now, self._how()
        seat._drafted = self._drafted.pop(session, 0)
        self._drafted.pop(session.before or session, None)
        if seat._operation.watched:
            end(seat._operation, seat.rows, [seat.stats(0)])
