"""Documents that are read in windows: each is several rows of the running job, whose values become one."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from structgen.arguments import require
from structgen.batch_jobs.columns import CONFIDENCE, LAYOUT, PLACES, PROBABILITIES, SOURCE, places_of
from structgen.batch_jobs.files import rows_of_path
from structgen.batch_jobs.job_files import Entry, Outcome, failed_entry
from structgen.batch_jobs.job_options import JobOptions
from structgen.batch_jobs.rows import InputRow, names_of
from structgen.batch_jobs.running import ExtractionJob, RemoteJob
from structgen.constraints.basic import JsonSchema
from structgen.decoding.call_options import CallOptions
from structgen.decoding.prompts.targets import targets_of
from structgen.documents.files import document_of
from structgen.documents.layout import Document
from structgen.documents.proof import MISSED, is_array, is_object
from structgen.documents.reading import Details, Extracted, Reading
from structgen.documents.windows import Window, Windows, costs_of, cut, window_of
from structgen.errors import OptionError, StructgenError
from structgen.models.model import as_model
from structgen.options import Limits
from structgen.remote import Remote
from structgen.trace.records import CUT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T", default=Any)
PROMPT = "List what the text has, in its order, as JSON.\nText:\n{text}\nJSON:\n"
MOST_TOKENS_A_TOKEN = 8
"""Tokens of a window's list for each token of its text: JSON repeats the names of members in each item."""
BYTES_A_TOKEN = 3
"""Of a text for an endpoint, whose tokenizer is unknown."""
COLUMNS = PLACES, SOURCE, PROBABILITIES, CONFIDENCE, "tokens", "seconds"
"""The columns that a document read in windows can have."""


def window_limits(windows: Windows) -> Limits:
    """The limits of a window's value, unless the user gives others."""
    return Limits(max_new_tokens=max(512, MOST_TOKENS_A_TOKEN * windows.tokens))


class _Document:
    """A document that is being read."""

    def __init__(self, row: InputRow, number: int, reading: Reading, costs: Sequence[int]) -> None:
        self.row, self.number, self.reading, self.costs = row, number, reading, costs
        self.passes, self.waiting, self.failed, self.tokens, self.seconds = 0, 0, 0, 0, 0.0
        self.read: list[tuple[int, Window, Outcome]] = []  # the windows of this pass, with their numbers
        self.left: Sequence[int] = range(len(reading.units))


class WindowedJob:
    """A running job whose inputs are documents.

    Args:
        model: loaded, or an endpoint.

    Raises:
        OptionError: the schema is of no list or object, or the options do not go with windows.
    """

    def __init__(self, model: Any, schema: Any, job: JobOptions, options: CallOptions) -> None:
        assert job.windows is not None
        self._windows, self._options, self._columns = job.windows, options, job.columns
        self._cancel, self._keep = job.cancel, job.keep
        refused = [name for name in job.columns if name not in COLUMNS]
        require(not refused, "columns", job.columns, f"with windows=, some of {', '.join(COLUMNS)}")
        inner = [PROBABILITIES] if {PROBABILITIES, CONFIDENCE} & set(job.columns) else []
        make = RemoteJob if isinstance(model, Remote) else ExtractionJob
        self._job = make(model, schema, replace(job, columns=tuple(inner), keep=()), options)
        self._target = targets_of([schema], options.whitespace, options.order)[0]
        self._schema: Any = (
            self._target.constraint.document() if isinstance(self._target.constraint, JsonSchema) else {}
        )
        is_one = isinstance(self._schema, Mapping) and (is_array(self._schema) or is_object(self._schema))
        require(is_one, "schema", schema, "a list, as list[Item], or an object whose lists are merged")
        names = names_of(job.prompt) or ("text",)
        require(len(names) == 1 or "text" in names, "prompt", job.prompt, "one with {text}, the document that is cut")
        self._field = "text" if "text" in names else names[0]
        self._count: Callable[[str], int] = (
            (lambda text: len(text.encode()) // BYTES_A_TOKEN + 1)
            if isinstance(model, Remote)
            else (lambda text: len(model.tokenizer.encode(text)))
        )
        self._queue = deque[tuple[int, InputRow]]()
        self._open: dict[int, tuple[_Document, Window]] = {}  # by the number of a window: those that are not read yet
        self._made = 0

    def outcomes(self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool) -> Generator[Outcome, None, None]:
        """Runs the inputs, and yields the outcome of each as soon as all of its windows are read."""
        for found in self.documents(rows, ahead=ahead):
            yield found if isinstance(found, Outcome) else self._outcome(found)

    def documents(
        self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool
    ) -> Generator[Outcome | _Document, None, None]:
        """The documents that are read, and the outcomes of inputs that are none."""
        more = True
        while more or self._queue:
            for outcome in self._job.outcomes(self._windows_of(rows), ahead=ahead):
                known = self._open.pop(outcome.number, None)
                if known is None:
                    yield outcome._replace(number=-1 - outcome.number)
                    continue
                document, window = known
                document.read.append((outcome.number, window, outcome))
                document.waiting -= 1
                if document.waiting:
                    continue
                for _, window, each in sorted(document.read, key=lambda each: each[0]):
                    self._add(document, window, each)
                document.read.clear()
                if not self._read_on(document):
                    yield document
            more = False
            if self._cancel is not None and self._cancel.is_set():
                return

    def _windows_of(self, rows: Iterator[tuple[int, InputRow]]) -> Iterator[tuple[int, InputRow]]:
        """The windows of the inputs. Those that are read again come first; what is no document has a number below 0."""
        while True:
            if self._queue:
                yield self._queue.popleft()
                continue
            following = next(rows, None)
            if following is None:
                return
            number, row = following
            text = None if row.error else row.fields.get(self._field)
            if not isinstance(text, str) or not text.strip():
                yield -1 - number, row
                continue
            own = row.document if row.document is not None and self._field == "text" else document_of(text)
            reading = Reading(own, self._windows, self._schema)
            self._read_on(_Document(row, number, reading, costs_of(own.text, reading.units, self._count)))

    def _read_on(self, document: _Document) -> bool:
        """Queues the windows of what is left of a document. Is there anything to read again?"""
        reading, row = document.reading, document.row
        if document.passes:
            before, document.left = len(document.left), reading.missing()
            if len(document.left) == before:
                return False
        document.passes += 1
        if document.passes > self._windows.passes or not document.left:
            return False
        for numbers in cut(reading.units, document.costs, document.left, self._windows):
            window = window_of(reading.document.text, reading.units, numbers)
            self._made += 1
            self._open[self._made] = document, window
            fields = {**row.fields, self._field: window.text}
            self._queue.append((self._made, InputRow(f"{row.id} window {self._made}", fields, sample=row.sample)))
            document.waiting += 1
        return True

    def _add(self, document: _Document, window: Window, outcome: Outcome) -> None:
        document.tokens += outcome.tokens
        document.seconds += outcome.seconds
        reading, entry = document.reading, outcome.entry
        reading.windows += 1
        if "error" in entry:
            document.failed += 1
            reading.failures.append(entry["error"]["message"])
            return
        is_cut = entry["finish"] in CUT
        if is_cut:
            reading.failures.append(f"a window's value was cut short ({entry['finish']})")
        try:
            value = json.loads(outcome.text)
        except ValueError:
            document.failed += 1
            reading.failures.append("a window's value was cut short, and is no JSON")
            return
        details = Details(entry.get(PROBABILITIES, {}), entry.get(PLACES, {}))
        reading.add(window, value, details, is_cut=is_cut, unsure=entry.get("after_cut", ()))

    def value(self, document: _Document) -> tuple[Any, Mapping[str, Any]]:
        """The merged value, of its type, and what it was made of.

        Raises:
            OptionError: the type refuses the merged value.
        """
        data, made = document.reading.result()
        try:
            return self._target.parse(json.dumps(data)), made
        except ValueError as refusal:
            raise OptionError(f"the value merged from {document.reading.windows} windows: {refusal}") from refusal

    def _outcome(self, document: _Document) -> Outcome:
        row, reading = document.row, document.reading
        unread = [] if not reading.failures else [f"{reading.failures[0]} ({len(reading.failures)} of the windows)"]
        try:
            if document.failed == reading.windows:
                raise OptionError(f"no window has a value: {reading.failures[0]}")
            value, made = self.value(document)
        except StructgenError as error:
            return Outcome(row, document.number, failed_entry(row, error), document.tokens, document.seconds)
        unused = [each for each in reading.unused if each.score >= MISSED]
        complete = not unused and not reading.document.unread
        entry: Entry = {**row.names, **row.carried(self._keep), "value": to_jsonable_python(value)}
        entry |= {"finish": "cut" if unread and not complete else "complete", "complete": complete}
        entry |= {"unused": to_jsonable_python(unused)} if unused else {}
        entry |= {"conflicts": to_jsonable_python(reading.conflicts)} if reading.conflicts else {}
        entry |= {"unread": list(reading.document.unread)} if reading.document.unread else {}
        entry |= self._told(document, made)
        return Outcome(row, document.number, entry, document.tokens, document.seconds, value)

    def _told(self, document: _Document, made: Mapping[str, Any]) -> Entry:
        """The columns."""
        reading, details = document.reading, document.reading.details(made)
        probabilities = {pointer: each for pointer, each in details.probabilities.items() if each is not None}
        least = dict[str, float]()
        for pointer, each in probabilities.items():
            name = "value" if is_array(self._schema) else pointer.split("/")[1]
            least[name] = min(least.get(name, 1.0), each)
        told: Entry = {
            PLACES: places_of(details.places, reading.document),
            SOURCE: {"": reading.document.text}, PROBABILITIES: probabilities, CONFIDENCE: least,
            "tokens": document.tokens, "seconds": round(document.seconds, 3),
        }  # fmt: skip
        if SOURCE in self._columns and reading.document.pages:
            told[LAYOUT] = reading.document.to_dict()
        return {name: each for name, each in told.items() if name in (*self._columns, LAYOUT)}


def extract(
    model: Any,
    document: str | os.PathLike[str],
    schema: TypeForm[list[T]],
    *,
    windows: Windows | None = None,
    prompt: str | None = None,
    **options: Any,
) -> Extracted[T]:
    """Makes a list from a document of any length, and says which lines of the document are not in it.

        found = sg.extract(model, Path("report.pdf"), list[Customer])
        found.values, found.complete, found.unused

    The document is read in windows of whole lines, and the rows of windows that overlap are merged by their place. A
    line counts as used by a value if it says all of its texts and numbers, in the same words; each value uses one line.
    Members of an enumeration, dates and true or false may be written in other words. What is left is read again.

    Args:
        model: as for `generate`.
        document: a text: plain, Markdown, or a page of HTML; or the path of a file of text, HTML, PDF or Word.
        schema: `list[Item]`, or a JSON Schema of an array.
        windows: how the document is cut, merged and read again.
        prompt: a text with `{text}` where the window comes. Without it, the model is asked for a list; one with a chat
            template gets a message with the schema.
        options: those of `extract_many`, without `out` and `resume`.

    Raises:
        RequestError: an option or the schema cannot work, the schema is of no list, or the file cannot be read.
    """
    require("out" not in options and "resume" not in options, "out", "given", "none: the result is in memory")
    windows, row = windows or Windows(), _row_of(document, options.get("encoding"))
    owner: Any = model if isinstance(model, Remote) else as_model(model, options.get("tokenizer"))
    asked = {"prompt": prompt} if prompt is not None else own_prompt(owner)
    job, call = JobOptions.split({"limits": window_limits(windows), **asked, **options, "windows": windows})
    running = WindowedJob(owner, schema, job, call)
    require(is_array(running._schema), "schema", schema, "a list, as list[Item]")
    for found in running.documents(iter([(0, row)]), ahead=True):
        if isinstance(found, Outcome):
            break
        values, made = running.value(found)
        return found.reading.extracted(values, made)
    return Extracted([], [], [], [], row.document or Document(row.fields["text"]), 0, [])


def own_prompt(model: Any) -> dict[str, Any]:
    """The options of a prompt: for a model with a chat template, a message that shows the schema."""
    chats = isinstance(model, Remote) or getattr(model.tokenizer, "chat_template", None) is not None
    return {"prompt": PROMPT.removesuffix("\nJSON:\n") if chats else PROMPT, "prompt_schema": chats, "chat": chats}


def _row_of(document: Any, encoding: str | None) -> InputRow:
    """The input that a text, or the path of a file, is."""
    if not isinstance(document, str):
        require(isinstance(document, os.PathLike), "document", document, "a text, or the path of a file")
        rows = list(rows_of_path(Path(document), encoding, None)[0])
        require(len(rows) == 1, "document", str(document), "the path of one document, not of rows")
        if rows[0].error:
            raise OptionError(f"document={str(document)!r}: {rows[0].error}")
        return rows[0]
    is_name = "\n" not in document and len(document) < 1000 and os.path.isfile(document)
    require(not is_name, "document", document, "a text; to read a file, pass Path(...)")
    return InputRow("document", {"text": document})
