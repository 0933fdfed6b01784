"""Measures the demo model's calls of tools and what a schema in the prompt changes: `python -m training.evaluate_calls`.

Held-out requests, greedy, constrained: one or two requests in one text, all five tools offered, calls demanded, their
number left to the model. Then extractions with the trained prompt and with the bare text, each with and without the
rendered schema behind it. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import structgen
from structgen.demo.tasks import TASKS
from training import templates
from training.calls import JOINTS, TOOLS
from training.corpus import Values, expand, tool_arguments
from training.evaluate import LIMIT, SHIPPED, Score, heldout_cases
from training.words import WordSource

Called = list[tuple[str, Values]]


@dataclass(slots=True)
class CallScore:
    """Counts over requests: right numbers of calls, right names in order, right calls; arguments and right ones."""

    requests: int = 0
    counts: int = 0
    names: int = 0
    calls: int = 0
    arguments: int = 0
    right: int = 0

    def add(self, wanted: Called, given: Called) -> None:
        """Counts one request."""
        self.requests += 1
        self.counts += len(given) == len(wanted)
        self.names += [name for name, _ in given] == [name for name, _ in wanted]
        self.calls += given == wanted
        for place, (name, values) in enumerate(wanted):
            found = given[place][1] if place < len(given) and given[place][0] == name else {}
            self.arguments += len(values)
            self.right += sum(found.get(key) == value for key, value in values.items())

    def row(self, label: str) -> str:
        """A row of the table."""
        shares = (self.counts, self.names, self.calls)
        cells = [f"{100 * share / self.requests:.0f}%" for share in shares]
        cells.insert(2, f"{100 * self.right / self.arguments:.0f}%")
        return f"| {label} | {self.requests} | " + " | ".join(cells) + " |"


def requests(number: int, count: int, seed: int) -> Iterator[tuple[str, Called]]:
    """Texts of the held-out world that ask for `count` calls, and the calls."""
    words = WordSource(random.Random(seed), heldout=True)
    for _ in range(number):
        called, texts = list[tuple[str, Values]](), list[str]()
        for name in words.rng.sample(list(TOOLS), count):
            values, extra = tool_arguments(words, name)
            called.append((name, values))
            texts.append(expand(words.rng, words.rng.choice(templates.TEXTS[name])).format(**(values | extra)))
        yield words.rng.choice(JOINTS).join(texts), called


def calls_rows(model: structgen.Model, number: int, seed: int) -> Iterator[str]:
    """The rows of the table of calls."""
    tools = [structgen.Tool.of({"name": name, "parameters": each.model_json_schema()}) for name, each in TOOLS.items()]
    for count in (1, 2):
        score = CallScore()
        for text, wanted in requests(number, count, seed):
            calls = structgen.call(model, text, tools, choice="required", parallel=True)
            score.add(wanted, [(call.name, call.arguments) for call in calls])
        yield score.row(f"{count} in one text")


def schema_rows(model: structgen.Model, per_task: int, seed: int) -> Iterator[str]:
    """The rows of the table of prompts."""
    cases = heldout_cases(per_task, seed)
    for bare in (False, True):
        for shown in (False, True):
            score = Score()
            for name, task in TASKS.items():
                mine = [case for case in cases if case.task == name]
                runs = structgen.generate(
                    model, [_messages(case.prompt, bare=bare) for case in mine], task.model, prompt_schema=shown,
                    limits=structgen.Limits(max_new_tokens=LIMIT), details=True,
                )  # fmt: skip
                for case, run in zip(mine, runs, strict=True):
                    score.add(case, run.text)
            label = ("the text alone" if bare else "as trained") + (", and the schema" if shown else "")
            shares = score.shares()
            yield f"| {label} | {score.answers} | {100 * shares['fields']:.0f}% | {100 * shares['exact']:.0f}% |"


def _messages(prompt: str, *, bare: bool) -> list[dict[str, Any]]:
    content = prompt.removesuffix("\nJSON: ")
    return [{"role": "user", "content": content.split("\nText: ", 1)[1] if bare else content}]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=SHIPPED)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--per-task", type=int, default=10)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/demo-calls.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = structgen.load(str(arguments.model))
    lines = [
        "# Calls and rendered schemas of the demo model", "",
        f"Greedy, float32, held-out seed {arguments.seed}; every call and every value is valid by the mask.", "",
        "| requests | texts | right number | right names | right arguments | wholly right |", "| --- " * 6 + "|",
        *calls_rows(model, arguments.requests, arguments.seed), "",
        "| prompt | texts | right fields | wholly right |", "| --- " * 4 + "|",
        *schema_rows(model, arguments.per_task, arguments.seed),
    ]  # fmt: skip
    arguments.out.write_text("\n".join(lines) + "\n")
    print(arguments.out.read_text())


if __name__ == "__main__":
    main()
