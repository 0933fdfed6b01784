"""`structgen trace`: a run with its report, or a report that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structgen import api
from structgen.cli.models import load_model
from structgen.errors import OptionError, quoted
from structgen.trace.report import Report


def traced(model: str, prompt: Any, schema: Any, device: str | None, **options: Any) -> Report:
    """Generates a value, and tells what happened."""
    run: api.Generation[Any] = api.generate(load_model(model, device), prompt, schema, details=True, **options)
    return run.report()


def saved(file: str) -> Report:
    """A report from the file that it was written to."""
    if not file.lower().endswith(".json"):
        raise OptionError(f"{quoted(file)}: give a prompt for a model, or a trace that was saved as FILE.json")
    return Report.read(Path(file))
