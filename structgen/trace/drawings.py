"""Drawings of a report: bars along a text and the distribution of a value as SVG, the value as a tree in HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from structgen.json_text.pointers import pointer_of
from structgen.trace.report import FieldReport, Report

COLUMNS = 360
"""The largest number of bars: if there are more tokens, several share a bar, which shows the highest."""
HEIGHT = 56
"""The height of a whole bar, in units of the drawing."""
MAX_NODES = 400
"""The largest number of values in a tree."""
DEEPEST = 40
"""The largest depth of containers in a tree."""


def along_text(heights: Sequence[float | None], full: float, told: Sequence[str], name: str, *, first: int = 0) -> str:
    """Returns a bar for each token, from left to right; a gap where the model was not asked.

    Args:
        heights: the height of each token; None for a gap.
        full: the height of a whole bar.
        told: the tooltip of each token.
        name: the name of the drawing for a screen reader.
        first: the number of the first token in the page.
    """
    columns = highest_in_columns(heights, COLUMNS)
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


def with_axes(bars: str, top: str, count: int) -> str:
    """Returns bars along the text with their axes.

    Args:
        top: the height of a whole bar, in words.
        count: the number of tokens.
    """
    across = f'<span class="x"><b>token 1</b><b>{count}</b></span>' if count > 1 else ""
    return f'<div class="plot"><span class="y"><b>{top}</b><b>0</b></span>{bars}{across}</div>'


def highest_in_columns(heights: Sequence[float | None], maximum: int) -> list[int | None]:
    """Divides tokens into at most `maximum` columns. Returns the highest token of each; None if no height is known."""
    shared = max(1, -(-len(heights) // maximum))
    columns: list[int | None] = []
    for first in range(0, len(heights), shared):
        bars = [(height, -i) for i, height in enumerate(heights[first : first + shared]) if height is not None]
        columns.append(first - max(bars)[1] if bars else None)
    return columns


def distribution(values: Mapping[str, float], said: str, maximum: int = 8) -> str:
    """Returns the probabilities of values as horizontal bars with their names, most likely first.

    Args:
        values: probabilities by JSON text.
        said: the value of the text, which is marked.
        maximum: the number of bars; the other values are added up.
    """
    ranked = sorted(values.items(), key=lambda each: -each[1])
    shown, rest = ranked[:maximum], ranked[maximum:]
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
    """Returns a probability for people to read: `97%`, `0.3%`, `<0.1%`."""
    if chance is None:
        return "–"
    if chance >= 0.9995:
        return "100%"
    if chance >= 0.995 or chance < 0.0995:
        return f"{100 * chance:.1f}%" if chance >= 0.001 else ("<0.1%" if chance > 0 else "0%")
    return f"{100 * chance:.0f}%"


def tree(report: Report) -> str:
    """Returns the value as nested lists with the certainty of each part; a text that is no JSON is one line."""
    if not report.is_json:
        return f"<ul>{_leaf('text', report.text, report.fields.get(''), '')}</ul>" if report.fields else ""
    try:
        value = json.loads(report.text)
    except (ValueError, RecursionError):  # a text that has failed
        return ""
    left = [MAX_NODES]
    return f"<ul>{_node('', value, (), report.fields, left)}</ul>"


def _node(name: str, value: Any, path: tuple[str | int, ...], fields: dict[str, FieldReport], left: list[int]) -> str:
    pointer = pointer_of(path)
    left[0] -= 1
    if not isinstance(value, (dict, list)) or not value:
        return _leaf(name, json.dumps(value, ensure_ascii=False), fields.get(pointer), pointer)
    members = list(value.items() if isinstance(value, dict) else enumerate(value))
    rows = list[str]()
    for key, member in members:
        if left[0] <= 0 or len(path) >= DEEPEST:
            rows.append(f'<li class="note">… {len(members) - len(rows)} more</li>')
            break
        rows.append(_node(str(key), member, (*path, key), fields, left))
    kind = f"{{{len(members)}}}" if isinstance(value, dict) else f"[{len(members)}]"
    label = f'{_name(name)}<span class="note">{kind}</span>'
    line = f'<button type="button" data-p="{escape(pointer)}">{label}{_sure(fields.get(pointer))}</button>'
    return f"<li>{line}<ul>{''.join(rows)}</ul></li>"


def _leaf(name: str, text: str, field: FieldReport | None, pointer: str) -> str:
    shown = text if len(text) <= 120 else f"{text[:100]} … {text[-16:]}"
    line = f"{_name(name)}<code>{escape(shown)}</code>{_sure(field)}"
    return f'<li><button type="button" data-p="{escape(pointer)}">{line}</button></li>'


def _name(name: str) -> str:
    shown = name if len(name) <= 40 else f"{name[:30]} … {name[-6:]}"
    return f"<b>{escape(shown)}</b> " if name else ""


def _sure(field: FieldReport | None) -> str:
    """Returns a small bar for the probability of a value."""
    if field is None:
        return ""
    told = percent(field.probability)
    return (
        f'<span class="sure" title="probability of this value among what was allowed"><i style="--w:'
        f'{100 * min(1.0, max(0.0, field.probability)):.1f}%"></i><span>{told}</span></span>'
    )
