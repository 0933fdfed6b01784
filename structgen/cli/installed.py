"""`structgen doctor` without a model: the versions that are installed, and whether a constrained value comes out.

It reports before it imports torch, so it also helps where torch or transformers are missing or broken.
"""

from __future__ import annotations

import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.table import Table

from structgen.errors import DISTRIBUTION, StructgenError, excerpt
from structgen.kernels import COMPILED, HOW_TO_COMPILE
from structgen.waiting import waiting

PACKAGES = (DISTRIBUTION, "torch", "transformers", "numpy", "pydantic")

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "n": {"type": "integer", "minimum": 3},
        "word": {"type": "string", "pattern": "^[^\\s]+$", "maxLength": 20},
        "either": {"anyOf": [{"type": "string", "pattern": "^[ab]"}, {"type": "string", "maxLength": 2}]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "numbers": {"type": "array", "items": {"type": "integer"}, "maxItems": 1000},
    },
    "required": ["name", "n", "word", "either", "tags"],
}
VALUE: dict[str, Any] = {"name": "Zoë", "n": 42, "word": "é", "either": "b", "tags": ["a", "b"], "numbers": [1, 2]}
"""A schema of most kinds of texts, and one of its values."""


def examine(console: Console) -> bool:
    """Prints versions and times. Returns True if a constrained value came out as it should."""
    table = Table("what", "found", title="structgen doctor")
    table.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    for package in PACKAGES:
        table.add_row(package, _version_of(package))
    try:
        with waiting("importing torch and transformers"):
            devices = _devices()
    except (ImportError, OSError) as error:  # OSError: torch is there, but one of its libraries is not
        fault = f"not generated: {excerpt(error)}"
    else:
        table.add_row("devices", ", ".join(devices))
        with waiting("generating a value"):
            seconds, again, fault = _one_value()
        table.add_row("first value", f"{seconds:.2f} s")
        table.add_row("second value", f"{again * 1e3:.1f} ms")
    table.add_row("kernels", "compiled" if COMPILED else HOW_TO_COMPILE)
    table.add_row("constrained value", fault or "as expected")
    console.print(table)
    return not fault


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _devices() -> list[str]:
    """Imports the engine, and returns the names of the devices that torch can use."""
    import torch

    import structgen.api  # noqa: F401 - imports all that generating a value needs

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def _one_value() -> tuple[float, float, str]:
    """Returns the seconds to a first and to a second value, and what was wrong with them (empty: nothing)."""
    from structgen import api
    from structgen.testing import scripted

    model = scripted(json.dumps(VALUE, ensure_ascii=False))
    times: list[float] = []
    try:
        for _ in range(2):
            began = time.perf_counter()
            value = api.generate(model, "doctor", schema=SCHEMA)
            times.append(time.perf_counter() - began)
    except StructgenError as error:
        return 0.0, 0.0, f"{type(error).__name__}: {error}"
    return times[0], times[1], "" if value == VALUE else f"expected {VALUE}, found {value}"
