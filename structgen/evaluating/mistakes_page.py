"""A page of rows that are wrong, each beside its input, whose expected values can be corrected and saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from structgen.batch_jobs.quotes_page import STYLE
from structgen.batch_jobs.report_page import job_page
from structgen.evaluating.comparison import Mistake, Row

MOST_ROWS = 1000
"""Rows that the page shows."""
STYLE_OF_FORMS = """
textarea { width: 100%; min-height: 6em; font: 13px/1.4 ui-monospace, monospace; box-sizing: border-box; }
.changed { outline: 2px solid var(--heat); } .wrong { border: 2px solid #c00; } td { padding-right: 12px; }
"""


def mistakes_page(name: str, table: str, rows: Sequence[tuple[Row, Sequence[Mistake]]]) -> str:
    """The page.

    Args:
        name: of the page.
        table: the evaluation's table.
        rows: the rows with their mistakes.
    """
    cards = "".join(map(_card, rows[:MOST_ROWS]))
    badge = f'<span class="badge {"bad" if rows else "good"}">{len(rows):,} rows are wrong</span>'
    button = '<button id="save" type="button">Save corrected rows</button>'
    script = (Path(__file__).parent / "mistakes.js").read_text(encoding="utf-8")
    body = f'<section class="card"><pre>{escape(table)}</pre>{button}</section>{cards}'
    return job_page(name, badge, body, STYLE + STYLE_OF_FORMS, script)


def _card(shown: tuple[Row, Sequence[Mistake]]) -> str:
    row, mistakes = shown
    texts = "".join(
        f"<h3>{escape(name)}</h3><pre>{escape(each if isinstance(each, str) else _json(each))}</pre>"
        for name, each in row.input.items()
        if each is not None and each != row.expected
    )
    lines = "".join(
        f"<tr><td>{escape(each.field or 'the value')}</td><td>{escape(_json(each.expected))}</td>"
        f"<td>{escape(_json(each.given))}</td><td>{_percent(each.confidence)}</td></tr>"
        for each in mistakes
    )
    head = "<tr><th>field</th><th>expected</th><th>given</th><th>how sure</th></tr>"
    error = f'<p class="problem">{escape(row.error)}</p>' if row.error else ""
    form = (
        f'<textarea aria-label="expected value">{escape(_json(row.expected, 1))}</textarea>'
        f'<button type="button" class="take" data-given="{escape(_json(row.given, 1))}">The model is right</button>'
    )
    right = f"{error}<table>{head}{lines}</table>{form}"
    data = escape(_json({"id": row.id, **row.input}))
    return (
        f'<section class="card" data-row="{data}"><h2>{escape(row.id)}</h2>'
        f'<div class="row"><div>{texts}</div><div>{right}</div></div></section>'
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
