"""The tables of `benchmarks/quality.py`: results/quality.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path

from quality_picture import NAMES, ON_LLAMA, ON_TORCH, PANELS
from quality_rows import AGAIN, LEAST, Row, balanced, by_text, paired, saved
from quality_scores import difference
from quality_texts import TASKS
from quality_ways import ways
from report import inserted, machine

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "project" / "quality.md"

OURS = {"torch": "structgen", "llama.cpp": "structgen on llama.cpp"}
"""Our default on each engine: the other ways are compared with it."""
VERSIONS = ("llama-cpp-python", "llguidance", "outlines", "torch", "transformers", "xgrammar")
GROUPS = {
    "extraction, labels": ("flat", "nested", "dates", "absent", "labels"),
    "word problems": ("problems",),
    "calls": ("calls",),
}
ENGINES = {"llama.cpp": ON_LLAMA, "transformers": ON_TORCH}

HEADER = """# Right answers of real models

Made by `python benchmarks/quality.py table --write`; `quality.json` has a row for each answer. {machine}.

Greedy, one text at a time, one thread, CPU time. `smollm2` is SmolLM2-135M-Instruct (Q4_1); `qwen` is
Qwen2.5-Coder-0.5B-Instruct (Q4_K_M, 491,400,064 bytes, sha256 1d9614638d18...). llama.cpp runs the file, torch the same
weights in float32.

A difference is structgen's default less the way's, on the texts that both have answered, in points: above 0, structgen
is more right. In brackets stands the 95% interval of a paired bootstrap; with 0 in it, the matter is open. *Right*
counts whole answers, *fields* the share of an answer's fields. The ratio is structgen's CPU time by the way's on these
texts: below 1, structgen is faster.
"""


def report(rows: Sequence[Row]) -> list[str]:
    """All tables, for each half of the texts that has answers."""
    known = [f"{name} {version(name)}" for name in VERSIONS if _is_installed(name)]
    lines = HEADER.format(machine=f"{machine()['cpu']}; {', '.join(known)}").splitlines()
    for final, title in ((True, "The half kept for the final run"), (False, "The first half")):
        half = [row for row in rows if row.final == final]
        if half:
            lines += ["", f"## {title}", "", *_summary(half)]
            for model in dict.fromkeys(row.model for row in half):
                for task in TASKS:
                    chosen = [row for row in half if (row.model, row.task) == (model, task)]
                    if chosen:
                        lines += ["", f"### {model}, {task}", "", *_table(chosen)]
            lines += _failures(half)
    return [*lines, *answered_twice(rows, saved(AGAIN))]


TWICE = """
## Answered twice

A second run, with the models loaded anew. *Same* counts the texts with the verdict of the first run (valid, and each
field); the ratio is structgen's CPU time by the way's.

| model | way | texts | same | fields right, first and second | ratio of CPU, first and second |
| --- | --- | ---: | ---: | ---: | ---: |
"""


def answered_twice(rows: Sequence[Row], again: Sequence[Row]) -> list[str]:
    """What came out of a second run, way by way, on the texts that structgen's default has answered in both."""
    runs = [{(row.model, row.way, row.task, row.name, row.final): row for row in run} for run in (rows, again)]
    lines = TWICE.splitlines()
    for model, way in dict.fromkeys((row.model, row.way) for row in again):
        default = OURS["llama.cpp" if "llama.cpp" in way else "torch"]
        texts = [
            (task, name, final)
            for of, used, task, name, final in runs[1]
            if (of, used) == (model, way)
            and all((model, each, task, name, final) in run for run in runs for each in (way, default))
        ]
        if not texts:
            continue
        theirs, ours = ([[run[(model, each, *text)] for text in texts] for run in runs] for each in (way, default))
        same = sum(_verdict(old) == _verdict(new) for old, new in zip(*theirs, strict=True))
        shares = " and ".join(f"{sum(r.right for r in run) / sum(r.fields for r in run):.0%}" for run in theirs)
        pairs = zip(ours, theirs, strict=True)
        ratios = " and ".join(f"{sum(r.cpu for r in mine) / sum(r.cpu for r in run):.2f}" for mine, run in pairs)
        lines.append(f"| {model} | {way} | {len(texts)} | {same} | {shares} | {ratios} |")
    return lines if len(lines) > TWICE.count("\n") else []


def _verdict(row: Row) -> tuple[object, ...]:
    return row.valid, row.whole, row.right, row.invented, row.lost


def filled(page: str, rows: Sequence[Row]) -> str:
    """A page with its tables."""
    for mark, make in (("quality", digest), ("quality by task", by_task)):
        if f"<!-- {mark} -->" in page:
            page = inserted(page, make(rows), mark)
    return page


def digest(rows: Sequence[Row]) -> str:
    """The panels of the picture as a table: for the page."""
    lines = [
        "| model, tasks, engine | texts | free text | peer's mask | structgen | CPU: to free text | to the peer |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for panel in PANELS:
        texts = panel.texts(rows)
        if not texts:
            continue
        shares = [_percent(texts, place) for place in range(len(panel.ways))]
        cpu = [sum(text[place].cpu for text in texts) for place in range(len(panel.ways))]
        peer = [name for name, _ in panel.ways.values()][1].removeprefix("+ ")
        title = f"{NAMES[panel.model]}, {panel.title[0].lower()}{panel.title[1:]}"
        for place in range(2, len(panel.ways)):
            named = title if place == 2 else f'{title}, with `plan="free"`'
            lines.append(
                f"| {named} | {len(texts)} | {shares[0]} | {shares[1]} ({peer}) | {shares[place]} "
                f"| {cpu[place] / cpu[0]:.2f} | {cpu[place] / cpu[1]:.2f} |"
            )
    return "\n".join(lines)


def by_task(rows: Sequence[Row]) -> str:
    """Fields and whole answers that are right in each task, on the texts that three ways have answered."""
    lines = [
        "| model, task, engine | texts | fields | free text | peer's mask | structgen | CPU: to free text "
        "| to the peer |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for model, (engine, three) in product(dict.fromkeys(row.model for row in rows), ENGINES.items()):
        for task in TASKS:
            texts = paired([row for row in rows if (row.model, row.task) == (model, task)], [*three], LEAST)
            if not texts:
                continue
            counts = [sum(text[place].right for text in texts) for place in range(3)]
            whole = [sum(text[place].whole for text in texts) for place in range(3)]
            cpu = [sum(text[place].cpu for text in texts) for place in range(3)]
            cells = " | ".join(f"{right}; {all_of}" for right, all_of in zip(counts, whole, strict=True))
            lines.append(
                f"| {model}, {task}, {engine} | {len(texts)} | {sum(text[0].fields for text in texts)} | {cells} "
                f"| {cpu[2] / cpu[0]:.2f} | {cpu[2] / cpu[1]:.2f} |"
            )
    return "\n".join(lines)


def _percent(texts: Sequence[Sequence[Row]], place: int) -> str:
    return f"{balanced(texts, lambda text: 100 * text[place].share)[0]:.0f}%"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    """A row for each way, model and group of tasks, each task counting alike."""
    yield f"structgen's default against each way; tasks with at least {LEAST} texts of both, each counting alike."
    yield ""
    yield "| model | tasks | against | texts | right | fields | ratio of CPU |"
    yield "| --- | --- | --- | ---: | --- | --- | ---: |"
    for model, (group, tasks) in product(dict.fromkeys(row.model for row in rows), GROUPS.items()):
        of = [row for row in rows if row.model == model and row.task in tasks]
        for way in _in_order({row.way for row in of}):
            texts = paired(of, [ours_of(way), way], LEAST)
            if way == ours_of(way) or not texts:
                continue
            right = balanced(texts, lambda text: 100.0 * (text[0].whole - text[1].whole))
            share = balanced(texts, lambda text: 100 * (text[0].share - text[1].share))
            cpu = [sum(text[place].cpu for text in texts) for place in (0, 1)]
            yield (
                f"| {model} | {group} | {way} | {len(texts)} | {_interval(*right)} | {_interval(*share)} "
                f"| {cpu[0] / cpu[1]:.2f} |"
            )


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """One model and task: a row for each way."""
    yield (
        "| way | texts | valid | right | fields right | invented | lost | difference, right | difference, fields "
        "| ratio of CPU | CPU s a value | forward passes | tokens |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: |"
    for way in _in_order({row.way for row in rows}):
        mine = [*by_text(rows, way).values()]
        shared, count = paired(rows, [ours_of(way), way]), len(mine)
        against = "| | | "
        if shared and way != ours_of(way):
            ours, others = ([text[place] for text in shared] for place in (0, 1))
            right = difference([float(row.whole) for row in ours], [float(row.whole) for row in others])
            share = difference([row.share for row in ours], [row.share for row in others])
            ratio = sum(row.cpu for row in ours) / max(sum(row.cpu for row in others), 1e-9)
            against = f"| {_interval(*right)} | {_interval(*share)} | {ratio:.2f} "
        yield (
            f"| {way} | {count} | {sum(row.valid for row in mine)} | {sum(row.whole for row in mine)} "
            f"| {sum(row.right for row in mine)} of {sum(row.fields for row in mine)} "
            f"| {sum(row.invented for row in mine)} | {sum(row.lost for row in mine)} {against}"
            f"| {sum(row.cpu for row in mine) / count:.2f} | {sum(row.forwards for row in mine) / count:.1f} "
            f"| {sum(row.tokens for row in mine) / count:.1f} |"
        )


def _failures(rows: Sequence[Row]) -> list[str]:
    """Answers that ended in an exception: they count as wrong."""
    failed = [f"- {row.model}, {row.way}, {row.task} {row.name}: {row.error}" for row in rows if row.error]
    return ["", "Ended in an exception, and counted as wrong:", "", *failed] if failed else []


def ours_of(way: str) -> str:
    """The way that a way is compared with: our default on its engine."""
    return OURS["llama.cpp" if "llama.cpp" in way else "torch"]


def _in_order(names: set[str]) -> list[str]:
    order = {name: place for place, name in enumerate(ways())}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:+.0f} ({low:+.0f} to {high:+.0f})"


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
