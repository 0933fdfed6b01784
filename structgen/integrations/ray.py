"""Batch jobs on Ray Data: actors with one model each, on one machine or many."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from structgen.arguments import is_number, options_with, require, require_count
from structgen.batch_jobs import Extraction, InputRow, extract_many
from structgen.batch_jobs.inputs import Inputs
from structgen.batch_jobs.job import collect, job_inputs
from structgen.batch_jobs.job_files import JobFiles, Outcome, failed_entry
from structgen.batch_jobs.job_options import JobOptions
from structgen.batch_jobs.rows import Prompt, source_of
from structgen.batch_jobs.settings import job_settings
from structgen.errors import OptionError, not_installed
from structgen.models.loading import load
from structgen.models.model import Model
from structgen.patience import CancelEvent

COSTS = "tokens", "seconds"
"""The columns that an actor has its job make."""
BLOCKS = 8
"""The number of parts of the inputs for each actor, so that none waits long for the last one."""


def extract_on_ray(
    model: str | Callable[[], Model],
    inputs: Any,
    schema: Any = None,
    *,
    out: str | PathLike[str],
    actors: int = 2,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    rows_per_call: int = 64,
    prompt: Prompt = None,
    chat: bool = False,
    resume: bool = False,
    progress: bool = False,
    max_failures: int | None = None,
    **options: Any,
) -> Extraction[Any]:
    """`extract_many` on the actors of Ray Data.

        extract_on_ray("Qwen/Qwen3-0.6B", "letters/", Person, prompt=PROMPT, out="people.jsonl", actors=4, num_gpus=1)

    The results and the failed inputs are written on this machine as soon as a call of an actor is over, to the same
    files as by `extract_many`: either can continue where the other was ended. Call `ray.init` before to choose the
    cluster; otherwise Ray starts one on this machine.

    Args:
        model: what `load` takes, or a function that loads a model; each actor calls it once.
        inputs, schema, prompt, chat, resume, progress, max_failures: as for `extract_many`. All inputs are read before
            the first goes to an actor; values that JSON does not have, as dates, come to a `prompt` function as texts.
        out: the file for the results.
        actors: the number of actors.
        num_cpus, num_gpus: the share of each actor, as Ray counts it.
        rows_per_call: the number of inputs that an actor is given at once.
        options: further options of `extract_many`.

    Raises:
        OptionError: Ray is not installed, or an argument cannot work. An option or a schema that can work for no input
            is raised by the first actor, in Ray's own error.
    """
    try:
        import ray.data
    except ImportError as missing:
        raise not_installed("extract_on_ray needs Ray", "ray") from missing
    for name, count in (("actors", actors), ("rows_per_call", rows_per_call)):
        require_count(name, count, 1)
    require_share(model, num_cpus, num_gpus)
    job, call = JobOptions.split({
        "prompt": prompt, "chat": chat, "resume": resume, "progress": progress, "max_failures": max_failures, **options,
    })  # fmt: skip
    rows = job_inputs(inputs, out, job)
    files = JobFiles(out, job_settings(model, schema, job, call), resume=resume, escape_formulas=job.escape_formulas)
    of_driver = options_with(JobOptions, "driver")
    arguments = {"prompt": prompt, "chat": chat, "batch_size": rows_per_call, **options}
    constructor = model, schema, {name: each for name, each in arguments.items() if name not in of_driver}
    share = {"num_cpus": num_cpus, "num_gpus": num_gpus, "compute": ray.data.ActorPoolStrategy(size=actors)}
    mapping = {"fn_constructor_args": constructor, "batch_size": rows_per_call, **share}
    return collect(partial(_outcomes, ray.data, mapping, BLOCKS * actors, job), rows, files, job)


def _outcomes(
    data: Any, mapping: dict[str, Any], blocks: int, job: JobOptions, rows: Iterator[tuple[int, InputRow]], *,
    ahead: bool,
) -> Generator[Outcome, None, None]:  # fmt: skip
    """The outcomes of inputs, see `ExtractionJob.outcomes`. All inputs are read before the first goes to an actor.

    Args:
        data: the module `ray.data`.
        mapping: how the actors are made.
        blocks: the number of parts of the inputs.
    """
    running, fine = {}, []
    for number, row in rows:
        error, given = row.error, "null"
        try:
            given = json.dumps(row.given, default=int)
        except (TypeError, ValueError):
            error = "on Ray, a prompt is a text, token ids, or chat messages of JSON, without images as objects"
        if error:
            yield Outcome(row, number, failed_entry(row, OptionError(error)))
            continue
        running[row.id] = row, number
        fine.append({"row": json.dumps(dict(row.fields), default=str), "id": row.id, "given": given})
    if not fine or _is_set(job.cancel):
        return
    dataset = data.from_items(fine, override_num_blocks=min(len(fine), blocks))
    for made in dataset.map_batches(Extractor, **mapping).iter_rows():
        entry, (tokens, seconds) = json.loads(made["entry"]), json.loads(made["costs"])
        row, number = running[entry["id"]]
        own = {"input": source_of(row)} if "error" in entry else row.carried(job.keep)
        yield Outcome(row, number, row.names | own | entry | own, tokens, seconds)
        if _is_set(job.cancel):
            return


def _is_set(cancel: CancelEvent | None) -> bool:
    return cancel is not None and cancel.is_set()


def require_share(model: Any, num_cpus: float, num_gpus: float) -> None:
    """Refuses a model that no actor can load, and shares that Ray cannot count."""
    loads = isinstance(model, str) or callable(model)
    require(loads, "model", model, "a folder, an id, or a function that loads a model")
    for name, share in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        require(is_number(share, 0), name, share, "a number of at least 0")


def loaded(model: str | Callable[[], Model]) -> Model:
    """Loads the model of an actor."""
    return load(model) if isinstance(model, str) else model()


class Extractor:
    """An actor: it loads a model once, and makes an entry of each row of a batch.

    Use it in a pipeline of your own: `dataset.map_batches(Extractor, fn_constructor_args=(model, schema, options))`.
    Rows of the dataset need a column `row`, the JSON text of fields with an `id` (or columns `id` and `given` next to
    it: a prompt of chat messages or token ids as JSON, or null). The result has a column `entry`, and a column `costs`
    with `[tokens, seconds]` of each.

    Args:
        model: what `load` takes, or a function that loads a model.
        schema, options: as for `extract_many`.
    """

    def __init__(self, model: str | Callable[[], Model], schema: Any, options: dict[str, Any]) -> None:
        self._model = loaded(model)
        self._schema, self._options = schema, options
        self._columns = tuple(options.get("columns", ()))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Makes the entries of some rows."""
        rows: Any = [json.loads(row) for row in batch["row"]]
        if "given" in batch:
            columns = zip(batch["id"], rows, map(json.loads, batch["given"]), strict=True)
            rows = Inputs((InputRow(str(id_), fields, given) for id_, fields, given in columns), len(rows))
        options = {**self._options, "columns": tuple(dict.fromkeys((*self._columns, *COSTS)))}
        entries = extract_many(self._model, rows, self._schema, **options).results
        costs = [json.dumps([entry.get(name, 0) for name in COSTS]) for entry in entries]
        for entry in entries:
            for name in set(COSTS) - set(self._columns):
                entry.pop(name, None)
        texts = [json.dumps(entry) for entry in entries]
        return {"entry": np.array(texts, dtype=object), "costs": np.array(costs, dtype=object)}
