"""`structgen extract`: a job over many inputs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import structgen as sg
from structgen.cli.interrupts import stopped_by_signals
from structgen.cli.named import object_of, schema_of
from structgen.cli.parameters import SCHEMA, Device, ModelName, with_options
from structgen.cli.terminal import errors, import_engine, one_line_errors, print_now, standard_input
from structgen.options import Limits, Sampling

INPUTS = (
    "A folder of documents (text, HTML, PDF, Word), one document, or a .jsonl, .csv, .tsv (or .gz) or .parquet file; "
    "- reads a text per line."
)
OUT = "JSON lines go there, or a table: .csv, .tsv, .parquet; without it to the standard output."
PROMPT = "A text with names of fields in braces, as {text}; @FILE reads it."
RESUME = "Go on where a run with this --out ended; with other limits, what they had cut short is made again."
COLUMN = (
    "What a result says in addition to its value: confidence, truncated, seed, tokens, seconds. Give it several times."
)


@with_options(sampling=Sampling, limits=Limits)
def extract(
    model: ModelName,
    inputs: Annotated[str, typer.Argument(help=INPUTS)],
    schema: Annotated[str, typer.Option(help=SCHEMA)],
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    prompt: Annotated[str | None, typer.Option(help=PROMPT)] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Send each prompt through the chat template.")] = False,
    prompt_schema: Annotated[bool, typer.Option("--prompt-schema", help="Append the schema to the prompt.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help=RESUME)] = False,
    keep: Annotated[list[str] | None, typer.Option(help="A field of the inputs to carry into the results.")] = None,
    column: Annotated[list[str] | None, typer.Option(help=COLUMN)] = None,
    html: Annotated[bool, typer.Option("--html", help="Also a page: each text with its quotes marked.")] = False,
    windows: Annotated[
        int | None, typer.Option(help="Read each input in windows of at most so many tokens, and merge their lists.")
    ] = None,
    several: Annotated[int, typer.Option(help="Values of each input; needs a temperature.")] = 1,
    banned: Annotated[
        list[str] | None, typer.Option(help="A text that must not be written; give it several times.")
    ] = None,
    guard: Annotated[
        list[str] | None, typer.Option(help="`module:name`, a guard that Python can import; give it several times.")
    ] = None,
    banned_pattern: Annotated[
        list[str] | None, typer.Option(help="A regular expression that no string may match; give it several times.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of files; UTF-8, or what a byte order mark says.")] = None,
    max_failures: Annotated[int | None, typer.Option(help="Inputs that may fail before the job ends.")] = None,
    escape_formulas: Annotated[
        bool, typer.Option(help="In CSV, write ' before texts that a spreadsheet would execute.")
    ] = True,
    progress: Annotated[bool, typer.Option(help="Show a bar.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first three prompts, and what the inputs are; run nothing.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Inputs that are decoded at once.")] = 64,
    device: Device = None,
    *,
    sampling: Sampling,
    limits: Limits,
) -> None:
    """Generate a value for each of many inputs.

    Exit code 2 where some inputs failed, else 3 where limits cut some values short, or lines of documents read in
    windows may be rows without a value, also in a run that this one continues; 130 where you stopped it.
    """
    import_engine()
    with one_line_errors(), stopped_by_signals() as stop:
        if html and out is None:
            raise sg.errors.OptionError("--html writes a page into the job's folder: give --out, too")
        wanted = schema_of(schema)
        text = prompt_text(prompt)
        job: dict[str, Any] = {
            "prompt": text, "chat": chat, "prompt_schema": prompt_schema, "resume": resume, "batch_size": batch_size,
            "limits": None if windows and limits == Limits() else limits, "sampling": sampling, "several": several,
            "windows": None if windows is None else sg.Windows(windows),
            "columns": [*(column or ()), *(["places", "source"] if html else [])],
            "progress": progress and sys.stderr.isatty(), "keep": keep or (), "banned": banned or (),
            "guards": _guards(wanted, guard or (), banned_pattern or ()),
            "encoding": encoding, "max_failures": max_failures, "cancel": stop, "escape_formulas": escape_formulas,
            "on_entry": None if out is not None else lambda entry: print_now(json.dumps(entry, ensure_ascii=False)),
        }  # fmt: skip
        if dry_run:
            _preview(inputs, text, encoding)
        else:
            _run(sg.load(model, device=device), inputs, wanted, out, job)


def prompt_text(given: str | None) -> str | None:
    """The prompt of an option, which `@` and a name have read from a file."""
    return Path(given[1:]).read_text(encoding="utf-8") if given is not None and given[:1] == "@" else given


def _guards(schema: Any, named: Sequence[str], patterns: Sequence[str]) -> list[Any]:
    """The guards of the options. In JSON, patterns are searched in strings, since names are the schema's."""
    from structgen.decoding.prompts.targets import targets_of

    target = targets_of([schema], sg.Whitespace.SPACED, "schema")[0]
    scope = "strings" if target.is_json else "text"
    return [*map(object_of, named), *(sg.BannedPattern(pattern, scope=scope) for pattern in patterns)]


def _preview(inputs: str, prompt: str | None, encoding: str | None) -> None:
    from structgen.batch_jobs.inputs import inputs_of_lines
    from structgen.batch_jobs.job import job_inputs, preview
    from structgen.batch_jobs.job_options import JobOptions

    job = JobOptions(prompt=prompt, encoding=encoding)
    source = inputs_of_lines(standard_input().buffer) if inputs == "-" else inputs
    for line in preview(job_inputs(source, None, job), prompt):
        print_now(line)


def _run(model: Any, inputs: str, schema: Any, out: Path | None, job: dict[str, Any]) -> None:
    from structgen.batch_jobs.inputs import inputs_of_lines

    source = inputs_of_lines(standard_input().buffer) if inputs == "-" else inputs
    try:
        report = sg.extract_many(model, source, schema, out=out, **job)
    except sg.Stopped as stopped:
        errors.print(str(stopped).replace("resume=True", "--resume"), markup=False, highlight=False)
        raise typer.Exit(130 if job["cancel"].is_set() else 1) from stopped
    told = "" if out is None else f"; {out}.job/report.html describes them"
    told += ", quotes.html shows them in their texts" if told and "source" in job["columns"] else ""
    errors.print(f"{report}, {report.seconds:.1f} s{told}", markup=False, highlight=False, soft_wrap=True)
    if report.failed or report.cut or report.incomplete or report.skipped_cut:
        raise typer.Exit(2 if report.failed else 3)
