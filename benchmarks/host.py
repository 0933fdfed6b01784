"""The host's time of a step in the overlapped order, with the device's work taken out.

    python -m benchmarks host [--batch 1 8 64] [--steps 30] [--rounds 5] [--before DIR] [--out DIR]

While a device runs the forward pass, the host accepts the ids that came, advances the grammars, finds masks, and asks
for the next choice and the next pass. A step takes as long as the longer of the two: constraining costs nothing as long
as the host's side is the shorter one. This measures the host's side where there is no device.

What runs is the loop as it is: sessions, grammars, cache places, uploads, the choice as on a device. Its tensors lie in
the host's memory, and the logits have a few columns only, so that an operation costs its way through torch and next to
nothing after it. Three things stand in for what only a device has: the pass itself (there, the replay of one graph),
the copy of the chosen ids back, and the ids: a random token of those that the row's mask allows, which is not counted.

Not in the times is what a driver adds to each launch, copy and pinned buffer. What would be launched is counted beside
them, in a run on torch's "meta" device, without the pass; on CUDA each is some 2 to 5 us more for a host.

Times are CPU time of the loop's thread, in which all masks are found, and Python's garbage collector does not go
through what was there before, as in the server. Of several rounds the one with the lowest median
counts: others share the machine. "first" is the round in which no position is known yet. With `--before`, the code in
another folder is measured in turns with this one.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.host_steps import SECTIONS, UNCONSTRAINED, WIDTHS, WORKLOADS, measured, models
from benchmarks.report import RESULTS, ROOT, parser, setting, table


def work(options: argparse.Namespace) -> None:
    """Measures the code that is imported here, a line of JSON for each batch and workload."""
    pair = models(options.size)
    gc.collect()
    gc.freeze()  # as the server does
    for rows in options.batch:
        for workload in options.workloads:
            found = measured(pair, workload, rows, options.steps, options.rounds)
            print(json.dumps({"rows": rows, "workload": workload, **found}), flush=True)


def ask(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """What a process says that imports the code of a folder."""
    given = [f"--{name}={getattr(options, name)}" for name in ("steps", "rounds", "size")]
    given += ["--batch", *map(str, options.batch), "--workloads", *options.workloads]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks", "host", "--within", *given]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return map(json.loads, done.stdout.splitlines())


def turns(options: argparse.Namespace) -> list[list[dict[str, Any]]]:
    """Of each folder what was found, each in the best of its turns."""
    folders = [*([options.before] if options.before else []), ROOT]
    best: list[dict[tuple[int, str], dict[str, Any]]] = [{} for _ in folders]
    for _ in range(options.turns):
        for known, folder in zip(best, folders, strict=True):
            for found in ask(options, folder):
                key = found["rows"], found["workload"]
                known[key] = min(known.get(key, found), found, key=lambda each: each["median"])
    return [list(known.values()) for known in best]


TIMES = ["rows", "rows say", "median", "by greedy free text's", "p99", "per row", "first", "first p99", "launches"]


def tables(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The times of a step, and its sections."""
    free = {each["rows"]: each["median"] for each in found if each["workload"] == UNCONSTRAINED}
    times, sections, names = [], [], [*SECTIONS, "else"]
    for each in found:
        rows, workload, median = each["rows"], each["workload"], each["median"]
        ratio = f"{median / free[rows]:.2f}" if rows in free else ""
        last = [each[name] for name in ("first", "first_p99", "launches")]
        times.append([rows, workload, median, ratio, each["p99"], median / rows, *last])
        sections.append([rows, workload, *(each["sections"][name] for name in names)])
    yield from (*table(TIMES, times, text=2), "", *table(["rows", "rows say", *names], sections, text=2), "")


def page(options: argparse.Namespace) -> Iterator[str]:
    yield from ("# The host's time of a step, without a device", "", setting("torch"), "")
    yield "Microseconds of CPU time for a step of all rows in the overlapped order by static steps, on a machine that"
    yield "others use. There was no device: what a driver takes is not in them, and launches are only counted."
    *before, now = turns(options)
    for each in before:
        yield from ("", "## Before", "", *tables(each))
    yield from ("", "## Now" if before else "## Times", "", *tables(now))


def main() -> int:
    given = parser(__doc__)
    given.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64])
    given.add_argument("--steps", type=int, default=30)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--turns", type=int, default=2)
    given.add_argument("--size", choices=tuple(WIDTHS), default="1b")
    given.add_argument("--workloads", nargs="+", choices=tuple(WORKLOADS), default=list(WORKLOADS))
    given.add_argument("--before", type=Path)
    given.add_argument("--out", type=Path, default=RESULTS)
    given.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.within:
        work(options)
        return 0
    told = "\n".join(page(options))
    print(told)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "host.md").write_text(told)
    return 0
