"""How long calls go on behind `Limits(seconds=)`, by the clock, and how soon cancelled async calls are over.

    python benchmarks/deadlines.py [--calls 30] [--only NAME] [--write]

Each kind of work would take much longer than its random deadlines. The overrun is counted from the deadline, or from
the end of the model's step that was in progress then, to the return of the call. Below: 50 calls of `agenerate`, half
of which are cancelled; more calls than there are threads, so that some wait when they are cancelled or timed out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import random
import signal
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, field_validator

import structgen as sg
from report import machine
from structgen.demo import load_demo
from structgen.demo.tasks import Person

RESULTS = Path(__file__).parent / "results" / "deadlines.md"
PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
TAG = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "number"}}}
TAGS = {"type": "array", "items": TAG, "minItems": 40}
MULTIPLES = {"allOf": [{"type": "integer", "multipleOf": each} for each in (999_983, 1_000_003, 999_979)], "minimum": 1}
HEAD = """# Deadlines

Milliseconds from the deadline, or from the end of the model's step in progress then, to the return of the call. Random
deadlines from 5 to 500 ms, after one call of each kind; the bundled model; what was loaded is excluded from garbage
collections (`gc.freeze`). "Own" is without the time in which the thread waited for a core that other programs had.

| work | calls | p50 | p99 | most | p99, own | outcomes |
|---|---:|---:|---:|---:|---:|---|"""
ASYNC_HEAD = """
Milliseconds from cancelling, or from the end of the time, to the end of the await.

| async calls | ended | p50 | p99 | most |
|---|---:|---:|---:|---:|"""
HOT = sg.Sampling(temperature=1.5)
_numbers = count()

Call = Callable[[sg.Limits], Any]


class Stubborn(BaseModel):
    """Its name is refused."""

    name: str

    @field_validator("name")
    @classmethod
    def refused(cls, name: str) -> str:
        raise ValueError("no such name")


class Endless:
    """A machine that accepts no text."""

    start = 0

    def step(self, state: int, byte: int) -> int:
        return state + 1

    def accepts(self, state: int) -> bool:
        return False


class Steps:
    """When the model's steps of the last call have begun and ended."""

    def __init__(self, module: Any) -> None:
        self.began, self.ended = list[float](), list[float]()
        module.register_forward_pre_hook(lambda *_: self.began.append(time.monotonic()))
        module.register_forward_hook(lambda *_: self.ended.append(time.monotonic()))

    def clear(self) -> None:
        self.began.clear()
        self.ended.clear()

    def over_at(self, deadline: float) -> float:
        """The deadline, or the end of the step in progress then."""
        steps = zip(self.began, self.ended, strict=False)
        return max([deadline, *(ended for began, ended in steps if began <= deadline < ended)])


def new_schema() -> dict[str, Any]:
    """A schema that nobody has seen: objects in objects, alternatives, patterns, strings of an enum."""
    number = next(_numbers)
    words = [f"w{number}x{each}" for each in range(60)]
    pattern = f"^[a-z]{{2,9}}-{number}-[0-9]+$"
    leaf = {"anyOf": [{"enum": words}, {"type": "string", "pattern": pattern}, {"type": "null"}]}
    schema: dict[str, Any] = leaf
    for depth in range(2):
        names = [f"m{number}_{depth}_{each}" for each in range(12)]
        schema = {"type": "object", "properties": dict.fromkeys(names, schema), "required": names[:6]}
    return {"type": "array", "items": schema, "minItems": 50}


def heavy_schema() -> dict[str, Any]:
    """A schema that takes seconds before its first token, or is refused after them."""
    number = next(_numbers)
    values = [{"a": each, "b": [each, {"c": str(each * number)}]} for each in range(1500)]
    patterns = [{"pattern": f"(.{{{i}}}[a-f{number % 9}]|x){{30,90}}y.{{{i},99}}"} for i in range(12)]
    choices: list[dict[str, Any]] = [
        {"not": {"enum": values}},
        {"allOf": [{"anyOf": [{"required": [f"p{i}"]}, {"required": [f"q{i}{number}"]}]} for i in range(20)]},
        {"type": "string", "allOf": patterns},
        {"type": "array", "items": {"enum": [*range(number, number + 5000)]}, "uniqueItems": True, "minItems": 3000},
        {"oneOf": [{"properties": {f"k{i}": {"const": number}}, "minProperties": i} for i in range(200)]},
    ]
    return choices[number % len(choices)]


def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds / 1000)
    return "later"


async def one_of_many(model: Any, limits: sg.Limits) -> None:
    """Some calls that share a batch; the others have no deadline, and are cancelled when the first is over."""
    others = [asyncio.create_task(sg.agenerate(model, PROMPT, TAGS, sampling=HOT)) for _ in range(7)]
    try:
        await sg.agenerate(model, PROMPT, TAGS, sampling=HOT, limits=limits)
    finally:
        one_of_many.over = time.monotonic()  # type: ignore[attr-defined]
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def kinds(model: Any) -> dict[str, Call]:
    def made(schema: Any = None, prompt: Any = PROMPT, **options: Any) -> Call:
        return lambda limits: sg.generate(model, prompt, schema, limits=limits, **{"sampling": HOT, **options})

    guards = [sg.BannedPattern("[aeiou][a-z]*[0-9]"), sg.BannedPattern("(the|of)")]
    return {
        "free text": made(),
        "schema": made(TAGS),
        "schema, greedy": made(TAGS, sampling=sg.Sampling()),
        "new schema": lambda limits: made(new_schema())(limits),
        "heavy schema": lambda limits: made(heavy_schema())(limits),
        "stubborn validator": made(Stubborn),
        "endless Machine": made(sg.constraints.Machine(Endless())),
        "three multipleOf": made(MULTIPLES),
        "guards": made(TAGS, guards=guards, banned=["lyon", "ada"]),
        "tools": lambda limits: sg.run(model, PROMPT, [wait], limits=limits, max_turns=50, sampling=HOT),
        "batch of 16": made(TAGS, [PROMPT] * 16),
        "40 prompts, 8 at once": made(TAGS, [PROMPT] * 40, batch_size=8),
        "stream": lambda limits: [*sg.stream(model, PROMPT, TAGS, limits=limits, sampling=HOT)],
        "beams": made(TAGS, sampling=sg.Sampling(), beams=4),
        "exact": made(TAGS, sampling=sg.Sampling(1.0, exact=True)),
        "long prompt": made(TAGS, "word " * 110),
        "agenerate, 8 calls": lambda limits: asyncio.run(one_of_many(model, limits)),
    }  # fmt: skip


class Overrun(NamedTuple):
    """Seconds behind a deadline, and how much of them the thread waited for a core that other programs had."""

    seconds: float
    waited: float


def waited() -> float:
    """Seconds that this thread has waited for a core so far."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def overruns(call: Call, steps: Steps, chance: random.Random, calls: int) -> tuple[list[Overrun], Counter[str]]:
    """The overrun of each call, and what has become of the calls."""
    late, outcomes, before = list[Overrun](), Counter[str](), list[float]()
    signal.signal(signal.SIGALRM, lambda *_: before.append(waited()))
    for number in range(calls + 1):  # the first one only makes what later ones find
        seconds = math.exp(chance.uniform(math.log(0.005), math.log(0.5)))
        steps.clear()
        before.clear()
        one_of_many.over = 0.0  # type: ignore[attr-defined]
        began, outcome = time.monotonic(), "a value"
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            call(sg.Limits(5000, seconds=seconds, validations=9999, exact_forwards=10**6))
        except sg.StructgenError as error:
            outcome = type(error).__name__
        over = one_of_many.over or time.monotonic()  # type: ignore[attr-defined]
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not number:
            continue
        if over < began + seconds or not before:
            outcomes[f"{outcome} before its time"] += 1
            continue
        outcomes[outcome] += 1
        late.append(Overrun(over - steps.over_at(began + seconds), waited() - before[0]))
    return late, outcomes


def shares(seconds: Sequence[float]) -> str:
    """p50, p99 and the most, in ms."""
    ordered = sorted(seconds)
    if not ordered:
        return "| - | - | -"
    p99 = ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)]
    return " | ".join(["", *(f"{1000 * each:.1f}" for each in (statistics.median(ordered), p99, ordered[-1]))]).strip()


def of(late: Sequence[Overrun]) -> str:
    """The columns of some calls; p99 also without the time in which other programs had the core."""
    own = shares([max(0.0, each.seconds - each.waited) for each in late]).split(" | ")
    return f"{shares([each.seconds for each in late])} | {own[1]}"


async def cancelled(model: Any, calls: int, *, waiting: bool) -> list[float]:
    """Seconds from `cancel` to the end of half of the calls; the others have their values.

    Args:
        waiting: cancel those that have come last and wait for a thread.
    """
    schema = sg.Regex("([a-z]{9} ){20}")
    tasks = [asyncio.create_task(sg.agenerate(model, PROMPT, schema)) for _ in range(calls)]
    await asyncio.sleep(0.05 if waiting else 0.3)
    chosen = tasks[calls // 2 :] if waiting else tasks[::2]
    times = list[float]()

    async def end(task: asyncio.Task[Any]) -> None:
        before = time.perf_counter()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        times.append(time.perf_counter() - before)

    await asyncio.gather(*map(end, chosen))
    await asyncio.gather(*(each for each in tasks if each not in set(chosen)))
    return times


async def timed_out(model: Any, calls: int) -> list[float]:
    """Seconds behind the time that `asyncio.wait_for` gives calls of which most wait."""
    schema, late = sg.Regex("([a-z]{9} ){20}"), list[float]()

    async def one() -> None:
        began = time.perf_counter()
        try:
            await asyncio.wait_for(sg.agenerate(model, PROMPT, schema), 0.2)
        except asyncio.TimeoutError:
            late.append(time.perf_counter() - began - 0.2)

    await asyncio.gather(*(one() for _ in range(calls)))
    return late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=30, help="of each kind")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", sg.BudgetWarning)
    model = sg.Model.of(*load_demo())
    sg.generate(model, [PROMPT] * 2, Person)
    gc.collect()
    gc.freeze()
    steps, chance, every, lines = Steps(model.module), random.Random(0), list[Overrun](), list[str]()
    for name, call in kinds(model).items():
        if given.only not in name:
            continue
        late, outcomes = overruns(call, steps, chance, given.calls)
        every += late
        told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        lines.append(f"| {name} | {len(late)} {of(late)} | {told} |")
        print(lines[-1], flush=True)
    lines.append(f"| all | {len(every)} {of(every)} | |")
    print(lines[-1])
    if given.only:
        return
    cases = {
        "50 calls, every second one cancelled": cancelled(model, 50, waiting=False),
        "200 calls, the last 100 cancelled, most while they wait": cancelled(model, 200, waiting=True),
        "200 calls, each with 0.2 s by `asyncio.wait_for`": timed_out(model, 200),
    }
    more = []
    for name, case in cases.items():
        times = asyncio.run(case)
        more.append(f"| {name} | {len(times)} {shares(times)} |")
        print(more[-1], flush=True)
    if given.write:
        text = [HEAD, *lines, ASYNC_HEAD, *more, ""]
        load = {"load average": f"{os.getloadavg()[0]:.0f}"}
        told = ", ".join(f"{name} {value}" for name, value in (machine() | load).items())
        RESULTS.write_text("\n".join([*text, told, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
