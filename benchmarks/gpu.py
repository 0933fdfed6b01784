"""Builds, checks and times the whole decode loop on whatever device torch has, and prints a short table.

    python benchmarks/gpu.py [--model tiny|1b|8b] [--batch 1 8 64] [--device cuda] [--rounds 3] [--save]

Nothing is downloaded and no data is needed: random weights of a real configuration, and a vocabulary of 128,000
tokens made here. Without a device it runs a tiny model on the CPU, so that the script itself is tested everywhere.
Every check says "ok" or what is wrong; the exit status is 1 where one failed. Ratios are printed beside the bounds
that they are judged by; a bound that is missed is no failure of the script.

The runs of one batch size take turns, and the median of the rounds counts. Peers run in transformers' eager `generate`
with one row; one that is not installed, or fails, is named and left out. `--save` writes results/gpu.json and gpu.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import structgen as sg
from gpu_checks import checks
from gpu_model import SCHEMA, SIZES, build, prompts
from gpu_peers import PEERS
from structgen.decoding.loop import AUTOMATIC, Execution, decode
from structgen.decoding.request import CallOptions, Request, prepare

RESULTS = Path(__file__).resolve().parent / "results"
WARM_UPS = 3
"""Rounds that are not counted, on a device: compilers, captures and caches."""

LONGEST = 4096
"""Tokens that a constrained run may take; it ends by itself."""


@dataclass
class Contestant:
    """One way to write: `run` gives tokens and characters."""

    name: str
    run: Callable[[], tuple[int, int]]
    rows: int
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    characters: int = 0

    @property
    def median(self) -> float:
        """Seconds of a round."""
        return statistics.median(self.seconds)

    @property
    def step(self) -> float:
        """Seconds for one token of each row."""
        return self.median * self.rows / self.tokens

    @property
    def speed(self) -> float:
        """Characters per second."""
        return self.characters / self.median


def constrained(
    model: sg.Model, rows: int, *, fast_forward: bool = False, execution: Execution = AUTOMATIC
) -> Callable[[], tuple[int, int]]:
    """Our loop with the schema, to its end."""

    def run() -> tuple[int, int]:
        limits = sg.Limits(max_new_tokens=LONGEST)
        request = prepare(model, prompts(model, rows), SCHEMA, CallOptions(limits=limits, fast_forward=fast_forward))
        return decoded(model, request, execution)

    return run


def free(model: sg.Model, lengths: list[int]) -> Callable[[], tuple[int, int]]:
    """Our loop without a constraint, each row for so many tokens."""
    limits = [sg.Limits(max_new_tokens=length) for length in lengths]
    options = CallOptions(limits=limits)
    return lambda: decoded(model, prepare(model, prompts(model, len(lengths)), options=options), AUTOMATIC)


def decoded(model: sg.Model, request: Request, execution: Execution) -> tuple[int, int]:
    decode(model.module, model.vocabulary, request.sessions, execution=execution)
    return sum(len(s.tokens) for s in request.sessions), sum(len(s.text()) for s in request.sessions)


def theirs(
    model: sg.Model, rows: int, limit: int, processor: Callable[[], Any] | None = None
) -> Callable[[], tuple[int, int]]:
    """transformers' `generate`, free for as many tokens as `limit`, or with a peer's masks to their end."""
    end = model.vocabulary.end_ids[0]

    def run() -> tuple[int, int]:
        given = prompts(model, rows)
        longest = max(map(len, given))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in given], device=model.module.device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in given], device=model.module.device)
        output = model.module.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=limit if processor is None else LONGEST,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None if processor is None else end,
            logits_processor=None if processor is None else [processor()],
        )
        new = [row[: row.index(end)] if end in row else row for row in output[:, longest:].tolist()]
        return sum(map(len, new)), sum(len(model.vocabulary.decode(row)) for row in new)

    return run


def contestants(model: sg.Model, rows: int) -> Iterator[Contestant]:
    def ready(name: str, run: Callable[[], tuple[int, int]]) -> Contestant:
        return Contestant(name, run, rows)

    stepped = sg.generate(model, prompts(model, rows), schema=SCHEMA, details=True, fast_forward=False)
    lengths = [len(row.token_ids) for row in stepped]
    limit = max(lengths)
    yield ready("structgen", constrained(model, rows, fast_forward=True))
    yield ready("structgen, stepping", constrained(model, rows))
    yield ready("structgen, unconstrained", free(model, lengths))
    yield ready("structgen, stepping, not overlapped", constrained(model, rows, execution=Execution(overlap=False)))
    yield ready("structgen, stepping, no graphs", constrained(model, rows, execution=Execution(graphs=False)))
    yield ready("transformers, unconstrained", theirs(model, rows, limit))
    if rows == 1:
        for name, build_processor in PEERS.items():
            try:
                run = theirs(model, rows, limit, build_processor(model, SCHEMA))
                run()
            except Exception as error:
                print(f"no {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200])
            else:
                yield ready(f"transformers + {name}", run)


def race(racers: list[Contestant], device: torch.device, rounds: int) -> None:
    """Rounds in turns; the first ones are not counted."""
    warm_ups = WARM_UPS if device.type == "cuda" else 1
    for number in range(warm_ups + rounds):
        for racer in racers:
            began = time.perf_counter()
            racer.tokens, racer.characters = racer.run()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number >= warm_ups:
                racer.seconds.append(time.perf_counter() - began)


def judged(racers: list[Contestant]) -> Iterator[tuple[str, float, str]]:
    """What is asked of the loop: a claim, what was found, and the bound."""
    by_name = {racer.name: racer for racer in racers}
    fast, stepping, without = (by_name[f"structgen{rest}"] for rest in ("", ", stepping", ", unconstrained"))
    yield "constraining costs per token, of the same loop unconstrained", stepping.step / without.step - 1, "<= 0.02"
    yield "fast-forward, characters per second by stepping's", fast.speed / stepping.speed, ">= 1.5"
    peers = [racer for racer in racers if racer.name.startswith("transformers + ")]
    if peers:
        best = min(peers, key=lambda racer: racer.step)
        tokens_per_second = best.step / (fast.median / fast.tokens)
        yield f"tokens per second by those of {best.name}", tokens_per_second, ">= 3"


def versions() -> str:
    found = []
    for name in ("torch", "transformers", "triton", "numba", "llguidance", "xgrammar"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def table(racers: list[Contestant]) -> list[str]:
    rows = ["| batch | | s | tokens | tokens/s | characters/s | ms/token of a row |", "|---|---|---|---|---|---|---|"]
    for racer in racers:
        speed = f"{racer.median:.3f} | {racer.tokens} | {racer.tokens / racer.median:,.0f} | {racer.speed:,.0f}"
        rows.append(f"| {racer.rows} | {racer.name} | {speed} | {1e3 * racer.step:.2f} |")
    return rows


def save(heading: str, checked: dict[str, str], racers: list[Contestant], claims: list[str]) -> None:
    """results/gpu.json and results/gpu.md beside this file."""
    numbers = [{k: v for k, v in asdict(racer).items() if k != "run"} for racer in racers]
    whole = {"setting": heading, "checks": checked, "runs": numbers, "judged": claims}
    (RESULTS / "gpu.json").write_text(json.dumps(whole, indent=1) + "\n")
    said = [f"- {name}: {found}" for name, found in checked.items()]
    judged_by = [f"- {claim}" for claim in claims]
    page = ["# The decode loop on a device", "", heading, "", *said, "", *table(racers), "", *judged_by]
    (RESULTS / "gpu.md").write_text("\n".join(page) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    on_device = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if on_device else "cpu")
    parser.add_argument("--model", choices=tuple(SIZES), default="1b" if on_device else "tiny")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64] if on_device else [1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    heading = f"{options.model} on {name}; {versions()}"
    print(heading, flush=True)
    began = time.perf_counter()
    model = build(options.model, device)
    sg.generate(model, prompts(model, 1)[0], schema=SCHEMA)
    print(f"built, and the first value, kernels compiled: {time.perf_counter() - began:.1f} s", flush=True)
    checked = {}
    for check in checks(model, device):
        checked[check.name] = check.run() or "ok"
        print(f"{check.name}: {checked[check.name]}", flush=True)
    finished: list[Contestant] = []
    claims: list[str] = []
    for rows in options.batch:
        racers = list(contestants(model, rows))
        race(racers, device, options.rounds)
        print("\n" + "\n".join(table(racers)), flush=True)
        for claim, found, bound in judged(racers):
            claims.append(f"batch {rows}: {claim}: {found:.3f} (asked: {bound})")
            print(claims[-1], flush=True)
        finished += racers
    if options.save:
        save(heading, checked, finished, claims)
    return 1 if any(found != "ok" for found in checked.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
