"""The tables of `python -m benchmarks quality`: results/quality.md, and those of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.quality_picture import CONTESTS, NAMES, ON_LLAMA, ON_TORCH
from benchmarks.quality_rows import LEAST, Row, balanced, by_text, paired
from benchmarks.quality_texts import TASKS
from benchmarks.quality_ways import ways
from benchmarks.report import ROOT, inserted, table

PAGE = ROOT / "docs" / "project" / "quality.md"
VERSIONS = "llama-cpp-python", "llguidance", "outlines", "torch", "xgrammar"
GROUPS = {
    "extraction, labels": ("flat", "nested", "dates", "absent", "labels"),
    "word problems": ("problems",),
    "calls": ("calls",),
}
ENGINES = {"llama.cpp": ON_LLAMA, "transformers": ON_TORCH}
HEADER = """# Right answers of real models

Made by `python -m benchmarks quality table --write`; `quality.json` has a row for each answer. {setting}.

Greedy, one text at a time, one thread, CPU time. `smollm2` is SmolLM2-135M-Instruct (Q4_1); `qwen` is
Qwen2.5-Coder-0.5B-Instruct (Q4_K_M, 491,400,064 bytes, sha256 1d9614638d18...). llama.cpp runs the file, torch the same
weights in float32.

A difference is structgen's default less the other way's, on the texts that both have answered, in points: above 0,
structgen is more accurate. The brackets hold the 95% interval of a paired bootstrap; if 0 is in it, the matter is open.
*Right* counts whole answers, *fields* the share of an answer's fields. The ratio is structgen's CPU time to the way's:
below 1, structgen is faster.
"""


def report(rows: Sequence[Row], setting: str) -> Iterator[str]:
    """All tables, for each half of the texts that has answers; `setting` is what made them."""
    yield from HEADER.format(setting=setting).splitlines()
    for final, title in ((True, "The half kept for the final run"), (False, "The first half")):
        half = [row for row in rows if row.final == final]
        if not half:
            continue
        yield from ("", f"## {title}", "")
        yield f"structgen's default against each way; tasks with at least {LEAST} texts of both, each counting alike."
        head = ["model", "tasks", "against", "texts", "right", "fields", "ratio of CPU"]
        yield from ("", *table(head, _summary(half), text=3))
        for model, task in product(dict.fromkeys(row.model for row in half), TASKS):
            if chosen := [row for row in half if (row.model, row.task) == (model, task)]:
                yield from ("", f"### {model}, {task}", "", *table(COLUMNS, _by_way(chosen)))
        if failed := [f"- {row.model}, {row.way}, {row.task} {row.name}: {row.error}" for row in half if row.error]:
            yield from ("", "Ended in an exception, and counted as wrong:", "", *failed)


def _against(rows: Sequence[Row], way: str, least: int = 1) -> tuple[int, str, str, str] | None:
    """How many texts both have answered, the differences of whole answers and of fields, and the ratio of CPU time."""
    default = "structgen on llama.cpp" if "llama.cpp" in way else "structgen"
    texts = paired(rows, [default, way], least) if way != default else []
    if not texts:
        return None
    values: list[Callable[[Row], float]] = [lambda row: 100.0 * row.whole, lambda row: 100.0 * row.share]
    right, fields = (
        "{:+.0f} ({:+.0f} to {:+.0f})".format(*balanced(texts, lambda text, of=of: of(text[0]) - of(text[1])))
        for of in values
    )
    ours, theirs = (sum(text[place].cpu for text in texts) for place in (0, 1))
    return len(texts), right, fields, f"{ours / max(theirs, 1e-9):.2f}"


def _summary(rows: Sequence[Row]) -> Iterator[list[Any]]:
    for model, (group, tasks) in product(dict.fromkeys(row.model for row in rows), GROUPS.items()):
        of = [row for row in rows if row.model == model and row.task in tasks]
        for way in _in_order(of):
            if found := _against(of, way, LEAST):
                yield [model, group, way, *found]


COLUMNS = ["way", "texts", "valid", "right", "fields right", "invented", "lost", "difference, right",
           "difference, fields", "ratio of CPU", "CPU s per value", "forward passes", "tokens"]  # fmt: skip


def _by_way(rows: Sequence[Row]) -> Iterator[list[Any]]:
    """One model and task: a row for each way."""
    for way in _in_order(rows):
        mine = [*by_text(rows, way).values()]
        counts = [sum(getattr(row, name) for row in mine) for name in ("valid", "whole", "right", "fields")]
        faults = [sum(getattr(row, name) for row in mine) for name in ("invented", "lost")]
        means = [sum(getattr(row, name) for row in mine) / len(mine) for name in ("cpu", "forwards", "tokens")]
        against = (_against(rows, way) or ("", "", "", ""))[1:]
        right = f"{counts[2]} of {counts[3]}"
        yield [way, len(mine), *counts[:2], right, *faults, *against, f"{means[0]:.2f}", *means[1:]]


def _in_order(rows: Sequence[Row]) -> list[str]:
    order = {name: place for place, name in enumerate(ways())}
    return sorted({row.way for row in rows}, key=lambda name: (order.get(name, len(order)), name))


def filled(page: str, rows: Sequence[Row]) -> str:
    """A page with its tables."""
    return inserted(inserted(page, digest(rows), "quality"), by_task(rows), "quality by task")


def digest(rows: Sequence[Row]) -> str:
    """The contests of the picture as a table: for the page."""
    lines = []
    for contest in CONTESTS:
        texts = contest.texts(rows)
        if not texts:
            continue
        count = range(len(contest.ways))
        shares = [f"{balanced(texts, lambda text, of=of: 100 * text[of].share)[0]:.0f}%" for of in count]
        peer = [name for name, _ in contest.ways.values()][1].removeprefix("+ ")
        title = f"{NAMES[contest.model]}, {contest.title[0].lower()}{contest.title[1:]}"
        for place in count[2:]:
            named = title if place == 2 else f'{title}, with `plan="free"`'
            lines.append([named, len(texts), shares[0], f"{shares[1]} ({peer})", shares[place], *_cpu(texts, place)])
    head = [
        "model, tasks, engine",
        "texts",
        "free text",
        "peer's mask",
        "structgen",
        "CPU: to free text",
        "to the peer",
    ]
    return "\n".join(table(head, lines))


def by_task(rows: Sequence[Row]) -> str:
    """Fields and whole answers that are right in each task, on the texts that three ways have answered."""
    lines = []
    for model, (engine, three) in product(dict.fromkeys(row.model for row in rows), ENGINES.items()):
        for task in TASKS:
            texts = paired([row for row in rows if (row.model, row.task) == (model, task)], [*three], LEAST)
            if texts:
                right = [
                    f"{sum(text[p].right for text in texts)}; {sum(text[p].whole for text in texts)}" for p in range(3)
                ]
                fields = sum(text[0].fields for text in texts)
                lines.append([f"{model}, {task}, {engine}", len(texts), fields, *right, *_cpu(texts, 2)])
    head = ["model, task, engine", "texts", "fields", "free text", "peer's mask", "structgen", "CPU: to free text",
            "to the peer"]  # fmt: skip
    return "\n".join(table(head, lines))


def _cpu(texts: Sequence[Sequence[Row]], place: int) -> list[str]:
    """The CPU time of a way to those of free text and of the peer."""
    ours, free, peer = (sum(text[of].cpu for text in texts) for of in (place, 0, 1))
    return [f"{ours / free:.2f}", f"{ours / peer:.2f}"]
