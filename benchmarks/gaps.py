"""What streams notice of a long prompt that arrives beside them: the gaps between their tokens, and its first token.

    python benchmarks/gaps.py [--model smollm2 | smollm2.gguf] [--tokens 512 2048 8192] [--streams 4] [--write]

Some streams of free text run in one open batch, as in the server; then a prompt of so many tokens joins. Measured are
the gaps between two tokens of a stream until the prompt's first token, by the usual gap (the median before the prompt
came), and the seconds to that token by those of the same prompt alone. "at once" is the same code told to read every
prompt at once, as it was before prompts were read in parts. One thread; in torch all texts have to be those of rows
alone (llama.cpp rounds by the number of tokens in a pass).

`smollm2` runs in torch, `smollm2.gguf` in llama.cpp. `--write` writes its section of results/gaps.md beside this file.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

import torch

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.engine import Engine
from structgen.decoding.prompt_parts import PromptParts
from structgen.decoding.request import Request, prepare
from structgen.given_prompts import GivenPrompts
from structgen.models.hosts.host import Host
from structgen.models.known import PACKAGED

RESULT = Path(__file__).resolve().parent / "results" / "gaps.md"
WARM_UP, LONGEST = 25, 4000
"""Steps before the prompt comes; the most tokens of a stream."""


def words(count: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(
        chosen.choice(["one", "red", "house", "walks", "over", "the", "green", "hill"]) for _ in range(count)
    )


def request(model: sg.Model, prompt: str, tokens: int, seed: int = 0) -> Request:
    options = CallOptions(sampling=sg.Sampling(temperature=1.0, seed=seed), limits=sg.Limits(tokens))
    return prepare(model, GivenPrompts.of(prompt), None, options)


@contextmanager
def at_once() -> Iterator[None]:
    """A block in which no prompt is read in parts."""
    read = PromptParts.read
    PromptParts.read = lambda *_: frozenset()  # type: ignore[method-assign]
    try:
        yield
    finally:
        PromptParts.read = read  # type: ignore[method-assign]


def forget(model: sg.Model) -> None:
    """Nothing of earlier prompts is remembered."""
    if isinstance(model.module, Host):
        model.module.free = dict.fromkeys(model.module.free, ())
    else:
        assert model.prefixes is not None
        model.prefixes.clear()


def gaps(model: sg.Model, prompt: str, streams: int) -> tuple[list[float], float, float, str]:
    """The gaps while the prompt is read, the usual gap, the seconds to its first token, and its text."""
    forget(model)
    steps: list[float] = []

    def step() -> float:
        began = time.perf_counter()
        engine.step(tickets)
        steps.append(time.perf_counter() - began)
        return steps[-1]

    engine = Engine.of(model)
    tickets = [request(model, words(30, n), LONGEST, n).submit(record=False) for n in range(streams)]
    try:
        for _ in range(WARM_UP):
            step()
        usual, began = statistics.median(steps[5:]), time.perf_counter()
        (session,) = (asked := request(model, prompt, 8)).sessions
        tickets.append(asked.submit(record=False))
        found = []
        while not session.token_count:
            found.append(step())
        first = time.perf_counter() - began
        while not session.done:
            step()
        return found, usual, first, session.text()
    finally:
        for ticket in tickets:
            ticket.cancel()


def alone(model: sg.Model, prompt: str) -> tuple[float, str]:
    """The seconds of a prompt's first token, and its text."""
    forget(model)
    run = request(model, prompt, 8).results(record=False)[0]
    return run.stats.prefill_seconds, run.text


def table(model: sg.Model, options: argparse.Namespace) -> Iterator[str]:
    yield "| tokens | prompts are read | steps | usual gap, ms | median by it | 95% | longest | first token by alone |"
    yield "|---|---|---|---|---|---|---|---|"
    for tokens in options.tokens:
        prompt = words(tokens, 99)
        expected, text = alone(model, prompt)
        for name in ("at once", "in parts"):
            with at_once() if name == "at once" else nullcontext():
                found, usual, first, said = gaps(model, prompt, options.streams)
            assert said == text or isinstance(model.module, Host), (said, text)
            shares = [statistics.median(found), sorted(found)[int(0.95 * (len(found) - 1))], max(found)]
            figures = " | ".join(f"{each / usual:.1f}" for each in shares)
            yield f"| {tokens} | {name} | {len(found)} | {1e3 * usual:.0f} | {figures} | {first / expected:.2f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    file = PACKAGED["smollm2"].path() if options.model == "smollm2.gguf" else None
    model = sg.load(options.model) if file is None else sg.load(file, n_threads=1, n_ctx=max(options.tokens) * 2)
    lines = [*table(model, options)]
    print("\n".join(lines))
    if options.write:
        setting = (
            f"{datetime.datetime.now(tz=datetime.UTC).date()}; {os.cpu_count()} cores, which others used meanwhile"
        )
        setting += f", one thread, torch {version('torch')}, transformers {version('transformers')}, "
        setting += f"{options.streams} streams beside the prompt."
        head, *sections = RESULT.read_text().rstrip("\n").split("\n\n## ")
        kept = [section for section in sections if not section.startswith(f"{options.model}\n")]
        RESULT.write_text("\n\n## ".join([head, *kept, "\n".join([options.model, "", setting, "", *lines])]) + "\n")


if __name__ == "__main__":
    main()
