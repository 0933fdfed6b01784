"""The model that a command's first argument names, and what `structgen trace` has it do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structgen import api
from structgen.errors import OptionError, quoted
from structgen.trace.report import Report

DEMO = "demo"


def is_demo(name: str) -> bool:
    """Is this the bundled model, and not a folder of that name?"""
    return name == DEMO and not Path(DEMO).exists()


def load_model(name: str, device: str | None = None) -> api.Model:
    """Loads a model.

    Args:
        name: a folder, an id on the Hugging Face hub, or `demo` where no folder is called so.
    """
    if is_demo(name):
        from structgen.demo import load_demo

        return api.Model.of(*load_demo())
    return api.load(name, device=device)


def traced(model: str, prompt: Any, schema: Any, device: str | None, **options: Any) -> Report:
    """Generates a value, and tells what happened."""
    run: api.Generation[Any] = api.generate(load_model(model, device), prompt, schema, details=True, **options)
    return run.report()


def saved(file: str) -> Report:
    """A report from the file that it was written to."""
    if not file.lower().endswith(".json"):
        raise OptionError(f"{quoted(file)}: give a prompt for a model, or a trace that was saved as FILE.json")
    return Report.read(Path(file))
