"""Who writes how fast: our loop in its ways, transformers' `generate` free and with the peers' masks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import structgen as sg
from benchmarks.gpu_model import SCHEMA, prompts
from benchmarks.gpu_peers import PEERS
from structgen.decoding.engine import decode
from structgen.decoding.loop import AUTOMATIC, Execution
from structgen.decoding.request import CallOptions, Request, prepare
from structgen.given_prompts import GivenPrompts

WARM_UPS = 3
"""Rounds that are not counted, on a device: compilers, captures and caches."""

LONGEST = 4096
"""Tokens that a constrained run may take; it ends by itself."""

LONGEST_RACE = 75.0
"""Seconds after which no further round begins; one is always counted."""


@dataclass
class Contestant:
    """One way to write: `run` gives the tokens of all rows.

    Forced text is fed in other tokens than a model would choose for it: finished values tell how much was done.
    """

    name: str
    run: Callable[[], int]
    rows: int
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0

    @property
    def median(self) -> float:
        """Seconds of a round."""
        return statistics.median(self.seconds)

    @property
    def step(self) -> float:
        """Seconds for one token of each row."""
        return self.median * self.rows / self.tokens

    @property
    def token_speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.median

    @property
    def speed(self) -> float:
        """Finished values per second."""
        return self.rows / self.median


def constrained(
    model: sg.Model, rows: int, *, fast_forward: bool = False, execution: Execution = AUTOMATIC
) -> Callable[[], int]:
    """Our loop with the schema, to its end."""

    def run() -> int:
        limits = sg.Limits(max_new_tokens=LONGEST)
        request = prepare(
            model, GivenPrompts.of(prompts(model, rows)), SCHEMA, CallOptions(limits=limits, fast_forward=fast_forward)
        )
        return decoded(model, request, execution)

    return run


def free(model: sg.Model, lengths: list[int]) -> Callable[[], int]:
    """Our loop without a constraint, each row for so many tokens."""
    limits = [sg.Limits(max_new_tokens=length) for length in lengths]
    options = CallOptions(limits=limits)
    return lambda: decoded(
        model, prepare(model, GivenPrompts.of(prompts(model, len(lengths))), options=options), AUTOMATIC
    )


def decoded(model: sg.Model, request: Request, execution: Execution) -> int:
    decode(model.module, model.vocabulary, request.sessions, execution=execution)
    return sum(len(s.tokens) for s in request.sessions)


def theirs(
    model: sg.Model, rows: int, limit: int, processor: Callable[[], Any] | None = None, *, static: bool = False
) -> Callable[[], int]:
    """transformers' `generate`, free for as many tokens as `limit`, or with a peer's masks to their end.

    Args:
        static: with a static cache, whose decoding steps transformers compiles and captures on CUDA.
    """
    end = model.vocabulary.end_ids[0]

    def run() -> int:
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
            cache_implementation="static" if static else None,
        )
        new = [row[: row.index(end) + 1] if end in row else row for row in output[:, longest:].tolist()]
        return sum(map(len, new))

    return run


def contestants(model: sg.Model, rows: int) -> Iterator[Contestant]:
    def ready(name: str, run: Callable[[], int]) -> Contestant:
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
    yield ready("transformers, unconstrained, static cache", theirs(model, rows, limit, static=True))
    if rows == 1:
        for name, build_processor in PEERS.items():
            try:
                processor = build_processor(model, SCHEMA)
                ways = {static: theirs(model, rows, limit, processor, static=static) for static in (False, True)}
                ways[True]()
            except Exception as error:
                print(f"- no {name}: {in_a_line(error)}", flush=True)
            else:
                yield ready(f"transformers + {name}", ways[False])
                yield ready(f"transformers + {name}, static cache", ways[True])


def race(racers: list[Contestant], device: torch.device, rounds: int) -> None:
    """Rounds in turns, of which the first ones are not counted; fewer where they take longer than `LONGEST_RACE`."""
    warm_ups, began = WARM_UPS if device.type == "cuda" else 1, time.perf_counter()
    for number in range(warm_ups + rounds):
        for racer in racers:
            if number < warm_ups - 1 and racer.name.startswith("transformers"):
                continue  # one round is enough for it to compile what it compiles
            started = time.perf_counter()
            racer.tokens = racer.run()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number >= warm_ups:
                racer.seconds.append(time.perf_counter() - started)
        if number >= warm_ups and time.perf_counter() - began > LONGEST_RACE:
            return


def judged(racers: list[Contestant]) -> Iterator[tuple[str, float, str]]:
    """What is asked of the loop: a claim, what was found, and the bound."""
    by_name = {racer.name: racer for racer in racers}
    fast, stepping, without = (by_name[f"structgen{rest}"] for rest in ("", ", stepping", ", unconstrained"))
    yield "constraining costs per token, of the same loop unconstrained", stepping.step / without.step - 1, "<= 0.02"
    yield "fast-forward, values per second by stepping's", fast.speed / stepping.speed, ">= 1.5"
    theirs_free = max((r for r in racers if r.name.startswith("transformers, ")), key=lambda racer: racer.speed)
    yield f"values per second by the texts of {theirs_free.name}", fast.speed / theirs_free.speed, "no bound"
    peers = [racer for racer in racers if racer.name.startswith("transformers + ")]
    if peers:
        best = max(peers, key=lambda racer: racer.token_speed)
        yield f"tokens per second by those of {best.name}", fast.token_speed / best.token_speed, ">= 3"
        best = max(peers, key=lambda racer: racer.speed)
        yield f"values per second by those of {best.name}", fast.speed / best.speed, "no bound"


def table(racers: list[Contestant]) -> list[str]:
    rows = ["| batch | | s | tokens | tokens/s | values/s | ms/token of a row |", "|---|---|---|---|---|---|---|"]
    for racer in racers:
        speed = f"{racer.median:.3f} | {racer.tokens} | {racer.token_speed:,.0f} | {racer.speed:,.2f}"
        rows.append(f"| {racer.rows} | {racer.name} | {speed} | {1e3 * racer.step:.2f} |")
    return rows


def races(model: sg.Model, device: torch.device, batches: list[int], rounds: int) -> Iterator[str]:
    """The table and the ratios of each batch size; one that fails is told, and the next one runs."""
    for rows in batches:
        try:
            racers = list(contestants(model, rows))
            race(racers, device, rounds)
        except Exception as error:
            yield f"- FAILED: batch {rows}: {in_a_line(error)}"
            continue
        yield from ("", *table(racers), "")
        for claim, found, bound in judged(racers):
            yield f"- batch {rows}: {claim}: {found:.3f} (asked: {bound})"


def in_a_line(error: Exception) -> str:
    """What went wrong, and where."""
    said = str(error).strip().splitlines() or [""]
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    at = "" if last is None else f", at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
    return f"{type(error).__name__}: {said[0][:200]}{at}"
