"""Values from many inputs: the calls that users make, and what a job counts and writes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, overload

from typing_extensions import TypeVar

from structgen.arguments import flag_of, require
from structgen.batch_jobs.inputs import Inputs, read_inputs
from structgen.batch_jobs.job_files import JobFiles, Outcome, Places, is_of_a_job
from structgen.batch_jobs.job_options import ExtractOptions, JobOptions
from structgen.batch_jobs.progress import progress_bar
from structgen.batch_jobs.rows import InputRow, Prompt, require_fields
from structgen.batch_jobs.running import ExtractionJob, RemoteJob
from structgen.batch_jobs.settings import job_settings
from structgen.batch_jobs.windowed import WindowedJob, window_limits
from structgen.decoding.request import prepare
from structgen.decoding.stream import in_one_run
from structgen.documents.windows import Windows
from structgen.errors import OptionError, Stopped, StructgenError, excerpt
from structgen.given_prompts import GivenPrompts
from structgen.models.model import as_model
from structgen.remote import Remote, prepare_remote
from structgen.trace.records import CUT

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from structgen.streams import Text

log = logging.getLogger("structgen.jobs")
FIRST = 100
"""Inputs that are looked at before a job begins: does one have the fields that it needs?"""
_LINE_BY_LINE = "for an input a line, pass open(...), or `structgen extract MODEL -` with it as standard input"
T = TypeVar("T", default=Any)  # type checkers that do not know `TypeForm` give Any


@dataclass(slots=True)
class Extraction(Generic[T]):
    """The counts and the results of a job.

    Attributes:
        done: the number of inputs with a whole result.
        incomplete: with `windows`, how many of those done have lines that may be rows without a value.
        cut: the number of inputs whose result was cut short by a limit: `finish` is "closed_by_budget",
            "capped" or "length".
        failed: the number of inputs that were set aside with their error.
        skipped: the number of inputs that had a result already, with `resume=True`.
        skipped_cut: how many of those skipped have a result that is cut short or not complete.
        tokens: the number of generated tokens.
        seconds: the time from the first input to the last result.
        results: without `out=` and `on_entry=`, an entry for each input, in their order: `id` with `value` and
            `finish`, or with `error` and `input`. They are what a file would hold: values are data as in JSON.
        values: next to `results`, the value of each input as an object of its type; None for one that failed.
    """

    done: int = 0
    cut: int = 0
    failed: int = 0
    skipped: int = 0
    skipped_cut: int = 0
    incomplete: int = 0
    tokens: int = 0
    seconds: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list, repr=False)
    values: list[T | None] = field(default_factory=list, repr=False)

    def _count(self, outcome: Outcome) -> None:
        failed, cut = "error" in outcome.entry, outcome.entry.get("finish") in CUT
        self.failed += failed
        self.cut += cut
        self.done += not failed and not cut
        self.incomplete += not failed and not cut and not outcome.entry.get("complete", True)
        self.tokens += outcome.tokens

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the `results`.

        Raises:
            OptionError: the job has written them elsewhere.
        """
        if not self.results and self.done + self.cut + self.failed:
            raise OptionError("this report has counts alone: the entries are in the file of out=, or went to on_entry=")
        return iter(self.results)

    def __str__(self) -> str:
        """The counts in words."""
        cut = f", {self.cut} cut short" if self.cut else ""
        lost = f" ({self.skipped_cut} cut short or not complete)" if self.skipped_cut else ""
        before = f", {self.skipped} from before{lost}" if self.skipped else ""
        parts = f" ({self.incomplete} with lines that no value was made of)" if self.incomplete else ""
        return f"{self.done} done{parts}{cut}, {self.failed} failed{before}"


@overload
def extract_many(
    model: Any, inputs: Any, schema: Text | None = None, **options: Unpack[ExtractOptions]
) -> Extraction[str]: ...
@overload
def extract_many(model: Any, inputs: Any, schema: TypeForm[T], **options: Unpack[ExtractOptions]) -> Extraction[T]: ...
@overload
def extract_many(
    model: Any, inputs: Any, schema: Callable[..., object], **options: Unpack[ExtractOptions]
) -> Extraction[dict[str, Any]]: ...
@overload
def extract_many(model: Any, inputs: Any, schema: object, **options: Unpack[ExtractOptions]) -> Extraction[Any]: ...
def extract_many(
    model: Any,
    inputs: Any,
    schema: Any = None,
    *,
    prompt: Prompt = None,
    out: str | PathLike[str] | None = None,
    resume: bool | None = False,
    **options: Any,
) -> Extraction[Any]:
    """Generates a value for each of many inputs, and writes each as soon as it is complete.

        extract_many(model, "letters/", Person, prompt="Who writes?\\n{text}\\nJSON: ", out="people.jsonl", resume=True)

    Inputs are read as rows become free, so there may be more of them than fit into memory. One that cannot be read, or
    whose run fails, is set aside with its error; the others continue.

    Args:
        model: as for `generate`.
        inputs: the path of a folder of documents (text, HTML, PDF, Word), or of files of rows; of one document; of a
            `.jsonl`, `.csv`, `.tsv` (each also with `.gz`) or `.parquet` file; a table (pandas, polars, Arrow, a
            dataset of Hugging Face); or an iterable of texts, dicts, chat messages or token ids.
        schema: as for `generate`.
        prompt: a text with names of fields in braces (a text's field is `text`), or a function of the fields; None
            takes the field `text` as it is, or chat messages in a field `messages`.
        out: a file. It gets a line of JSON for each input: `id`, `value`, `finish`; or it is a table, if it ends in
            `.csv`, `.tsv` or `.parquet`. Failed inputs go to the file with `.errors.jsonl` after its name. None keeps
            all results in memory.
        resume: continue where an earlier job with this `out` was ended; failed inputs are tried again, and so are those
            that have changed, and those whose value was cut short under other `limits`. Model, schema, prompt and all
            other options must be those of that job.
        options: further ones of a job, see `help(structgen.batch_jobs.JobOptions)`. The prompt: `chat`,
            `prompt_schema`, `examples`; `windows` for long documents. What a result says: `id`, `keep`, `columns`,
            `several`, `escape_formulas`. The course of the job: `progress`, `on_entry`, `cancel`, `max_failures`,
            `encoding`. And those of `generate`, with one `sampling`, `limits` and `guards` for all inputs. A seed of
            `sampling` gives each value its own, which follows from it and the value's id.

    Raises:
        RequestError: `out` exists already, the inputs cannot be read, or an option or the schema cannot work.
        Stopped: `max_failures` were exceeded, `cancel` was set, or the iterable of inputs has raised an error. The
            results so far are written, and in `error.report`.
    """
    resume = flag_of("resume", resume)
    require(not resume or out is not None, "resume", resume, "out= with it: only a job with files can be resumed")
    windows = options.get("windows")
    if isinstance(windows, Windows) and options.get("limits") is None:
        options["limits"] = window_limits(windows)
    job, call = JobOptions.split({"prompt": prompt, "resume": resume, **options})
    is_remote, any_prompt = isinstance(model, Remote), GivenPrompts.of("x")
    owner: Any = model if is_remote else as_model(model, options.get("tokenizer"))
    if is_remote:  # raises what is wrong for every input
        prepare_remote(owner, any_prompt, schema, call)
    else:
        in_one_run(prepare(owner, any_prompt, schema, call))
    rows = job_inputs(inputs, out, job)
    settings = job_settings(owner, schema, job, call)
    files = None if out is None else JobFiles(out, settings, resume=resume, escape_formulas=job.escape_formulas)
    make: Any = WindowedJob if job.windows is not None else RemoteJob if is_remote else ExtractionJob
    running = make(owner, schema, job, call)
    return collect(running.outcomes, rows, files, job)


def job_inputs(inputs: Any, out: str | PathLike[str] | None, job: JobOptions) -> Inputs:
    """The inputs of a job, without the files of jobs.

    Raises:
        OptionError: as for `read_inputs`; or the inputs are a file of this job, or none has a field that is needed.
    """
    if out is not None and isinstance(inputs, (str, PathLike)):
        own = Places.of(out).has(Path(inputs))
        require(not own, "inputs", str(inputs), f"another file than those of the job of out={os.fspath(out)!r}")
    rows = read_inputs(inputs, encoding=job.encoding, without=is_of_a_job)
    rows.several, rows.id_field = job.several, job.id
    first = rows.first(FIRST)
    require_fields(job.prompt, job.keep, first, complete=rows.is_counted, id_field=job.id)
    whole = first[0] if len(first) == 1 and isinstance(inputs, (str, PathLike)) else None
    if whole is not None and whole.id == Path(inputs).name and not whole.error and whole.document is None:
        lines = len(str(whole.fields["text"]).splitlines())
        if lines > 1 and job.windows is None:
            log.warning("%s is one input of %d lines; %s", whole.id, lines, _LINE_BY_LINE)
    return rows


def preview(inputs: Inputs, prompt: Prompt, count: int = 3) -> Iterator[str]:
    """What the first inputs are, and their prompts, in words; no model is needed."""
    total = inputs.counted()
    yield "inputs: not counted" if total is None else f"inputs: {total:,}"
    for row in islice(inputs, count):
        fields = ", ".join(f"{name} ({type(value).__name__})" for name, value in row.fields.items())
        yield f"--- {row.id}: {row.error or fields or type(row.given).__name__}"
        try:
            yield str(row.prompt(prompt))
        except StructgenError as error:
            yield f"fails: {error}"


def collect(
    outcomes: Callable[..., Generator[Outcome, None, None]], inputs: Inputs, files: JobFiles | None, job: JobOptions
) -> Extraction[Any]:
    """Counts outcomes as they come, and writes them into the files, or else into the report's `results`.

    Args:
        outcomes: makes the outcomes of numbered inputs, see `ExtractionJob.outcomes`.

    Raises:
        Stopped: the job has ended before its inputs.
    """
    report, began, numbers, failure = Extraction[Any](), time.perf_counter(), list[int](), ""
    goes_on = "" if files is None else "; resume=True continues it"
    try:
        with (
            files if files is not None else nullcontext(),
            progress_bar(inputs.counted() if job.progress else inputs.total, shown=job.progress) as tell,
            closing(outcomes(_undone(inputs, files, report), ahead=inputs.in_memory)) as made,
        ):
            for outcome in made:
                entry = outcome.entry
                if files is not None:
                    files.add(outcome)
                elif job.on_entry is None:
                    report.results.append(entry)
                    report.values.append(outcome.value)
                    numbers.append(outcome.number)
                report._count(outcome)
                if job.on_entry is not None:
                    job.on_entry(entry)
                tell(report.done + report.cut + report.failed + report.skipped, str(report))
                if job.max_failures is not None and report.failed > job.max_failures:
                    failure = excerpt(entry["error"]["message"])
                    break
    except KeyboardInterrupt:
        log.warning("the job was interrupted: %s%s", report, goes_on)
        raise
    finally:
        report.seconds = time.perf_counter() - began
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        report.results[:] = [report.results[place] for place in order]
        report.values[:] = [report.values[place] for place in order]
    why = ""
    if failure:
        why = f"more than max_failures={job.max_failures} inputs have failed, the last by: {failure}"
    elif job.cancel is not None and job.cancel.is_set():
        why = "cancel was set"
    elif inputs.broken is not None:
        why = str(inputs.broken)
    if why:
        raise Stopped(f"the job has ended early: {why}; {report}{goes_on}", report=report) from inputs.broken
    return report


def _undone(inputs: Inputs, files: JobFiles | None, report: Extraction[Any]) -> Iterator[tuple[int, InputRow]]:
    """The inputs without a result, each with its place among all."""
    for number, row in enumerate(inputs):
        if files is not None and files.is_done(row):
            report.skipped += 1
            report.skipped_cut += row.id in files.cut
        else:
            yield number, row
