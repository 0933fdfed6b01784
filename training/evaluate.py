"""Measures the demo model without and with a constraint: `python -m training.evaluate`.

Greedy decoding on held-out synthetic prompts (no name, title, code, date or amount of theirs occurs in the training
corpus) and on sentences written by hand. Writes a JSON table and the same in Markdown.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from transformers import AutoModelForCausalLM, AutoTokenizer

import structgen
from structgen.demo.show import complaint_about
from structgen.demo.tasks import TASKS
from training.corpus import draw_example
from training.handwritten import SENTENCES
from training.words import WordSource

SHIPPED = Path(structgen.__file__).parent / "demo" / "model"
LIMIT = 200
"""Tokens per answer; the longest right answer of the evaluation has about half as many."""

Write = Callable[[list[str], type[BaseModel]], list[str]]
"""From the prompts of one task and its answers' model to the texts that were written."""


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with the value its text states."""

    task: str
    prompt: str
    value: Any


@dataclass(slots=True)
class Score:
    """Counts over the cases of one task: answers, valid ones, wholly right ones; fields and right ones."""

    answers: int = 0
    valid: int = 0
    exact: int = 0
    fields: int = 0
    right: int = 0

    def add(self, case: Case, text: str) -> None:
        """Counts one answer. An invalid one has no right fields."""
        wanted = dict(leaves(case.value))
        self.answers, self.fields = self.answers + 1, self.fields + len(wanted)
        if not complaint_about(text, TASKS[case.task].model):
            found = dict(leaves(json.loads(text)))
            self.valid += 1
            self.exact += found == wanted
            self.right += sum(key in found and found[key] == value for key, value in wanted.items())

    def shares(self) -> dict[str, float]:
        """The shares in [0, 1]."""
        shares = {"valid": self.valid / self.answers, "exact": self.exact / self.answers}
        return {name: round(share, 4) for name, share in (shares | {"fields": self.right / self.fields}).items()}

    def __iadd__(self, other: Score) -> Score:
        self.answers, self.valid, self.exact = (
            self.answers + other.answers,
            self.valid + other.valid,
            self.exact + other.exact,
        )
        self.fields, self.right = self.fields + other.fields, self.right + other.right
        return self


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar of a JSON value with its path."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f"{path}/{name}")
    elif isinstance(value, list):
        yield f"{path}/#", len(value)
        for index, part in enumerate(value):
            yield from leaves(part, f"{path}/{index}")
    else:
        yield path, value


def heldout_cases(per_task: int, seed: int) -> list[Case]:
    """`per_task` prompts of every task from the held-out world."""
    words, wanted = WordSource(random.Random(seed), heldout=True), dict.fromkeys(TASKS, per_task)
    cases = list[Case]()
    while any(wanted.values()):
        example = draw_example(words, records=0, full=True)
        if wanted[example.task]:
            wanted[example.task] -= 1
            cases.append(Case(example.task, example.prompt, json.loads(example.answer)))
    return cases


def handwritten_cases() -> list[Case]:
    """The sentences written by hand."""
    return [Case(task, TASKS[task].prompt(text), value) for task, text, value in SENTENCES]


def score(cases: Sequence[Case], write: Write) -> dict[str, Any]:
    """Shares per task and over all, and the seconds it took."""
    scores, started = defaultdict[str, Score](Score), time.perf_counter()
    for name, task in TASKS.items():
        batch = [case for case in cases if case.task == name]
        for case, text in zip(batch, write([case.prompt for case in batch], task.model), strict=True):
            scores[name].add(case, text)
    seconds = time.perf_counter() - started
    total = Score()
    for part in scores.values():
        total += part
    tasks = {task: part.shares() for task, part in sorted(scores.items())}
    return total.shares() | {"answers": total.answers, "seconds": round(seconds, 1), "tasks": tasks}


def writers(folder: Path) -> dict[str, Write]:
    """The two ways to write an answer with the model of `folder`."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    limits = structgen.Limits(max_new_tokens=LIMIT)

    def free(prompts: list[str], wanted: type[BaseModel]) -> list[str]:
        encoded = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        output = model.generate(**encoded, max_new_tokens=LIMIT, do_sample=False)
        return list(tokenizer.batch_decode(output[:, encoded["input_ids"].shape[1] :], skip_special_tokens=True))

    def constrained(prompts: list[str], wanted: type[BaseModel]) -> list[str]:
        runs = structgen.generate(model, prompts, wanted, tokenizer=tokenizer, limits=limits, details=True)
        return [run.text for run in runs]

    return {"unconstrained": free, "constrained": constrained}


def markdown(report: dict[str, Any]) -> str:
    """The report as a table."""
    lines = [
        "| prompts | decoding | answers | valid objects | right fields | wholly right |",
        "| --- " * 6 + "|",
    ]
    for cases, ways in report["results"].items():
        for way, row in ways.items():
            shares = " | ".join(f"{100 * row[name]:.1f}%" for name in ("valid", "fields", "exact"))
            lines.append(f"| {cases} | {way} | {row['answers']} | {shares} |")
    setting = f"Greedy, float32, one CPU thread; held-out seed {report['seed']}."
    return f"# The demo model\n\n{setting}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=SHIPPED)
    parser.add_argument("--per-task", type=int, default=26)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--ways", nargs="+", default=["unconstrained", "constrained"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/demo-model.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sets = {
        "held-out": heldout_cases(arguments.per_task, arguments.seed),
        "hand-written": handwritten_cases(),
    }
    ways = {name: write for name, write in writers(arguments.model).items() if name in arguments.ways}
    results = {name: {way: score(cases, write) for way, write in ways.items()} for name, cases in sets.items()}
    report = {"seed": arguments.seed, "per_task": arguments.per_task, "limit": LIMIT, "results": results}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown(report))
    print(markdown(report))


if __name__ == "__main__":
    main()
