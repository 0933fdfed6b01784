"""A job's report as one HTML page that loads nothing and runs nothing; all texts in it are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from structgen.trace.page import document

HEADER = "header { flex-wrap: wrap; } header .brand, header .badge { white-space: normal; overflow-wrap: anywhere; }\n"
"""Names and counts are long: on a phone they go on in further lines."""
STYLE = """
table { border-collapse: collapse; width: 100%; font-size: 14px; } th { text-align: left; color: var(--soft); }
td, th { padding: 3px 12px 3px 0; vertical-align: top; overflow-wrap: anywhere; }
.share { background: var(--heat); height: 9px; border-radius: 3px; min-width: 1px; }
td.bar { width: 40%; } .bins { display: flex; align-items: flex-end; gap: 2px; height: 44px; max-width: 320px; }
.bins i { flex: 1; background: var(--heat); min-height: 1px; border-radius: 2px 2px 0 0; }
"""


def page(data: Mapping[str, Any]) -> str:
    """The page of what `report_of` gives."""
    counts = f"{data['done']:,} done, {data['cut']:,} cut short, {data['failed']:,} failed"
    counts += f", {data['incomplete']:,} with lines that no value was made of" if data["incomplete"] else ""
    state = "bad" if data["failed"] else "warn" if data["cut"] or data["incomplete"] else "good"
    badge = f'<span class="badge {state}">{counts}</span>'
    cards = [
        _card("Failures by cause", _table(("count", "cause", "inputs"), map(_failure, data["failures"]))),
        _card(
            "Least sure",
            _table(("confidence", "input", "field"), (_cells_of_unsure(data, each) for each in data["unsure"])),
        ),
        _card("Longest values", _table(("tokens", "input"), (_cells_of_long(data, each) for each in data["longest"]))),
        *(_field(pointer, each) for pointer, each in data["fields"].items()),
    ]
    return job_page(data["out"], badge, f'<p class="note">{data["tokens"]:,} tokens</p>{"".join(cards)}', STYLE)


def job_page(name: str, badge: str, body: str, style: str, script: str = "") -> str:
    """A whole page about a job's output, which runs no script but the given one."""
    header = f'<header><div class="brand"><b>structgen</b> {escape(name)}</div>{badge}</header>'
    return document(
        f"structgen job: {escape(name)}", f"{header}\n<main>{body}</main>", style=HEADER + style, script=script
    )


def _card(title: str, body: str) -> str:
    return f'<section class="card"><h2>{escape(title)}</h2>{body}</section>' if body else ""


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of escaped cells; empty without rows."""
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>{lines}</table>" if lines else ""


def _failure(cause: Mapping[str, Any]) -> Sequence[str]:
    ids = ", ".join(map(escape, cause["ids"])) + (", …" if cause["count"] > len(cause["ids"]) else "")
    return f"{cause['count']:,}", f"<b>{escape(cause['type'])}</b>: {escape(cause['message'])}", ids


def _cells_of_long(data: Mapping[str, Any], row: Mapping[str, Any]) -> Sequence[str]:
    return f"{row['tokens']:,}", _linked(data, row["id"])


def _cells_of_unsure(data: Mapping[str, Any], row: Mapping[str, Any]) -> Sequence[str]:
    return f"{row['confidence']:.0%}", _linked(data, row["id"]), escape(row["field"])


def _linked(data: Mapping[str, Any], id_: str) -> str:
    """An id, which leads to its source where the job has a page of them."""
    return f'<a href="quotes.html#{quote(id_, safe="")}">{escape(id_)}</a>' if data["quotes"] else escape(id_)


def _field(pointer: str, told: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in told["kinds"].items())
    distinct = f", {'more than ' if told['has_more'] else ''}{told['distinct']:,} different" if told["common"] else ""
    body, size = f'<p class="note">{kinds}{distinct}</p>', told.get("size")
    if size is not None:
        of = "" if told["kinds"].get("number") else "length "
        body += f"<p>{of}{size['least']:g} to {size['greatest']:g}, mean {size['mean']:.4g}</p>"
        most = max(size["bins"], default=0)
        bars = "".join(f'<i style="height:{100 * count / most:.0f}%" title="{count}"></i>' for count in size["bins"])
        body += f'<div class="bins">{bars}</div>' if bars else ""
    return _card(pointer or "the whole value", body + _common(told))


def _common(told: Mapping[str, Any]) -> str:
    """The most frequent values, where any value is frequent."""
    if not told["common"] or told["common"][0][1] == 1:
        return ""
    rows = "".join(
        f"<tr><td>{escape(value)}</td><td>{count:,}</td>"
        f'<td class="bar"><div class="share" style="width:{100 * count / told["count"]:.1f}%"></div></td></tr>'
        for value, count in told["common"]
    )
    return f"<table>{rows}</table>"
