"""The thread that leads the model's engine: requests come and go between two steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from structgen.calling.request import TurnRequest
from structgen.calling.streaming import TurnWatch
from structgen.chat.parser import TurnEvent
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.engine import Engine
from structgen.decoding.generation import Generation
from structgen.decoding.loop import ROWS
from structgen.decoding.session import Session
from structgen.errors import RunError, StructgenError, unforeseen
from structgen.models.model import Model
from structgen.server.problems import ShuttingDown, problem_of

logger = logging.getLogger(__name__)
T = TypeVar("T")

TOOL_SHARE, MOST_TOOLS = 0.25, 200
"""What each tool of a turn adds to its patience, in times of that of one schema; and how many of them do."""
STEP_SECONDS = 0.001
"""Seconds that each step adds to a row's patience. Of 353 real schemas, 9 of 10 need less than half of it a token."""


@dataclass(frozen=True, slots=True)
class News:
    """What a step has added to one text of a request.

    Attributes:
        generation: None but in the last news of a text.
        tokens, choices: the tokens since the last news, and the measurements of their choices if they are recorded.
        error: why the whole request has failed.
    """

    index: int
    events: Sequence[TurnEvent] = ()
    generation: Generation[str] | None = None
    tokens: Sequence[int] = ()
    choices: Sequence[ChosenToken | None] = ()
    error: StructgenError | None = None


@dataclass(eq=False)
class EngineJob:
    """A request to run.

    Attributes:
        stream: does each step give news? Otherwise only a complete text does.
        tell: takes the news.
        id: of the request, for the log.
        context: its spans belong to the one that is current there.
    """

    turns: Sequence[TurnRequest]
    record: bool
    stream: bool
    tell: Callable[[News], None]
    id: str = "-"
    context: Context = field(default_factory=Context, repr=False)
    texts: list[_Text] = field(default_factory=list, repr=False)
    came: float = field(default_factory=time.perf_counter)

    def times(self) -> dict[str, float]:
        """Returns the seconds of each stage that a text has reached, of the slowest text. For any thread."""
        each = [text.times() for text in self.texts] or [{"queue": time.perf_counter() - self.came}]
        return {stage: max(times.get(stage, 0.0) for times in each) for stage in {}.fromkeys(chain(*each))}

    @property
    def tokens(self) -> int:
        """The tokens that were generated so far."""
        return sum(text.tokens for text in self.texts)


class ModelThread:
    """Runs jobs, all rows of all jobs in one forward pass: it takes the steps of the model's `Engine`.

    Args:
        rows: the number of texts that are decoded at once; further ones wait.
        deliver: takes the news of a step as pairs of a job and its news, on this thread.
        patience: seconds of CPU time for a text's constraint, see `Settings.row_seconds`.
        name: of the model, for clients.

    Attributes:
        texts: the number of texts of requests that are not over, as the service counts them.
    """

    def __init__(
        self,
        model: Model,
        *,
        rows: int,
        deliver: Callable[[list[tuple[EngineJob, News]]], None],
        patience: float | None = None,
        name: str = "model",
    ) -> None:
        self.model, self.name, self.texts = model, name, 0
        self.steps, self.rows, self.patience = 0, rows, patience
        self._engine, self._deliver = Engine.of(model), deliver
        self._wake = threading.Condition()
        self._jobs: list[EngineJob] = []
        self._arrived: list[EngineJob] = []
        self._cancelled: list[EngineJob] = []
        self._calls = deque[tuple[Callable[[], Any], Future[Any]]]()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="structgen-model", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """The number of texts that are decoded."""
        return self._engine.running

    @property
    def waiting(self) -> int:
        """The number of texts that wait for a row."""
        return self._engine.waiting

    def submit(self, job: EngineJob) -> None:
        """Lets a job join before the next step."""
        with self._wake:
            self._arrived.append(job)
            self._wake.notify()

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Does work with the model between two steps, one piece at a time.

        Raises:
            ShuttingDown: the thread has ended, or is being stopped.
        """
        done = Future[T]()
        with self._wake:
            if self._stopping or not self.alive:
                raise ShuttingDown("the server is being stopped")
            self._calls.append((work, done))
            self._wake.notify()
        return done

    def cancel(self, job: EngineJob) -> None:
        """Frees a job's rows before the next step. A job that is over may be cancelled, too."""
        with self._wake:
            self._cancelled.append(job)
            self._wake.notify()

    @property
    def alive(self) -> bool:
        """Does the thread run?"""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ends the thread after its step; running jobs fail."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def close(self) -> None:
        """Ends the thread, and waits for its end; running jobs fail."""
        self.stop()
        self._thread.join()

    def _run(self) -> None:
        """Runs jobs until it is stopped.

        What goes wrong with a job ends that job alone: as it joins, in a step (see `Batch.step`), and in its news.
        """
        self._engine.rows = self.rows
        try:
            while self._turn_over():
                tickets = [text.ticket for job in self._jobs for text in job.texts if not text.is_over]
                if any(ticket.left for ticket in tickets):
                    self._engine.step(tickets)
                    self.steps += 1
                self._report()
        except BaseException as error:  # nobody else would answer its jobs
            self._jobs += self._arrived
            self._fail(RunError(f"the model's thread has ended: {type(error).__name__}"))
            raise
        finally:
            self._engine.rows = ROWS

    def _turn_over(self) -> bool:
        """Lets jobs leave and join; waits for some. Returns False when the thread is being stopped."""
        with self._wake:
            self._wake.wait_for(lambda: self._jobs or self._arrived or self._calls or self._stopping)
            arrived, cancelled = self._arrived, self._cancelled
            call = self._calls.popleft() if self._calls and not self._stopping else None
            self._arrived, self._cancelled = [], []
        self._jobs += [job for job in arrived if job not in cancelled]
        if self._stopping:
            self._fail(ShuttingDown("the server is being stopped"))
            return False
        if call is not None and call[1].set_running_or_notify_cancel():
            try:
                call[1].set_result(call[0]())
            except Exception as error:  # noqa: BLE001 - of this call alone
                call[1].set_exception(error)
        for job in [job for job in cancelled if job in self._jobs]:
            self._leave(job)
        for job in [job for job in arrived if job in self._jobs]:
            try:
                for index, turn in enumerate(job.turns):
                    job.texts.append(job.context.run(_Text, index, turn, job, self.rows, self.patience))
            except Exception as error:  # noqa: BLE001 - of this job alone
                self._end(job, unforeseen("the request could not begin", error))
        return True

    def _report(self) -> None:
        """Delivers the news of a step."""
        delivered = []
        for job in list(self._jobs):
            try:
                news = [each for text in job.texts if (each := text.news(stream=job.stream)) is not None]
                error = next((each.error for each in news if each.error is not None), None)
            except Exception as bug:  # noqa: BLE001 - of this job alone
                error = unforeseen("the answer could not be read", bug)
            if error is not None:
                self._end(job, error)
                continue
            delivered += [(job, each) for each in news]
            if all(text.is_over for text in job.texts):
                self._leave(job)
        if delivered:
            self._deliver(delivered)

    def _end(self, job: EngineJob, error: StructgenError) -> None:
        """Ends a job that has failed."""
        if problem_of(error).status >= 500:
            logger.error("request %s: %s", job.id, error, exc_info=error)
        self._leave(job)
        self._deliver([(job, News(0, error=error))])

    def _leave(self, job: EngineJob) -> None:
        for text in job.texts:
            text.ticket.cancel()
        self._jobs.remove(job)

    def _fail(self, error: StructgenError) -> None:
        """Ends all jobs."""
        jobs, self._jobs = self._jobs, []
        for _, done in self._calls:
            if done.set_running_or_notify_cancel():
                done.set_exception(error)
        if jobs and not isinstance(error, ShuttingDown):
            logger.error("requests %s: %s", ", ".join(job.id for job in jobs), error, exc_info=error)
        for text in (text for job in jobs for text in job.texts):
            text.ticket.cancel()
        self._deliver([(job, News(0, error=error)) for job in jobs])


class _Text:
    """One text of a job. A beam search gives news once, when its text is found.

    Attributes:
        is_over: has it given its last news?
    """

    def __init__(self, index: int, turn: TurnRequest, job: EngineJob, rows: int, patience: float | None) -> None:
        self._index, self._turn, self.is_over = index, turn, False
        session = turn.request.sessions[0]
        if patience is not None:
            patience *= 1 + min(len(turn.tools), MOST_TOOLS) * TOOL_SHARE
        session.patience.seconds, session.patience.each = patience, STEP_SECONDS
        self.ticket = replace(turn.request, batch_size=rows).submit(record=job.record, since=job.came)
        self._watch = TurnWatch(turn)
        self._known, self._given = -1, 0

    @property
    def tokens(self) -> int:
        """The number of tokens so far."""
        return self.ticket.rows[0].token_count

    def times(self) -> dict[str, float]:
        """See `Ticket.times`."""
        return self.ticket.times(0)

    def news(self, *, stream: bool) -> News | None:
        """Returns what is new since the last call; None if nothing is."""
        if self.is_over:
            return None
        row, ends = self.ticket.rows[0], not self.ticket.left
        count = row.token_count
        if not ends and (not stream or count == self._known or self._turn.request.beams is not None):
            return None
        self._known, self.is_over = count, ends
        self.ticket.check()
        session = row.texts[0][0]
        generation = self._turn.request.result(0, self.ticket) if ends else None
        error = None if generation is None else generation.error
        try:
            events = [] if error is not None else self._events(session)
        except StructgenError as problem:
            events, error = [], problem
        measured = self._measured(session)
        if ends:
            self.ticket.cancel()
        elif not (events or error or measured[0]):
            return None
        return News(self._index, events, generation, *measured, error)

    def _measured(self, session: Session) -> tuple[Sequence[int], Sequence[ChosenToken | None]]:
        """Returns the tokens whose text has been given since the last call, with their measurements."""
        ledger, start, end = self.ticket.ledger, self._given, len(session.tokens) if self.is_over else self._watch.read
        if ledger is None or end <= start:
            return (), ()
        self._given = end
        return session.tokens[start:end], session.choices(ledger, start)[: end - start]

    def _events(self, session: Session) -> list[TurnEvent]:
        """Returns the new events of the text.

        Raises:
            RunError: text that was given already was rolled back.
        """
        events, back = self._watch.events(session)
        if back:
            raise RunError("the decoder took back text that was streamed already; ask again without stream")
        return events
