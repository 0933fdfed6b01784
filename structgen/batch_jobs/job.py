"""Values from many inputs in one batch, whose rows are given to the next inputs as they become free."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from structgen.arguments import require, require_flag
from structgen.batch_jobs.inputs import InputRow, Prompt, read_inputs
from structgen.decoding.call_options import CallOptions
from structgen.decoding.generation import Generation
from structgen.decoding.open_batch import OpenBatch, Seat
from structgen.decoding.request import Request, prepare
from structgen.decoding.stream import in_one_run
from structgen.errors import OptionError, StructgenError, excerpt
from structgen.given_prompts import GivenPrompts
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model, as_model
from structgen.rendering import schema_text
from structgen.waiting import muted, waiting

Entry = dict[str, Any]
"""A line of results: `id` with `value` and `finish`, or with `error`."""


@contextmanager
def _progress_bar(total: int | None, *, shown: bool) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on the standard error; without a total it only counts. If not shown, a long job has a status line.

    Yields:
        A function that shows how many inputs are done, have failed, and were skipped.
    """
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
    task, line = bar.add_task("extract", total=total), "no input done yet"

    def tell(done: int, failed: int, skipped: int) -> None:
        nonlocal line
        line = f"{done} done, {failed} failed" + (f", {skipped} from before" if skipped else "")
        bar.update(task, completed=done + failed + skipped, description=line)

    with muted() if shown else waiting(lambda: line), bar:
        yield tell


@dataclass(slots=True)
class Extraction:
    """The counts and the results of a job.

    Attributes:
        done: the number of inputs with a result.
        failed: the number of inputs that were set aside with their error.
        skipped: the number of inputs that had a result already, with `resume=True`.
        tokens: the number of generated tokens.
        seconds: the time from the first input to the last result.
        results: without `out=`, an entry for each input, in their order: `id` with `value` and `finish`, or with
            `error`.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    tokens: int = 0
    seconds: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list, repr=False)


class ResultFiles:
    """Writes the results of a job, and the inputs that failed, each at once.

    Args:
        path: the file of results; that of failed inputs has the ending `.errors.jsonl` instead.
        resume: append to the file, without a last line that was cut off; failed inputs are tried again. Otherwise the
            file must not exist.
    """

    def __init__(self, path: str | PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        lines = self.path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".xlsx")
        require(lines, "out", str(path), "a name that ends in .jsonl: the file has a line of JSON for each input")
        self.errors_path = self.path.with_suffix(".errors.jsonl")
        self.done: set[str] = set()
        if self.path.exists():
            if not resume:
                raise OptionError(f"out={str(path)!r} is there already: pass resume=True to go on, or another name")
            self._read()

    def _read(self) -> None:
        """Reads which inputs are done, and cuts off an incomplete last line."""
        whole = 0
        with self.path.open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    self.done.add(json.loads(line)["id"])
                except (ValueError, TypeError, LookupError) as error:
                    raise OptionError(
                        f"out={str(self.path)!r} has a line that is no result: {excerpt(line)}"
                    ) from error
                whole += len(line)
            file.truncate(whole)

    def begin(self) -> None:
        """Makes the file of results, and removes that of failed inputs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        self.errors_path.unlink(missing_ok=True)

    def add(self, entry: dict[str, Any]) -> None:
        """Writes an entry; one with an `error` is a failed input."""
        with (self.errors_path if "error" in entry else self.path).open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")


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
    **options: Any,
) -> Extraction:
    """Generates a value for each of many inputs, and writes each as soon as it is complete.

        extract_many(model, "letters/", Person, prompt="Who writes?\\n{text}\\nJSON: ", out="people.jsonl", resume=True)

    Inputs are read as rows become free, so there may be more of them than fit into memory. One that cannot be read, or
    whose run fails, is set aside with its error; the others go on.

    Args:
        model: as for `generate`.
        inputs: the path of a folder, of a `.jsonl`, `.csv`, `.tsv` or `.parquet` file; or an iterable of texts, dicts,
            chat messages or token ids.
        schema: as for `generate`.
        out: a file, which gets a line of JSON for each input: `id`, `value`, `finish`. Failed inputs go to the file
            beside it that ends in `.errors.jsonl`. None keeps all results in memory.
        prompt: a text with names of fields in braces (a text's field is `text`), or a function of the fields; None
            takes the field `text` as it is.
        chat: send each prompt through the chat template, as a message of the user.
        resume: go on where an earlier job with this `out` was ended; failed inputs are tried again.
        progress: show a bar on the standard error.
        prompt_schema, options: as for `generate`, with one `sampling`, `limits` and `guards` for all inputs.

    Raises:
        RequestError: `out` exists already, the inputs cannot be read, or an option or the schema cannot work.
    """
    owner = as_model(model, options.pop("tokenizer", None))
    for name, flag in (("chat", chat), ("resume", resume), ("progress", progress), ("prompt_schema", prompt_schema)):
        require_flag(name, flag)
    has_fields = isinstance(prompt, str) and "{" in prompt
    expected = "a text with names of fields in braces, as {text}, or a function"
    require(prompt is None or has_fields or callable(prompt), "prompt", prompt, expected)
    call_options = CallOptions.of(options)
    require(call_options.beams.count == 1, "beams", call_options.beams, "1: jobs have no beam search")  # type: ignore[union-attr]
    in_one_run(prepare(owner, GivenPrompts.of("x"), schema, call_options))  # raises what is wrong for every input
    files = None if out is None else ResultFiles(out, resume=resume)
    total = len(inputs) if hasattr(inputs, "__len__") and not isinstance(inputs, str) else None
    behind = schema_text(schema) if prompt_schema else ""
    prompt_of = partial(_prompts, prompt, behind, chat=chat)
    job = _ExtractionJob(owner, schema, call_options, prompt_of)
    entries = job.entries(read_inputs(inputs), files.done if files is not None else set())
    collect(job.report, entries, files, total, progress=progress)
    job.report.results.sort(key=lambda entry: job.places[entry["id"]])
    return job.report


def _prompts(template: Prompt, behind: str, row: InputRow, *, chat: bool) -> GivenPrompts:
    """Returns the prompt of an input, with the schema's text behind it if there is one."""
    prompt = row.prompt(template)
    if chat and isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    prompts = GivenPrompts.of(prompt)
    return prompts.mapped(lambda each: each.with_schema(behind)) if behind else prompts


class _ExtractionJob:
    """A running job.

    Attributes:
        places: an input's id -> its number.
    """

    def __init__(
        self, model: Model, schema: Any, options: CallOptions, prompt_of: Callable[[InputRow], GivenPrompts]
    ) -> None:
        self._model, self._schema, self._options, self._prompt_of = model, schema, options, prompt_of
        self._running: list[tuple[InputRow, Request, Seat]] = []
        self.report = Extraction()
        self.places: dict[str, int] = {}

    def entries(self, rows: Iterator[InputRow], done: set[str]) -> Iterator[Entry]:
        """Runs the inputs that are not done, and yields their entries as they come."""
        more, size = True, self._options.batch_size
        with evaluating(self._model.module), closing(OpenBatch(self._model, rows=size)) as batch:
            while more or self._running:
                while more and len(self._running) < size:
                    row = next(rows, None)
                    more = row is not None
                    if row is not None:
                        yield from self._begin(row, batch, done)
                if self._running:
                    batch.step()
                    yield from self._finished(batch)

    def _begin(self, row: InputRow, batch: OpenBatch, done: set[str]) -> Iterator[Entry]:
        """Gives an input a row of the batch. Yields an entry if it fails at once."""
        self.places[row.id] = len(self.places)
        if row.id in done:
            self.report.skipped += 1
            return
        try:
            request = prepare(self._model, self._prompt_of(row), self._schema, self._options)
        except StructgenError as error:
            yield failed_entry(row.id, error)
            return
        self._running.append((row, request, batch.join(request.sessions[0], record=False)))

    def _finished(self, batch: OpenBatch) -> Iterator[Entry]:
        for each in [each for each in self._running if each[2].session.done]:
            row, request, seat = each
            generation: Generation[Any] = request.result(0, seat)
            batch.drop(seat)
            self._running.remove(each)
            self.report.tokens += generation.stats.tokens
            if generation.error is not None:
                yield failed_entry(row.id, generation.error)
            else:
                yield {"id": row.id, "value": to_jsonable_python(generation.value), "finish": generation.finish}


def collect(
    report: Extraction, entries: Iterable[Entry], files: ResultFiles | None, total: int | None, *, progress: bool
) -> None:
    """Counts entries as they come, and writes them into the files, or else into the report's `results`.

    Args:
        total: the number of inputs; None if it is unknown.
        progress: show a bar.
    """
    began = time.perf_counter()
    if files is not None:
        files.begin()
    with _progress_bar(total, shown=progress) as tell:
        for entry in entries:
            report.failed += "error" in entry
            report.done += "error" not in entry
            if files is None:
                report.results.append(entry)
            else:
                files.add(entry)
            tell(report.done, report.failed, report.skipped)
    report.seconds = time.perf_counter() - began


def failed_entry(id: str, error: StructgenError) -> Entry:
    """Returns the entry of an input that failed."""
    return {"id": id, "error": {"type": type(error).__name__, "message": str(error)}}
