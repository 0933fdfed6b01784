"""`structgen evaluate`: how often a model is right on rows whose values are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import structgen as sg
from structgen.cli.extracting import INPUTS, PROMPT, RESUME, prompt_text
from structgen.cli.interrupts import stopped_by_signals
from structgen.cli.named import schema_of
from structgen.cli.parameters import SCHEMA, Device, ModelName, with_options
from structgen.cli.terminal import errors, import_engine, one_line_errors, print_now
from structgen.options import Limits, Sampling

EXPECTED = "The field with the right value; give it several times for columns that are its members."


@with_options(sampling=Sampling, limits=Limits)
def evaluate(
    model: ModelName,
    rows: Annotated[str, typer.Argument(help=INPUTS)],
    schema: Annotated[str, typer.Option(help=SCHEMA)],
    out: Annotated[
        Path | None, typer.Option(help="The file for the rows; a page of mistakes is written next to it.")
    ] = None,
    expected: Annotated[list[str] | None, typer.Option(help=EXPECTED)] = None,
    prompt: Annotated[str | None, typer.Option(help=PROMPT)] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Send each prompt through the chat template.")] = False,
    prompt_schema: Annotated[bool, typer.Option("--prompt-schema", help="Append the schema to the prompt.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help=RESUME)] = False,
    group: Annotated[str | None, typer.Option(help="The field of what rows have in common, as a document.")] = None,
    against: Annotated[Path | None, typer.Option(help="The --out of an earlier evaluation of the same rows.")] = None,
    risk: Annotated[
        float | None, typer.Option(help="Say how sure rows must be for at most this share to be wrong.")
    ] = None,
    several: Annotated[int, typer.Option(help="Values of each row; needs a temperature.")] = 1,
    batch_size: Annotated[int, typer.Option(help="Rows that are decoded at once.")] = 64,
    device: Device = None,
    *,
    sampling: Sampling,
    limits: Limits,
) -> None:
    """Generate a value for each row, and print for each field how often it is the expected one."""
    from structgen.evaluating import Evaluation

    import_engine()
    with one_line_errors(), stopped_by_signals() as stop:
        wanted, names = schema_of(schema), expected or ["expected"]
        named: Any = names[0] if len(names) == 1 else names
        before = None if against is None else Evaluation.read(against, wanted, expected=named, group=group)
        result = sg.evaluate(
            sg.load(model, device=device), rows, wanted, expected=named, prompt=prompt_text(prompt), group=group,
            out=out, chat=chat, prompt_schema=prompt_schema, resume=resume, several=several, batch_size=batch_size,
            limits=limits, sampling=sampling, cancel=stop,
            progress=sys.stderr.isatty(),
        )  # fmt: skip
        print_now(str(result))
        if before is not None:
            print_now(f"\nagainst {against}:\n{before.compare(result)}")
        if risk is not None:
            review = result.review(risk)
            told = f"{review.coverage:.0%} of the rows may be taken without a look"
            print_now(f"\n{told}: those whose least sure scalar has at least {review.threshold:.4g}")
        if out is not None:
            errors.print(f"{out}.job/mistakes.html shows what is wrong", markup=False, highlight=False, soft_wrap=True)
