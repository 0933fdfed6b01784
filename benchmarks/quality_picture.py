"""The picture of `python -m benchmarks quality`: how right each way is, against the CPU time that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.picture import FREE, OURS, PEER, Panel, percents, powers
from benchmarks.picture import picture as drawn
from benchmarks.quality_rows import LEAST, Row, balanced, paired
from benchmarks.report import IMAGES

PICTURE = IMAGES / "quality.svg"
NAMES = {"smollm2": "SmolLM2-135M", "qwen": "Qwen2.5-Coder-0.5B"}


@dataclass(frozen=True)
class Contest:
    """Some ways of one model over some tasks, on the texts that all of them have answered.

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
CONTESTS = (
    Contest("Extraction and labels, llama.cpp", "smollm2", READING, ON_LLAMA),
    Contest("Extraction and labels, llama.cpp", "qwen", READING, ON_LLAMA),
    Contest("Extraction and labels, transformers", "smollm2", READING, ON_TORCH),
    Contest("Word problems, llama.cpp", "qwen", ("problems",), PLANNED),
)


def picture(rows: Sequence[Row]) -> str:
    """The contests side by side, two in a row: SVG."""
    return drawn([panel(contest, texts) for contest in CONTESTS if (texts := contest.texts(rows))])


def panel(contest: Contest, texts: Sequence[Sequence[Row]]) -> Panel:
    """One contest. Higher is more accurate, left is faster."""
    cpu = [mean(text[number].cpu for text in texts) for number in range(len(contest.ways))]
    plot = Panel(
        NAMES[contest.model], f"{contest.title}, {len(texts)} texts",
        powers("CPU time per value", cpu, " s"), percents("fields right", 190),
    )  # fmt: skip
    points = []
    for number, (name, colour) in enumerate(contest.ways.values()):
        right, *ends = balanced([[text[number]] for text in texts], lambda rows: 100 * rows[0].share)
        plot.point(cpu[number], right, colour, size=6, ends=ends)
        points.append((cpu[number], right, name, colour))
    for point in points:
        plot.name(*point)
    return plot
