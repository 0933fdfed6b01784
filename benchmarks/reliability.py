"""Are probabilities true? Labels of real models, told and right, before and after `sg.calibrate`.

    python -m benchmarks reliability run --model smollm2
    python -m benchmarks reliability run --model qwen --gguf FILE
    python -m benchmarks reliability draw

The texts are those of the task "labels" of `quality`. One half is for `calibrate`, a calibration for each set of
labels; the half that is kept for the final run is judged. `draw` makes the picture and prints the table.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import structgen as sg
from benchmarks.picture import FREE, OURS, Panel, percents
from benchmarks.picture import picture as drawn
from benchmarks.quality_picture import NAMES
from benchmarks.quality_texts import Case, cases
from benchmarks.report import IMAGES, parser
from benchmarks.report import RESULTS as FOLDER
from structgen.evaluating.counts import Accuracy
from structgen.models.known import PACKAGED, converted_folder

RESULTS = FOLDER / "reliability.json"
PICTURE = IMAGES / "reliability.svg"
BINS, SIDE = 5, 220
"""Intervals of probability; pixels of a plot's sides."""


class Judged(NamedTuple):
    """One answer."""

    probability: float  # of the label that was chosen
    right: bool


def labels_of(case: Case) -> tuple[str, ...]:
    return tuple(case.schema["properties"]["label"]["enum"])


def asked(case: Case) -> str:
    """The question of `quality.py`, for an answer without JSON."""
    return case.prompt.replace("Answer with JSON: label (", "Answer with one label alone (")


def run(arguments: argparse.Namespace) -> None:
    file = Path(arguments.gguf) if arguments.gguf else PACKAGED[arguments.model].path()
    if file is None:
        raise SystemExit(f"{arguments.model} is not installed: {PACKAGED[arguments.model].command}")
    model = sg.load(converted_folder(arguments.model, file))
    halves: dict[tuple[str, ...], tuple[list[Case], list[Case]]] = defaultdict(lambda: ([], []))
    for final in (False, True):
        for case in cases("labels", final=final):
            halves[labels_of(case)][final].append(case)
    judged: dict[str, list[Judged]] = {"before": [], "after": []}
    for labels, (known, kept) in halves.items():
        if not (known and kept):
            continue
        examples = [(asked(case), case.gold["label"]) for case in known]
        calibration = sg.calibrate(model, examples, labels, prompt=_chat)
        for name, given in (("before", None), ("after", calibration)):
            results = sg.classify(model, [asked(case) for case in kept], labels, prompt=_chat, calibration=given)
            judged[name] += [
                Judged(round(each.probability, 4), each.label == case.gold["label"])
                for each, case in zip(results, kept, strict=True)
            ]
        print(f"{len(labels)} labels, {len(known)} texts to calibrate, {len(kept)} judged", flush=True)
    saved = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**saved, arguments.model: judged}) + "\n", encoding="utf-8")
    draw(arguments)


def _chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def groups(rows: Sequence[Judged]) -> list[tuple[float, float, int]]:
    """For each interval with answers: the mean probability, the share that is right, and how many."""
    bins: dict[int, list[Judged]] = defaultdict(list)
    for row in rows:
        bins[min(int(row.probability * BINS), BINS - 1)].append(row)
    return [
        (mean(r.probability for r in each), mean(r.right for r in each), len(each)) for _, each in sorted(bins.items())
    ]


def error(rows: Sequence[Judged]) -> float:
    """The expected calibration error over the intervals of the picture; `sg.classifying.calibration_error` has ten."""
    return sum(abs(told - right) * count for told, right, count in groups(rows)) / len(rows)


def draw(_: argparse.Namespace) -> None:
    saved = {
        model: {name: [Judged(*row) for row in rows] for name, rows in each.items()}
        for model, each in json.loads(RESULTS.read_text(encoding="utf-8")).items()
    }
    PICTURE.write_text(picture(saved), encoding="utf-8")
    for model, each in saved.items():
        for name, rows in each.items():
            right = sum(row.right for row in rows)
            print(f"{model}, {name}: {right} of {len(rows)} right, calibration error {error(rows):.2f}")


def picture(saved: dict[str, dict[str, list[Judged]]]) -> str:
    """A plot for each model: SVG. On the diagonal, probabilities are true; points are larger for more answers."""
    panels = []
    for model, each in saved.items():
        right = " to ".join(f"{sum(row.right for row in rows)}" for rows in each.values())
        errors = " to ".join(f"{error(rows):.2f}" for rows in each.values())
        title = f"right: {right} of {len(each['before'])}; error: {errors}"
        axes = percents("reported probability", SIDE, 50), percents("share that is right", SIDE, 50)
        panels.append(plot := Panel(NAMES[model], title, *axes))
        plot.line([(0, 0), (100, 100)], "#999", "4 4")
        for colour, rows in zip((FREE, OURS), each.values(), strict=True):
            points = groups(rows)
            for told, right, count in points:
                low, high = Accuracy(round(right * count), count, independent=count).interval
                size = 2 + math.sqrt(count) / 2
                plot.point(100 * told, 100 * right, colour, size=size, ends=(100 * low, 100 * high))
            plot.line([(100 * told, 100 * right) for told, right, _ in points], colour)
    return drawn(panels, legend={"before calibrate": (FREE, ""), "after calibrate": (OURS, "")})


def main(given: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    commands: Any = options.add_subparsers(required=True)
    runs = commands.add_parser("run", help="have the model classify")
    runs.add_argument("--model", required=True, help="a known model's name, or what --gguf is called")
    runs.add_argument("--gguf", help="its file, where it is no known model")
    runs.set_defaults(call=run)
    commands.add_parser("draw", help="the picture and the table, of the saved results").set_defaults(call=draw)
    arguments = options.parse_args(given)
    arguments.call(arguments)
