"""The judged answers of `python -m benchmarks quality` as rows: what tables and pictures are made from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from benchmarks.quality_scores import score
from benchmarks.quality_texts import TASKS, cases
from benchmarks.quality_ways import Answer
from benchmarks.report import RESULTS as FOLDER

RESULTS = FOLDER / "quality.json"
LEAST = 4
"""Texts below which a way or a task stands in no summary."""
ROUNDS = 2000
"""Samples of a bootstrap."""


@dataclass(frozen=True)
class Row:
    """One answer, judged: see `quality_scores.Score` and `quality_ways.Answer`."""

    model: str
    way: str
    task: str
    name: str
    final: bool
    valid: bool
    whole: bool
    fields: int
    right: int
    invented: int
    lost: int
    cpu: float
    forwards: int
    tokens: int
    error: str

    @property
    def share(self) -> float:
        """The part of the answer's fields that is right."""
        return self.right / self.fields


def judged(model: str, known: dict[tuple[str, str, str, bool], Answer]) -> list[Row]:
    """The rows of one model's answers, by task and text."""
    rows = []
    for task in TASKS:
        for final in (False, True):
            for case in cases(task, final=final):
                for (way, of, name, half), answer in known.items():
                    if (of, name, half) == (task, case.name, final):
                        each = score(case, answer.text, free=way.endswith(("free", "look-up")))
                        measured = round(answer.cpu, 3), answer.forwards, answer.tokens, answer.error
                        counts = each.fields, each.right, each.invented, each.lost
                        rows.append(Row(model, way, task, name, final, each.valid, each.whole, *counts, *measured))
    return rows


def save(rows: Iterable[Row], setting: str) -> None:
    """Keeps the rows in the repository, one a line, after the machine and the versions that made them."""
    lines = [json.dumps(astuple(row), separators=(",", ":")) for row in rows]
    head = json.dumps({"setting": setting, "fields": [field.name for field in fields(Row)]})
    RESULTS.write_text("[\n" + ",\n".join([head, *lines]) + "\n]\n", encoding="utf-8")


def saved() -> tuple[list[Row], str]:
    """The rows in the repository, and what made them."""
    head, *lines = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [Row(**dict(zip(head["fields"], line, strict=True))) for line in lines], head["setting"]


def by_text(rows: Iterable[Row], way: str) -> dict[tuple[str, str, str], Row]:
    """A way's rows by model, task and text."""
    return {(row.model, row.task, row.name): row for row in rows if row.way == way}


def paired(rows: Sequence[Row], ways: Sequence[str], least: int = 1) -> list[list[Row]]:
    """For each text that all these ways have answered, the rows in the order of the ways.

    Args:
        least: tasks with fewer such texts are left out.
    """
    each = [by_text(rows, way) for way in ways]
    shared = [key for key in each[0] if all(key in other for other in each)]
    tasks = Counter(task for _, task, _ in shared)
    return [[of[key] for of in each] for key in shared if tasks[key[1]] >= least]


def balanced(texts: Sequence[Sequence[Row]], value: Callable[[Sequence[Row]], float]) -> tuple[float, float, float]:
    """The mean of a value of texts, with each task counting alike, and its 95% bootstrap interval within the tasks."""
    groups: dict[str, list[float]] = {}
    for text in texts:
        groups.setdefault(text[0].task, []).append(value(text))
    rng, values = np.random.default_rng(0), [np.array(each) for each in groups.values()]
    means = np.mean([each[rng.integers(len(each), size=(ROUNDS, len(each)))].mean(1) for each in values], 0)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(np.mean([each.mean() for each in values])), float(low), float(high)
