"""The picture of `benchmarks/quality.py`: how right each way is, against the CPU time that it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import mean

from quality_rows import LEAST, Row, balanced, paired

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "quality.svg"
NAMES = {"smollm2": "SmolLM2-135M", "qwen": "Qwen2.5-Coder-0.5B"}
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
OURS, PEER, FREE = "#1b7837", "#c0392b", "#7f7f7f"
WIDTH, HEIGHT, LEFT, TOP = 250, 190, 46, 52
"""Pixels of a panel's plot, and of what stands left of it and above it."""


@dataclass(frozen=True)
class Panel:
    """One plot: some ways of one model over some tasks, on the texts that all of them have answered.

    Attributes:
        ways: the name of each way in the picture, and its colour.
    """

    title: str
    model: str
    tasks: tuple[str, ...]
    ways: dict[str, tuple[str, str]]

    def texts(self, rows: Sequence[Row]) -> list[list[Row]]:
        """For each text that all ways have answered, their rows."""
        chosen = [row for row in rows if row.model == self.model and row.task in self.tasks]
        return paired(chosen, [*self.ways], LEAST)


READING = ("flat", "nested", "dates", "absent", "labels")
ON_LLAMA = {
    "llama.cpp, free": ("free text", FREE),
    "llama.cpp, json_schema": ("llama.cpp's grammar", PEER),
    "structgen on llama.cpp": ("structgen", OURS),
}
ON_TORCH = {
    "transformers, free": ("free text", FREE),
    "transformers + xgrammar": ("+ xgrammar", PEER),
    "structgen": ("structgen", OURS),
}
PLANNED = {**ON_LLAMA, "structgen on llama.cpp, plan": ('plan="free"', OURS)}
PANELS = (
    Panel("Extraction and labels, llama.cpp", "smollm2", READING, ON_LLAMA),
    Panel("Extraction and labels, llama.cpp", "qwen", READING, ON_LLAMA),
    Panel("Extraction and labels, transformers", "smollm2", READING, ON_TORCH),
    Panel("Word problems, llama.cpp", "qwen", ("problems",), PLANNED),
)


def picture(rows: Sequence[Row]) -> str:
    """The panels side by side, two in a row: SVG."""
    across, down = LEFT + WIDTH + 34, TOP + HEIGHT + 50
    width, height = 2 * across, 2 * down
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, panel in enumerate(PANELS):
        x, y = place % 2 * across + LEFT, place // 2 * down + TOP
        parts += [f'<g transform="translate({x} {y})">', *_drawn(panel, rows), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(panel: Panel, rows: Sequence[Row]) -> list[str]:
    """One panel. Up is more right, left is faster."""
    texts = panel.texts(rows)
    parts = [
        f'<text x="0" y="-32" font-size="13" font-weight="bold">{NAMES[panel.model]}</text>',
        f'<text x="0" y="-15" fill="#555">{panel.title}, {len(texts)} texts</text>',
    ]
    if not texts:
        return parts
    points = []
    for number, (name, colour) in enumerate(panel.ways.values()):
        right = balanced([[text[number]] for text in texts], lambda rows: 100 * rows[0].share)
        points.append((mean(text[number].cpu for text in texts), right, name, colour))
    low = math.floor(math.log2(min(point[0] for point in points)) - 0.4)
    high = math.ceil(math.log2(max(point[0] for point in points)) + 0.4)

    def across(cpu: float) -> float:
        return WIDTH * (math.log2(cpu) - low) / (high - low)

    def up(share: float) -> float:
        return HEIGHT * (1 - share / 100)

    for power in range(low, high + 1):
        x = across(2.0**power)
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HEIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle" fill="#555">{2.0**power:g} s</text>')
    for share in (0, 25, 50, 75, 100):
        parts.append(f'<line x1="0" y1="{up(share):.1f}" x2="{WIDTH}" y2="{up(share):.1f}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="-6" y="{up(share) + 4:.1f}" text-anchor="end" fill="#555">{share}%</text>')
    parts.append(f'<text x="{WIDTH / 2:g}" y="{HEIGHT + 33}" text-anchor="middle" fill="#555">CPU time a value</text>')
    taken = [_around(across(cpu), up(right[0]), 16, 16) for cpu, right, _, _ in points]
    for cpu, (middle, least, most), name, colour in points:
        x, y, ends = across(cpu), up(middle), f'y1="{up(least):.1f}" y2="{up(most):.1f}"'
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{colour}" opacity="0.5"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>')
        place = _free_place(x, y, 7.2 * len(name), taken)
        taken.append(place)
        parts.append(
            f'<text x="{(place[0] + place[2]) / 2:.1f}" y="{place[3] - 3:.1f}" text-anchor="middle" fill="{colour}" '
            f'font-weight="bold">{escape(name)}</text>'
        )
    return parts


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _free_place(x: float, y: float, width: float, taken: Sequence[Box]) -> Box:
    """Where a point's name stands: beside, above or below it, over no point and no other name."""
    beside = width / 2 + 10
    for dx, dy in ((beside, 0), (-beside, 0), (0, -18), (0, 18), (beside, -16), (-beside, -16), (0, -34)):
        box = _around(x + dx, y + dy, width, 14)
        inside = box[0] >= 0 and box[2] <= WIDTH + 30 and box[1] >= -6 and box[3] <= HEIGHT
        if inside and not any(_overlap(box, other) for other in taken):
            return box
    return _around(x, y - 50, width, 14)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
