"""Values from many inputs in one batch, whose rows are given to the next inputs as they become free."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from structgen.arguments import is_listed, require, require_count, require_flag
from structgen.batch_jobs.inputs import Inputs, read_inputs
from structgen.batch_jobs.job_files import Entry, JobFiles, Places, failed_entry, is_of_a_job
from structgen.batch_jobs.progress import progress_bar
from structgen.batch_jobs.rows import InputRow, Prompt, require_template
from structgen.batch_jobs.settings import job_settings
from structgen.decoding.call_options import CallOptions
from structgen.decoding.generation import Generation
from structgen.decoding.open_batch import OpenBatch, Seat
from structgen.decoding.request import Request, prepare
from structgen.decoding.stream import in_one_run
from structgen.errors import OptionError, Stopped, StructgenError, excerpt
from structgen.given_prompts import GivenPrompts, PlainText
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model, as_model
from structgen.options import Limits, Sampling
from structgen.patience import CancelEvent, Deadline
from structgen.rendering import schema_text

log = logging.getLogger("structgen.jobs")

CUT = "closed_by_budget", "length"
"""Ends of values that a limit has cut short."""
JOINING = 0.25
"""The share of the rows that are free before inputs join."""
AHEAD = 4
"""Inputs that are read and sorted by length together, in batches."""


@dataclass(slots=True)
class Extraction:
    """The counts and the results of a job.

    Attributes:
        done: the number of inputs with a whole result.
        cut: the number of inputs whose result was cut short by a limit: `finish` is "closed_by_budget" or "length".
        failed: the number of inputs that were set aside with their error.
        skipped: the number of inputs that had a result already, with `resume=True`.
        tokens: the number of generated tokens.
        seconds: the time from the first input to the last result.
        results: without `out=` and `on_entry=`, an entry for each input, in their order: `id` with `value` and
            `finish`, or with `error` and `input`.
    """

    done: int = 0
    cut: int = 0
    failed: int = 0
    skipped: int = 0
    tokens: int = 0
    seconds: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        """The counts in words."""
        cut = f", {self.cut} cut short" if self.cut else ""
        before = f", {self.skipped} from before" if self.skipped else ""
        return f"{self.done} done{cut}, {self.failed} failed{before}"


class Outcome(NamedTuple):
    """What has become of an input: its place among all, and its line of results or of failures."""

    row: InputRow
    number: int
    entry: Entry
    tokens: int = 0


class _Waiting(NamedTuple):
    """An input that is ready to run."""

    row: InputRow
    number: int
    request: Request

    @property
    def length(self) -> int:
        return len(self.request.sessions[0].prompt)


def extract_many(
    model: Any,
    inputs: Any,
    schema: Any = None,
    *,
    out: str | PathLike[str] | None = None,
    prompt: Prompt = None,
    chat: bool = False,
    resume: bool = False,
    progress: bool = False,
    prompt_schema: bool = False,
    keep: bool | Sequence[str] = (),
    encoding: str | None = None,
    max_failures: int | None = None,
    cancel: CancelEvent | None = None,
    on_entry: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> Extraction:
    """Generates a value for each of many inputs, and writes each as soon as it is complete.

        extract_many(model, "letters/", Person, prompt="Who writes?\\n{text}\\nJSON: ", out="people.jsonl", resume=True)

    Inputs are read as rows become free, so there may be more of them than fit into memory. One that cannot be read, or
    whose run fails, is set aside with its error; the others go on.

    Args:
        model: as for `generate`.
        inputs: the path of a folder, of a `.jsonl`, `.csv`, `.tsv` (each also with `.gz`) or `.parquet` file; a table
            (pandas, polars, Arrow, a dataset of Hugging Face); or an iterable of texts, dicts, chat messages or token
            ids.
        schema: as for `generate`.
        out: a file. It gets a line of JSON for each input: `id`, `value`, `finish`; or it is a table, if it ends in
            `.csv`, `.tsv` or `.parquet`. Failed inputs go to the file with `.errors.jsonl` behind its name. None keeps
            all results in memory.
        prompt: a text with names of fields in braces (a text's field is `text`), or a function of the fields; None
            takes the field `text` as it is, or chat messages in a field `messages`.
        chat: send each prompt through the chat template, as a message of the user.
        resume: go on where an earlier job with this `out` was ended; failed inputs are tried again, and so are those
            that have changed. Model, schema, prompt and options must be those of that job.
        progress: show a bar on the standard error.
        keep: fields of the inputs that are carried into their results, as `input`; True for all but `text`.
        encoding: of files; None for UTF-8, or what a byte order mark says.
        max_failures: the most inputs that may fail before the job ends.
        cancel: ends the job when it is set, from another thread or a signal's handler.
        on_entry: is called with each entry as it comes.
        prompt_schema, options: as for `generate`, with one `sampling`, `limits` and `guards` for all inputs. A seed of
            `sampling` gives each input its own, which follows from it and the input's id.

    Raises:
        RequestError: `out` exists already, the inputs cannot be read, or an option or the schema cannot work.
        Stopped: `max_failures` were exceeded, `cancel` was set, or the iterable of inputs has raised an error. The
            results so far are written, and in `error.report`.
    """
    owner = as_model(model, options.pop("tokenizer", None))
    for name, flag in (("chat", chat), ("resume", resume), ("progress", progress), ("prompt_schema", prompt_schema)):
        require_flag(name, flag)
    require_template(prompt)
    require(isinstance(keep, bool) or is_listed(keep, str), "keep", keep, "True, or a list of names of fields")
    require(cancel is None or hasattr(cancel, "is_set"), "cancel", cancel, "a threading.Event")
    if max_failures is not None:
        require_count("max_failures", max_failures, 0)
    call_options = CallOptions.of(options)
    require(call_options.beams.count == 1, "beams", call_options.beams, "1: jobs have no beam search")  # type: ignore[union-attr]
    in_one_run(prepare(owner, GivenPrompts.of("x"), schema, call_options))  # raises what is wrong for every input
    rows = job_inputs(inputs, out, encoding)
    files = None
    if out is not None:
        given = {"prompt": prompt, "chat": chat, "prompt_schema": prompt_schema, "keep": keep}
        files = JobFiles(out, job_settings(owner, schema, given, call_options), resume=resume)
    behind = schema_text(schema) if prompt_schema else ""
    job = _ExtractionJob(owner, schema, call_options, partial(_prompts, prompt, behind, chat=chat), keep, cancel)
    return collect(
        Extraction(),
        job.outcomes,
        rows,
        files,
        progress=progress,
        max_failures=max_failures,
        cancel=cancel,
        told=on_entry,
    )


def job_inputs(inputs: Any, out: str | PathLike[str] | None, encoding: str | None) -> Inputs:
    """The inputs of a job, without the files of jobs.

    Raises:
        OptionError: as for `read_inputs`; or the inputs are a file of this job.
    """
    if out is not None and isinstance(inputs, (str, PathLike)):
        own = Places.of(out).has(Path(inputs))
        require(not own, "inputs", str(inputs), f"another file than those of the job of out={os.fspath(out)!r}")
    return read_inputs(inputs, encoding=encoding, without=is_of_a_job)


def _prompts(template: Prompt, behind: str, row: InputRow, *, chat: bool) -> GivenPrompts:
    """Returns the prompt of an input, with the schema's text behind it if there is one."""
    prompt = row.prompt(template)
    if chat and isinstance(prompt, (str, PlainText)):
        prompt = [{"role": "user", "content": str(prompt)}]
    prompts = GivenPrompts.of(prompt)
    if prompts.many:
        raise OptionError("the prompt of an input is a list of prompts: expected one")
    return prompts.mapped(lambda each: each.with_schema(behind)) if behind else prompts


class _ExtractionJob:
    """A running job."""

    def __init__(
        self,
        model: Model,
        schema: Any,
        options: CallOptions,
        prompt_of: Callable[[InputRow], GivenPrompts],
        keep: bool | Sequence[str],
        cancel: CancelEvent | None,
    ) -> None:
        self._model, self._schema, self._options, self._prompt_of = model, schema, options, prompt_of
        self._keep, self._cancel = keep, cancel
        self._ready: deque[_Waiting] = deque()
        self._running: list[tuple[_Waiting, Seat]] = []

    def outcomes(self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool) -> Generator[Outcome, None, None]:
        """Runs the inputs, and yields their outcomes as they come.

        Args:
            rows: each with its place among all.
            ahead: read more inputs than there are rows, to sort them by their length.
        """
        size, more = self._options.batch_size, True
        with evaluating(self._model.module), closing(OpenBatch(self._model, rows=size)) as batch:
            while more or self._ready or self._running:
                free = size - len(self._running)
                if more and len(self._ready) < free:
                    wanted = size * AHEAD if ahead else free
                    new = list(islice(rows, wanted - len(self._ready)))
                    more = len(new) == wanted - len(self._ready)
                    yield from self._prepare(new)
                    self._ready = deque(sorted(self._ready, key=lambda each: -each.length))
                if free >= JOINING * size or not self._running:  # prompts that come together are read together
                    for _ in range(min(free, len(self._ready))):
                        self._join(batch)
                if self._running:
                    batch.step()
                    yield from self._finished(batch)
                if self._cancel is not None and self._cancel.is_set():
                    return

    def _join(self, batch: OpenBatch) -> None:
        """Gives an input a row, and its time begins."""
        waiting = self._ready.popleft()
        session, limits = waiting.request.sessions[0], self._options.limits
        if isinstance(limits, Limits) and limits.seconds is not None:
            for each in {session.before or session, session}:
                each.patience.deadline = Deadline(limits.seconds)
        self._running.append((waiting, batch.join(session, record=False)))

    def _prepare(self, new: Sequence[tuple[int, InputRow]]) -> Iterator[Outcome]:
        """Makes inputs ready. Yields the outcomes of those that fail at once."""
        fine: list[tuple[int, InputRow, GivenPrompts]] = []
        for number, row in new:
            try:
                fine.append((number, row, self._prompt_of(row)))
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
        whole = prepare(self._model, prompts, self._schema, replace(self._options, sampling=sampling))
        for place, (number, row, _) in enumerate(rows):
            self._ready.append(_Waiting(row, number, whole.with_sessions({place: whole.sessions[place]})))

    def _sampling_of(self, row: InputRow) -> Any:
        """The sampling of an input, with its own seed."""
        sampling = self._options.sampling
        if not isinstance(sampling, Sampling) or sampling.greedy or sampling.seed is None:
            return sampling
        seed = blake2b(f"{sampling.seed}/{row.id}".encode(errors="replace"), digest_size=8).digest()
        return replace(sampling, seed=int.from_bytes(seed, "little"))

    def _finished(self, batch: OpenBatch) -> Iterator[Outcome]:
        for each in [each for each in self._running if each[1].session.is_over]:
            (row, number, request), seat = each
            generation: Generation[Any] = request.result(0, seat)
            batch.drop(seat)
            self._running.remove(each)
            error, tokens = generation.error, generation.stats.tokens
            entry = self._entry(row, generation) if error is None else failed_entry(row, error)
            yield Outcome(row, number, entry, tokens)

    def _entry(self, row: InputRow, generation: Generation[Any]) -> Entry:
        names = [name for name in row.fields if name != "text"] if self._keep is True else self._keep or ()
        carried = {name: row.fields.get(name) for name in names}
        value = to_jsonable_python(generation.value)
        return {"id": row.id, **({"input": carried} if carried else {}), "value": value, "finish": generation.finish}


def collect(
    report: Extraction,
    outcomes: Callable[..., Generator[Outcome, None, None]],
    inputs: Inputs,
    files: JobFiles | None,
    *,
    progress: bool,
    max_failures: int | None = None,
    cancel: CancelEvent | None = None,
    told: Callable[[Entry], None] | None = None,
) -> Extraction:
    """Counts outcomes as they come, and writes them into the files, or else into the report's `results`.

    Args:
        outcomes: makes the outcomes of numbered inputs, see `_ExtractionJob.outcomes`.
        progress: show a bar.

    Raises:
        Stopped: the job has ended before its inputs.
    """
    began, numbers, why = time.perf_counter(), [], ""

    def undone() -> Iterator[tuple[int, InputRow]]:
        for number, row in enumerate(inputs):
            if files is not None and files.is_done(row):
                report.skipped += 1
            else:
                yield number, row

    try:
        with (
            files if files is not None else nullcontext(),
            progress_bar(inputs.counted() if progress else inputs.total, shown=progress) as tell,
            closing(outcomes(undone(), ahead=inputs.stands)) as made,
        ):
            for row, number, entry, tokens in made:
                if files is not None:
                    files.add(row, entry, number)
                elif told is None:
                    report.results.append(entry)
                    numbers.append(number)
                failed, cut = "error" in entry, entry.get("finish") in CUT
                report.failed += failed
                report.cut += cut
                report.done += not failed and not cut
                report.tokens += tokens
                if told is not None:
                    told(entry)
                tell(report.done + report.cut + report.failed + report.skipped, str(report))
                if max_failures is not None and report.failed > max_failures:
                    last = excerpt(entry["error"]["message"])
                    why = f"more than max_failures={max_failures} inputs have failed, the last by: {last}"
                    break
    except KeyboardInterrupt:
        log.warning("the job was interrupted: %s%s", report, "" if files is None else "; resume=True goes on")
        raise
    finally:
        report.seconds = time.perf_counter() - began
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        report.results[:] = [report.results[place] for place in order]
    if not why and cancel is not None and cancel.is_set():
        why = "cancel was set"
    why = why or (str(inputs.broken) if inputs.broken is not None else "")
    if why:
        goes_on = "" if files is None else "; resume=True goes on"
        raise Stopped(f"the job has ended early: {why}; {report}{goes_on}", report=report) from inputs.broken
    return report
