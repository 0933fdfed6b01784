"""Are probabilities true? Labels of real models, told and right, before and after `sg.calibrate`.

    python benchmarks/quality_reliability.py run --model smollm2
    python benchmarks/quality_reliability.py run --model qwen --gguf FILE
    python benchmarks/quality_reliability.py draw

The texts are those of the task "labels" of `quality.py`. One half is for `calibrate`, a calibration for each set of
labels; the half that is kept for the final run is judged. `draw` makes the picture and prints the table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the corpus makes some of the texts

import structgen as sg  # noqa: E402
from quality_picture import FREE, NAMES, OURS  # noqa: E402
from quality_texts import Case, cases  # noqa: E402
from structgen.batch_jobs.evaluation import Accuracy  # noqa: E402
from structgen.models.known import PACKAGED, converted_folder  # noqa: E402

RESULTS = HERE / "results" / "reliability.json"
PICTURE = HERE.parent / "docs" / "images" / "reliability.svg"
BINS, SIDE, LEFT, TOP = 5, 220, 46, 64
"""Intervals of probability; pixels of a plot's sides, and of what stands left of it and above it."""


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
    """A plot for each model, side by side: SVG. On the diagonal, probabilities are true."""
    across = LEFT + SIDE + 30
    width, height = across * len(saved), TOP + SIDE + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (model, each) in enumerate(saved.items()):
        parts.append(f'<g transform="translate({place * across + LEFT} {TOP})">')
        parts.append(f'<text x="0" y="-44" font-size="13" font-weight="bold">{NAMES[model]}</text>')
        parts.append(f'<line x1="0" y1="{SIDE}" x2="{SIDE}" y2="0" stroke="#999" stroke-dasharray="4 4"/>')
        for share in (0, 50, 100):
            at = SIDE * share / 100
            parts.append(f'<line x1="0" y1="{SIDE - at:g}" x2="{SIDE}" y2="{SIDE - at:g}" stroke="#e4e4e4"/>')
            parts.append(f'<text x="-6" y="{SIDE - at + 4:g}" text-anchor="end" fill="#555">{share}%</text>')
            parts.append(f'<text x="{at:g}" y="{SIDE + 16}" text-anchor="middle" fill="#555">{share}%</text>')
        parts.append(f'<text x="{SIDE / 2}" y="{SIDE + 34}" text-anchor="middle" fill="#555">told; up: right</text>')
        for line, (name, colour) in enumerate((("before", FREE), ("after", OURS))):
            rows = each[name]
            parts += _points(rows, colour)
            told = f"{name} calibrate: error {error(rows):.2f}, {sum(row.right for row in rows)} of {len(rows)} right"
            parts.append(f'<text x="0" y="{-26 + 15 * line}" fill="{colour}">{told}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _points(rows: Sequence[Judged], colour: str) -> list[str]:
    """A point for each interval, larger where it has more answers, with its 95% interval; and a line through them."""
    parts, points = [], list[str]()
    for told, right, count in groups(rows):
        x, y = SIDE * told, SIDE * (1 - right)
        low, high = Accuracy(round(right * count), count).interval
        ends = f'y1="{SIDE * (1 - high):.1f}" y2="{SIDE * (1 - low):.1f}"'
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{colour}" opacity="0.5"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + math.sqrt(count) / 2:.1f}" fill="{colour}"/>')
        points.append(f"{x:.1f},{y:.1f}")
    return [*parts, f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}"/>']


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands: Any = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="have the model classify")
    runs.add_argument("--model", required=True, help="a known model's name, or what --gguf is called")
    runs.add_argument("--gguf", help="its file, where it is no known model")
    runs.set_defaults(call=run)
    commands.add_parser("draw", help="the picture and the table, of the saved results").set_defaults(call=draw)
    arguments = parser.parse_args(given)
    arguments.call(arguments)


if __name__ == "__main__":
    main()
