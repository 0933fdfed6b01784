"""An open batch for a long time: does its memory stay as it is, and does each text stay that of its prompt alone?

    python -m benchmarks soak [--seconds 4200] [--rows 32] [--write]

Requests come as soon as rows are free: with a prompt of their own, with one of a few long beginnings, or with an
earlier prompt and its answer before it; with one schema, with a schema that no other request has, or without one;
greedy or with a seed. A third is cancelled before its end. One in fifty of the others is generated once more, alone and
by a second model that remembers no prefixes, and has to be the same text. Resident memory is that of the process,
second model included, without pages that the C library has free and keeps: it gives them back before each look. One
thread.

`--write` adds a row to results/soak.md beside this file.
"""

from __future__ import annotations

import datetime
import gc
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any

import torch

import structgen as sg
from benchmarks.batches import words
from benchmarks.load import random_object
from benchmarks.report import RESULTS, megabytes, parser
from structgen.decoding.call_options import CallOptions
from structgen.decoding.engine import Engine
from structgen.decoding.request import Request, prepare
from structgen.decoding.ticket import Ticket
from structgen.given_prompts import GivenPrompts

RESULT = RESULTS / "soak.md"
COLUMNS = ("date", "rows", "hours", "requests", "cancelled", "failed", "compared", "equal", "tokens")
COLUMNS += ("share of prompts remembered", "MB after a minute", "at each quarter")
HEAD = f"""# An open batch for a long time

`python -m benchmarks soak`: the demo model, requests with shared and own prefixes and schemas, a third cancelled, one
in fifty of the others compared with its text alone. From the row of 31,209 requests on, memory is
looked at once the C library has given free pages back.

| {" | ".join(COLUMNS)} |
{"|---" * len(COLUMNS)}|
"""
TOKENS, PROMPT, WARM_UP = 100, 380, 60.0
"""The most tokens of an answer and of a prompt; seconds before memory is first looked at."""
ONE = random_object(random.Random(-1), 2)
BEGINNINGS = [words(100, -seed) for seed in range(1, 9)]


@dataclass
class Asked:
    """A request, and when it is cancelled."""

    prompt: str
    schema: dict[str, Any] | None
    options: CallOptions
    steps: int | None

    def prepared(self, model: sg.Model) -> Request:
        return prepare(model, GivenPrompts.of(self.prompt), self.schema, self.options)


class Soak:
    """Requests to one batch, and what became of them."""

    def __init__(self) -> None:
        self.model, self.alone = sg.load("demo"), sg.load("demo", prefix_bytes=0)
        self.rng, self.count = random.Random(0), Counter[str]()
        self.answered: deque[str] = deque(maxlen=64)
        self.wrong: list[str] = []

    def ask(self) -> Asked:
        number, rng = self.count["requests"], self.rng
        self.count["requests"] += 1
        own = words(rng.randrange(5, 60), number)
        prompt = rng.choice([own, f"{rng.choice(BEGINNINGS)} {own}", f"{rng.choice(self.answered or [''])} {own}"])
        if len(self.model.tokenizer(prompt).input_ids) > PROMPT:
            prompt = own
        schema = rng.choice([None, ONE, random_object(random.Random(number), 1, f"{number:06}")])
        sampling = sg.Sampling(temperature=rng.choice([0.0, 1.0]), seed=number)
        steps = rng.randrange(10) if rng.random() < 0.53 else None
        return Asked(prompt, schema, CallOptions(sampling=sampling, limits=sg.Limits(TOKENS)), steps)

    def take(self, asked: Asked, ticket: Ticket) -> None:
        """Counts a request that is done, and compares its text where it is its turn."""
        (session,) = ticket.rows
        self.count["tokens"] += session.token_count
        self.count["cached"] += session.row.cached
        self.count["prompts"] += session.row.given
        if session.error is not None:
            self.count[f"failed: {type(session.error).__name__}"] += 1
            return
        text = session.text()
        self.count["finished"] += 1
        self.answered.append(f"{asked.prompt} {text}")
        if self.count["finished"] % 50 == 0:
            self.count["compared"] += 1
            expected = asked.prepared(self.alone).results(record=False)[0].text
            if text != expected:
                self.wrong.append(f"{asked}: {text!r} instead of {expected!r}")
                print(self.wrong[-1], flush=True)

    def run(self, seconds: float, rows: int) -> list[float]:
        """Asks for so many seconds. Returns the megabytes after the warm-up and at each quarter."""
        began, seen, running = time.monotonic(), list[float](), dict[Ticket, Asked]()
        marks = deque([min(WARM_UP, seconds / 8), *(seconds * quarter / 4 for quarter in (1, 2, 3, 4))])
        engine = Engine.of(self.model)
        engine.rows = rows
        while marks:
            while len(running) < rows + 4:
                asked = self.ask()
                running[replace(asked.prepared(self.model), batch_size=rows).submit(record=False)] = asked
            engine.step([*running])
            for ticket, asked in list(running.items()):
                asked.steps = None if asked.steps is None else asked.steps - 1
                cancelled = asked.steps is not None and asked.steps < 0 and ticket.left
                if cancelled:
                    self.count["cancelled"] += 1
                elif not ticket.left:
                    self.take(asked, ticket)
                else:
                    continue
                ticket.cancel()
                del running[ticket]
            if time.monotonic() - began >= marks[0]:
                marks.popleft()
                gc.collect()
                seen.append(megabytes())
                print(f"{time.monotonic() - began:.0f} s, {seen[-1]:.0f} MB, {dict(self.count)}", flush=True)
        return seen


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--seconds", type=float, default=4200)
    given.add_argument("--rows", type=int, default=32)
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    soak = Soak()
    memory, count = soak.run(options.seconds, options.rows), soak.count
    failed = sum(number for name, number in count.items() if name.startswith("failed"))
    cells = [datetime.datetime.now(tz=datetime.UTC).date(), options.rows, f"{options.seconds / 3600:.2f}"]
    cells += [f"{n:,}" for n in (count["requests"], count["cancelled"], failed, count["compared"])]
    cells += [count["compared"] - len(soak.wrong), f"{count['tokens']:,}", f"{count['cached'] / count['prompts']:.2f}"]
    row = f"| {' | '.join(map(str, cells))} | {memory[0]:.0f} | {', '.join(f'{each:.0f}' for each in memory[1:])} |"
    print(row)
    if options.write:
        RESULT.write_text((RESULT.read_text() if RESULT.exists() else HEAD) + row + "\n")
