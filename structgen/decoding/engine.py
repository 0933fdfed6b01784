"""One engine per model: the calls of all threads share its forward passes.

No thread of its own runs it. Of the threads that wait for rows, one takes the steps for all of them; when its own wait
is over, another one continues. A step moves only rows that somebody waits for: a stream is paused while its user thinks
about an event, so no token is chosen ahead of the user. The cache is freed when no call is left.

What goes wrong with a row ends that row. What interrupts the thread that takes a step, as Ctrl-C does, ends its own
call; the rows of others are read again, and the next thread continues with them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import torch
from transformers import PreTrainedModel

from structgen.decoding.loop import AUTOMATIC, ROWS, Batch, Decoded, Execution
from structgen.decoding.ticket import Ticket
from structgen.errors import RunError
from structgen.models.attention import of_any_shape
from structgen.models.evaluation_mode import evaluating
from structgen.models.hosts.host import Host
from structgen.models.model import Model
from structgen.vocabulary import Vocabulary

LINGER_SECONDS, LINGER_SHARE = 0.005, 0.25
"""How long a step waits for streams whose users have just been given their events, so that they come along: at most so
many seconds, and at most this share of the step before."""


@dataclass(eq=False)
class _Wait:
    """A thread that waits for tickets until something has come of them."""

    tickets: Sequence[Ticket]
    until: Callable[[], bool]
    woken: threading.Condition
    thread: int
    over: bool = False  # something has come of them


class Engine:
    """Decodes the rows of all calls of one model. Safe for threads.

    Args:
        rows: how many rows of the cache are decoded at once; more if a call asks for more.
        execution: how the model is read.
    """

    _of: ClassVar[WeakKeyDictionary[object, dict[Vocabulary, Engine]]] = WeakKeyDictionary()
    _made: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        module: PreTrainedModel | Host,
        vocabulary: Vocabulary,
        *,
        rows: int = ROWS,
        execution: Execution = AUTOMATIC,
    ) -> None:
        self.rows = rows
        self._module, self._vocabulary, self._execution = ref(module), vocabulary, execution
        self._lock = threading.RLock()  # the garbage collector may cancel a ticket within a step
        self._returned = threading.Condition(self._lock)  # a thread waits again
        self._leading = False
        self._waits: list[_Wait] = []
        self._arrived: list[Ticket] = []
        self._cancelled: list[Ticket] = []
        self._released: list[tuple[Ticket, int]] = []  # by the last step, with the threads that have waited for them
        self._seconds = 0.0  # of the last step
        self._tickets: list[Ticket] = []
        self._measured: list[Ticket] = []  # whose measures somebody may still read
        self._may_forget = False
        self._admitted: set[Ticket] = set()  # whose rows all have a place, if no other rows are decoded
        self._owners: dict[Decoded, tuple[Ticket, int]] = {}  # of what is decoded: its ticket, and its number there
        self._batch: Batch | None = None
        self._stack = ExitStack()

    @classmethod
    def of(cls, model: Model) -> Engine:
        """The engine of a model; the first call makes it."""
        with cls._made:
            engines = cls._of.setdefault(model.module, {})
            if model.vocabulary not in engines:
                engines[model.vocabulary] = cls(model.module, model.vocabulary)
            return engines[model.vocabulary]

    @property
    def module(self) -> PreTrainedModel | Host:
        module = self._module()
        assert module is not None  # whoever calls has it
        return module

    @property
    def running(self) -> int:
        """The number of rows that are decoded."""
        return len(set(self._owners.values()))

    @property
    def waiting(self) -> int:
        """The number of rows that wait for a place."""
        return sum(len(ticket.queue) for ticket in (*self._tickets, *self._arrived))

    def submit(
        self, rows: Sequence[Decoded], *, record: bool = False, at_once: int = ROWS, since: float | None = None
    ) -> Ticket:
        """Gives the engine the rows of a call, which join it as places come free. Steps are taken by those who wait.

        Args:
            rows: new sessions or beam searches; they may be done already.
            record: measure every choice.
            at_once: the most rows of the cache that these take at once.
            since: when they came, by `time.perf_counter`; now by default.
        """
        since = time.perf_counter() if since is None else since
        ticket = Ticket(self, rows, record=record, at_once=at_once, since=since)
        if ticket.left:
            with self._lock:
                self._arrived.append(ticket)
        return ticket

    def step(self, tickets: Sequence[Ticket]) -> None:
        """A step of several tickets, see `Ticket.step`."""
        before = [ticket.steps for ticket in tickets]
        self.run(tickets, lambda: any(t.steps > n or not t.left for t, n in zip(tickets, before, strict=True)))

    def run(self, tickets: Sequence[Ticket], until: Callable[[], bool]) -> None:
        """Takes steps for all rows that are waited for, or waits for those of another thread.

        Args:
            tickets: those to wait for.
            until: has enough come of them? Asked between steps, by any thread.
        """
        wait, leads = _Wait(tickets, until, threading.Condition(self._lock), threading.get_ident()), False
        try:
            with self._lock:
                self._waits.append(wait)
                self._returned.notify()
                while self._leading and not until():
                    wait.woken.wait()
                if not until():
                    leads = True  # first, as Ctrl-C may come between two lines
                    self._leading = True
            if leads:
                with torch.inference_mode(), of_any_shape():
                    while not wait.over:
                        self._step(wait)
        finally:
            with self._lock:
                if wait in self._waits:
                    self._waits.remove(wait)
                self._leading = self._leading and not leads
                self._hand_over()

    def _hand_over(self) -> None:
        """Wakes a thread to take the next step, if nobody does."""
        if not self._leading and self._waits:
            self._waits[0].woken.notify()

    def cancel(self, ticket: Ticket) -> None:
        """See `Ticket.cancel`."""
        leads = False
        try:
            with self._lock:
                if ticket in self._measured:
                    self._measured.remove(ticket)
                    self._may_forget = True
                if ticket.left:
                    self._cancelled.append(ticket)
                    leads = not self._leading
                    self._leading = True
            if leads:
                self._change()
        finally:
            if leads:
                with self._lock:
                    self._leading = False
                    self._hand_over()

    def _step(self, own: _Wait) -> None:
        """Takes a step for all rows that are waited for."""
        began = time.perf_counter()
        with self._lock:
            if self._released:
                self._linger()
            wanted = self._awaited()
        try:
            if self._arrived or self._cancelled or self._may_forget:
                self._change()
            if self._batch is not None:
                if wanted != self._admitted:
                    self._admit(self._batch, wanted)
                self._batch.step()
        except Exception as error:  # noqa: BLE001 - the model cannot be read at all
            self._fail(error)
        except BaseException as error:
            self._recover(own, error)
            raise
        now = time.perf_counter()
        for ticket in wanted:
            if ticket.left:
                ticket.stepped(now)
        if self._batch is not None and self._batch.left:
            self._collect(now)
        with self._lock:
            self._seconds, self._released = now - began, []
            for wait in tuple(self._waits):
                wait.over = wait.until()
                if wait.over:
                    self._released += [(ticket, wait.thread) for ticket in wait.tickets if ticket.left]
                    if wait is not own:
                        self._waits.remove(wait)
                        wait.woken.notify()

    def _linger(self) -> None:
        """Waits a moment for the tickets whose users were just given their events."""
        me = threading.get_ident()
        absent = {ticket for ticket, thread in self._released if thread != me}
        self._returned.wait_for(
            lambda: absent.isdisjoint(t for t in self._tickets if t.left) or absent <= self._awaited(),
            min(LINGER_SECONDS, LINGER_SHARE * self._seconds),
        )

    def _awaited(self) -> set[Ticket]:
        """The tickets that are waited for."""
        return {ticket for wait in self._waits for ticket in wait.tickets if ticket.left}

    def _change(self) -> None:
        """Lets calls come and go."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
            cancelled, self._cancelled = self._cancelled, []
        arrived = [ticket for ticket in arrived if ticket not in cancelled]
        self._tickets += arrived
        self._admitted = set()
        for ticket in arrived:
            if self._batch is None:
                self._stack.enter_context(evaluating(self.module))
                self._batch = Batch(self.module, self._vocabulary, self._execution)
                self._stack.callback(self._batch.close)
            ticket.enter(self._batch)
            if ticket.ledger is not None:
                self._measured.append(ticket)
        for ticket in cancelled:
            self._give_up(ticket)
        if self._may_forget and self._batch is not None:
            ledger, self._may_forget = self._batch.ledger, False
            kept = [ticket.first_step for ticket in self._measured if ticket.ledger is ledger]
            ledger.forget(min(kept, default=ledger.steps))
        if arrived or cancelled:
            self._collect(time.perf_counter())

    def _admit(self, batch: Batch, wanted: set[Ticket]) -> None:
        """Lets rows join in the order of their coming, as far as there are places, and tells the batch who pauses."""
        taken, traced, queued = 0, False, False
        for ticket in wanted:
            taken, traced = taken + ticket.seats, traced or ticket.record
        for ticket in self._tickets:
            while ticket.queue and ticket in wanted:
                row = ticket.rows[ticket.queue[0]]
                within = ticket.seats + row.seats <= ticket.at_once or not ticket.seats
                fits = taken + row.seats <= max(self.rows, ticket.at_once) or not taken
                if not fits or not within or (batch.most is not None and self.running >= batch.most):
                    queued = True
                    break
                self._join(batch, ticket, ticket.queue.popleft())
                taken += row.seats
        batch.in_parts = len(self._tickets) > 1
        batch.ledger.traced = traced
        batch.paused = frozenset[Decoded]()
        if not wanted.issuperset(self._tickets):
            units: list[Decoded] = [*batch.sessions, *batch.searches]
            batch.paused = frozenset(row for row in units if self._owners[row][0] not in wanted)
        self._admitted = set() if queued or batch.paused else wanted  # nothing is to be done until others are wanted

    def _join(self, batch: Batch, ticket: Ticket, number: int) -> None:
        row = ticket.rows[number]
        for phase in row.phases:
            phase.measured_in(ticket.ledger)
            self._owners[phase] = ticket, number
        ticket.begin(number)
        ticket.seats += row.seats
        batch.join(row.phases[0])

    def _collect(self, now: float) -> None:
        """Notes which rows are over, and frees the cache after the last call."""
        batch = self._batch
        if batch is None:
            return
        left, batch.left = batch.left, []
        for unit in left:
            ticket, number = self._owners.get(unit, (None, 0))
            if ticket is not None:
                ticket.seats -= ticket.rows[number].seats
                self._forget(ticket.rows[number])
                ticket.end(number, now)
        self._tickets = [ticket for ticket in self._tickets if ticket.left]
        if not self._tickets:
            self._batch = None
            self._stack.close()

    def _forget(self, row: Decoded) -> None:
        for phase in row.phases:
            self._owners.pop(phase, None)

    def _give_up(self, ticket: Ticket) -> None:
        """Takes a ticket's rows out of the batch. Those that are not over fail."""
        ticket.leave(time.perf_counter())
        for row in ticket.rows:
            for phase in row.phases:
                if not phase.done:
                    phase.fail(RunError("the request was cancelled"))
            if row in self._owners:
                for phase in row.phases if self._batch is not None else ():
                    self._batch.drop(phase)  # type: ignore[union-attr]
                self._forget(row)
        ticket.queue.clear()

    def _fail(self, error: Exception) -> None:
        """Ends all calls."""
        for ticket in self._tickets:
            if ticket.left:
                ticket.failed = error
                ticket.leave(time.perf_counter())
        self._tickets, self._batch = [], None
        self._owners.clear()
        self._stack.close()

    def _recover(self, own: _Wait, error: BaseException) -> None:
        """After a step that was broken off at any line: has the rows of other calls read anew. A row whose own work was
        broken off fails."""
        batch = self._batch
        if batch is None:
            return
        if batch.leaving is not None and not batch.leaving.done:
            batch.leaving.fail(RunError(f"the step was broken off: {type(error).__name__}"))
        for row in [row for row, (ticket, _) in self._owners.items() if ticket in own.tickets]:
            del self._owners[row]
        known = dict.fromkeys(unit for unit in batch.units if unit in self._owners)
        there = set(batch.begin_anew([*known], error))
        for ticket, number in set(self._owners.values()):
            row = ticket.rows[number]
            if not row.is_over and there.isdisjoint(row.phases):
                row.fail(RunError(f"the step was broken off: {type(error).__name__}"))
                batch.left.append(row)
        for ticket in own.tickets:
            self._give_up(ticket)
        self._collect(time.perf_counter())


def decode(
    module: PreTrainedModel | Host,
    vocabulary: Vocabulary,
    sessions: Sequence[Decoded],
    *,
    rows: int = ROWS,
    record: bool = False,
    execution: Execution = AUTOMATIC,
) -> Ticket:
    """Runs sessions to their end in an engine of their own, see `Engine.submit`."""
    engine = Engine(module, vocabulary, rows=rows, execution=execution)
    ticket = engine.submit(sessions, record=record, at_once=rows)
    ticket.wait()
    return ticket
