"""The inputs of a job, which join the model's engine as its rows become free."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from structgen.batch_jobs.columns import COLUMNS, CONFIDENCE, LAYOUT, PLACES, PROBABILITIES, SOURCE, places_of
from structgen.batch_jobs.job_files import Entry, Outcome, failed_entry
from structgen.batch_jobs.job_options import JobOptions
from structgen.batch_jobs.rows import InputRow
from structgen.decoding.call_options import CallOptions
from structgen.decoding.engine import Engine
from structgen.decoding.generation import Generation
from structgen.decoding.prompts.sources import quotes_a_source
from structgen.decoding.request import Request, prepare
from structgen.decoding.ticket import Ticket
from structgen.errors import OptionError, StructgenError
from structgen.given_prompts import GivenPrompts
from structgen.options import Limits, Sampling
from structgen.patience import Deadline
from structgen.remote import Remote, RemoteRequest, prepare_remote
from structgen.trace.records import CUT

JOINING = 2.0
"""New prompts cost a pass of their own, so they join together once free rows have wasted that many steps."""
AHEAD = 4
"""Inputs that are read and sorted by length together, in batches."""


class _Waiting(NamedTuple):
    """An input that is ready to run."""

    row: InputRow
    number: int
    request: Request

    @property
    def length(self) -> int:
        return len(self.request.sessions[0].prompt)


class ExtractionJob:
    """A running job."""

    def __init__(self, model: Any, schema: Any, job: JobOptions, options: CallOptions) -> None:
        self._model, self._schema, self._job, self._options = model, schema, job, options
        self._prompts = job.prompts_for(schema, options)
        if options.source is not None:
            raise OptionError("source=: a job quotes the fields that its prompt is made of")
        self._quotes = not isinstance(model, Remote) and quotes_a_source(model, schema, options)
        if self._quotes and PLACES not in job.columns:
            self._job = replace(job, columns=(*job.columns, PLACES))
        self._records = not {CONFIDENCE, PROBABILITIES}.isdisjoint(job.columns)
        self._ready: deque[_Waiting] = deque()
        self._running: list[tuple[_Waiting, Ticket]] = []

    def outcomes(self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool) -> Generator[Outcome, None, None]:
        """Runs the inputs, and yields their outcomes as they come.

        Args:
            rows: each with its place among all.
            ahead: read more inputs than there are rows, to sort them by their length.
        """
        size, more, wasted = self._options.batch_size, True, 0.0
        try:
            while more or self._ready or self._running:
                free = size - len(self._running)
                if more and len(self._ready) < free:
                    wanted = size * AHEAD if ahead else free
                    new = list(islice(rows, wanted - len(self._ready)))
                    more = len(new) == wanted - len(self._ready)
                    yield from self._prepare(new)
                    self._ready = deque(sorted(self._ready, key=lambda each: -each.length))
                wasted += free / size
                if wasted >= JOINING or not self._running:
                    wasted = 0.0
                    for _ in range(min(free, len(self._ready))):
                        self._join()
                if self._running:
                    Engine.of(self._model).step([ticket for _, ticket in self._running])
                    yield from self._finished()
                if self._job.cancel is not None and self._job.cancel.is_set():
                    return
        finally:
            for _, ticket in self._running:
                ticket.cancel()

    def _join(self) -> None:
        """Gives an input a row, and its time begins."""
        waiting = self._ready.popleft()
        session, limits = waiting.request.sessions[0], self._options.limits
        if isinstance(limits, Limits) and limits.seconds is not None:
            session.patience.deadline = Deadline(limits.seconds)
        self._running.append((waiting, waiting.request.submit(record=self._records)))

    def _prepare(self, new: Sequence[tuple[int, InputRow]]) -> Iterator[Outcome]:
        """Makes inputs ready. Yields the outcomes of those that fail at once."""
        fine: list[tuple[int, InputRow, GivenPrompts]] = []
        for number, row in new:
            try:
                fine.append((number, row, self._prompts(row)))
            except StructgenError as error:
                yield Outcome(row, number, failed_entry(row, error))
        if not fine:
            return
        try:
            self._make_ready(fine)
        except StructgenError:  # of one of them, which is found by trying each
            for each in fine:
                try:
                    self._make_ready([each])
                except StructgenError as error:
                    yield Outcome(each[1], each[0], failed_entry(each[1], error))

    def _make_ready(self, rows: Sequence[tuple[int, InputRow, GivenPrompts]]) -> None:
        """Makes the requests of some inputs together, which costs less than one by one; all, or none."""
        prompts = GivenPrompts([prompts.each[0] for _, _, prompts in rows], many=True)
        sampling = [self._sampling_of(row) for _, row, _ in rows]
        options = replace(self._options, sampling=sampling)
        if self._quotes:
            options = replace(options, source=[row.quotable(self._job.prompt) for _, row, _ in rows])
        whole = prepare(self._model, prompts, self._schema, options)
        for place, (number, row, _) in enumerate(rows):
            self._ready.append(_Waiting(row, number, whole.with_sessions({place: whole.sessions[place]})))

    def _sampling_of(self, row: InputRow) -> Any:
        """The sampling of an input, with its own seed."""
        sampling = self._options.sampling
        if not isinstance(sampling, Sampling) or sampling.greedy or sampling.seed is None:
            return sampling
        seed = blake2b(f"{sampling.seed}/{row.id}".encode(errors="replace"), digest_size=8).digest()
        return replace(sampling, seed=int.from_bytes(seed, "little"))

    def _finished(self) -> Iterator[Outcome]:
        for each in [each for each in self._running if not each[1].left]:
            (row, number, request), ticket = each
            with ticket:
                ticket.check()
                generation: Generation[Any] = request.result(0, ticket)
            self._running.remove(each)
            yield self._outcome(row, number, generation)

    def _outcome(self, row: InputRow, number: int, made: Generation[Any]) -> Outcome:
        stats = made.stats
        entry = self._entry(row, made) if made.error is None else failed_entry(row, made.error)
        seconds = stats.prefill_seconds + stats.decode_seconds
        return Outcome(row, number, entry, stats.tokens, seconds, made.value, made.text)

    def _entry(self, row: InputRow, made: Generation[Any]) -> Entry:
        value = to_jsonable_python(made.value)
        entry = {**row.names, **row.carried(self._job.keep), "value": value, "finish": made.finish}
        unsure = {"after_cut": list(made.after_cuts)} if made.finish in CUT and made.after_cuts else {}
        entry |= {name: COLUMNS[name](made) for name in self._job.columns} | unsure
        document = row.document
        if document is not None and document.pages and PLACES in entry:
            entry[PLACES] = places_of(made.quotes, document)
            entry |= {LAYOUT: document.to_dict()} if SOURCE in entry else {}
        return entry


class RemoteJob(ExtractionJob):
    """A running job of an endpoint, which gets the requests of some inputs at a time."""

    def outcomes(self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool) -> Generator[Outcome, None, None]:
        cancel = self._job.cancel
        while new := list(islice(rows, self._options.batch_size if ahead else 1)):
            self._sent = list[tuple[Sequence[tuple[int, InputRow, GivenPrompts]], RemoteRequest]]()
            yield from self._prepare(new)
            for sent, request in self._sent:
                for (number, row, _), made in zip(sent, request.results(), strict=True):
                    yield self._outcome(row, number, made)
            if cancel is not None and cancel.is_set():
                return

    def _make_ready(self, rows: Sequence[tuple[int, InputRow, GivenPrompts]]) -> None:
        prompts = GivenPrompts([prompts.each[0] for _, _, prompts in rows], many=True)
        options = replace(self._options, sampling=[self._sampling_of(row) for _, row, _ in rows])
        self._sent.append((rows, prepare_remote(self._model, prompts, self._schema, options)))
