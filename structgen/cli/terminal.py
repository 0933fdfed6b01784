"""What all commands have in common: what they read and print, and how errors of the user's input are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

from structgen.console import SafeConsole, printable_lines
from structgen.errors import OptionError, StructgenError, excerpt
from structgen.waiting import waiting

errors = SafeConsole(stderr=True)


def import_engine() -> None:
    """Imports torch and transformers under a status line: it takes seconds."""
    with waiting("importing torch and transformers"):
        import structgen.api  # noqa: F401 - the commands import names from it


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns errors of the user's input, of files and of pipes into one line and exit code 1."""
    try:
        yield
    except BrokenPipeError as error:  # who reads has all that they wanted
        raise typer.Exit(1) from error
    except (StructgenError, OSError, UnicodeError, RecursionError) as error:
        ours = isinstance(error, StructgenError)
        message = f"{type(error).__name__}: {error if ours else excerpt(error)}"
        errors.print(message.replace("\n", " "), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def standard_input() -> TextIO:
    if sys.stdin is None:
        raise OptionError("-: the standard input is closed; pass the text itself, or a file")
    return sys.stdin


def print_now(text: str) -> None:
    """Writes at once, so that a full or closed output is an error now, and not when Python ends.

    A terminal gets no control characters of the text.
    """
    try:
        typer.echo(printable_lines(text) if sys.stdout is not None and sys.stdout.isatty() else text)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
