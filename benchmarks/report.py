"""What the benchmarks share: where data and results are, the line about the machine, tables and pages."""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import lzma
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("STRUCTGEN_DATA", ROOT.parent / "shared" / "data"))
ELSEWHERE = os.environ.get("STRUCTGEN_RESULTS")
RESULTS = Path(ELSEWHERE or ROOT / "benchmarks" / "results")
IMAGES = Path(ELSEWHERE or ROOT / "docs" / "images")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser of options whose help is the module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def machine() -> dict[str, str]:
    """Hardware and versions of this run."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "transformers": version("transformers"),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def setting(*packages: str, **more: Any) -> str:
    """One line about the machine, the versions of further packages, and whatever else decides the figures."""
    about: dict[str, Any] = {**machine(), "load": round(os.getloadavg()[0], 1)}
    for package in packages:
        with suppress(PackageNotFoundError):
            about[package] = version(package)
    return ", ".join(f"{name} {value}" for name, value in {**about, **more}.items())


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, text: int = 1) -> list[str]:
    """The lines of a Markdown table.

    Args:
        text: how many columns on the left hold text; the others hold numbers.
    """
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * text + " ---: |" * (len(head) - text)]
    return lines + ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


def bootstrap(values: Sequence[float], of: Callable[..., Any] = np.median, rounds: int = 2000) -> list[float]:
    """The median, or the mean, of the values that are numbers, and the ends of its 95% interval, drawn by seed 0."""
    known = np.asarray([value for value in values if not np.isnan(value)])
    if not known.size:
        return [float("nan")] * 3
    drawn = np.random.default_rng(0).integers(known.size, size=(rounds, known.size))
    low, high = np.quantile(of(known[drawn], axis=1), (0.025, 0.975))
    return [float(of(known)), float(low), float(high)]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write(name: str, lines: Iterable[str]) -> None:
    """Writes results/NAME.md."""
    (RESULTS / f"{name}.md").write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def inserted(page: str, text: str, mark: str) -> str:
    """The page with `text` between its two marks. Raises ValueError when it has none."""
    before, begin, rest = page.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->\n")
    if not begin or not end:
        raise ValueError(f"the page has no <!-- {mark} --> and <!-- /{mark} --> lines")
    return f"{before}{begin}{text}\n{end}{after}"


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, which may be packed by xz."""
    packed = path.read_bytes()
    text = lzma.decompress(packed) if path.suffix == ".xz" else packed
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """A copy of a tokenizer's folder with its .xz files unpacked, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="tokenizer-") as name:
        target = Path(name)
        for file in folder.iterdir():
            if file.suffix == ".xz":
                with lzma.open(file) as packed, (target / file.stem).open("wb") as plain:
                    shutil.copyfileobj(packed, plain)
            elif file.is_file():
                shutil.copy(file, target)
        yield target


def megabytes(process: int | str = "self") -> float:
    """Resident memory of a process, of this one once the C library has given back the pages that it has free."""
    if process == "self":
        with suppress(AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024
