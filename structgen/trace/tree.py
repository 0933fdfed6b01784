"""The value of a report as a tree, with how sure the model was of each part."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from structgen.automaton.pointers import pointer_of
from structgen.trace.plots import percent
from structgen.trace.report import FieldReport, Report

MOST_NODES = 400
"""Values that are shown."""
DEEPEST = 40
"""Containers within each other that are shown."""


def tree(report: Report) -> str:
    """The value as nested lists; of a text that is no JSON one line. Empty where there is nothing to show."""
    if not report.is_json:
        return f"<ul>{_leaf('text', report.text, report.fields.get(''), '')}</ul>" if report.fields else ""
    try:
        value = json.loads(report.text)
    except (ValueError, RecursionError):  # a text that has failed
        return ""
    left = [MOST_NODES]
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
    """A small bar of the probability of a value."""
    if field is None:
        return ""
    told = percent(field.probability)
    return (
        f'<span class="sure" title="probability of this value among what was allowed"><i style="--w:'
        f'{100 * min(1.0, max(0.0, field.probability)):.1f}%"></i><span>{told}</span></span>'
    )
