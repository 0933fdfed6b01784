"""Facts that a text does not have: how many are invented, and how many of those that it has are lost?

    python benchmarks/quality_absence.py run smollm2 --count 80
    python benchmarks/quality_absence.py draw

Half of the contacts of `quality_texts` have no email or no phone number. The first half of the texts finds thresholds,
the other half counts. `draw` prints the table, and draws the curve of risk against coverage: the share of the members
that get a value, and of these values the share that is wrong, for every threshold.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the corpus makes the texts

import structgen as sg  # noqa: E402
from quality_picture import FREE, NAMES, OURS  # noqa: E402
from quality_texts.extraction import SCHEMAS, _made, _object  # noqa: E402
from training.words import WordSource  # noqa: E402

MEMBERS = "email", "phone"
QUOTED = {"type": "string", "x-quote": {"whole": "words"}}
OPTIONAL = {"anyOf": [QUOTED, {"type": "null"}]}
QUOTES = _object(name=QUOTED, email=OPTIONAL, phone=OPTIONAL)
LIMITS = sg.Limits(200)
RESULTS = HERE / "results" / "absence.json"
PICTURE = HERE.parent / "docs" / "images" / "absence.svg"
WAYS = "as the model likes", 'absent="ask"', "thresholds of examples", "always a value"
MARKS = 0.0, 0.4, 1.0
"""How full the mark of each way is that decides."""
LEAST = 8
"""Values below which the curve has no point."""
NEVER = 2.0
"""A threshold that no probability reaches."""
SIDE, LEFT, TOP = 220, 46, 40
"""Pixels of a plot's sides, and of what stands left of it and above it."""

Example = tuple[str, dict[str, Any]]


def examples(count: int) -> list[Example]:
    """Texts with their right values."""
    words = WordSource(random.Random("absence"))
    return [_made(words, "contact") for _ in range(count)]


def asked(text: str) -> list[dict[str, str]]:
    content = f"Extract the contact from the text as JSON: {SCHEMAS['absent'][1]}.\nText: {text}"
    return [{"role": "user", "content": content}]


class Judged(NamedTuple):
    """A member of one answer. `absent`: the probability that it is absent; None where nothing was decided."""

    absent: float | None
    written: bool
    there: bool
    right: bool


def judged(runs: Sequence[sg.Generation[Any]], truth: Sequence[Example]) -> list[Judged]:
    rows = []
    for run, (_, right) in zip(runs, truth, strict=True):
        for member in MEMBERS:
            decided, value = run.absences.get(f"/{member}"), run.value[member]
            chance = None if decided is None else round(decided.probability, 5)
            rows.append(Judged(chance, value is not None, right[member] is not None, value == right[member]))
    return rows


def run(arguments: argparse.Namespace) -> None:
    model, count = sg.load(arguments.model), arguments.count
    known = examples(2 * count)
    halves = known[:count], known[count:]
    first, rest = ([asked(text) for text, _ in half] for half in halves)
    told: dict[str, dict[str, list[Judged]]] = {}
    for kind, schema in (("strings", SCHEMAS["absent"][2]), ("quotes", QUOTES)):
        sources: list[dict[str, Any]] = [
            {"source": [text for text, _ in half]} if schema is QUOTES else {} for half in halves
        ]
        pairs = [(prompt, right) for prompt, (_, right) in zip(first, halves[0], strict=True)]
        fitted = sg.absence.absence_thresholds(model, pairs, schema, limits=LIMITS, **sources[0])
        ways = dict(zip(WAYS, (None, "ask", fitted, NEVER), strict=True))
        told[kind] = {
            way: judged(
                sg.generate(model, rest, schema, absent=absent, details=True, limits=LIMITS, **sources[1]), halves[1]
            )
            for way, absent in ways.items()
        }
        print(kind, fitted, flush=True)
    saved = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**saved, arguments.model: told}) + "\n", encoding="utf-8")
    draw(arguments)


def row(name: str, rows: Sequence[Judged]) -> str:
    there = [each for each in rows if each.there]
    invented, lost = sum(each.written and not each.there for each in rows), sum(not each.written for each in there)
    absent, right = len(rows) - len(there), sum(each.right for each in there)
    return f"| {name} | {invented} of {absent} | {lost} of {len(there)} | {right} of {len(there)} |"


def at(rows: Sequence[Judged]) -> tuple[float, float]:
    """Coverage and risk of an answer: the share of members with a value, and the share of these that is wrong."""
    wrong = [not each.right for each in rows if each.written]
    return len(wrong) / len(rows), sum(wrong) / max(len(wrong), 1)


def curve(rows: Sequence[Judged]) -> list[tuple[float, float]]:
    """Coverage and risk for each threshold, of rows that were all written."""
    ranked = sorted((row for row in rows if row.absent is not None), key=lambda row: row.absent or 0.0)
    points, wrong = list[tuple[float, float]](), 0
    for count, each in enumerate(ranked, 1):
        wrong += not each.right
        if count >= LEAST and (count == len(ranked) or ranked[count].absent != each.absent):
            points.append((count / len(rows), wrong / count))
    return points


def read() -> dict[str, dict[str, dict[str, list[Judged]]]]:
    """The saved results, by model, kind of strings, and way."""
    return {
        model: {
            kind: {way: [Judged(*row) for row in rows] for way, rows in ways.items()} for kind, ways in each.items()
        }
        for model, each in json.loads(RESULTS.read_text(encoding="utf-8")).items()
    }


def draw(_: argparse.Namespace) -> None:
    saved = read()
    PICTURE.write_text(picture(saved), encoding="utf-8")
    for model, each in saved.items():
        print(f"{model}\n\n| way | invented | lost | right |\n| --- | --- | --- | --- |")
        for kind, ways in each.items():
            print("\n".join(row(f"{kind}, {way}", ways[way]) for way in WAYS[:3]))


def picture(saved: dict[str, dict[str, dict[str, list[Judged]]]]) -> str:
    """A plot for each model: SVG. Down is fewer wrong values, right is more values."""
    across = LEFT + SIDE + 180
    width, height = across * len(saved), TOP + SIDE + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (model, each) in enumerate(saved.items()):
        parts.append(f'<g transform="translate({place * across + LEFT} {TOP})">')
        parts.append(f'<text x="0" y="-16" font-size="13" font-weight="bold">{NAMES[model]}</text>')
        for share in (0, 50, 100):
            level = SIDE * share / 100
            parts.append(f'<line x1="0" y1="{SIDE - level:g}" x2="{SIDE}" y2="{SIDE - level:g}" stroke="#e4e4e4"/>')
            parts.append(f'<text x="-6" y="{SIDE - level + 4:g}" text-anchor="end" fill="#555">{share}%</text>')
            parts.append(f'<text x="{level:g}" y="{SIDE + 16}" text-anchor="middle" fill="#555">{share}%</text>')
        told = "coverage: members with a value; up: risk, wrong ones"
        parts.append(f'<text x="0" y="{SIDE + 34}" fill="#555">{told}</text>')
        for colour, (kind, ways) in zip((FREE, OURS), each.items(), strict=True):
            line = [(x * SIDE, SIDE * (1 - y)) for x, y in curve(ways[WAYS[3]])]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
            parts.append(f'<text x="{line[-1][0] + 6:.1f}" y="{line[-1][1] + 4:.1f}" fill="{colour}">{kind}</text>')
            for way, mark in zip(WAYS, MARKS, strict=False):
                x, y = at(ways[way])
                parts.append(_circle(x * SIDE, SIDE * (1 - y), colour, mark))
        for number, (way, mark) in enumerate(zip(WAYS, MARKS, strict=False)):
            parts.append(_circle(SIDE + 16, 8 + 17 * number, "#333", mark))
            parts.append(f'<text x="{SIDE + 26}" y="{12 + 17 * number}" fill="#333">{escape(way)}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _circle(x: float, y: float, colour: str, mark: float) -> str:
    style = f'fill="{colour}" fill-opacity="{mark}" stroke="{colour}" stroke-width="1.5"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {style}/>'


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands: Any = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="have the model extract")
    runs.add_argument("model", help="a known model, a folder or a GGUF file")
    runs.add_argument("--count", type=int, default=80, help="texts of each half")
    runs.set_defaults(call=run)
    commands.add_parser("draw", help="the picture and the table, of the saved results").set_defaults(call=draw)
    arguments = parser.parse_args(given)
    arguments.call(arguments)


if __name__ == "__main__":
    main()
