"""What a command's schema argument names: a file, or a type in a module."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import typer

from structgen.cli.registries import read_schema
from structgen.errors import excerpt


def schema_of(given: str) -> Any:
    """A JSON Schema from a file, or a type from a module."""
    module, colon, name = given.partition(":")
    if not colon or Path(given).exists() or os.sep in module:
        return read_schema(Path(given))
    sys.path.insert(0, os.getcwd())
    try:
        named: Any = importlib.import_module(module)
        for part in name.split("."):
            named = getattr(named, part)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{given}: {excerpt(error)}") from error
    finally:
        sys.path.remove(os.getcwd())
    return named
