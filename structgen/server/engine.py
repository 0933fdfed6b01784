"""The thread that runs the model: requests join and leave its batch between two steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from structgen.calling.request import TurnRequest
from structgen.calling.streaming import TurnWatch
from structgen.chat.parser import TurnEvent
from structgen.decoding.choosing.measure import ChosenToken, Ledger
from structgen.decoding.generation import Generation
from structgen.decoding.open_batch import OpenBatch, Seat
from structgen.decoding.run import Run
from structgen.decoding.session import Session
from structgen.errors import RunError, StructgenError, unforeseen
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model
from structgen.server.problems import ShuttingDown, problem_of

logger = logging.getLogger(__name__)

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
    texts: list[_SampledText | _SearchedText] = field(default_factory=list, repr=False)
    came: float = field(default_factory=time.perf_counter)

    def times(self) -> dict[str, float]:
        """Returns the seconds of each stage that a text has reached, of the slowest text. For any thread."""
        each = [text.times() for text in self.texts] or [{"queue": time.perf_counter() - self.came}]
        return {stage: max(times.get(stage, 0.0) for times in each) for stage in {}.fromkeys(chain(*each))}

    @property
    def tokens(self) -> int:
        """The tokens that were generated so far."""
        return sum(text.tokens for text in self.texts)


class Engine:
    """Runs jobs, all rows of all jobs in one forward pass.

    Args:
        rows: the number of texts that are decoded at once; further ones wait.
        deliver: takes the news of a step as pairs of a job and its news, on the model's thread.
        patience: seconds of CPU time for a text's constraint, see `Settings.row_seconds`.
    """

    def __init__(
        self,
        model: Model,
        *,
        rows: int,
        deliver: Callable[[list[tuple[EngineJob, News]]], None],
        patience: float | None = None,
    ) -> None:
        self.patience = patience
        self._model, self._rows, self._deliver = model, rows, deliver
        self._wake = threading.Condition()
        self._arrived: list[EngineJob] = []
        self._cancelled: list[EngineJob] = []
        self._stopping = False
        self.running = self.waiting = self.steps = 0
        self._thread = threading.Thread(target=self._run, name="structgen-model", daemon=True)
        self._thread.start()

    def submit(self, job: EngineJob) -> None:
        """Lets a job join before the next step."""
        with self._wake:
            self._arrived.append(job)
            self._wake.notify()

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
        with evaluating(self._model.module):
            while True:
                with self._wake:
                    self._wake.wait_for(lambda: self._arrived or self._stopping)
                    if self._stopping:
                        return
                with closing(OpenBatch(self._model, rows=self._rows)) as batch:
                    _Shift(self, batch).work()

    def _changes(self) -> tuple[list[EngineJob], list[EngineJob], bool]:
        """Returns the jobs that came and that were cancelled since the last step, and whether to go on."""
        with self._wake:
            changes = self._arrived, self._cancelled, not self._stopping
            self._arrived, self._cancelled = [], []
            return changes


class _Shift:
    """The work of the engine from its first job until it has none."""

    def __init__(self, engine: Engine, batch: OpenBatch) -> None:
        self._engine, self._batch = engine, batch
        self._jobs: list[EngineJob] = []
        self._searches: deque[_SearchedText] = deque()

    def work(self) -> None:
        """Runs jobs until there are none.

        What goes wrong with a job ends that job alone: as it joins, in a step (see `OpenBatch.step`), and in its news.
        """
        try:
            going = True
            while going:
                going = self._turn_over() and bool(self._jobs)
                if going:
                    more = self._batch.step()
                    more = self._search() or more
                    self._engine.steps += 1
                    self._report()
                    if not more and self._jobs:
                        raise AssertionError("a row neither goes on nor is done")
                self._engine.running = len(self._batch) - self._batch.waiting + bool(self._searches)
                self._engine.waiting = self._batch.waiting + max(len(self._searches) - 1, 0)
        except Exception as error:  # noqa: BLE001 - a bug of the batch itself
            self._fail(unforeseen("the batch failed", error))
        except BaseException as error:  # the thread ends: nobody else would answer its jobs
            self._jobs += self._engine._changes()[0]
            self._fail(RunError(f"the model's thread has ended: {type(error).__name__}"))
            raise
        finally:
            self._engine.running = self._engine.waiting = 0

    def _turn_over(self) -> bool:
        """Lets jobs leave and join. Returns False when the engine is being closed."""
        arrived, cancelled, going = self._engine._changes()
        self._jobs += [job for job in arrived if job not in cancelled]
        if not going:
            self._fail(ShuttingDown("the server is being stopped"))
            return False
        for job in cancelled:
            if job in self._jobs:
                self._leave(job)
        for job in arrived:
            if job in self._jobs:
                try:
                    for index, turn in enumerate(job.turns):
                        job.texts.append(job.context.run(self._joined, index, turn, job))
                except Exception as error:  # noqa: BLE001 - of this job alone
                    self._end(job, unforeseen("the request could not begin", error))
        return True

    def _joined(self, index: int, turn: TurnRequest, job: EngineJob) -> _SampledText | _SearchedText:
        session = turn.request.sessions[0]
        for each in (session, session.before):
            if each is not None:
                each.patience.seconds, each.patience.each = self._engine.patience, STEP_SECONDS
        if turn.request.beams is None:
            return _SampledText(index, turn, self._batch, job)
        self._searches.append(_SearchedText(index, turn, job))
        return self._searches[-1]

    def _search(self) -> bool:
        """Makes a step of the first beam search; others wait, as each has its own cache. Returns False without one."""
        while self._searches and self._searches[0].is_over:
            self._searches.popleft()
        if self._searches:
            self._searches[0].step()
        return bool(self._searches)

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
            self._engine._deliver(delivered)

    def _end(self, job: EngineJob, error: StructgenError) -> None:
        """Ends a job that has failed."""
        if problem_of(error).status >= 500:
            logger.error("request %s: %s", job.id, error, exc_info=error)
        self._leave(job)
        self._engine._deliver([(job, News(0, error=error))])

    def _leave(self, job: EngineJob) -> None:
        for text in job.texts:
            text.leave()
        self._jobs.remove(job)

    def _fail(self, error: StructgenError) -> None:
        """Ends all jobs."""
        jobs = self._jobs
        if jobs and not isinstance(error, ShuttingDown):
            logger.error("requests %s: %s", ", ".join(job.id for job in jobs), error, exc_info=error)
        self._jobs = []
        self._engine._deliver([(job, News(0, error=error)) for job in jobs])


class _SampledText:
    """One text of a job in a row of the batch."""

    def __init__(self, index: int, turn: TurnRequest, batch: OpenBatch, job: EngineJob) -> None:
        self._index, self._turn, self._batch = index, turn, batch
        self._seat: Seat | None = batch.join(turn.request.sessions[0], record=job.record, since=job.came)
        self.times = self._seat.times
        self._watch = TurnWatch(turn)
        self._known, self._given = -1, 0

    @property
    def tokens(self) -> int:
        """The number of tokens so far."""
        return self._turn.request.sessions[0].token_count

    @property
    def is_over(self) -> bool:
        """Has it given its last news?"""
        return self._seat is None

    def leave(self) -> None:
        if self._seat is not None:
            self._batch.drop(self._seat)
            self._seat = None

    def news(self, *, stream: bool) -> News | None:
        """Returns what is new since the last call; None if nothing is."""
        if self._seat is None:
            return None
        session = self._seat.session
        if not session.is_over and (not stream or session.token_count == self._known):
            return None
        self._known = session.token_count
        generation = self._turn.request.result(0, self._seat) if session.is_over else None
        error = None if generation is None else generation.error
        try:
            events = [] if error is not None else self._events(session)
        except StructgenError as problem:
            events, error = [], problem
        measured = self._measured(session, self._seat.ledger)
        if generation is None:
            new = bool(events or error or measured[0])
            return News(self._index, events, None, *measured, error=error) if new else None
        self.leave()
        return News(self._index, events, generation, *measured, error)

    def _measured(self, session: Session, ledger: Ledger | None) -> tuple[Sequence[int], Sequence[ChosenToken | None]]:
        """Returns the tokens whose text has been given since the last call, with their measurements."""
        start, end = self._given, len(session.tokens) if session.is_over else self._watch.read
        if ledger is None or end <= start:
            return (), ()
        self._given = end
        return session.tokens[start:end], session.choices(ledger, start)[: end - start]

    def _events(self, session: Session) -> list[TurnEvent]:
        """Returns the new events of the text.

        Raises:
            RunError: text that was given already was taken back.
        """
        events, back = self._watch.events(session)
        if back:
            raise RunError("the decoder took back text that was streamed already; ask again without stream")
        return events


class _SearchedText:
    """One text of a job with a beam search, which runs beside the batch. It gives news once, when the text is found."""

    def __init__(self, index: int, turn: TurnRequest, job: EngineJob) -> None:
        self._index, self._turn, self._record = index, turn, job.record
        self._run: Run[Any] | None = None
        self._marks, self.tokens = [job.came], 0
        self._context = copy_context()
        self._error: StructgenError | None = None
        self.is_over = False

    def step(self) -> None:
        """Adds a token to every beam. What goes wrong is this text's error."""
        try:
            if self._run is None:
                self._marks.append(time.perf_counter())
                self._run = self._context.run(self._turn.request.batch, record=self._record)
            self._run.step()
            if len(self._marks) == 2:
                self._marks.append(time.perf_counter())
            self.tokens = self._run.rows[0].token_count
        except StructgenError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - memory that runs out, and whatever else a model raises
            self._error = unforeseen("the beam search failed", error)

    def leave(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None
        if not self.is_over:
            self._marks.append(time.perf_counter())
        self.is_over = True

    def times(self) -> dict[str, float]:
        """See `Seat.times`."""
        marks = [*self._marks] if self.is_over else [*self._marks, time.perf_counter()]
        return dict(zip(("queue", "prefill", "decode"), (end - start for start, end in pairwise(marks)), strict=False))

    def news(self, *, stream: bool) -> News | None:
        """Returns the whole text once it is found; None before and afterwards."""
        run = self._run
        if self.is_over or (self._error is None and (run is None or not run.rows[0].done)):
            return None
        news = News(self._index, error=self._error)
        if run is not None and self._error is None:
            session, generation = run.rows[0].texts[0][0], self._turn.request.result(0, run)
            try:
                events, _ = TurnWatch(self._turn).events(session)
                measured = generation.token_ids, session.choices(run.ledger)
                news = News(self._index, events, generation, *measured, generation.error)
            except StructgenError as error:
                news = News(self._index, error=error)
        self.leave()
        return news
