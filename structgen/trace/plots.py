"""Plots as inline SVG: bars along a text, and the distribution of a value. No dependency, no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLUMNS = 360
"""Bars at most: of more tokens, several share one, which shows the highest."""
HEIGHT = 56
"""Units of a bar of full height."""


def along_text(heights: Sequence[float | None], full: float, told: Sequence[str], name: str, *, first: int = 0) -> str:
    """A bar for each token, from left to right; a gap where the model was not asked.

    Args:
        heights: of each token; None for a gap.
        full: the height of a whole bar.
        told: of each token, what its tooltip says.
        name: what a screen reader says.
    """
    columns = _columns(heights)
    width = max(1, len(columns))
    bars = []
    for x, index in enumerate(columns):
        height = heights[index] if index is not None else None
        if index is None or height is None:
            bars.append(f'<rect class="gap" x="{x}.1" y="{HEIGHT - 1}" width=".8" height="1"/>')
            continue
        tall = max(1.0, min(1.0, height / full if full else 0.0) * HEIGHT)
        bars.append(
            f'<rect data-t="{first + index}" x="{x}.08" y="{HEIGHT - tall:.1f}" width=".84" height="{tall:.1f}">'
            f"<title>{escape(told[index])}</title></rect>"
        )
    box = f'viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="bars" role="img" aria-label="{escape(name)}" {box}>{"".join(bars)}</svg>'


def _columns(heights: Sequence[float | None]) -> list[int | None]:
    """The token that each column shows: of those that share it, the one with the highest bar."""
    count = len(heights)
    shared = max(1, -(-count // COLUMNS))
    columns: list[int | None] = []
    for first in range(0, count, shared):
        bars = [(height, -i) for i, height in enumerate(heights[first : first + shared]) if height is not None]
        columns.append(first - max(bars)[1] if bars else None)
    return columns


def distribution(values: Mapping[str, float], said: str, most: int = 8) -> str:
    """The probabilities of values, likeliest first, as horizontal bars with their names.

    Args:
        values: probabilities by JSON text.
        most: how many are drawn; the others are added up.
    """
    ranked = sorted(values.items(), key=lambda each: -each[1])
    shown, rest = ranked[:most], ranked[most:]
    if rest:
        shown.append((f"{len(rest)} more", sum(chance for _, chance in rest)))
    step = 22
    rows = []
    for number, (text, chance) in enumerate(shown):
        kind, y = ("said" if text == said else "other"), number * step
        name, long = (text if len(text) <= 24 else f"{text[:22]}…"), max(1.5, 160 * min(1.0, chance))
        rows.append(
            f'<text x="132" y="{y + 15}" text-anchor="end" class="{kind}">{escape(name)}</text>'
            f'<rect class="track" x="140" y="{y + 4}" width="160" height="14" rx="3"/>'
            f'<rect class="{kind}" x="140" y="{y + 4}" width="{long:.1f}" height="14" rx="3"/>'
            f'<text x="308" y="{y + 15}" class="{kind}">{percent(chance)}</text>'
        )
    name = ", ".join(f"{text} {percent(chance)}" for text, chance in shown)
    box = f'viewBox="0 0 360 {len(shown) * step}"'
    return f'<svg class="values" role="img" aria-label="{escape(name)}" {box}>{"".join(rows)}</svg>'


def percent(chance: float | None) -> str:
    """A probability for people: `97%`, `0.3%`, `<0.1%`."""
    if chance is None:
        return "–"
    if chance >= 0.9995:
        return "100%"
    if chance >= 0.995 or chance < 0.0995:
        return f"{100 * chance:.1f}%" if chance >= 0.001 else ("<0.1%" if chance > 0 else "0%")
    return f"{100 * chance:.0f}%"
