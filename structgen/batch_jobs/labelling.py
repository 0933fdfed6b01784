"""Labels of many inputs: `classify` as a job, with files, resume and failures that are set aside."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic_core import to_jsonable_python

from structgen.arguments import flag_of, require
from structgen.batch_jobs.columns import CONFIDENCE
from structgen.batch_jobs.job import Extraction, collect, job_inputs
from structgen.batch_jobs.job_files import Entry, JobFiles, Outcome, failed_entry
from structgen.batch_jobs.job_options import JobOptions
from structgen.batch_jobs.rows import InputRow, Prompt
from structgen.batch_jobs.settings import job_settings
from structgen.classifying import Calibration, Classification, Classifier
from structgen.decoding.call_options import require_known
from structgen.errors import StructgenError
from structgen.given_prompts import PlainText
from structgen.models.model import as_model
from structgen.patience import CancelEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LabelOptions(TypedDict, total=False):
    """The options of `classify_many` that are those of `extract_many`."""

    id: str | None
    keep: bool | Sequence[str] | None
    encoding: str | None
    max_failures: int | None
    cancel: CancelEvent | None
    on_entry: Callable[[dict[str, Any]], object] | None
    progress: bool | None
    escape_formulas: bool | None
    batch_size: int | None


def classify_many(
    model: Any,
    inputs: Any,
    labels: Any,
    *,
    prompt: Prompt = None,
    multi: bool | None = False,
    calibration: Calibration | None = None,
    tokenizer: Any = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool | None = False,
    **options: Unpack[LabelOptions],
) -> Extraction[Classification[Any]]:
    """Labels each of many inputs, with the probability of every label.

        classify_many(model, "reviews.csv", ["positive", "negative"], prompt="{text}\\nMood:", out="moods.csv")

    It is `classify` for inputs of `extract_many`: an input that is empty, null or too long is set aside with its error.

    Args:
        model, labels, multi, calibration, tokenizer: as for `classify`.
        inputs, out, resume, options: as for `extract_many`; of its options `id`, `keep`, `encoding`, `max_failures`,
            `cancel`, `on_entry`, `progress`, `escape_formulas` and `batch_size`, the inputs that are read together.
        prompt: a text with names of fields in braces, as `extract_many` takes it, sent as a message of the user if the
            model has a chat template; or a function from the fields to a prompt. The label comes right after it. None
            asks for the label of the field `text`. With `multi`, None.

    Returns:
        Counts and results. The lines have the label in `value` (a list of labels with `multi`), its probability in
        `confidence`, and `distribution` and `mass` as in `Classification`; `values` has the `Classification` of each.

    Raises:
        OptionError: as for `classify` and `extract_many`. Stopped: as for `extract_many`.
    """
    require_known(options, LabelOptions.__annotations__)
    resume, multi = flag_of("resume", resume), flag_of("multi", multi)
    require(not resume or out is not None, "resume", resume, "out= with it: only a job with files can be resumed")
    require(not multi or prompt is None, "prompt", prompt, "None with multi=True: each label has a question of its own")
    owner, given = as_model(model, tokenizer), {**options, "prompt": prompt, "resume": resume}
    job, call = JobOptions.split(given)
    running = _LabelJob(owner, labels, job, call.batch_size, calibration, multi=multi)
    rows = job_inputs(inputs, out, job)
    described: Any = labels if isinstance(labels, Mapping) else list(running.names.values())
    asked = {"labels": described, "multi": multi, "calibration": calibration and asdict(calibration)}
    settings = job_settings(owner, asked, job, call)
    files = None if out is None else JobFiles(out, settings, resume=resume, escape_formulas=job.escape_formulas)
    return collect(running.outcomes, rows, files, job)


class _LabelJob:
    """A running job.

    Attributes:
        names: by label, its text.
    """

    def __init__(
        self, owner: Any, labels: Any, job: JobOptions, size: int, calibration: Calibration | None, *, multi: bool
    ) -> None:
        self._job, self._size, self._multi = job, size, multi
        self._prompts = list[Any]()  # of the inputs that are read together, where a function makes them
        make: Any = None if job.prompt is None else "{text}"
        if callable(job.prompt):
            make = lambda place: self._prompts[int(place)]  # noqa: E731 - the text of an input is its place
        self._classifier = Classifier(owner, labels, make, calibration, multi=multi)
        self.names = {label: name for name, label in self._classifier.values.items()}

    def outcomes(self, rows: Iterator[tuple[int, InputRow]], *, ahead: bool) -> Generator[Outcome, None, None]:
        """Labels the inputs, some at a time."""
        cancel = self._job.cancel
        while new := list(islice(rows, self._size if ahead else 1)):
            fine = list[tuple[int, InputRow]]()
            self._prompts = []
            for number, row in new:
                try:
                    self._prompts.append(row.prompt(self._job.prompt))
                    fine.append((number, row))
                except StructgenError as error:
                    yield Outcome(row, number, failed_entry(row, error))
            made = callable(self._job.prompt)
            texts: list[Any] = [str(place) for place in range(len(fine))]
            if not made:
                texts = [str(each) if isinstance(each, PlainText) else each for each in self._prompts]
            for (number, row), found in zip(fine, self._classifier.results(texts, "text"), strict=True):
                if isinstance(found, StructgenError):
                    yield Outcome(row, number, failed_entry(row, found))
                else:
                    yield Outcome(row, number, self._entry(row, found), value=found)
            if cancel is not None and cancel.is_set():
                return

    def _entry(self, row: InputRow, found: Classification[Any]) -> Entry:
        value = to_jsonable_python(list(found.labels) if self._multi else found.label)
        return {
            **row.names, **row.carried(self._job.keep), "value": value, "finish": "complete",
            CONFIDENCE: {"value": round(found.probability, 4)},
            "distribution": {self.names[label]: round(chance, 6) for label, chance in found.distribution.items()},
            "mass": round(found.mass, 6),
        }  # fmt: skip
