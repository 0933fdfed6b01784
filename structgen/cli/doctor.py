"""`structgen doctor`: what is installed, how long kernels take to compile, whether a value comes out."""

from __future__ import annotations

import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from structgen.errors import OptionError, StructgenError, VocabularyError
from structgen.waiting import waiting

PACKAGES = ("structgen", "torch", "transformers", "numpy", "numba", "pydantic", "jsonschema")


def examine(console: Console) -> bool:
    """Prints the findings; True when a constrained value came out as it should."""
    table = Table("what", "found", title="structgen doctor")
    table.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    for package in PACKAGES:
        table.add_row(package, _version_of(package))
    with waiting("importing torch"):
        table.add_row("devices", _devices())
    with waiting("generating a value, and using every kernel once"):
        seconds, again, outcome = _one_value()
    table.add_row("first value, kernels compiled or loaded", f"{seconds:.2f} s")
    table.add_row("second value", f"{again * 1e3:.1f} ms")
    table.add_row("constrained value", outcome or "as expected")
    console.print(table)
    return outcome is None


def examine_format(console: Console, source: str) -> bool:
    """Prints how a model writes calls and thinking; True when its chat template tells.

    Args:
        source: a folder or an id on the Hugging Face hub, of which only the tokenizer is read; a GGUF or Jinja file; or
            `demo`, the bundled model.
    """
    with waiting("importing torch and transformers"):
        from structgen.chat import call_format
        from structgen.cli.models import is_demo, load_model
        from structgen.vocabulary import Vocabulary

    path = Path(source)
    try:
        with waiting("reading the chat template"):
            if path.suffix == ".gguf" or is_demo(source):
                model = load_model(source)
                format_ = call_format(model.tokenizer, model.vocabulary)
            elif path.is_file():
                format_ = call_format(path.read_text(encoding="utf-8"))
            else:
                from transformers import AutoTokenizer

                tokenizer: Any = AutoTokenizer.from_pretrained(source)
                format_ = call_format(tokenizer, Vocabulary.from_tokenizer(tokenizer))
    except (OptionError, VocabularyError) as refusal:
        console.print(str(refusal), markup=False)
        return False
    table = Table("part", "as the chat template has it", title="call format")
    for part, text in format_.described():
        table.add_row(Text(part), Text(text))
    console.print(table)
    return True


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _devices() -> str:
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return ", ".join(["cpu", *names])


def _one_value() -> tuple[float, float, str | None]:
    """Seconds to a first and to a second value, and what was wrong with them."""
    from structgen.api import generate
    from structgen.compile_ahead import SCHEMA, VALUE, use_kernels
    from structgen.testing import scripted

    model = scripted(json.dumps(VALUE, ensure_ascii=False))
    times: list[float] = []
    try:
        for _ in range(2):
            began = time.perf_counter()
            value = generate(model, "doctor", schema=SCHEMA)
            times.append(time.perf_counter() - began)
        use_kernels()
    except StructgenError as error:
        return 0.0, 0.0, f"{type(error).__name__}: {error}"
    return times[0], times[1], None if value == VALUE else f"expected {VALUE}, found {value}"
