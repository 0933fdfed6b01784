"""What a device tells about numbers that were guessed without one, and where a step's time goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import structgen as sg
from benchmarks.gpu_model import SCHEMA, prompts
from benchmarks.gpu_race import constrained, in_a_line
from structgen.decoding import loop
from structgen.decoding.loop import Execution
from structgen.decoding.request import CallOptions, prepare
from structgen.given_prompts import GivenPrompts
from structgen.models import slots, static

CHOICES: dict[str, Sequence[Any]] = {
    "AHEAD_SHARE": (0.0, 0.5, 0.75, 1.01),
    "SPARE": (128, 512, 2048),
    "CAPTURE_AFTER": (1, 3, 6),
}
GROWN = 40
"""Tokens by which a row grows while its attention is timed."""

STEPS = 24
"""Steps of a profile."""

KERNELS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}


def tuned(model: sg.Model, device: torch.device, rows: int, rounds: int) -> Iterator[str]:
    """Each number's choices, by what they do to a run that steps, to one with forced text, and to the first runs."""
    for name, choices in CHOICES.items():
        yield f"\n| {name} | stepping, s | fast-forward, s | first run, s | first runs, s |\n|---|---|---|---|---|"
        for choice in choices:
            before = _set(name, device, choice)
            try:
                yield (
                    f"| {choice} | "
                    + " | ".join(f"{seconds:.3f}" for seconds in _timed(model, device, rows, rounds))
                    + " |"
                )
            except Exception as error:
                yield f"| {choice} | FAILED: {in_a_line(error)} |"
            finally:
                _set(name, device, before)


def _set(name: str, device: torch.device, value: Any) -> Any:
    """Sets one of the numbers; what it was."""
    if name == "SPARE":
        before = slots.SPARE[device.type]
        slots.SPARE[device.type] = value
        return before
    owner: Any = loop if name == "AHEAD_SHARE" else static
    before = getattr(owner, name)
    setattr(owner, name, value)
    return before


def _timed(model: sg.Model, device: torch.device, rows: int, rounds: int) -> Iterator[float]:
    execution = Execution(overlap=True, graphs=True)
    stepping, fast = (constrained(model, rows, fast_forward=on, execution=execution) for on in (False, True))
    static._idle.clear()  # the first run makes its cache and captures its graphs
    first = [_seconds(fast, device) for _ in range(rounds + 2)]
    [_seconds(stepping, device) for _ in range(rounds)]
    for run in (stepping, fast):
        yield statistics.median(_seconds(run, device) for _ in range(rounds))
    yield first[0]
    yield sum(first)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@torch.inference_mode()
def attention(device: torch.device) -> Iterator[str]:
    """Milliseconds of a masked attention whose keys grow: for shapes that come for the first time, and again."""
    if device.type != "cuda":
        yield "- only where there is CUDA"
        return
    yield "\n| kernel | rows | queries | new shapes, ms | again, ms |\n|---|---|---|---|---|"
    for rows, queries in ((1, 1), (8, 1), (64, 1), (8, 8)):
        for name, kernel in KERNELS.items():
            try:
                with sdpa_kernel(kernel):
                    times = [_attended(device, rows, queries) for _ in range(2)]
            except RuntimeError as error:
                yield f"| {name} | {rows} | {queries} | FAILED: {in_a_line(error)[:90]} | |"
            else:
                yield f"| {name} | {rows} | {queries} | {times[0]:.3f} | {times[1]:.3f} |"


def _attended(device: torch.device, rows: int, queries: int, heads: int = 32, size: int = 64) -> float:
    """Milliseconds per call."""
    query = torch.randn(rows, heads, queries, size, device=device, dtype=torch.bfloat16)
    keys = torch.randn(rows, heads, 200 + GROWN, size, device=device, dtype=torch.bfloat16)

    def run() -> None:
        for seen in range(200, 200 + GROWN):
            mask = torch.ones(rows, 1, queries, seen, dtype=torch.bool, device=device)
            torch.nn.functional.scaled_dot_product_attention(query, keys[:, :, :seen], keys[:, :, :seen], mask)

    return 1e3 * _seconds(run, device) / GROWN


def profiled(model: sg.Model, device: torch.device, rows: int) -> Iterator[str]:
    """Where the time of some steps goes, on the device and on the host."""
    from torch.profiler import ProfilerActivity, profile

    stepped(model, device, rows)
    began = time.perf_counter()
    stepped(model, device, rows)
    yield f"- batch {rows}: {1e3 * (time.perf_counter() - began) / STEPS:.3f} ms per step, the prompt's among them"
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities) as profiler:
        stepped(model, device, rows)
    averages = profiler.key_averages()
    for key in ["self_cpu_time_total", *["self_device_time_total"] * (device.type == "cuda")]:
        table = averages.table(sort_by=key, row_limit=14, max_name_column_width=50)
        yield "\n```\n" + "\n".join(line[:150].rstrip() for line in table.splitlines()) + "\n```"


def stepped(model: sg.Model, device: torch.device, rows: int) -> None:
    """Some steps of a run."""
    options = CallOptions(fast_forward=False)
    request = prepare(model, GivenPrompts.of(prompts(model, rows)), SCHEMA, options)
    with request.submit(record=False) as batch:
        for _ in range(STEPS):
            batch.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
