"""Plots as SVG: panels side by side, each with two axes, points, lines and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

OURS, PEER, FREE = "#1b7837", "#c0392b", "#7f7f7f"
EDGE_LEFT, EDGE_TOP, EDGE_BELOW, EDGE_RIGHT = 52, 52, 48, 34
"""Pixels around a panel's plot."""
STYLE = """<style>text{fill:#555}.strong{font-weight:bold;font-size:13px}.grid{stroke:#e4e4e4}.paper{fill:#fff}
@media (prefers-color-scheme: dark){text{fill:#bbb}.grid{stroke:#444}.paper{fill:#1e1e1e}}</style>"""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` over some pixels.

    Attributes:
        title: the quantity, with what is better.
        ticks: the numbers that have a grid line, and what is written there.
        log: whether equal ratios are equal distances.
    """

    title: str
    low: float
    high: float
    ticks: dict[float, str]
    pixels: int = 250
    log: bool = False

    def at(self, value: float) -> float:
        """Pixels from the low end."""
        low, high, here = (math.log2(each) if self.log else each for each in (self.low, self.high, value))
        return self.pixels * (here - low) / (high - low)


def powers(title: str, values: Sequence[float], unit: str, pixels: int = 250) -> Axis:
    """An axis of powers of two that holds all values."""
    low, high = math.floor(math.log2(min(values)) - 0.2), math.ceil(math.log2(max(values)) + 0.2)
    ticks = {2.0**power: f"{2.0**power:g}{unit}" for power in range(low, high + 1)}
    return Axis(title, 2.0**low, 2.0**high, ticks, pixels, log=True)


def percents(title: str, pixels: int, step: int = 25) -> Axis:
    return Axis(title, 0, 100, {share: f"{share}%" for share in range(0, 101, step)}, pixels)


@dataclass
class Panel:
    """One plot. `point` and `line` draw in it; names find a free place."""

    title: str
    subtitle: str
    x: Axis
    y: Axis
    parts: list[str] = field(default_factory=list)
    _taken: list[Box] = field(default_factory=list)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels from the left and from the top of the plot."""
        return self.x.at(x), self.y.pixels - self.y.at(y)

    def point(self, x: float, y: float, colour: str, *, size: float = 3, ends: Sequence[float] = ()) -> None:
        """A point, with its interval on the y axis."""
        right, down = self.place(x, y)
        if ends:
            low, high = (self.place(x, end)[1] for end in ends)
            self.parts.append(f'<path d="M{right:.1f} {low:.1f} V{high:.1f}" stroke="{colour}" opacity="0.5"/>')
        self.parts.append(f'<circle cx="{right:.1f}" cy="{down:.1f}" r="{size:.1f}" fill="{colour}"/>')
        self._taken.append(_around(right, down, 16, 16))

    def line(self, points: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> None:
        path = " L".join("{:.1f} {:.1f}".format(*self.place(*point)) for point in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')

    def name(self, x: float, y: float, text: str, colour: str) -> None:
        """Writes a point's name beside, above or below it, where it covers no point and no other name."""
        right, down = self.place(x, y)
        width = 7.2 * len(text)
        beside = width / 2 + 10
        for dx, dy in ((beside, 0), (-beside, 0), (0, -18), (0, 18), (beside, -16), (-beside, -16), (0, -34)):
            box = _around(right + dx, down + dy, width, 14)
            inside = box[0] >= 0 and box[2] <= self.x.pixels + EDGE_RIGHT and box[1] >= -6 and box[3] <= self.y.pixels
            if inside and not any(_overlap(box, other) for other in self._taken):
                break
        self._taken.append(box)
        at = f'x="{(box[0] + box[2]) / 2:.1f}" y="{box[3] - 3:.1f}" text-anchor="middle"'
        self.parts.append(f'<text {at} style="fill:{colour};font-weight:bold">{escape(text)}</text>')

    @property
    def size(self) -> tuple[int, int]:
        return EDGE_LEFT + self.x.pixels + EDGE_RIGHT, EDGE_TOP + self.y.pixels + EDGE_BELOW

    def drawn(self) -> list[str]:
        """The panel with its axes; its plot begins at 0, 0."""
        wide, high = self.x.pixels, self.y.pixels
        lines = [f'<text x="0" y="-32" class="strong">{escape(self.title)}</text>']
        lines.append(f'<text x="0" y="-14">{escape(self.subtitle)}</text>')
        for value, text in self.x.ticks.items():
            at = self.x.at(value)
            lines.append(f'<path d="M{at:.1f} 0 V{high}" class="grid"/>')
            lines.append(f'<text x="{at:.1f}" y="{high + 16}" text-anchor="middle">{text}</text>')
        for value, text in self.y.ticks.items():
            at = high - self.y.at(value)
            lines.append(f'<path d="M0 {at:.1f} H{wide}" class="grid"/>')
            lines.append(f'<text x="-6" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
        lines.append(f'<text x="{wide / 2:g}" y="{high + 34}" text-anchor="middle">{escape(self.x.title)}</text>')
        turned = f"translate(-40 {high / 2:g}) rotate(-90)"
        lines.append(f'<text transform="{turned}" text-anchor="middle">{escape(self.y.title)}</text>')
        return lines + self.parts


def picture(panels: Sequence[Panel], columns: int = 2, legend: dict[str, tuple[str, str]] | None = None) -> str:
    """The panels, so many in a row, and below them the lines' names with their colours and dashes: SVG."""
    across, down = (max(each) for each in zip(*(panel.size for panel in panels), strict=True))
    wide, rows = columns * across, -(-len(panels) // columns)
    high = rows * down + 18 * len(legend or ())
    head = f'viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head}>', STYLE]
    parts.append(f'<rect class="paper" width="{wide}" height="{high}"/>')
    for number, panel in enumerate(panels):
        x, y = number % columns * across + EDGE_LEFT, number // columns * down + EDGE_TOP
        parts += [f'<g transform="translate({x} {y})">', *panel.drawn(), "</g>"]
    for number, (name, (colour, dashes)) in enumerate((legend or {}).items()):
        y = rows * down + 18 * number
        parts.append(f'<path d="M52 {y} h30" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        parts.append(f'<text x="90" y="{y + 4}" style="fill:{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
