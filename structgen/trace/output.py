"""Where a report goes: a file, or a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from structgen.errors import OptionError, quoted
from structgen.trace.page import page
from structgen.trace.report import Report
from structgen.trace.terminal import view


def write(report: Report, path: Path) -> None:
    """Writes a page (`.html`), or data that `Report.read` takes (`.json`).

    Raises:
        OptionError: the file's name ends otherwise.
    """
    kind = path.suffix.lower()
    if kind not in (".html", ".htm", ".json"):
        raise OptionError(f"report {quoted(str(path))}: expected a name that ends in .html or .json")
    path.write_text(report.model_dump_json() if kind == ".json" else page(report), encoding="utf-8")


def show(report: Report, console: Console | None = None) -> None:
    """Prints a report in colours.

    Args:
        console: of rich; the standard output by default.
    """
    (console or Console(file=sys.stdout)).print(view(report))
