r"""Checks, times and tunes the decode loop on whatever device torch has: one script for a machine lent for minutes.

    python -m benchmarks gpu [--minutes 9.5] [--parts checks race ...] [--size 1b|8b|tiny] [--out DIR]

Nothing is downloaded and no data is needed: random weights of a real configuration, and a vocabulary of 128,000
tokens made here. Without a device it runs a tiny model on the CPU, so that the script itself is tested everywhere.

Each part runs in a process of its own, with a limit: one that fails, hangs or loses the device is told, and the next
one runs. What was found so far is in DIR/gpu.md after each part, in the place of what an earlier run of the same part
found; so the parts may be run in several commands, the more important ones first. A part that would not be done in
the time that is left is left out, and named.

| part | what it does | about |
|---|---|---|
| checks | every fast path against its plain twin, in float32, where rounding decides no token | 2 min |
| race | our loop in its ways, transformers' `generate`, and the peers' masks in it, batch 1, 8 and 64 | 5 min |
| half | the checks that rounding leaves alone, in bfloat16 | 1 min |
| attention | torch's attention kernels while rows grow | 20 s |
| tune | AHEAD_SHARE, SPARE, CAPTURE_AFTER | 3 min |
| profile | where the time of a step goes | 30 s |
| failure | a capture that fails leaves the loop in order | 30 s |

Every check says "ok" or what is wrong; the exit status is 1 where one failed, or a part. Ratios stand beside the bounds
that they are judged by; a bound that is missed is no failure of the script. Peers run with one row; one that is not
installed, or fails, is named and left out.

A machine without a package index gets what it lacks as wheels, in a folder beside the repository's files. That is 13
wheels of 11 MB for Python 3.12 where torch, triton, transformers, numpy, rich, typer, regex and idna are there:

    needs='pydantic(_core)?|annotated-types|typing-inspection|jsonschema(-specifications)?|referencing|rpds-py|attrs'
    needs="$needs|lark|llguidance|xgrammar|apache-tvm-ffi"
    pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 \
        --abi none --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 -d wheels $(grep -oE "^($needs)==[^ ]+" requirements-dev.lock)

There, in commands of ten minutes at most, the more important ones first, each with this before it (10 s):

    python3 -m pip install -q --no-index --no-deps --target site wheels/*.whl; export PYTHONPATH=site:.

    python3 -m benchmarks gpu --parts checks race --out DIR                             # is it right, is it fast
    python3 -m benchmarks gpu --parts half failure attention profile tune --out DIR     # what to mend, what to set
    python3 -m benchmarks gpu --size 8b --parts race half --out DIR

`checks` and `race` alone are worth a first command of a few minutes: they tell whether the rest makes sense. A second
run of a part with `--batch 1` or `--rounds 1` is shorter. DIR/gpu.md holds all of it, by part and size.
"""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

import torch

from benchmarks.report import RESULTS, parser

LIMITS = {"checks": 400, "race": 480, "half": 200, "attention": 60, "tune": 480, "profile": 150, "failure": 90}
"""Seconds that each part may take, in the order in which they run."""

LEAST = 25.0
"""Seconds in which no part can begin: torch, a model and a vocabulary take about as long."""

DRAIN = 5.0
"""Seconds for the last lines of a part that is over: a compiler's processes may hold its output open for longer."""

FAILED = "FAILED"


def main() -> int:
    given = parser(__doc__)
    on_device = torch.cuda.is_available()
    given.add_argument("--parts", nargs="+", choices=tuple(LIMITS), default=list(LIMITS))
    given.add_argument("--minutes", type=float, default=9.5)
    given.add_argument("--size", choices=("tiny", "1b", "8b"), default="1b" if on_device else "tiny")
    given.add_argument("--device", default="cuda" if on_device else "cpu")
    given.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64] if on_device else [1, 2])
    given.add_argument("--rounds", type=int, default=3)
    given.add_argument("--out", type=Path, default=RESULTS)
    given.add_argument("--within", help=argparse.SUPPRESS, choices=tuple(LIMITS))
    options = given.parse_args()
    return inside(options) if options.within else outside(options)


def outside(options: argparse.Namespace) -> int:
    """Runs the parts, each in its process, as far as the time reaches."""
    ends, fine = time.monotonic() + 60 * options.minutes, True
    print(setting(options), flush=True)
    for part in options.parts:
        left = ends - time.monotonic()
        if left < LEAST:
            print(f"\n## {part}: left out, no time", flush=True)
            continue
        print(f"\n## {part}", flush=True)
        lines, status = tell(command(options, part), min(left, LIMITS[part]))
        fine = fine and status == 0 and not any(FAILED in line for line in lines)
        save(options.out / "gpu.md", setting(options), f"{part}, {options.size}", lines)
    return 0 if fine else 1


def command(options: argparse.Namespace, part: str) -> list[str]:
    given = ["--within", part, "--size", options.size, "--device", options.device, "--rounds", str(options.rounds)]
    return [sys.executable, "-um", "benchmarks", "gpu", *given, "--batch", *map(str, options.batch)]


def tell(command: list[str], seconds: float) -> tuple[list[str], int]:
    """Prints what a process says as it says it; its lines and status. It is stopped after so many seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    began, lines = time.monotonic(), []
    assert process.stdout is not None
    reader = threading.Thread(target=echo, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        why = f"status {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
        process.kill()
        why = f"stopped after {seconds:.0f} s"
    status = process.wait()
    reader.join(DRAIN)
    if status:
        lines.append(f"- {FAILED}: {why}")
        print(lines[-1], flush=True)
    lines.append(f"- took {time.monotonic() - began:.0f} s")
    return lines, status


def echo(stream: IO[str], lines: list[str]) -> None:
    """Prints the lines of a stream as they come, and keeps them."""
    for line in stream:
        lines.append(line.rstrip())
        print(lines[-1], flush=True)


def inside(options: argparse.Namespace) -> int:
    """One part, in this process: a line for each thing that it finds."""
    faulthandler.dump_traceback_later(LIMITS[options.within] - 5, exit=True)
    for line in PARTS[options.within](options, torch.device(options.device)):
        print(line, flush=True)
    return 0


def checks_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_checks import checks

    model = yield from built(options, device, torch.float32)
    for check in checks(model, device):
        yield f"- {check.name}: {check.outcome()}"


def half_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_checks import rounded_checks

    model = yield from built(options, device, torch.bfloat16)
    for check in rounded_checks(model, device):
        yield f"- {check.name}: {check.outcome()}"


def race_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_race import races

    model = yield from built(options, device, fastest(device))
    yield from races(model, device, options.batch, options.rounds)


def tune_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_tune import tuned

    model = yield from built(options, device, fastest(device))
    yield from tuned(model, device, sorted(options.batch)[len(options.batch) // 2], options.rounds)


def profile_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_tune import profiled

    model = yield from built(options, device, fastest(device))
    for rows in options.batch[:2]:
        yield from profiled(model, device, rows)


def attention_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_tune import attention

    yield from attention(device)


def failure_part(options: argparse.Namespace, device: torch.device) -> Iterator[str]:
    from benchmarks.gpu_checks import failing

    model = yield from built(options, device, torch.float32)
    check = failing(model, device)
    yield f"- {check.name}: {check.outcome()}"


PARTS: dict[str, Callable[[argparse.Namespace, torch.device], Iterator[str]]] = {
    "checks": checks_part,
    "race": race_part,
    "half": half_part,
    "attention": attention_part,
    "tune": tune_part,
    "profile": profile_part,
    "failure": failure_part,
}


def fastest(device: torch.device) -> torch.dtype:
    """What a model would be run in."""
    return torch.float32 if device.type == "cpu" else torch.bfloat16


def built(options: argparse.Namespace, device: torch.device, dtype: torch.dtype):  # type: ignore[no-untyped-def]
    """The model; its first value tells how long the kernels took to compile."""
    import structgen as sg
    from benchmarks.gpu_model import SCHEMA, build, prompts

    began = time.monotonic()
    model = build(options.size, device, dtype)
    sg.generate(model, prompts(model, 1)[0], schema=SCHEMA)
    yield f"- built in {dtype}, and the first value, kernels compiled: {time.monotonic() - began:.1f} s"
    return model


def setting(options: argparse.Namespace) -> str:
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    found = []
    for package in ("torch", "transformers", "triton", "numpy", "llguidance", "xgrammar"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return f"{name}; Python {sys.version.split()[0]}, {', '.join(found)}"


def save(page: Path, heading: str, part: str, lines: list[str]) -> None:
    """Puts what a part found in its place on the page."""
    text = page.read_text() if page.exists() else ""
    sections = dict(section.split("\n", 1) for section in text.split("\n## ")[1:])
    sections[part] = "\n".join(["", f"{heading}", "", *lines, ""])
    page.parent.mkdir(parents=True, exist_ok=True)
    whole = [f"\n## {name}\n{body.rstrip()}\n" for name, body in sections.items()]
    page.write_text("# The decode loop on a device\n" + "".join(whole))
